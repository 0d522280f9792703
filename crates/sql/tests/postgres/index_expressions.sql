-- Indexes on expressions.

CREATE TABLE contacts (id INTEGER PRIMARY KEY, email TEXT, first TEXT, last TEXT, born DATE, score INTEGER);
INSERT INTO contacts VALUES
    (1, 'Ada@Example.org', 'Ada', 'Byron', '1815-12-10', 10),
    (2, 'alan@example.org', 'Alan', 'Turing', '1912-06-23', -20),
    (3, NULL, 'Grace', 'Hopper', '1906-12-09', 30),
    (4, 'EDSGER@EXAMPLE.ORG', 'Edsger', 'Dijkstra', '1930-05-11', NULL);
CREATE INDEX contacts_lower ON contacts (lower(email));
SELECT id FROM contacts WHERE lower(email) = 'ada@example.org';
SELECT id FROM contacts WHERE lower(email) LIKE 'e%';
CREATE INDEX ON contacts ((score * 2));
SELECT id FROM contacts WHERE score * 2 > 15 ORDER BY id;
CREATE INDEX contacts_name ON contacts ((first || ' ' || last));
SELECT id FROM contacts WHERE first || ' ' || last = 'Alan Turing';
CREATE INDEX contacts_year ON contacts ((extract(year FROM born)), last);
SELECT id FROM contacts WHERE extract(year FROM born) = 1906;
CREATE INDEX contacts_abs ON contacts (abs(score), id);
SELECT id FROM contacts WHERE abs(score) = 20;
CREATE INDEX contacts_coalesce ON contacts (coalesce(score, 0));
SELECT id FROM contacts WHERE coalesce(score, 0) = 0;
-- Changes keep them up.
UPDATE contacts SET email = 'Grace@Navy.mil' WHERE id = 3;
SELECT id FROM contacts WHERE lower(email) = 'grace@navy.mil';
DELETE FROM contacts WHERE lower(email) = 'alan@example.org';
SELECT count(*) FROM contacts WHERE lower(email) = 'alan@example.org';
INSERT INTO contacts VALUES (5, 'Alan@Example.org', 'Alan', 'Kay', '1940-05-17', 7);
SELECT id FROM contacts WHERE lower(email) = 'alan@example.org';
SELECT id FROM contacts ORDER BY lower(email) NULLS LAST LIMIT 2;
-- Unique ones.
CREATE UNIQUE INDEX contacts_email_unique ON contacts (lower(email));
INSERT INTO contacts (id, email) VALUES (6, 'ADA@EXAMPLE.ORG');
INSERT INTO contacts (id, email) VALUES (6, NULL), (7, NULL);
UPDATE contacts SET email = 'alan@example.ORG' WHERE id = 1;
INSERT INTO contacts (id, email) VALUES (8, 'Ada@example.org') ON CONFLICT (lower(email)) DO NOTHING;
CREATE UNIQUE INDEX contacts_first ON contacts (left(first, 1));
-- An expression that fails on a row.
CREATE INDEX contacts_div ON contacts ((100 / (score - 10)));
CREATE INDEX contacts_ok ON contacts ((100 / (score - 11)));
INSERT INTO contacts (id, score) VALUES (9, 11);
DROP INDEX contacts_ok;
INSERT INTO contacts (id, score) VALUES (9, 11);
-- In a transaction, and rolled back.
BEGIN;
CREATE INDEX contacts_upper ON contacts (upper(last));
SELECT id FROM contacts WHERE upper(last) = 'KAY';
ROLLBACK;
DROP INDEX contacts_upper;
-- A column that an index needs goes with the index.
ALTER TABLE contacts DROP COLUMN last;
DROP INDEX contacts_name;
DROP INDEX contacts_year;
-- What an index cannot have.
CREATE INDEX bad ON contacts (now());
CREATE INDEX bad ON contacts ((random()));
CREATE INDEX bad ON contacts (lower(nosuch));
CREATE INDEX bad ON contacts (nosuchfunction(email));
CREATE INDEX bad ON contacts (count(id));
CREATE INDEX bad ON contacts (score + 1);
-- differs: not-there-or-not-syntax: 0A000
CREATE INDEX bad ON contacts ((SELECT 1));
DROP INDEX contacts_lower, contacts_abs, contacts_coalesce;
