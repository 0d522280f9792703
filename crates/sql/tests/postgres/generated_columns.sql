-- GENERATED ALWAYS AS (...) STORED.

CREATE TABLE boxes (
    id INTEGER PRIMARY KEY,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL DEFAULT 2,
    area INTEGER GENERATED ALWAYS AS (width * height) STORED,
    title TEXT,
    slug TEXT GENERATED ALWAYS AS (lower(title) || '-' || id) STORED
);
INSERT INTO boxes (id, width, height, title) VALUES (1, 3, 4, 'Tall');
INSERT INTO boxes (id, width) VALUES (2, 5);
INSERT INTO boxes VALUES (3, 6, 7, DEFAULT, 'Wide', DEFAULT);
INSERT INTO boxes VALUES (4, 1);
SELECT * FROM boxes ORDER BY id;
INSERT INTO boxes (id, width, area) VALUES (5, 1, 9);
INSERT INTO boxes VALUES (5, 1, 1, 1);
UPDATE boxes SET width = 10 WHERE id = 1;
SELECT area FROM boxes WHERE id = 1;
UPDATE boxes SET height = height + 1, title = 'Same' WHERE id IN (1, 2);
SELECT id, area, slug FROM boxes WHERE id <= 2 ORDER BY id;
UPDATE boxes SET area = 5 WHERE id = 1;
UPDATE boxes SET area = DEFAULT WHERE id = 1;
INSERT INTO boxes (id, width, height) VALUES (6, 8, 8) RETURNING area, slug;
UPDATE boxes SET id = 60 WHERE id = 6 RETURNING id, area;
INSERT INTO boxes (id, width, height) VALUES (7, 70000, 70000);
-- It can have keys, checks and indexes.
CREATE TABLE members (
    first TEXT, last TEXT,
    whole TEXT GENERATED ALWAYS AS (first || ' ' || last) STORED UNIQUE,
    size INTEGER GENERATED ALWAYS AS (length(first)) STORED CHECK (size < 8)
);
INSERT INTO members VALUES ('Ada', 'Byron');
INSERT INTO members VALUES ('Ada', 'Byron');
INSERT INTO members VALUES ('Wilhelmina', 'X');
INSERT INTO members VALUES (NULL, 'X'), (NULL, 'X');
SELECT whole, size FROM members ORDER BY whole NULLS LAST, size LIMIT 2;
CREATE INDEX members_size ON members (size);
SELECT whole FROM members WHERE size = 3;
-- Added to a table that has rows.
ALTER TABLE boxes ADD COLUMN edge INTEGER GENERATED ALWAYS AS (2 * (width + height)) STORED;
SELECT id, edge FROM boxes ORDER BY id LIMIT 2;
ALTER TABLE boxes ALTER COLUMN edge DROP EXPRESSION;
UPDATE boxes SET edge = 0 WHERE id = 1;
ALTER TABLE boxes ALTER COLUMN width SET DEFAULT 1;
ALTER TABLE boxes ALTER COLUMN area SET DEFAULT 1;
ALTER TABLE boxes DROP COLUMN width;
ALTER TABLE boxes DROP COLUMN width CASCADE;
SELECT * FROM boxes ORDER BY id LIMIT 1;
-- What it cannot be.
CREATE TABLE bad (a INTEGER, b INTEGER GENERATED ALWAYS AS (b + 1) STORED);
CREATE TABLE bad (a INTEGER, b INTEGER GENERATED ALWAYS AS (a + 1) STORED, c INTEGER GENERATED ALWAYS AS (b + 1) STORED);
CREATE TABLE bad (a INTEGER, b TIMESTAMP GENERATED ALWAYS AS (now()) STORED);
CREATE TABLE bad (a INTEGER, b INTEGER GENERATED ALWAYS AS ((SELECT 1)) STORED);
CREATE TABLE bad (a INTEGER, b BIGINT GENERATED ALWAYS AS (sum(a)) STORED);
CREATE TABLE bad (a INTEGER, b INTEGER DEFAULT 1 GENERATED ALWAYS AS (a) STORED);
CREATE TABLE bad (a INTEGER, b DATE GENERATED ALWAYS AS (a) STORED);
CREATE TABLE bad (a INTEGER, b INTEGER GENERATED ALWAYS AS (nosuch) STORED);
CREATE TABLE bad (a INTEGER, b DOUBLE PRECISION GENERATED ALWAYS AS (random()) STORED);
