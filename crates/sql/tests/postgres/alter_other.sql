-- Other forms of ALTER TABLE: keys from indexes, deferral, storage, and what Lode has no use for.

CREATE TABLE sheets (id INTEGER NOT NULL, code TEXT NOT NULL, pages INTEGER, folder INTEGER);
CREATE TABLE folders (id INTEGER PRIMARY KEY);
INSERT INTO folders VALUES (1), (2);
INSERT INTO sheets VALUES (1, 'a', 3, 1), (2, 'b', 4, NULL);
-- A key from an index that is there.
CREATE UNIQUE INDEX sheets_id ON sheets (id);
CREATE UNIQUE INDEX sheets_code ON sheets (code);
CREATE INDEX sheets_pages ON sheets (pages);
ALTER TABLE sheets ADD CONSTRAINT sheets_pk PRIMARY KEY USING INDEX sheets_id;
INSERT INTO sheets VALUES (1, 'c', 1, 1);
ALTER TABLE sheets ADD CONSTRAINT sheets_code_key UNIQUE USING INDEX sheets_code;
INSERT INTO sheets VALUES (3, 'a', 1, 1);
ALTER TABLE sheets ADD CONSTRAINT bad UNIQUE USING INDEX sheets_pages;
ALTER TABLE sheets ADD CONSTRAINT bad UNIQUE USING INDEX nosuch;
DROP INDEX sheets_pk;
-- Deferral of a foreign key is changed.
ALTER TABLE sheets ADD CONSTRAINT sheets_folder FOREIGN KEY (folder) REFERENCES folders (id);
ALTER TABLE sheets ALTER CONSTRAINT sheets_folder DEFERRABLE INITIALLY DEFERRED;
BEGIN;
INSERT INTO sheets VALUES (3, 'c', 1, 3);
INSERT INTO folders VALUES (3);
COMMIT;
ALTER TABLE sheets ALTER CONSTRAINT nosuch DEFERRABLE;
ALTER TABLE sheets ALTER CONSTRAINT sheets_pk DEFERRABLE;
-- NOT VALID, and then valid.
ALTER TABLE sheets ADD CONSTRAINT few_pages CHECK (pages < 4) NOT VALID;
INSERT INTO sheets VALUES (4, 'd', 10, NULL);
UPDATE sheets SET code = 'bb' WHERE id = 2;
ALTER TABLE sheets VALIDATE CONSTRAINT few_pages;
UPDATE sheets SET pages = 2 WHERE id = 2;
ALTER TABLE sheets VALIDATE CONSTRAINT few_pages;
ALTER TABLE sheets VALIDATE CONSTRAINT few_pages;
ALTER TABLE sheets VALIDATE CONSTRAINT nosuch;
-- Several forms at once, on a column that the same statement adds or drops.
ALTER TABLE sheets ADD COLUMN size INTEGER, ADD CONSTRAINT size_check CHECK (size > 0), ALTER COLUMN size SET DEFAULT 5;
INSERT INTO sheets (id, code) VALUES (5, 'e') RETURNING size;
ALTER TABLE sheets DROP COLUMN size, ADD COLUMN size TEXT DEFAULT 'A4';
SELECT id, size FROM sheets ORDER BY id;
ALTER TABLE sheets RENAME COLUMN size TO format, ADD COLUMN x INTEGER;
ALTER TABLE sheets ALTER COLUMN pages TYPE BIGINT, ALTER COLUMN pages SET DEFAULT 1, ALTER COLUMN pages SET NOT NULL;
UPDATE sheets SET pages = 1 WHERE pages IS NULL;
ALTER TABLE sheets ALTER COLUMN pages TYPE BIGINT, ALTER COLUMN pages SET DEFAULT 1, ALTER COLUMN pages SET NOT NULL;
SELECT id, pages FROM sheets ORDER BY id;
-- ONLY, and a star.
ALTER TABLE ONLY sheets ADD COLUMN y INTEGER DEFAULT 1;
ALTER TABLE sheets * DROP COLUMN y;
-- Hints of PostgreSQL's own storage.
-- differs: storage-hints: 0A000
ALTER TABLE sheets SET (fillfactor = 70);
-- differs: storage-hints: 0A000
ALTER TABLE sheets ALTER COLUMN code SET STATISTICS 500;
-- differs: storage-hints: 0A000
ALTER TABLE sheets ALTER COLUMN code SET STORAGE EXTERNAL;
-- differs: storage-hints: 0A000
ALTER TABLE sheets CLUSTER ON sheets_pages;
-- differs: storage-hints: 0A000
ALTER TABLE sheets REPLICA IDENTITY FULL;
-- differs: no-functions: 0A000
ALTER TABLE sheets DISABLE TRIGGER ALL;
-- differs: no-unlogged-tables: 0A000
ALTER TABLE sheets SET UNLOGGED;
SELECT count(*) FROM sheets;
