-- MERGE.

CREATE TABLE accounts (id INTEGER PRIMARY KEY, owner TEXT NOT NULL, balance INTEGER NOT NULL DEFAULT 0);
CREATE TABLE moves (account INTEGER, amount INTEGER, owner TEXT);
INSERT INTO accounts VALUES (1, 'ann', 100), (2, 'ben', 50), (3, 'cyd', 0);
INSERT INTO moves VALUES (1, 20, 'ann'), (4, 70, 'dan'), (3, 0, 'cyd');
MERGE INTO accounts a USING moves m ON a.id = m.account
    WHEN MATCHED THEN UPDATE SET balance = a.balance + m.amount
    WHEN NOT MATCHED THEN INSERT (id, owner, balance) VALUES (m.account, m.owner, m.amount);
SELECT * FROM accounts ORDER BY id;
-- Conditions: the first that holds is done.
MERGE INTO accounts AS a USING moves AS m ON a.id = m.account
    WHEN MATCHED AND m.amount = 0 THEN DELETE
    WHEN MATCHED AND m.amount > 50 THEN UPDATE SET owner = upper(m.owner)
    WHEN MATCHED THEN DO NOTHING
    WHEN NOT MATCHED THEN INSERT VALUES (m.account, m.owner, DEFAULT);
SELECT * FROM accounts ORDER BY id;
-- A query or VALUES as the source.
MERGE INTO accounts a USING (SELECT account, sum(amount) AS total FROM moves GROUP BY account) AS s ON s.account = a.id
    WHEN MATCHED THEN UPDATE SET balance = s.total;
SELECT id, balance FROM accounts ORDER BY id;
MERGE INTO accounts a USING (VALUES (2, 'new'), (9, 'nine')) AS v (id, name) ON a.id = v.id
    WHEN MATCHED THEN UPDATE SET owner = v.name, balance = DEFAULT
    WHEN NOT MATCHED AND v.id > 5 THEN INSERT (id, owner) VALUES (v.id, v.name);
SELECT * FROM accounts ORDER BY id;
MERGE INTO accounts a USING moves m ON false WHEN NOT MATCHED AND m.account > 100 THEN INSERT VALUES (1, 'x', 1);
MERGE INTO accounts a USING moves m ON a.id = m.account WHEN MATCHED THEN DO NOTHING;
MERGE INTO accounts a USING accounts b ON a.id = b.id + 1 WHEN MATCHED THEN UPDATE SET balance = b.balance;
SELECT id, balance FROM accounts ORDER BY id;
-- A row that matches twice.
INSERT INTO moves VALUES (1, 1, 'twice');
MERGE INTO accounts a USING moves m ON a.id = m.account WHEN MATCHED THEN UPDATE SET balance = m.amount;
MERGE INTO accounts a USING moves m ON a.id = m.account WHEN MATCHED AND m.amount > 1 THEN UPDATE SET balance = m.amount;
-- Constraints.
MERGE INTO accounts a USING (SELECT 5 AS id) s ON a.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id);
MERGE INTO accounts a USING (SELECT 5 AS id) s ON a.id = s.id WHEN NOT MATCHED THEN INSERT VALUES (1, 'x', 1);
MERGE INTO accounts a USING (SELECT 1 AS id) s ON a.id = s.id WHEN MATCHED THEN UPDATE SET owner = NULL;
-- Errors.
MERGE INTO nosuch a USING moves m ON true WHEN MATCHED THEN DELETE;
MERGE INTO accounts a USING nosuch m ON true WHEN MATCHED THEN DELETE;
MERGE INTO accounts a USING moves m ON a.nosuch = 1 WHEN MATCHED THEN DELETE;
MERGE INTO accounts a USING moves m ON a.id = m.account WHEN NOT MATCHED THEN UPDATE SET balance = 1;
MERGE INTO accounts a USING moves m ON a.id = m.account WHEN MATCHED THEN INSERT VALUES (1, 'x', 1);
MERGE INTO accounts a USING moves m ON a.id = m.account WHEN NOT MATCHED THEN INSERT VALUES (a.id, 'x', 1);
MERGE INTO accounts a USING moves a ON true WHEN MATCHED THEN DELETE;
MERGE INTO accounts a USING moves m ON a.id = m.account WHEN MATCHED THEN DELETE WHEN MATCHED THEN DO NOTHING;
MERGE INTO accounts a USING moves m ON a.id = m.account;
-- Rolled back.
BEGIN;
MERGE INTO accounts a USING moves m ON a.id = m.account WHEN MATCHED AND m.amount > 1 THEN DELETE;
SELECT count(*) FROM accounts;
ROLLBACK;
SELECT count(*) FROM accounts;
