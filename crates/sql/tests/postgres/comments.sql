-- COMMENT ON, and reading comments.

CREATE TABLE wines (id INTEGER PRIMARY KEY, name TEXT, year INTEGER, CONSTRAINT year_check CHECK (year > 1800));
CREATE INDEX wines_name ON wines (name);
CREATE VIEW old_wines AS SELECT id, name FROM wines WHERE year < 1990;
CREATE SEQUENCE wine_no;
CREATE SCHEMA cellar;
COMMENT ON TABLE wines IS 'What lies in the cellar';
COMMENT ON COLUMN wines.year IS 'of the harvest; it''s four digits';
COMMENT ON COLUMN wines.name IS NULL;
COMMENT ON INDEX wines_name IS 'for the search';
COMMENT ON VIEW old_wines IS 'before 1990';
COMMENT ON COLUMN old_wines.name IS 'as on the label';
COMMENT ON SEQUENCE wine_no IS 'numbers of bottles';
COMMENT ON SCHEMA cellar IS 'downstairs';
COMMENT ON CONSTRAINT year_check ON wines IS 'no wine is that old';
SELECT obj_description('wines'::regclass, 'pg_class');
SELECT col_description('wines'::regclass, 3);
COMMENT ON TABLE wines IS 'Changed';
SELECT obj_description('wines'::regclass, 'pg_class') AS comment;
COMMENT ON TABLE wines IS '';
SELECT obj_description('wines'::regclass, 'pg_class') AS comment;
COMMENT ON TABLE public.wines IS 'with a schema';
-- In a transaction.
BEGIN;
COMMENT ON TABLE wines IS 'never seen';
ROLLBACK;
SELECT obj_description('wines'::regclass, 'pg_class') AS comment;
-- Errors.
COMMENT ON TABLE nosuch IS 'x';
COMMENT ON COLUMN wines.nosuch IS 'x';
COMMENT ON COLUMN nosuch.a IS 'x';
COMMENT ON INDEX nosuch IS 'x';
COMMENT ON VIEW nosuch IS 'x';
COMMENT ON SEQUENCE nosuch IS 'x';
COMMENT ON SCHEMA nosuch IS 'x';
COMMENT ON CONSTRAINT nosuch ON wines IS 'x';
COMMENT ON VIEW wines IS 'x';
COMMENT ON TABLE old_wines IS 'x';
COMMENT ON TABLE wines IS 5;
-- A comment goes with what it is about.
DROP TABLE wines CASCADE;
CREATE TABLE wines (id INTEGER);
SELECT obj_description('wines'::regclass, 'pg_class') AS comment;
