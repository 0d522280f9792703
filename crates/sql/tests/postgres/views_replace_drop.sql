-- CREATE OR REPLACE VIEW, DROP VIEW, and what depends on what.

CREATE TABLE staff (id INTEGER PRIMARY KEY, name TEXT, dept TEXT, pay INTEGER, left_on DATE);
INSERT INTO staff VALUES (1, 'Ann', 'it', 50, NULL), (2, 'Ben', 'hr', 40, NULL), (3, 'Cid', 'it', 60, '2023-06-30');
CREATE OR REPLACE VIEW active AS SELECT id, name FROM staff WHERE left_on IS NULL;
SELECT * FROM active ORDER BY id;
-- The same columns, and more behind them.
CREATE OR REPLACE VIEW active AS SELECT id, name FROM staff WHERE left_on IS NULL AND dept = 'it';
SELECT * FROM active ORDER BY id;
CREATE OR REPLACE VIEW active AS SELECT id, name, dept FROM staff WHERE left_on IS NULL;
SELECT * FROM active ORDER BY id;
CREATE OR REPLACE VIEW active AS SELECT id FROM staff;
CREATE OR REPLACE VIEW active AS SELECT id, name AS nom, dept FROM staff;
CREATE OR REPLACE VIEW active AS SELECT id, pay, dept FROM staff;
CREATE OR REPLACE VIEW active AS SELECT name, id, dept FROM staff;
CREATE OR REPLACE VIEW staff AS SELECT 1 AS a;
SELECT count(*) FROM active;
-- What a view needs.
CREATE VIEW it AS SELECT id, name FROM active WHERE dept = 'it';
SELECT name FROM it;
ALTER TABLE staff DROP COLUMN dept;
ALTER TABLE staff DROP COLUMN pay;
DROP TABLE staff;
DROP VIEW active;
DROP VIEW active RESTRICT;
DROP VIEW it;
SELECT * FROM it;
DROP VIEW active;
ALTER TABLE staff DROP COLUMN dept;
CREATE VIEW v1 AS SELECT id, name FROM staff;
CREATE VIEW v2 AS SELECT name FROM v1;
CREATE VIEW v3 AS SELECT left_on FROM staff;
DROP VIEW v1 CASCADE;
SELECT * FROM v2;
ALTER TABLE staff DROP COLUMN left_on CASCADE;
SELECT * FROM v3;
CREATE VIEW a AS SELECT id FROM staff;
CREATE VIEW b AS SELECT id FROM staff;
DROP VIEW a, b;
DROP VIEW a;
DROP VIEW IF EXISTS a;
DROP VIEW IF EXISTS a, nosuch CASCADE;
DROP VIEW staff;
DROP TABLE IF EXISTS a;
CREATE VIEW a AS SELECT id FROM staff;
DROP TABLE a;
DROP TABLE staff CASCADE;
SELECT * FROM a;
-- Changes through a view.
CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, hidden BOOLEAN NOT NULL DEFAULT false);
CREATE VIEW shown AS SELECT id, body FROM notes WHERE NOT hidden;
-- differs: views-are-not-updatable: 0A000
INSERT INTO shown VALUES (1, 'one');
INSERT INTO notes VALUES (2, 'two'), (3, 'three');
-- differs: views-are-not-updatable: 0A000
UPDATE shown SET body = 'TWO' WHERE id = 2;
-- differs: views-are-not-updatable: 0A000
DELETE FROM shown WHERE id = 3;
CREATE VIEW counted AS SELECT count(*) AS n FROM notes;
INSERT INTO counted VALUES (1);
DELETE FROM counted;
UPDATE counted SET n = 1;
-- A transaction that replaces and drops.
CREATE VIEW numbers AS SELECT 1 AS n;
BEGIN;
CREATE OR REPLACE VIEW numbers AS SELECT 2 AS n;
SELECT n FROM numbers;
DROP VIEW numbers;
SELECT n FROM numbers;
ROLLBACK;
SELECT n FROM numbers;
-- differs: no-materialized-views: 0A000
CREATE MATERIALIZED VIEW kept AS SELECT 1 AS n;
