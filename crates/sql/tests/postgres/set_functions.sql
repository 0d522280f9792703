-- Functions that return sets: in FROM, with aliases of table and columns, WITH ORDINALITY, in SELECT.

SELECT * FROM generate_series(1, 3);
SELECT n FROM generate_series(1, 3) AS n;
SELECT g.n FROM generate_series(1, 3) AS g (n);
SELECT g FROM generate_series(1, 2) g;
SELECT g.g * 2 AS twice FROM generate_series(1, 3) AS g;
SELECT generate_series FROM generate_series(5, 6);
SELECT n FROM generate_series(10, 1, -3) AS n;
SELECT n FROM generate_series(3, 1) AS n;
SELECT count(*), min(n), max(n), sum(n) FROM generate_series(1, 1000) AS n;
SELECT n FROM generate_series(1, NULL) AS n;
SELECT n FROM generate_series(1, 10, 0) AS n;
SELECT n FROM generate_series(9223372036854775806, 9223372036854775807) AS n;
SELECT n FROM generate_series(0.5, 2.0, 0.5) AS n;
SELECT d::date AS day FROM generate_series('2024-02-27'::timestamp, '2024-03-01'::timestamp, '1 day'::interval) AS d;
SELECT at FROM generate_series('2024-01-01 22:00'::timestamp, '2024-01-02 01:00', '90 minutes') AS at;
SELECT m FROM generate_series('2024-01-31'::timestamp, '2024-05-01'::timestamp, '1 month') AS m;
-- Beside tables, and sideways.
CREATE TABLE stays (id INTEGER, arrive INTEGER, nights INTEGER);
INSERT INTO stays VALUES (1, 3, 2), (2, 7, 1), (3, 9, 0);
SELECT s.id, s.arrive + n AS night FROM stays s, generate_series(0, s.nights - 1) AS n ORDER BY s.id, n;
SELECT s.id, n FROM stays s CROSS JOIN LATERAL generate_series(1, s.nights) AS g (n) ORDER BY 1, 2;
SELECT s.id, g.n FROM stays s LEFT JOIN LATERAL generate_series(1, s.nights) AS g (n) ON true ORDER BY s.id, g.n;
SELECT a, b FROM generate_series(1, 2) AS a, generate_series(1, 2) AS b ORDER BY a, b;
SELECT x.n FROM generate_series(1, 5) AS x (n) JOIN generate_series(3, 9) AS y (n) ON x.n = y.n ORDER BY x.n;
SELECT n FROM generate_series(1, 5) AS n WHERE n % 2 = 1 ORDER BY n DESC;
SELECT n, count(*) FROM (SELECT n % 3 AS n FROM generate_series(1, 10) AS n) AS t GROUP BY n ORDER BY n;
SELECT day.n, count(s.id) AS stays FROM generate_series(3, 9, 3) AS day (n) LEFT JOIN stays s ON s.arrive = day.n GROUP BY day.n ORDER BY day.n;
INSERT INTO stays SELECT n, n * 10, 1 FROM generate_series(10, 12) AS n;
INSERT INTO stays (id, arrive) SELECT * FROM generate_series(20, 21) AS a, generate_series(1, 1) AS b;
SELECT id, arrive FROM stays WHERE id >= 10 ORDER BY id;
UPDATE stays SET nights = g.n FROM generate_series(10, 12) AS g (n) WHERE g.n = stays.id;
DELETE FROM stays USING generate_series(20, 30) AS g (n) WHERE stays.id = g.n;
-- WITH ORDINALITY.
SELECT * FROM generate_series(10, 30, 10) WITH ORDINALITY;
SELECT v, i FROM generate_series(10, 30, 10) WITH ORDINALITY AS t (v, i) WHERE i > 1;
SELECT t.v FROM generate_series(5, 7) WITH ORDINALITY AS t (v, pos) ORDER BY pos DESC;
-- unnest.
SELECT * FROM unnest(ARRAY[3, 1, 2]);
SELECT x FROM unnest(ARRAY['a', 'b', NULL]) AS x;
SELECT u.x, u.i FROM unnest(ARRAY['p', 'q']) WITH ORDINALITY AS u (x, i);
SELECT x, y FROM unnest(ARRAY[1, 2, 3], ARRAY['a', 'b']) AS t (x, y);
SELECT sum(x) FROM unnest(ARRAY[1, 2, 3]) AS x;
SELECT id FROM stays WHERE id IN (SELECT x FROM unnest(ARRAY[1, 3]) AS x) ORDER BY id;
SELECT unnest(ARRAY[1, 2]) AS x;
SELECT generate_series(1, 3) AS n;
SELECT id, generate_series(1, 2) AS copy FROM stays WHERE id < 3 ORDER BY id, copy;
-- Errors.
SELECT m FROM generate_series(1, 3) AS n;
SELECT n FROM generate_series(1) AS n;
SELECT n FROM generate_series('a', 'b') AS n;
SELECT n FROM nosuch(1, 3) AS n;
SELECT * FROM generate_series(1, 2) AS g (a, b);
SELECT x.n FROM generate_series(1, 3) AS g (n);
SELECT n FROM generate_series(1, 3) AS g (n), generate_series(1, 3) AS h (n);
SELECT n FROM generate_series('2024-01-01'::timestamp, '2024-01-02') AS n;
