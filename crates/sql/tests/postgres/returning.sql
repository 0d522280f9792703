-- RETURNING of INSERT, UPDATE and DELETE.

CREATE TABLE items (id SERIAL PRIMARY KEY, name TEXT NOT NULL, qty INTEGER DEFAULT 1, price NUMERIC(8, 2) DEFAULT 0);
CREATE TABLE kinds (id INTEGER PRIMARY KEY, label TEXT);
INSERT INTO kinds VALUES (1, 'one'), (2, 'two');
INSERT INTO items (name) VALUES ('pen') RETURNING id;
INSERT INTO items (name, qty) VALUES ('cup', 5), ('hat', 7) RETURNING id, name, qty;
INSERT INTO items (name, price) VALUES ('bag', 12.5) RETURNING *;
INSERT INTO items (name, price) VALUES ('box', 2) RETURNING name AS what, price * 2 AS double, upper(name);
INSERT INTO items (name) SELECT label FROM kinds ORDER BY id RETURNING id, name;
INSERT INTO items (name) SELECT label FROM kinds WHERE false RETURNING id;
INSERT INTO items (name) VALUES ('x') RETURNING items.id, items.*;
INSERT INTO items AS i (name) VALUES ('y') RETURNING i.id, i.name;
INSERT INTO items (name) VALUES ('z') RETURNING 1 AS one, NULL AS nothing, now() > '2000-01-01' AS later;
-- UPDATE gives the new values.
UPDATE items SET qty = qty + 10 WHERE id = 1 RETURNING id, qty;
UPDATE items SET price = 3 WHERE price = 0 AND id <= 3 RETURNING id, price;
UPDATE items SET price = 9 WHERE id = 999 RETURNING *;
-- unordered
UPDATE items AS i SET qty = 0 FROM kinds AS k WHERE i.id = k.id RETURNING i.id, i.name, k.label;
UPDATE items SET qty = DEFAULT WHERE id = 2 RETURNING qty, qty IS NULL AS empty;
UPDATE items SET name = name || '!' WHERE id IN (2, 3) RETURNING name, length(name);
-- DELETE gives what was there.
DELETE FROM items WHERE id = 1 RETURNING *;
DELETE FROM items WHERE id = 1 RETURNING *;
-- unordered
DELETE FROM items WHERE name IN ('one', 'two') RETURNING id, name;
DELETE FROM items USING kinds WHERE items.id = kinds.id RETURNING items.name, kinds.label;
SELECT count(*) FROM items;
-- Subqueries and CASE over what is returned.
UPDATE items SET qty = 3 WHERE id = 3 RETURNING (SELECT count(*) FROM kinds) AS kinds, CASE WHEN qty > 2 THEN 'many' ELSE 'few' END AS amount;
-- As a part of a query.
WITH gone AS (DELETE FROM items WHERE id = 3 RETURNING id, name) SELECT name FROM gone;
WITH made AS (INSERT INTO items (name) VALUES ('new') RETURNING id) SELECT count(*) FROM made;
SELECT name FROM items ORDER BY id;
-- Errors: nothing is done.
INSERT INTO items (name) VALUES ('bad') RETURNING nosuch;
UPDATE items SET qty = 1 RETURNING nosuch;
DELETE FROM items RETURNING nosuch.id;
INSERT INTO items (name) VALUES ('bad') RETURNING count(*);
UPDATE items SET qty = 1 RETURNING 1 / (qty - 1);
DELETE FROM items RETURNING sum(qty);
INSERT INTO items (name) VALUES ('bad') RETURNING;
SELECT count(*) FROM items WHERE name = 'bad';
-- A row that violates a constraint returns nothing.
INSERT INTO items (id, name) VALUES (4, 'again') RETURNING id;
INSERT INTO items (name) VALUES ('fine'), (NULL) RETURNING id;
-- In a transaction.
BEGIN;
INSERT INTO items (name) VALUES ('passing') RETURNING name;
UPDATE items SET name = 'passed' WHERE name = 'passing' RETURNING name;
DELETE FROM items WHERE name = 'passed' RETURNING name;
ROLLBACK;
SELECT count(*) FROM items WHERE name LIKE 'pass%';
