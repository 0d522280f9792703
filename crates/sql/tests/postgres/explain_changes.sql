-- EXPLAIN of changes: it shows a plan and changes nothing; EXPLAIN ANALYZE carries the change out.

CREATE TABLE parts (id SERIAL PRIMARY KEY, name TEXT NOT NULL, qty INTEGER CHECK (qty >= 0));
INSERT INTO parts (name, qty) VALUES ('bolt', 10), ('nut', 20);
-- any rows
EXPLAIN INSERT INTO parts (name, qty) VALUES ('gear', 1);
-- any rows
EXPLAIN UPDATE parts SET qty = qty + 1 WHERE id = 1;
-- any rows
EXPLAIN DELETE FROM parts;
-- any rows
EXPLAIN INSERT INTO parts (name, qty) SELECT name, qty FROM parts;
-- any rows
EXPLAIN UPDATE parts SET qty = 0 FROM parts p WHERE p.id = parts.id + 1;
-- any rows
EXPLAIN INSERT INTO parts (id, name) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET name = excluded.name RETURNING id;
SELECT id, name, qty FROM parts ORDER BY id;
BEGIN;
-- any rows
EXPLAIN ANALYZE INSERT INTO parts (name, qty) VALUES ('gear', 1);
-- differs: explain-analyze-undoes: rows
-- | 2
SELECT count(*) FROM parts;
ROLLBACK;
SELECT count(*) FROM parts;
BEGIN;
-- any rows
EXPLAIN ANALYZE UPDATE parts SET qty = qty + 100;
-- differs: explain-analyze-undoes: rows
-- | 30
SELECT sum(qty) FROM parts;
ROLLBACK;
SELECT sum(qty) FROM parts;
BEGIN;
-- any rows
EXPLAIN ANALYZE DELETE FROM parts WHERE id = 1;
-- differs: explain-analyze-undoes: rows
-- | 2
SELECT count(*) FROM parts;
ROLLBACK;
SELECT count(*) FROM parts;
BEGIN;
SAVEPOINT s;
-- any rows
EXPLAIN (ANALYZE) DELETE FROM parts;
ROLLBACK TO s;
SELECT count(*) FROM parts;
COMMIT;
SELECT count(*) FROM parts;
-- A change that fails, also only explained ones where the plan shows it.
EXPLAIN ANALYZE UPDATE parts SET qty = -1;
EXPLAIN ANALYZE INSERT INTO parts (id, name) VALUES (1, 'again');
EXPLAIN UPDATE parts SET nosuch = 1;
EXPLAIN DELETE FROM nosuch;
EXPLAIN INSERT INTO parts (name) VALUES (1, 2);
-- any rows
EXPLAIN UPDATE parts SET qty = -1;
EXPLAIN CREATE TABLE x (a INTEGER);
EXPLAIN TRUNCATE parts;
-- any rows
EXPLAIN SELECT * FROM parts;
-- any rows
EXPLAIN ANALYZE SELECT * FROM parts WHERE id = 1;
PREPARE add_part AS INSERT INTO parts (name) VALUES ($1);
-- any rows
EXPLAIN EXECUTE add_part ('x');
SELECT id, name, qty FROM parts ORDER BY id;
