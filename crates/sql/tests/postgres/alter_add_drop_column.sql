-- ALTER TABLE ADD COLUMN and DROP COLUMN, on tables that have rows.

CREATE TABLE plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, height INTEGER);
INSERT INTO plants VALUES (1, 'fern', 30), (2, 'oak', 900), (3, 'moss', NULL);
ALTER TABLE plants ADD COLUMN family TEXT;
SELECT * FROM plants ORDER BY id;
ALTER TABLE plants ADD COLUMN watered BOOLEAN NOT NULL DEFAULT false;
SELECT id, family, watered FROM plants ORDER BY id;
ALTER TABLE plants ADD note VARCHAR(10) DEFAULT 'none', ADD price NUMERIC(6, 2) DEFAULT 1.5;
SELECT id, note, price FROM plants WHERE price = 1.5 ORDER BY id;
INSERT INTO plants (id, name) VALUES (4, 'ivy');
INSERT INTO plants VALUES (5, 'rose', 60, 'Rosaceae', true, 'thorns', 7.25);
SELECT * FROM plants ORDER BY id;
SELECT watered, count(*) AS n, sum(price) AS total FROM plants GROUP BY watered ORDER BY watered;
UPDATE plants SET watered = true, note = NULL WHERE id = 1;
SELECT id, watered, note FROM plants WHERE NOT watered OR note IS NULL ORDER BY id;
-- NOT NULL needs a value for the rows that are there.
ALTER TABLE plants ADD COLUMN soil TEXT NOT NULL;
CREATE TABLE empty_one (a INTEGER);
ALTER TABLE empty_one ADD COLUMN b TEXT NOT NULL;
INSERT INTO empty_one VALUES (1);
-- The moment of the ALTER is the value of older rows.
ALTER TABLE plants ADD COLUMN seen TIMESTAMP DEFAULT now();
SELECT count(DISTINCT seen) AS moments FROM plants;
-- Values that differ from row to row.
ALTER TABLE plants ADD COLUMN no SERIAL;
SELECT count(DISTINCT no) AS numbers, min(no), max(no) FROM plants;
INSERT INTO plants (id, name) VALUES (6, 'yew') RETURNING no;
-- With constraints.
ALTER TABLE plants ADD COLUMN grade INTEGER DEFAULT 3 CHECK (grade BETWEEN 1 AND 5);
UPDATE plants SET grade = 9 WHERE id = 1;
ALTER TABLE plants ADD COLUMN depth INTEGER DEFAULT -1 CHECK (depth >= 0);
ALTER TABLE plants ADD COLUMN tag TEXT UNIQUE;
UPDATE plants SET tag = 'a' WHERE id IN (1, 2);
ALTER TABLE plants ADD COLUMN twin INTEGER DEFAULT 1 UNIQUE;
ALTER TABLE plants ADD COLUMN parent INTEGER REFERENCES plants (id);
UPDATE plants SET parent = 99 WHERE id = 1;
UPDATE plants SET parent = 1 WHERE id = 2;
-- Names.
ALTER TABLE plants ADD COLUMN name TEXT;
ALTER TABLE plants ADD COLUMN IF NOT EXISTS name TEXT;
ALTER TABLE plants ADD COLUMN IF NOT EXISTS zone INTEGER DEFAULT 8;
ALTER TABLE nosuch ADD COLUMN a INTEGER;
ALTER TABLE IF EXISTS nosuch ADD COLUMN a INTEGER;
ALTER TABLE plants ADD COLUMN odd NOTATYPE;
-- Dropping.
ALTER TABLE plants DROP COLUMN height;
SELECT height FROM plants;
SELECT id, name, zone FROM plants WHERE id < 3 ORDER BY id;
ALTER TABLE plants DROP COLUMN height;
ALTER TABLE plants DROP COLUMN IF EXISTS height;
ALTER TABLE plants DROP note, DROP COLUMN price, ADD COLUMN height DOUBLE PRECISION DEFAULT 0.5;
SELECT id, height FROM plants WHERE id <= 2 ORDER BY id;
INSERT INTO plants (id, name, height) VALUES (7, 'elm', 12.5);
SELECT sum(height) FROM plants;
-- Its check, unique key and index go with a column.
CREATE INDEX plants_family ON plants (family, name);
ALTER TABLE plants DROP COLUMN family;
ALTER TABLE plants DROP COLUMN tag, DROP COLUMN grade;
ALTER TABLE plants DROP COLUMN id;
ALTER TABLE plants DROP COLUMN id CASCADE;
INSERT INTO plants (name) VALUES ('elm');
SELECT count(*) FROM plants WHERE name = 'elm';
SELECT * FROM empty_one;
-- differs: tables-have-columns: 0A000
ALTER TABLE empty_one DROP COLUMN a, DROP COLUMN b;
