-- Cycles of foreign keys: two tables that refer to one another, a table to itself, and three in a ring.

CREATE TABLE firms (id INTEGER PRIMARY KEY, head INTEGER, name TEXT NOT NULL);
CREATE TABLE people (id INTEGER PRIMARY KEY, firm INTEGER REFERENCES firms (id) ON DELETE CASCADE);
ALTER TABLE firms ADD CONSTRAINT firms_head FOREIGN KEY (head) REFERENCES people (id) ON DELETE SET NULL;
-- Neither can be the first, unless one leaves its reference open.
INSERT INTO firms VALUES (1, 1, 'one');
INSERT INTO people VALUES (1, 1);
INSERT INTO firms VALUES (1, NULL, 'one');
INSERT INTO people VALUES (1, 1), (2, 1);
UPDATE firms SET head = 1 WHERE id = 1;
UPDATE firms SET head = 3 WHERE id = 1;
DELETE FROM people WHERE id = 1;
SELECT id, head FROM firms;
UPDATE firms SET head = 2;
-- The cascade goes round and comes to an end.
DELETE FROM firms WHERE id = 1;
SELECT count(*) FROM people;
-- One statement puts both in.
WITH f AS (INSERT INTO firms VALUES (2, 20, 'two') RETURNING id)
INSERT INTO people SELECT 20, f.id FROM f;
SELECT f.id, f.head, p.id, p.firm FROM firms f JOIN people p ON p.id = f.head;
TRUNCATE firms;
TRUNCATE people;
TRUNCATE firms, people;
INSERT INTO firms VALUES (3, NULL, 'three');
TRUNCATE people CASCADE;
SELECT count(*) FROM firms;
DROP TABLE firms;
DROP TABLE people;
ALTER TABLE people DROP CONSTRAINT people_pkey;
ALTER TABLE firms DROP CONSTRAINT firms_head;
DROP TABLE firms, people;
-- Deferred: the order within the transaction does not matter.
CREATE TABLE a (id INTEGER PRIMARY KEY, b INTEGER NOT NULL);
CREATE TABLE b (id INTEGER PRIMARY KEY, c INTEGER NOT NULL);
CREATE TABLE c (id INTEGER PRIMARY KEY, a INTEGER NOT NULL REFERENCES a (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED);
ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b (id) ON DELETE CASCADE ON UPDATE CASCADE DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE b ADD FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO a VALUES (1, 1), (2, 2);
INSERT INTO b VALUES (1, 1), (2, 2);
INSERT INTO c VALUES (1, 2), (2, 1);
COMMIT;
BEGIN;
INSERT INTO a VALUES (3, 3);
INSERT INTO b VALUES (3, 3);
COMMIT;
SELECT count(*) FROM a;
DELETE FROM a WHERE id = 1;
SELECT (SELECT count(*) FROM a) AS a, (SELECT count(*) FROM b) AS b, (SELECT count(*) FROM c) AS c;
-- To itself.
CREATE TABLE ring (id INTEGER PRIMARY KEY, next INTEGER REFERENCES ring (id) ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO ring VALUES (1, 2), (2, 3), (3, 1);
INSERT INTO ring VALUES (9, 10);
INSERT INTO ring VALUES (7, 7);
UPDATE ring SET id = 70 WHERE id = 7;
SELECT id, next FROM ring ORDER BY id;
UPDATE ring SET id = 10 WHERE id = 1;
SELECT id, next FROM ring ORDER BY id;
DELETE FROM ring WHERE id = 2;
SELECT id, next FROM ring ORDER BY id;
DROP TABLE a;
DROP TABLE a CASCADE;
INSERT INTO c VALUES (5, 5);
DROP TABLE b, c;
