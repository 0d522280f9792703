-- An afternoon with psql: what people mistype, forget and expect.

CREATE TABLE Orders (Id SERIAL PRIMARY KEY, CustomerName TEXT, "Order Date" DATE, total numeric(8,2));
INSERT INTO orders (customername, "Order Date", total) VALUES ('Ann', '2024-01-15', 99.5), ('Bob', '2024-02-15', 20);
SELECT CustomerName FROM ORDERS ORDER BY ID;
SELECT "CustomerName" FROM orders;
SELECT Order Date FROM orders;
SELECT "Order Date" FROM orders ORDER BY 1;
SELECT * FROM "Orders";
SELECT customer_name FROM orders;
SELECT * FROM oders;
SELECT * FROM orders WHERE customername = "Ann";
SELECT * FROM orders WHERE customername = 'ann';
SELECT * FROM orders WHERE total = 'ninety';
SELECT total FROM orders WHERE id = '1';
-- differs: double-equals: rows
-- | 1	Ann	2024-01-15	99.50
SELECT * FROM orders WHERE id == 1;
SELECT * FROM orders WHERE customername = NULL;
SELECT * FROM orders WHERE id = 1 OR;
SELECT id, sum(total) FROM orders;
SELECT customername, sum(total) AS s FROM orders WHERE s > 10 GROUP BY customername;
-- unordered
-- differs: having-names-columns: rows
-- | Ann	99.50
-- | Bob	20.00
SELECT customername, sum(total) AS s FROM orders GROUP BY customername HAVING s > 10;
SELECT customername, sum(total) AS s FROM orders GROUP BY customername ORDER BY s DESC;
-- differs: other-dialects: 0A000
SELECT TOP 1 * FROM orders;
SELECT * FROM orders LIMIT 1, 1;
SELECT id FROM orders ORDER BY id FETCH FIRST 1 ROW ONLY;
SELECT concat(customername, ':', id) FROM orders ORDER BY id;
SELECT customername + 'x' FROM orders;
-- differs: other-dialects: rows
-- | 99.5
-- | 20
SELECT ifnull(total, 0) FROM orders;
SELECT isnull(total) FROM orders;
SELECT getdate();
SELECT substring(customername, 1, 2) AS s FROM orders ORDER BY id;
SELECT total / 0 FROM orders;
-- differs: another-mistake-first: 42804
INSERT INTO orders VALUES ('Cyd', '2024-03-01', 1);
INSERT INTO orders (customername, total) VALUES ('Cyd');
INSERT INTO orders (customername) VALUES ('Cyd', 5);
INSERT INTO orders (customername, total) VALUES ('Cyd', 1234567.89);
INSERT INTO orders (customername, "Order Date") VALUES ('Cyd', '15/03/2024');
INSERT INTO orders (customername) VALUES ('Cyd'), ('Dan') RETURNING id;
INSERT orders (customername) VALUES ('Eve');
INSERT INTO orders SET customername = 'Eve';
REPLACE INTO orders (id) VALUES (1);
UPDATE orders SET total = total * 1.1 WHERE id = 1 RETURNING total;
-- differs: limit-of-changes: UPDATE 1
UPDATE orders SET total = 5 LIMIT 1;
UPDATE orders SET total = 5, WHERE id = 1;
UPDATE orders o SET o.total = 5 WHERE id = 1;
DELETE orders WHERE id = 1;
DELETE * FROM orders;
DELETE FROM orders WHERE id IN ();
CREATE TABLE orders (id INTEGER);
CREATE TABLE items (id INTEGER PRIMARY KEY AUTO_INCREMENT);
CREATE TABLE items (id INTEGER PRIMARY KEY, order INTEGER);
CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders, note TEXT,);
CREATE TABLE items (id INTEGER PRIMARY KEY order_id INTEGER);
CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER FOREIGN KEY REFERENCES orders (id));
CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders (nosuch));
CREATE TABLE items (id INTEGER PRIMARY KEY, order_id INTEGER REFERENCES orders, note TEXT);
INSERT INTO items VALUES (1, 1, 'it''s'), (2, 1, 'a "b"'), (3, NULL, E'c\'d');
SELECT note FROM items ORDER BY id;
INSERT INTO items VALUES (4, 99, 'x');
-- differs: other-dialects: 0A000
ALTER TABLE items MODIFY COLUMN note VARCHAR(10);
ALTER TABLE items ALTER COLUMN note VARCHAR(10);
ALTER TABLE items ADD note TEXT;
ALTER TABLE items DROP nothere;
ALTER TABLE items RENAME note remark;
DROP TABLE orders;
DROP TABLE item;
DROP TABLES items;
TRUNCATE orders;
-- differs: other-dialects: rows
-- | id	INTEGER	NO	PRIMARY KEY
-- | customername	TEXT	YES	
-- | Order Date	DATE	YES	
-- | total	NUMERIC(8,2)	YES	
DESCRIBE orders;
-- differs: other-dialects: 0A000
SHOW TABLES FROM orders;
-- differs: other-dialects: 0A000
USE orders;
BEGIN;
INSERT INTO items VALUES (5, 1, 'kept?');
INSERT INTO items VALUES (5, 1, 'again');
INSERT INTO items VALUES (6, 1, 'too late');
COMMIT;
SELECT count(*) FROM items;
COMMIT;
ROLLBACK;
SAVEPOINT s;
ROLLBACK TO s;
BEGIN;
RELEASE nosuch;
ROLLBACK;
