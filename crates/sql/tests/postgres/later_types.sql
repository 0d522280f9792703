-- Types that Lode does not have yet: they are refused by name, and the next statement runs.

-- differs: types-to-come: 0A000
CREATE TABLE with_zone (id INTEGER PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now());
-- differs: types-to-come: 0A000
CREATE TABLE with_zone2 (id INTEGER PRIMARY KEY, at TIMESTAMP WITH TIME ZONE);
-- differs: types-to-come: 0A000
CREATE TABLE with_uuid (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), name TEXT);
-- differs: types-to-come: 0A000
CREATE TABLE with_json (id INTEGER, doc JSON);
-- differs: types-to-come: 0A000
CREATE TABLE with_jsonb (id INTEGER, doc JSONB NOT NULL DEFAULT '{}');
-- differs: types-to-come: 0A000
CREATE TABLE with_array (id INTEGER, tags TEXT[]);
-- differs: types-to-come: 0A000
CREATE TABLE with_inet (id INTEGER, address INET);
-- differs: types-to-come: 0A000
CREATE TABLE with_time (id INTEGER, opens TIME);
-- differs: types-to-come: 0A000
CREATE TABLE with_interval (id INTEGER, lasts INTERVAL);
-- differs: types-to-come: 0A000
CREATE TABLE with_money (id INTEGER, price MONEY);
-- differs: types-to-come: 0A000
CREATE TABLE with_bits (id INTEGER, bits BIT(8));
-- differs: types-to-come: 0A000
CREATE TABLE with_point (id INTEGER, place POINT);
-- differs: no-own-types: 0A000
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
-- differs: no-own-types: 0A000
CREATE TYPE pair AS (a INTEGER, b TEXT);
-- differs: no-own-types: 0A000
CREATE DOMAIN positive AS INTEGER CHECK (VALUE > 0);
-- A type that nobody has is another error.
CREATE TABLE with_nosuch (id INTEGER, x NOSUCH);
SELECT 1::nosuch;
-- The tables of the same names with types that are there.
CREATE TABLE ok_zone (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT '2024-01-01 00:00');
INSERT INTO ok_zone (id) VALUES (1);
SELECT * FROM ok_zone;
CREATE TABLE ok_json (id INTEGER, doc TEXT NOT NULL DEFAULT '{}');
INSERT INTO ok_json VALUES (1, DEFAULT), (2, '{"a": [1, 2]}');
SELECT id, doc FROM ok_json ORDER BY id;
ALTER TABLE ok_json ADD COLUMN size SMALLINT DEFAULT 2, ADD COLUMN raw BYTEA DEFAULT '\x00', ADD COLUMN ratio REAL DEFAULT 0.1;
SELECT size, raw, ratio FROM ok_json WHERE id = 2;
SELECT 1::int2 AS a, 2::int4 AS b, 3::int8 AS c, 0.5::float4 AS d, 0.25::float8 AS e, 'x'::bpchar AS f, true::bool AS g, 1.5::dec(3, 1) AS h;
CREATE TABLE names_of_types (a int2, b int4, c int8, d float4, e float8, f bool, g character(3), h character varying(4), i dec(4, 1), j float, k float(24), l real);
INSERT INTO names_of_types VALUES (1, 2, 3, 0.5, 0.25, 't', 'abc', 'abcd', 1.5, 2.5, 3.5, 4.5);
SELECT * FROM names_of_types;
