-- SQLSTATEs of statements that cannot be planned.

CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT, n INTEGER, day DATE);
CREATE TABLE b (id INTEGER PRIMARY KEY, a INTEGER REFERENCES a (id), name TEXT);
INSERT INTO a VALUES (1, 'one', 1, '2024-01-01'), (2, 'two', 2, '2024-01-02');
INSERT INTO b VALUES (1, 1, 'x'), (2, 1, 'y');
-- Columns and tables.
SELECT nosuch FROM a;
SELECT a.nosuch FROM a;
SELECT x.id FROM a;
SELECT id FROM a, b;
SELECT name FROM a JOIN b ON a.id = b.a;
SELECT a.name FROM a JOIN b USING (nosuch);
SELECT * FROM nosuch;
SELECT * FROM a JOIN a ON true;
SELECT * FROM a AS t, b AS t;
SELECT a.id FROM a AS other;
SELECT nosuch.* FROM a;
SELECT *;
-- Groups and aggregates.
SELECT name, count(*) FROM a;
SELECT name, n FROM a GROUP BY name;
SELECT id, name FROM a GROUP BY id ORDER BY id;
SELECT name FROM a WHERE count(*) > 1;
SELECT sum(count(*)) FROM a;
SELECT n FROM a GROUP BY 5;
SELECT n FROM a ORDER BY 5;
SELECT count(*) FROM a HAVING n > 1;
SELECT a.name FROM a JOIN b ON count(*) > 1;
SELECT row_number() OVER () FROM a WHERE row_number() OVER () = 1;
SELECT DISTINCT name FROM a ORDER BY n;
-- Functions and operators.
SELECT nosuch(1);
SELECT lower(1, 2);
SELECT length(5);
SELECT sum(name) FROM a;
SELECT name + 1 FROM a;
SELECT day + name FROM a;
SELECT n AND true FROM a;
SELECT NOT n FROM a;
SELECT -name FROM a;
SELECT n LIKE 'x' FROM a;
SELECT name = n FROM a;
SELECT day > n FROM a;
SELECT upper(DISTINCT name) FROM a;
SELECT lower(name) OVER () FROM a;
SELECT count() FROM a;
-- Types.
SELECT 'x'::integer;
SELECT CAST(day AS INTEGER) FROM a;
SELECT n::NOTATYPE FROM a;
SELECT CASE WHEN true THEN 1 ELSE 'x' END;
SELECT CASE WHEN 1 THEN 2 END;
SELECT coalesce(n, name) FROM a;
SELECT n FROM a UNION SELECT name FROM a;
SELECT n, id FROM a UNION SELECT n FROM a;
SELECT 1 IN (1, 'x');
SELECT n IN (SELECT name FROM b) FROM a;
VALUES (1, 2), (3);
VALUES (1), ('x');
SELECT * FROM a WHERE n;
SELECT * FROM a LIMIT 'x';
SELECT * FROM a LIMIT -1;
SELECT * FROM a LIMIT n;
SELECT ARRAY[1, 'x'];
-- Subqueries.
SELECT (SELECT id, name FROM a);
SELECT (SELECT id FROM a);
-- differs: subqueries-need-no-name: rows
-- | 1
SELECT * FROM (SELECT 1);
SELECT 1 WHERE 1 = (SELECT id FROM a);
SELECT id FROM a WHERE (id, n) IN (SELECT id FROM a);
WITH w AS (SELECT 1 AS a) SELECT * FROM w, x;
WITH w AS (SELECT 1), w AS (SELECT 2) SELECT * FROM w;
WITH w (p, q) AS (SELECT 1) SELECT * FROM w;
-- Changes.
INSERT INTO a (id, nosuch) VALUES (1, 2);
INSERT INTO a (id, id) VALUES (1, 2);
INSERT INTO a (id, n) VALUES (3, 'x');
INSERT INTO a (id, n) VALUES (3);
INSERT INTO a (id) VALUES (3, 4);
INSERT INTO a (id, day) VALUES (3, 4);
INSERT INTO a (id, n) VALUES (3, day);
UPDATE a SET n = day;
UPDATE a SET n = count(*);
UPDATE a SET n = b.id WHERE b.a = a.id;
DELETE FROM a WHERE nosuch = 1;
DELETE FROM a WHERE n = 'x';
DELETE FROM a WHERE name;
-- Syntax.
SELEC 1;
SELECT FROM WHERE;
SELECT 1 +;
SELECT (1;
INSERT INTO a VALUES;
UPDATE a n = 1;
CREATE TABLE (a INTEGER);
DROP a;
SELECT 'a' 'b';
SELECT 1 AS select;
SELECT * FROM a WHERE id = 1 AND;
-- Values.
SELECT 1 / 0;
SELECT 2147483647 + 1;
SELECT 100000::smallint;
SELECT 1e400::double precision;
SELECT 12345.6::numeric(4, 1);
SELECT sqrt(-1);
SELECT ln(0);
SELECT substr('x', 1, -1);
SELECT 'too long'::varchar(3), 'tr'::boolean;
SELECT 'maybe'::boolean;
SELECT '\xzz'::bytea;
SELECT count(*) FROM a;
