-- search_path: where a name without a schema leads.

SELECT current_schema();
CREATE SCHEMA a;
CREATE SCHEMA b;
CREATE TABLE a.t (v TEXT);
CREATE TABLE b.t (v TEXT);
CREATE TABLE t (v TEXT);
INSERT INTO a.t VALUES ('in a');
INSERT INTO b.t VALUES ('in b');
INSERT INTO t VALUES ('in public');
SELECT v FROM t;
SET search_path = a;
SHOW search_path;
SELECT v FROM t;
SELECT current_schema();
SET search_path TO b, a, public;
SELECT v FROM t;
CREATE TABLE made (n INTEGER);
INSERT INTO made VALUES (1);
SELECT n FROM b.made;
SELECT n FROM public.made;
-- A schema that is not there is passed over.
SET search_path = nosuch, a;
SELECT v FROM t;
SET search_path = nosuch;
SELECT v FROM t;
CREATE TABLE u (n INTEGER);
SELECT v FROM a.t;
SET search_path = "a", 'public';
SELECT v FROM t;
DROP TABLE t;
SELECT v FROM t;
SET search_path TO DEFAULT;
SHOW search_path;
SELECT v FROM t;
RESET search_path;
-- SET LOCAL and rollback.
BEGIN;
SET LOCAL search_path = b;
SELECT v FROM t;
COMMIT;
SELECT v FROM t;
BEGIN;
SET search_path = b;
SELECT v FROM t;
ROLLBACK;
SELECT v FROM t;
-- A view and a default remember what they meant.
SET search_path = b, public;
CREATE VIEW shows AS SELECT v FROM t;
CREATE SEQUENCE no START 10;
CREATE TABLE numbered (id INTEGER DEFAULT nextval('no'), v TEXT);
SET search_path = public;
SELECT v FROM b.shows;
INSERT INTO b.numbered (v) VALUES ('x') RETURNING id;
SELECT nextval('no');
-- Each session has its own.
-- session B
SHOW search_path;
SELECT v FROM t;
SET search_path = b;
SELECT v FROM t;
-- session A
SELECT v FROM t;
SELECT set_config('search_path', 'b', false);
SELECT v FROM t;
SET search_path = '';
SELECT v FROM t;
SELECT v FROM public.t;
