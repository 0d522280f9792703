-- Temporary tables: of one session, in front of others, with ON COMMIT.

CREATE TABLE cart (id INTEGER PRIMARY KEY, item TEXT);
INSERT INTO cart VALUES (1, 'kept');
CREATE TEMPORARY TABLE picks (id INTEGER PRIMARY KEY, item TEXT NOT NULL DEFAULT 'thing');
INSERT INTO picks (id) VALUES (1), (2);
INSERT INTO picks VALUES (2, 'again');
SELECT * FROM picks ORDER BY id;
CREATE INDEX picks_item ON picks (item);
UPDATE picks SET item = 'pen' WHERE id = 2;
SELECT c.item, p.item FROM cart c JOIN picks p ON p.id = c.id;
-- Another session does not see it, and may have its own.
-- session B
SELECT * FROM picks;
CREATE TEMP TABLE picks (other TEXT);
INSERT INTO picks VALUES ('b');
SELECT * FROM picks;
SELECT item FROM cart;
-- session A
SELECT count(*) FROM picks;
-- It hides a table of the same name.
CREATE TEMP TABLE cart (id INTEGER, note TEXT);
SELECT * FROM cart;
INSERT INTO cart VALUES (9, 'temporary');
SELECT id, note FROM cart;
SELECT id, item FROM public.cart;
SELECT note FROM pg_temp.cart;
DROP TABLE cart;
SELECT id, item FROM cart;
CREATE TEMP TABLE picks (a INTEGER);
CREATE TEMP TABLE IF NOT EXISTS picks (a INTEGER);
-- ON COMMIT.
CREATE TEMP TABLE emptied (a INTEGER) ON COMMIT DELETE ROWS;
INSERT INTO emptied VALUES (1);
SELECT count(*) FROM emptied;
BEGIN;
INSERT INTO emptied VALUES (1), (2);
SELECT count(*) FROM emptied;
COMMIT;
SELECT count(*) FROM emptied;
BEGIN;
CREATE TEMP TABLE dropped ON COMMIT DROP AS SELECT 1 AS a, 'x'::TEXT AS b;
SELECT * FROM dropped;
COMMIT;
SELECT * FROM dropped;
CREATE TEMP TABLE kept (a INTEGER) ON COMMIT PRESERVE ROWS;
INSERT INTO kept VALUES (1);
SELECT * FROM kept;
CREATE TABLE bad (a INTEGER) ON COMMIT DROP;
-- Made from a query; with a sequence.
CREATE TEMP TABLE totals AS SELECT count(*) AS n FROM cart;
SELECT n FROM totals;
CREATE TEMP TABLE counted (id SERIAL, v TEXT);
INSERT INTO counted (v) VALUES ('a'), ('b') RETURNING id;
CREATE TEMP SEQUENCE temp_no;
SELECT nextval('temp_no');
CREATE TEMP VIEW seen AS SELECT item FROM picks;
SELECT item FROM seen ORDER BY item;
-- References between both kinds.
CREATE TEMP TABLE child (cart INTEGER REFERENCES public.cart (id));
CREATE TABLE child2 (pick INTEGER REFERENCES picks (id));
CREATE TABLE public.picks (a INTEGER);
SELECT count(*) FROM public.picks;
-- Rolled back.
BEGIN;
CREATE TEMP TABLE passing (a INTEGER);
INSERT INTO passing VALUES (1);
DROP TABLE picks;
ROLLBACK;
SELECT * FROM passing;
SELECT count(*) FROM picks;
CREATE TEMP TABLE public.bad (a INTEGER);
DROP TABLE pg_temp.kept;
SELECT * FROM kept;
-- session B
SELECT other FROM picks;
SELECT n FROM totals;
