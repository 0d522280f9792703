-- Transactions that began before a schema changed, and changes beside one another.

CREATE TABLE parcels (id INTEGER PRIMARY KEY, kg INTEGER NOT NULL);
INSERT INTO parcels VALUES (1, 5), (2, 10);
BEGIN;
SELECT count(*) FROM parcels;
-- session B
INSERT INTO parcels VALUES (3, 15);
UPDATE parcels SET kg = 6 WHERE id = 1;
-- session A
SELECT id, kg FROM parcels ORDER BY id;
COMMIT;
SELECT id, kg FROM parcels ORDER BY id;
-- A sequence is not of a snapshot.
CREATE SEQUENCE no;
BEGIN;
SELECT count(*) FROM parcels;
SELECT nextval('no');
-- session B
SELECT nextval('no');
-- session A
SELECT nextval('no');
ROLLBACK;
SELECT nextval('no');
-- A table that another makes while a transaction is open.
BEGIN;
SELECT count(*) FROM parcels;
-- session B
CREATE TABLE later (a INTEGER DEFAULT 3);
INSERT INTO later DEFAULT VALUES;
SELECT a FROM later;
-- session A
COMMIT;
SELECT a FROM later;
-- What is not committed is nobody else's.
BEGIN;
CREATE TABLE hidden (a INTEGER);
INSERT INTO hidden VALUES (1);
CREATE VIEW hidden_view AS SELECT a FROM hidden;
-- session B
SELECT a FROM hidden;
SELECT a FROM hidden_view;
CREATE TABLE other (a INTEGER);
-- session A
COMMIT;
-- session B
SELECT a FROM hidden_view;
-- Defaults and columns that come between two statements of another session.
PREPARE add_parcel AS INSERT INTO parcels (id, kg) VALUES ($1, $2);
EXECUTE add_parcel (4, 20);
-- session A
ALTER TABLE parcels ADD COLUMN note TEXT DEFAULT 'none';
ALTER TABLE parcels ALTER COLUMN kg DROP NOT NULL;
-- session B
EXECUTE add_parcel (5, NULL);
INSERT INTO parcels (id) VALUES (6) RETURNING *;
SELECT id, kg, note FROM parcels WHERE id >= 4 ORDER BY id;
-- session A
ALTER TABLE parcels RENAME COLUMN kg TO weight;
-- session B
EXECUTE add_parcel (7, 1);
SELECT kg FROM parcels;
SELECT sum(weight) FROM parcels;
-- session A
DROP TABLE parcels CASCADE;
-- session B
SELECT count(*) FROM parcels;
EXECUTE add_parcel (8, 1);
-- One name, two sessions, one after the other.
CREATE TABLE twin (a INTEGER);
-- session A
CREATE TABLE twin (a INTEGER);
CREATE TABLE IF NOT EXISTS twin (b INTEGER);
CREATE TEMP TABLE twin (c INTEGER);
SELECT * FROM twin;
-- session B
SELECT a FROM twin;
