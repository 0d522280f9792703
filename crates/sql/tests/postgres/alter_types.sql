-- ALTER COLUMN TYPE: types that widen, keys and indexes on them, and USING.

CREATE TABLE meters (id INTEGER PRIMARY KEY, small SMALLINT, reading INTEGER, code VARCHAR(4), price NUMERIC(6, 2), ratio REAL);
INSERT INTO meters VALUES (1, 10, 100, 'ab', 1.25, 0.5), (2, 32767, 2147483647, 'abcd', 9999.99, 1.5), (3, NULL, -5, NULL, NULL, NULL);
CREATE INDEX meters_reading ON meters (reading);
ALTER TABLE meters ALTER COLUMN small TYPE INTEGER;
UPDATE meters SET small = 40000 WHERE id = 1;
ALTER TABLE meters ALTER COLUMN reading TYPE BIGINT;
UPDATE meters SET reading = reading + 10 WHERE id = 2;
SELECT id, small, reading FROM meters ORDER BY id;
SELECT id FROM meters WHERE reading = 2147483657;
SELECT id FROM meters WHERE reading > 50 ORDER BY reading;
-- The primary key, on which other rows stand.
ALTER TABLE meters ALTER COLUMN id SET DATA TYPE BIGINT;
INSERT INTO meters (id, reading) VALUES (5000000000, 7);
INSERT INTO meters (id, reading) VALUES (2, 7);
SELECT id, reading FROM meters WHERE id = 5000000000;
SELECT id, code FROM meters WHERE id <= 3 ORDER BY id;
-- Text.
ALTER TABLE meters ALTER COLUMN code TYPE VARCHAR(8);
UPDATE meters SET code = 'abcdefgh' WHERE id = 3;
ALTER TABLE meters ALTER COLUMN code TYPE TEXT;
UPDATE meters SET code = code || ' and more' WHERE id = 3;
SELECT code FROM meters ORDER BY id;
ALTER TABLE meters ALTER COLUMN code TYPE VARCHAR(5);
ALTER TABLE meters ALTER COLUMN code TYPE VARCHAR(5) USING left(code, 5);
SELECT code FROM meters WHERE code IS NOT NULL ORDER BY code;
-- Numbers.
ALTER TABLE meters ALTER COLUMN price TYPE NUMERIC(10, 2);
UPDATE meters SET price = 12345678.9 WHERE id = 1;
ALTER TABLE meters ALTER COLUMN price TYPE NUMERIC(12, 4);
SELECT price FROM meters ORDER BY id;
ALTER TABLE meters ALTER COLUMN ratio TYPE DOUBLE PRECISION;
SELECT ratio FROM meters ORDER BY id;
-- Values that do not fit, and types that do not.
ALTER TABLE meters ALTER COLUMN reading TYPE SMALLINT;
ALTER TABLE meters ALTER COLUMN code TYPE INTEGER;
ALTER TABLE meters ALTER COLUMN code TYPE INTEGER USING length(code);
SELECT id, code FROM meters ORDER BY id;
ALTER TABLE meters ALTER COLUMN reading TYPE DATE;
ALTER TABLE meters ALTER COLUMN nosuch TYPE TEXT;
ALTER TABLE meters ALTER COLUMN reading TYPE TEXT USING 'n=' || reading;
SELECT reading FROM meters ORDER BY id;
-- A default follows its column, or stands in the way.
CREATE TABLE flags (id INTEGER, n INTEGER DEFAULT 5, t TEXT DEFAULT 'x');
ALTER TABLE flags ALTER COLUMN n TYPE BIGINT;
INSERT INTO flags (id) VALUES (1);
ALTER TABLE flags ALTER COLUMN t TYPE INTEGER USING 0;
ALTER TABLE flags ALTER COLUMN t DROP DEFAULT, ALTER COLUMN t TYPE INTEGER USING 0;
SELECT id, n, t FROM flags;
-- A foreign key and a view hold on to a column's type.
CREATE TABLE marks (meter BIGINT REFERENCES meters (id), n INTEGER);
INSERT INTO marks VALUES (1, 1);
ALTER TABLE marks ALTER COLUMN meter TYPE INTEGER;
INSERT INTO marks VALUES (99, 1);
CREATE VIEW small_ones AS SELECT id, small FROM meters;
ALTER TABLE meters ALTER COLUMN small TYPE BIGINT;
DROP VIEW small_ones;
ALTER TABLE meters ALTER COLUMN small TYPE BIGINT;
