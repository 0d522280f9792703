-- Schema changes within transactions, with rollback and savepoints.

CREATE TABLE stock (id INTEGER PRIMARY KEY, qty INTEGER NOT NULL);
INSERT INTO stock VALUES (1, 10), (2, 20);
BEGIN;
ALTER TABLE stock ADD COLUMN place TEXT DEFAULT 'shelf';
UPDATE stock SET place = 'floor' WHERE id = 1;
INSERT INTO stock VALUES (3, 30, 'yard');
SELECT * FROM stock ORDER BY id;
ROLLBACK;
SELECT * FROM stock ORDER BY id;
BEGIN;
ALTER TABLE stock ADD COLUMN place TEXT DEFAULT 'shelf';
INSERT INTO stock (id, qty) VALUES (3, 30);
COMMIT;
SELECT * FROM stock ORDER BY id;
-- A savepoint takes back a part.
BEGIN;
UPDATE stock SET qty = qty + 1;
SAVEPOINT before_drop;
ALTER TABLE stock DROP COLUMN qty;
SELECT * FROM stock ORDER BY id;
ROLLBACK TO SAVEPOINT before_drop;
SELECT id, qty FROM stock ORDER BY id;
ALTER TABLE stock RENAME COLUMN qty TO amount;
SELECT id, amount FROM stock ORDER BY id;
COMMIT;
SELECT id, amount FROM stock ORDER BY id;
SELECT qty FROM stock;
-- An error ends all of it.
BEGIN;
ALTER TABLE stock ADD COLUMN weight INTEGER DEFAULT 5;
ALTER TABLE stock ADD COLUMN weight INTEGER;
SELECT count(*) FROM stock;
COMMIT;
SELECT weight FROM stock;
-- Tables, views, sequences, indexes: made and dropped, then rolled back.
CREATE VIEW v AS SELECT id FROM stock;
CREATE SEQUENCE s;
CREATE INDEX stock_place ON stock (place);
BEGIN;
DROP VIEW v;
DROP SEQUENCE s;
DROP INDEX stock_place;
DROP TABLE stock;
SELECT * FROM stock;
ROLLBACK;
SELECT * FROM v ORDER BY id;
SELECT nextval('s');
SELECT id FROM stock WHERE place = 'shelf' ORDER BY id;
BEGIN;
CREATE TABLE made (a INTEGER PRIMARY KEY, b TEXT DEFAULT 'b');
INSERT INTO made (a) VALUES (1), (2);
CREATE INDEX made_b ON made (b);
ALTER TABLE made ADD CONSTRAINT made_check CHECK (a < 10);
SAVEPOINT one;
INSERT INTO made VALUES (11, 'x');
ROLLBACK TO one;
SELECT a, b FROM made ORDER BY a;
COMMIT;
INSERT INTO made VALUES (12, 'x');
-- Dropped and made again with another shape.
BEGIN;
DROP TABLE made;
CREATE TABLE made (z DATE);
INSERT INTO made VALUES ('2024-03-01');
SELECT * FROM made;
ROLLBACK;
SELECT * FROM made ORDER BY a;
-- Types and defaults.
BEGIN;
ALTER TABLE stock ALTER COLUMN amount TYPE BIGINT;
UPDATE stock SET amount = 5000000000 WHERE id = 1;
ALTER TABLE stock ALTER COLUMN amount SET DEFAULT 7;
INSERT INTO stock (id) VALUES (4);
SELECT id, amount FROM stock ORDER BY id;
ROLLBACK;
UPDATE stock SET amount = 5000000000 WHERE id = 1;
INSERT INTO stock (id) VALUES (4);
-- Several at once, some of which fail: none is done.
ALTER TABLE stock ADD COLUMN c1 INTEGER, ADD COLUMN c2 INTEGER, DROP COLUMN nosuch;
SELECT c1 FROM stock;
BEGIN;
TRUNCATE stock;
SELECT count(*) FROM stock;
ALTER TABLE stock RENAME TO stock2;
ROLLBACK;
SELECT count(*) FROM stock;
