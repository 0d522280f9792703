-- UPDATE SET (a, b) = (...), = (SELECT ...), and UPDATE FROM.

CREATE TABLE cells (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER DEFAULT 7, c TEXT);
CREATE TABLE source (id INTEGER, x INTEGER, y INTEGER, z TEXT);
INSERT INTO cells VALUES (1, 1, 10, 'one'), (2, 2, 20, 'two'), (3, 3, 30, 'three');
INSERT INTO source VALUES (1, 100, 101, 'src1'), (2, 200, 201, 'src2');
UPDATE cells SET (a, b) = (5, 6) WHERE id = 1;
UPDATE cells SET (a, b) = (b, a) WHERE id = 2;
UPDATE cells SET (b, c) = (DEFAULT, upper(c)) WHERE id = 3;
SELECT * FROM cells ORDER BY id;
UPDATE cells SET (a, b) = ROW (8, 9), c = 'row' WHERE id = 1 RETURNING *;
UPDATE cells SET (c) = ROW ('single') WHERE id = 1 RETURNING c;
UPDATE cells SET (c) = ('bare') WHERE id = 1;
UPDATE cells SET (a, b) = (SELECT x, y FROM source WHERE source.id = cells.id);
SELECT * FROM cells ORDER BY id;
UPDATE cells SET (a, c) = (SELECT 1, 'sub'), b = 0 WHERE id = 3 RETURNING a, b, c;
UPDATE cells SET (a, b) = (SELECT max(x), min(y) FROM source) WHERE id = 3 RETURNING a, b;
UPDATE cells SET a = (SELECT count(*) FROM source), (b, c) = (1, 'c') WHERE id = 3 RETURNING a, b, c;
UPDATE cells SET a = s.x + 1, c = s.z FROM source s WHERE s.id = cells.id;
SELECT * FROM cells ORDER BY id;
UPDATE cells t SET (a, c) = (s.y, s.z || '!') FROM source s WHERE s.id = t.id AND t.id = 2 RETURNING t.a, t.c, s.x;
UPDATE cells SET a = cells.a + other.a FROM cells other WHERE other.id = cells.id + 1 AND cells.id = 1 RETURNING cells.a;
-- All right sides are evaluated on the old row.
UPDATE cells SET a = 1, b = 2 WHERE id = 1;
UPDATE cells SET a = b, b = a WHERE id = 1 RETURNING a, b;
UPDATE cells SET (a, b) = (a + b, a - b) WHERE id = 1 RETURNING a, b;
-- Errors.
UPDATE cells SET (a, b) = (1);
UPDATE cells SET (a, b) = (1, 2, 3);
UPDATE cells SET (a, b) = (SELECT 1);
UPDATE cells SET (a, b) = (SELECT x, y FROM source);
UPDATE cells SET (a, a) = (1, 2);
UPDATE cells SET a = 1, (a, b) = (1, 2);
UPDATE cells SET (a, nosuch) = (1, 2);
UPDATE cells SET (a, b) = (SELECT x, nosuch FROM source WHERE id = 1);
UPDATE cells SET a = 1, a = 2;
UPDATE cells SET nosuch = 1;
UPDATE cells SET cells.a = 1;
UPDATE cells SET a = 'text';
UPDATE cells SET a = '12' WHERE id = 1 RETURNING a;
UPDATE cells SET a = c WHERE id = 1;
UPDATE cells SET a = DEFAULT + 1;
UPDATE cells SET id = 2 WHERE id = 1;
UPDATE nosuch SET a = 1;
SELECT * FROM cells ORDER BY id;
