-- Which statement tells that a key is taken; DEFERRABLE keys; SET CONSTRAINTS.

CREATE TABLE t (id INTEGER PRIMARY KEY, code TEXT UNIQUE, n INTEGER CHECK (n < 100));
INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
BEGIN;
INSERT INTO t VALUES (4, 'd', 4);
INSERT INTO t VALUES (1, 'x', 5);
SELECT count(*) FROM t;
COMMIT;
SELECT count(*) FROM t;
BEGIN;
UPDATE t SET code = 'a' WHERE id = 2;
ROLLBACK;
BEGIN;
UPDATE t SET n = 500 WHERE id = 2;
ROLLBACK;
-- A savepoint goes on after the error.
BEGIN;
INSERT INTO t VALUES (5, 'e', 5);
SAVEPOINT s;
INSERT INTO t VALUES (5, 'f', 6);
ROLLBACK TO s;
INSERT INTO t VALUES (6, 'f', 6);
COMMIT;
SELECT id FROM t ORDER BY id;
-- A key that was given up within the transaction is free.
BEGIN;
DELETE FROM t WHERE id = 1;
INSERT INTO t VALUES (1, 'a', 11);
UPDATE t SET id = 100 WHERE id = 2;
INSERT INTO t VALUES (2, 'bb', 22);
COMMIT;
SELECT id, code FROM t ORDER BY id;
-- Rows of one statement that exchange keys.
BEGIN;
-- differs: keys-at-end-of-statement: UPDATE 6
UPDATE t SET id = id + 1;
ROLLBACK;
BEGIN;
-- differs: keys-at-end-of-statement: UPDATE 2
UPDATE t SET code = CASE code WHEN 'a' THEN 'c' ELSE 'a' END WHERE code IN ('a', 'c');
ROLLBACK;
INSERT INTO t VALUES (7, 'g', 7), (7, 'h', 7);
INSERT INTO t VALUES (7, 'g', 7), (8, 'g', 7);
INSERT INTO t SELECT id + 1, code || code, n FROM t WHERE id < 100;
-- DEFERRABLE INITIALLY IMMEDIATE: at the end of the statement.
CREATE TABLE d (id INTEGER PRIMARY KEY DEFERRABLE, v TEXT);
INSERT INTO d VALUES (1, 'a'), (2, 'b'), (3, 'c');
UPDATE d SET id = id + 1;
SELECT id, v FROM d ORDER BY id;
INSERT INTO d VALUES (2, 'x');
-- INITIALLY DEFERRED: at the commit.
CREATE TABLE l (id INTEGER, v TEXT, CONSTRAINT l_id UNIQUE (id) DEFERRABLE INITIALLY DEFERRED);
INSERT INTO l VALUES (1, 'a'), (2, 'b');
BEGIN;
INSERT INTO l VALUES (1, 'c');
SELECT count(*) FROM l;
UPDATE l SET id = 3 WHERE v = 'c';
COMMIT;
SELECT id, v FROM l ORDER BY id;
BEGIN;
INSERT INTO l VALUES (1, 'd');
COMMIT;
SELECT count(*) FROM l;
INSERT INTO l VALUES (2, 'e');
INSERT INTO l VALUES (3, 'e') ON CONFLICT (id) DO NOTHING;
-- Foreign keys that are deferred.
CREATE TABLE p (id INTEGER PRIMARY KEY);
CREATE TABLE c (p INTEGER REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED);
BEGIN;
INSERT INTO c VALUES (1);
INSERT INTO p VALUES (1);
COMMIT;
BEGIN;
INSERT INTO c VALUES (2);
COMMIT;
SELECT count(*) FROM c;
-- Foreign keys that are not.
CREATE TABLE i (p INTEGER REFERENCES p (id));
BEGIN;
INSERT INTO i VALUES (3);
COMMIT;
SELECT count(*) FROM i;
BEGIN;
INSERT INTO i VALUES (1);
DELETE FROM p WHERE id = 1;
COMMIT;
SELECT count(*) FROM p;
-- differs: no-set-constraints: 0A000
SET CONSTRAINTS ALL IMMEDIATE;
