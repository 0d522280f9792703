-- DROP of several things; RESTRICT and CASCADE.

CREATE TABLE countries (code CHAR(2) PRIMARY KEY, name TEXT);
CREATE TABLE cities (id INTEGER PRIMARY KEY, country CHAR(2) REFERENCES countries (code), name TEXT);
CREATE TABLE streets (id INTEGER PRIMARY KEY, city INTEGER REFERENCES cities (id));
CREATE VIEW capitals AS SELECT name FROM cities WHERE id = 1;
INSERT INTO countries VALUES ('at', 'Austria'), ('be', 'Belgium');
INSERT INTO cities VALUES (1, 'at', 'Wien'), (2, 'be', 'Brussel');
INSERT INTO streets VALUES (1, 1), (2, 2);
DROP TABLE countries;
DROP TABLE countries RESTRICT;
DROP TABLE cities;
-- Several at once: all of them or none.
DROP TABLE streets, nosuch;
SELECT count(*) FROM streets;
DROP TABLE countries, cities;
DROP TABLE IF EXISTS nosuch, other_nosuch;
-- CASCADE drops the foreign key, not the table that has it.
DROP TABLE countries CASCADE;
SELECT id, country FROM cities ORDER BY id;
INSERT INTO cities VALUES (3, 'zz', 'Nowhere');
INSERT INTO streets VALUES (3, 99);
-- A view holds its table, also if all other tables go with it.
DROP TABLE streets, cities;
DROP TABLE streets, cities CASCADE;
SELECT * FROM capitals;
SELECT * FROM streets;
-- The order of the names does not matter.
CREATE TABLE p (id INTEGER PRIMARY KEY);
CREATE TABLE c (p INTEGER REFERENCES p (id));
DROP TABLE p, c;
-- A cycle of foreign keys.
CREATE TABLE x (id INTEGER PRIMARY KEY, y INTEGER);
CREATE TABLE y (id INTEGER PRIMARY KEY, x INTEGER REFERENCES x (id));
ALTER TABLE x ADD CONSTRAINT x_y FOREIGN KEY (y) REFERENCES y (id);
DROP TABLE x;
DROP TABLE y;
DROP TABLE x, y;
-- To itself.
CREATE TABLE tree (id INTEGER PRIMARY KEY, up INTEGER REFERENCES tree (id));
INSERT INTO tree VALUES (1, NULL), (2, 1);
DROP TABLE tree, tree;
-- Sequences, views, indexes, schemas.
CREATE SEQUENCE s;
CREATE TABLE uses (id INTEGER DEFAULT nextval('s'));
DROP SEQUENCE s RESTRICT;
DROP SEQUENCE s CASCADE;
INSERT INTO uses DEFAULT VALUES;
SELECT count(*) FROM uses WHERE id IS NULL;
CREATE VIEW v1 AS SELECT id FROM uses;
CREATE VIEW v2 AS SELECT id FROM v1;
DROP VIEW v1;
DROP VIEW v2, v1;
CREATE TABLE keyed (id INTEGER PRIMARY KEY, a INTEGER UNIQUE, b INTEGER);
CREATE INDEX keyed_b ON keyed (b);
CREATE INDEX keyed_ab ON keyed (a, b);
DROP INDEX keyed_b, keyed_ab;
DROP INDEX keyed_pkey;
DROP INDEX keyed_a_key;
DROP INDEX keyed;
DROP TABLE keyed_pkey;
CREATE SCHEMA one;
CREATE SCHEMA two;
CREATE TABLE one.t (a INTEGER PRIMARY KEY);
CREATE TABLE two.t (a INTEGER REFERENCES one.t (a));
DROP SCHEMA one;
DROP SCHEMA one CASCADE;
INSERT INTO two.t VALUES (5);
DROP SCHEMA two CASCADE;
-- Rolled back.
CREATE TABLE p (id INTEGER PRIMARY KEY);
CREATE TABLE c (p INTEGER REFERENCES p (id));
BEGIN;
DROP TABLE p CASCADE;
INSERT INTO c VALUES (1);
ROLLBACK;
INSERT INTO c VALUES (1);
