-- RENAME of tables, columns, indexes, views, sequences, constraints.

CREATE TABLE people (id SERIAL PRIMARY KEY, nmae TEXT NOT NULL, age INTEGER CHECK (age >= 0));
INSERT INTO people (nmae, age) VALUES ('Ada', 36), ('Alan', 41);
ALTER TABLE people RENAME COLUMN nmae TO name;
SELECT id, name FROM people ORDER BY id;
SELECT nmae FROM people;
INSERT INTO people (name) VALUES (NULL);
ALTER TABLE people RENAME age TO years;
UPDATE people SET years = -1 WHERE id = 1;
ALTER TABLE people RENAME COLUMN years TO name;
ALTER TABLE people RENAME COLUMN nosuch TO x;
ALTER TABLE people RENAME TO persons;
SELECT count(*) FROM people;
SELECT count(*) FROM persons;
INSERT INTO persons (name, years) VALUES ('Grace', 85) RETURNING id;
INSERT INTO persons VALUES (1, 'Twice', 1);
ALTER TABLE people RENAME TO other;
ALTER TABLE IF EXISTS people RENAME TO other;
CREATE TABLE other (id INTEGER REFERENCES persons (id));
ALTER TABLE persons RENAME TO other;
INSERT INTO other VALUES (1), (9);
ALTER TABLE persons RENAME COLUMN id TO person_id;
INSERT INTO other VALUES (9);
INSERT INTO other VALUES (1);
-- A view follows what it reads.
CREATE VIEW adults AS SELECT person_id, name FROM persons WHERE years >= 18;
ALTER TABLE persons RENAME COLUMN name TO full_name;
ALTER TABLE persons RENAME TO humans;
SELECT * FROM adults ORDER BY person_id;
ALTER VIEW adults RENAME COLUMN name TO who;
SELECT who FROM adults ORDER BY who;
ALTER VIEW adults RENAME TO grown_ups;
SELECT count(*) FROM grown_ups;
SELECT count(*) FROM adults;
-- Indexes and sequences.
CREATE INDEX by_name ON humans (full_name);
ALTER INDEX by_name RENAME TO humans_by_name;
DROP INDEX by_name;
ALTER INDEX IF EXISTS by_name RENAME TO x;
DROP INDEX humans_by_name;
ALTER SEQUENCE people_id_seq RENAME TO humans_seq;
INSERT INTO humans (full_name) VALUES ('Edsger') RETURNING person_id;
ALTER TABLE humans RENAME CONSTRAINT people_age_check TO years_check;
INSERT INTO humans (full_name, years) VALUES ('x', -5);
ALTER INDEX people_pkey RENAME TO humans_pkey;
INSERT INTO humans (person_id, full_name) VALUES (1, 'x');
-- The old name is free.
CREATE TABLE people (a INTEGER);
CREATE TABLE humans (a INTEGER);
ALTER TABLE people RENAME TO humans;
-- Exchange of two tables in a transaction.
CREATE TABLE humans_new (person_id INTEGER, full_name TEXT);
INSERT INTO humans_new VALUES (100, 'new');
BEGIN;
ALTER TABLE humans RENAME TO humans_old;
ALTER TABLE humans_new RENAME TO humans;
SELECT full_name FROM humans;
COMMIT;
SELECT count(*) FROM humans_old;
SELECT count(*) FROM grown_ups;
