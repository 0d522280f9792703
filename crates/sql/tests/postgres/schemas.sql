-- CREATE SCHEMA, names with a schema, DROP SCHEMA.

CREATE SCHEMA sales;
CREATE SCHEMA hr;
CREATE SCHEMA sales;
CREATE SCHEMA IF NOT EXISTS sales;
CREATE TABLE sales.orders (id INTEGER PRIMARY KEY, total NUMERIC(8, 2) DEFAULT 0);
CREATE TABLE hr.people (id SERIAL PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE orders (id INTEGER, origin TEXT);
INSERT INTO sales.orders VALUES (1, 10.5), (2, 20);
INSERT INTO hr.people (name) VALUES ('Ann') RETURNING id;
INSERT INTO orders VALUES (1, 'public');
SELECT * FROM sales.orders ORDER BY id;
SELECT * FROM orders;
SELECT * FROM public.orders;
SELECT sales.orders.total FROM sales.orders WHERE sales.orders.id = 1;
SELECT orders.total FROM sales.orders WHERE orders.id = 2;
SELECT s.total, p.origin FROM sales.orders s JOIN public.orders p ON p.id = s.id;
UPDATE sales.orders SET total = total + 1 WHERE id = 1;
DELETE FROM sales.orders WHERE id = 2;
SELECT nextval('hr.people_id_seq');
SELECT * FROM people;
SELECT * FROM nosuch.people;
CREATE TABLE nosuch.t (a INTEGER);
INSERT INTO hr.people VALUES (1, 'Twice');
-- Keys, indexes, views and sequences beside their tables.
CREATE TABLE hr.badges (no INTEGER PRIMARY KEY, person INTEGER REFERENCES hr.people (id));
INSERT INTO hr.badges VALUES (7, 99);
INSERT INTO hr.badges VALUES (7, 1);
CREATE INDEX badges_person ON hr.badges (person);
DROP INDEX badges_person;
DROP INDEX hr.badges_person;
CREATE VIEW sales.named AS SELECT o.id, o.total FROM sales.orders o;
SELECT * FROM sales.named;
CREATE SEQUENCE sales.no START 5;
SELECT nextval('sales.no'), currval('sales.no');
ALTER TABLE sales.orders ADD COLUMN note TEXT DEFAULT 'n';
SELECT note FROM sales.orders;
ALTER TABLE sales.orders RENAME TO bills;
SELECT id FROM sales.bills;
-- To another schema.
ALTER TABLE orders SET SCHEMA hr;
SELECT origin FROM hr.orders;
SELECT origin FROM orders;
ALTER TABLE hr.orders SET SCHEMA nosuch;
ALTER SCHEMA hr RENAME TO staff;
SELECT name FROM staff.people;
SELECT name FROM hr.people;
-- Dropping.
DROP SCHEMA sales;
DROP SCHEMA sales RESTRICT;
DROP SCHEMA sales CASCADE;
SELECT * FROM sales.bills;
DROP SCHEMA sales;
DROP SCHEMA IF EXISTS sales;
CREATE SCHEMA empty_one;
DROP SCHEMA empty_one, staff CASCADE;
SELECT name FROM staff.people;
-- In a transaction.
BEGIN;
CREATE SCHEMA passing;
CREATE TABLE passing.t (a INTEGER);
INSERT INTO passing.t VALUES (1);
SELECT a FROM passing.t;
ROLLBACK;
SELECT a FROM passing.t;
CREATE SCHEMA pg_mine;
