-- DEFAULT: constants, expressions, moments; where it is taken, and what is refused.

CREATE TABLE parcels (
    id INTEGER PRIMARY KEY,
    label TEXT NOT NULL DEFAULT 'unlabelled',
    weight_g INTEGER DEFAULT 250 + 50,
    fragile BOOLEAN NOT NULL DEFAULT false,
    price NUMERIC(8, 2) DEFAULT 4.9,
    rate DOUBLE PRECISION DEFAULT 0.125,
    packed DATE DEFAULT '2024-02-29',
    noted TIMESTAMP DEFAULT now(),
    seal BYTEA DEFAULT '\xcafe',
    code CHAR(3) DEFAULT 'std',
    remark VARCHAR(20) DEFAULT NULL
);
INSERT INTO parcels (id) VALUES (1);
SELECT id, label, weight_g, fragile, price, rate, packed, seal, code, remark FROM parcels;
SELECT now() - noted < INTERVAL '1 hour' AS fresh FROM parcels WHERE id = 1;
-- A value that is named wins, NULL too.
INSERT INTO parcels (id, label, weight_g) VALUES (2, 'books', NULL);
SELECT label, weight_g, price FROM parcels WHERE id = 2;
-- The word DEFAULT stands for it, in one row or in several.
INSERT INTO parcels (id, label, weight_g) VALUES (3, DEFAULT, 10), (4, 'glass', DEFAULT), (5, DEFAULT, DEFAULT);
SELECT id, label, weight_g FROM parcels WHERE id BETWEEN 3 AND 5 ORDER BY id;
-- Fewer values than columns: the rest is filled.
INSERT INTO parcels VALUES (6, 'short row');
SELECT label, weight_g, fragile FROM parcels WHERE id = 6;
INSERT INTO parcels VALUES (7, 'too', 1, true, 1, 1, '2024-01-01', now(), '', 'abc', 'many', 8);
-- A query as the source leaves the other columns to their defaults.
INSERT INTO parcels (id, label) SELECT id + 100, upper(label) FROM parcels WHERE id <= 2;
SELECT id, label, weight_g, fragile FROM parcels WHERE id > 100 ORDER BY id;
UPDATE parcels SET weight_g = DEFAULT, label = DEFAULT WHERE id = 2 OR id = 102;
SELECT id, label, weight_g FROM parcels WHERE id IN (2, 102) ORDER BY id;
UPDATE parcels SET remark = DEFAULT WHERE id = 1;
-- NOT NULL without a default is asked for.
CREATE TABLE crates (id INTEGER DEFAULT 1, owner TEXT NOT NULL);
INSERT INTO crates (id) VALUES (1);
INSERT INTO crates (owner) VALUES ('ada');
INSERT INTO crates DEFAULT VALUES;
CREATE TABLE ticks (n INTEGER DEFAULT 7, t TEXT DEFAULT 'tick');
INSERT INTO ticks DEFAULT VALUES;
INSERT INTO ticks DEFAULT VALUES;
SELECT n, t FROM ticks;
-- A default is checked like any other value.
CREATE TABLE limits (id INTEGER PRIMARY KEY, n INTEGER DEFAULT -1 CHECK (n >= 0));
INSERT INTO limits (id) VALUES (1);
INSERT INTO limits VALUES (1, 1);
-- Moments: one transaction, one moment.
CREATE TABLE log (id INTEGER, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, day DATE DEFAULT CURRENT_DATE);
BEGIN;
INSERT INTO log (id) VALUES (1);
INSERT INTO log (id) VALUES (2), (3);
COMMIT;
SELECT count(DISTINCT at) AS moments, count(*) AS n FROM log;
SELECT bool_and(day = at::date) AS same_day FROM log;
-- Functions in a default.
CREATE TABLE named (id INTEGER, slug TEXT DEFAULT lower('NEW-') || 'x', n INTEGER DEFAULT length('four') * 2);
INSERT INTO named (id) VALUES (1);
SELECT slug, n FROM named;
-- What a default cannot be.
CREATE TABLE bad (a INTEGER, b INTEGER DEFAULT a);
CREATE TABLE bad (a INTEGER DEFAULT (SELECT 1));
CREATE TABLE bad (a INTEGER DEFAULT 'seven');
CREATE TABLE bad (a DATE DEFAULT 7);
CREATE TABLE bad (a INTEGER DEFAULT count(*));
CREATE TABLE bad (a INTEGER DEFAULT nosuch(1));
CREATE TABLE bad (a INTEGER DEFAULT 1 DEFAULT 2);
-- A value that is too long shows when it is used.
CREATE TABLE late (id INTEGER, code VARCHAR(3) DEFAULT 'abcd');
INSERT INTO late (id) VALUES (1);
INSERT INTO late (id, code) VALUES (1, 'abc');
