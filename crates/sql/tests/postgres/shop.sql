-- A small shop: products, customers, orders, what people ask, and what they get wrong.

CREATE TABLE products (
    id SERIAL PRIMARY KEY,
    sku VARCHAR(12) NOT NULL UNIQUE,
    name TEXT NOT NULL,
    price NUMERIC(10, 2) NOT NULL CHECK (price >= 0),
    stock INTEGER NOT NULL DEFAULT 0 CHECK (stock >= 0),
    active BOOLEAN NOT NULL DEFAULT true
);
CREATE TABLE customers (
    id SERIAL PRIMARY KEY,
    email VARCHAR(100) NOT NULL,
    name TEXT,
    created TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE UNIQUE INDEX customers_email ON customers (lower(email));
CREATE TABLE orders (
    id BIGSERIAL PRIMARY KEY,
    customer_id INTEGER NOT NULL REFERENCES customers (id) ON DELETE RESTRICT,
    state VARCHAR(10) NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'paid', 'sent', 'void')),
    placed DATE NOT NULL DEFAULT CURRENT_DATE
);
CREATE TABLE order_lines (
    order_id BIGINT NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
    line_no SMALLINT NOT NULL,
    product_id INTEGER NOT NULL REFERENCES products (id),
    qty INTEGER NOT NULL DEFAULT 1 CHECK (qty > 0),
    unit_price NUMERIC(10, 2) NOT NULL,
    total NUMERIC(12, 2) GENERATED ALWAYS AS (qty * unit_price) STORED,
    PRIMARY KEY (order_id, line_no)
);
CREATE INDEX order_lines_product ON order_lines (product_id);
INSERT INTO products (sku, name, price, stock) VALUES
    ('TEA-1', 'Green tea', 4.50, 100),
    ('TEA-2', 'Black tea', 3.90, 80),
    ('CUP-1', 'Cup', 8.00, 12),
    ('POT-1', 'Pot', 35.00, 3)
RETURNING id, sku;
INSERT INTO customers (email, name) VALUES ('mia@example.com', 'Mia'), ('Leo@example.com', 'Leo');
INSERT INTO customers (email, name) VALUES ('LEO@example.com', 'Leo again');
BEGIN;
INSERT INTO orders (customer_id, placed) VALUES (1, '2024-05-01') RETURNING id, state;
INSERT INTO order_lines (order_id, line_no, product_id, qty, unit_price) SELECT 1, 1, id, 2, price FROM products WHERE sku = 'TEA-1';
INSERT INTO order_lines (order_id, line_no, product_id, unit_price) SELECT 1, 2, id, price FROM products WHERE sku = 'POT-1';
UPDATE products SET stock = stock - 2 WHERE sku = 'TEA-1' RETURNING stock;
UPDATE products SET stock = stock - 1 WHERE sku = 'POT-1' RETURNING stock;
COMMIT;
SELECT l.line_no, p.name, l.qty, l.total FROM order_lines l JOIN products p ON p.id = l.product_id WHERE l.order_id = 1 ORDER BY l.line_no;
SELECT sum(total) AS due FROM order_lines WHERE order_id = 1;
-- More than there is: the whole order is taken back.
BEGIN;
INSERT INTO orders (customer_id) VALUES (2) RETURNING id;
UPDATE products SET stock = stock - 10 WHERE sku = 'POT-1';
ROLLBACK;
SELECT sku, stock FROM products ORDER BY sku;
INSERT INTO orders (customer_id, placed) VALUES (2, '2024-05-02'), (1, '2024-05-03') RETURNING id;
INSERT INTO order_lines (order_id, line_no, product_id, qty, unit_price) VALUES (3, 1, 2, 3, 3.90), (3, 2, 3, 1, 8), (4, 1, 1, 1, 4.5);
UPDATE orders SET state = 'paid' WHERE id IN (1, 3);
UPDATE orders SET state = 'lost' WHERE id = 4;
CREATE VIEW revenue AS
    SELECT o.placed, count(DISTINCT o.id) AS orders, sum(l.total) AS total
    FROM orders o JOIN order_lines l ON l.order_id = o.id
    WHERE o.state <> 'void'
    GROUP BY o.placed;
SELECT * FROM revenue ORDER BY placed;
SELECT c.name, count(o.id) AS orders, coalesce(sum(l.total), 0) AS spent
FROM customers c
LEFT JOIN orders o ON o.customer_id = c.id AND o.state = 'paid'
LEFT JOIN order_lines l ON l.order_id = o.id
GROUP BY c.id, c.name
ORDER BY spent DESC;
SELECT p.name, coalesce(sum(l.qty), 0) AS sold FROM products p LEFT JOIN order_lines l ON l.product_id = p.id GROUP BY p.name ORDER BY sold DESC, p.name;
-- The supplier sends a list.
CREATE TEMP TABLE delivery (sku TEXT, name TEXT, price NUMERIC(10, 2), qty INTEGER);
COPY delivery FROM STDIN (FORMAT csv, HEADER);
sku,name,price,qty
TEA-1,Green tea,4.70,50
TEA-3,White tea,6.20,20
\.
INSERT INTO products (sku, name, price, stock)
SELECT sku, name, price, qty FROM delivery WHERE qty > 0
ON CONFLICT (sku) DO UPDATE SET price = excluded.price, stock = products.stock + excluded.stock
RETURNING sku, price, stock;
-- What does not work.
DELETE FROM customers WHERE id = 1;
DELETE FROM products WHERE sku = 'TEA-1';
INSERT INTO orders (customer_id) VALUES (99);
INSERT INTO order_lines (order_id, line_no, product_id, qty, unit_price) VALUES (1, 1, 1, 1, 1);
UPDATE products SET price = -1 WHERE id = 1;
INSERT INTO products (sku, name, price) VALUES ('A-SKU-THAT-IS-TOO-LONG', 'x', 1);
DELETE FROM orders WHERE id = 4;
SELECT count(*) FROM order_lines WHERE order_id = 4;
ALTER TABLE products ADD COLUMN discontinued DATE;
UPDATE products SET active = false, discontinued = '2024-06-01' WHERE stock < 5;
SELECT name FROM products WHERE discontinued IS NOT NULL;
