-- A ledger with double entries, and transfers between accounts.

CREATE SCHEMA ledger;
SET search_path = ledger, public;
CREATE TABLE accounts (
    code VARCHAR(10) PRIMARY KEY,
    title TEXT NOT NULL,
    kind CHAR(1) NOT NULL CHECK (kind IN ('A', 'L', 'I', 'E')),
    parent VARCHAR(10) REFERENCES accounts (code) ON UPDATE CASCADE,
    closed DATE
);
CREATE TABLE entries (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    booked DATE NOT NULL,
    memo TEXT NOT NULL DEFAULT ''
);
CREATE TABLE postings (
    entry BIGINT NOT NULL REFERENCES entries (id) ON DELETE CASCADE,
    pos INTEGER NOT NULL,
    account VARCHAR(10) NOT NULL REFERENCES accounts (code) ON UPDATE CASCADE,
    amount NUMERIC(14, 2) NOT NULL CHECK (amount <> 0),
    CONSTRAINT postings_pk PRIMARY KEY (entry, pos)
);
-- differs: no-include: 0A000
CREATE INDEX postings_account ON postings (account) INCLUDE (amount);
INSERT INTO accounts (code, title, kind) VALUES ('1000', 'Assets', 'A'), ('4000', 'Income', 'I'), ('5000', 'Expenses', 'E');
INSERT INTO accounts (code, title, kind, parent) VALUES ('1100', 'Cash', 'A', '1000'), ('1200', 'Bank', 'A', '1000'), ('4100', 'Sales', 'I', '4000'), ('5100', 'Rent', 'E', '5000');
INSERT INTO accounts VALUES ('9', 'Odd', 'X');
INSERT INTO accounts VALUES ('9', 'Odd', 'A', '77');
BEGIN;
INSERT INTO entries (booked, memo) VALUES ('2024-01-02', 'sale') RETURNING id;
INSERT INTO postings VALUES (1, 1, '1100', 250.00), (1, 2, '4100', -250.00);
COMMIT;
BEGIN;
INSERT INTO entries (booked, memo) VALUES ('2024-01-03', 'to the bank');
INSERT INTO postings SELECT lastval(), v.pos, v.account, v.amount FROM (VALUES (1, '1200', 200.00), (2, '1100', -200.00)) AS v (pos, account, amount);
COMMIT;
BEGIN;
INSERT INTO entries (booked) VALUES ('2024-02-01') RETURNING id, memo;
INSERT INTO postings VALUES (3, 1, '5100', 120.5), (3, 2, '1200', -120.5);
COMMIT;
SELECT account, sum(amount) AS balance FROM postings GROUP BY account ORDER BY account;
SELECT entry FROM postings GROUP BY entry HAVING sum(amount) <> 0;
CREATE VIEW balances (code, title, balance) AS
    SELECT a.code, a.title, coalesce(sum(p.amount), 0.00)
    FROM accounts a LEFT JOIN postings p ON p.account = a.code
    GROUP BY a.code, a.title;
SELECT * FROM balances ORDER BY code;
SELECT p.entry, e.booked, p.amount, sum(p.amount) OVER (ORDER BY e.booked, p.entry) AS running
FROM postings p JOIN entries e ON e.id = p.entry WHERE p.account = '1200' ORDER BY e.booked;
-- The tree of accounts.
WITH RECURSIVE tree (code, depth) AS (
    SELECT code, 0 FROM accounts WHERE parent IS NULL
    UNION ALL
    SELECT a.code, t.depth + 1 FROM accounts a JOIN tree t ON a.parent = t.code
) SELECT code, depth FROM tree ORDER BY code;
-- A number changes, and all follow.
UPDATE accounts SET code = '1210' WHERE code = '1200';
SELECT account, count(*) FROM postings WHERE account LIKE '12%' GROUP BY account;
UPDATE accounts SET code = '1001' WHERE code = '1000';
SELECT code, parent FROM accounts WHERE parent = '1001' ORDER BY code;
-- Entries that are not balanced are found before the commit.
BEGIN;
INSERT INTO entries (booked, memo) VALUES ('2024-02-02', 'wrong') RETURNING id;
INSERT INTO postings VALUES (4, 1, '1100', 10), (4, 2, '4100', -9);
SELECT sum(amount) AS off FROM postings WHERE entry = 4;
ROLLBACK;
-- Reversal.
WITH turned AS (INSERT INTO entries (booked, memo) VALUES ('2024-02-03', 'reversal of 3') RETURNING id)
INSERT INTO postings SELECT turned.id, pos, account, -amount FROM postings, turned WHERE entry = 3;
SELECT entry, pos, amount FROM postings WHERE account IN ('5100', '1210') ORDER BY entry, pos;
INSERT INTO postings VALUES (1, 1, '1100', 1);
INSERT INTO postings VALUES (1, 3, '1100', 0);
INSERT INTO postings VALUES (1, 3, '1100', 99999999999999.99);
INSERT INTO postings VALUES (99, 1, '1100', 1);
INSERT INTO entries (id, booked) VALUES (50, '2024-01-01');
DELETE FROM accounts WHERE code = '1100';
UPDATE entries SET booked = NULL WHERE id = 1;
DELETE FROM entries WHERE id = 1 RETURNING memo;
SELECT count(*) FROM postings WHERE entry = 1;
-- Close of the year.
ALTER TABLE entries ADD COLUMN year INTEGER NOT NULL DEFAULT 2024;
ALTER TABLE entries ALTER COLUMN year DROP DEFAULT;
INSERT INTO entries (booked, memo) VALUES ('2025-01-01', 'opening');
INSERT INTO entries (booked, memo, year) VALUES ('2025-01-01', 'opening', 2025) RETURNING year;
SELECT year, count(*) FROM entries GROUP BY year ORDER BY year;
RESET search_path;
SELECT count(*) FROM entries;
SELECT count(*) FROM ledger.entries;
