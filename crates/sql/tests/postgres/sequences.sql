-- CREATE, ALTER and DROP SEQUENCE; nextval, currval, setval, lastval.

CREATE SEQUENCE invoice_no;
SELECT nextval('invoice_no');
SELECT nextval('invoice_no');
SELECT currval('invoice_no');
SELECT lastval();
CREATE SEQUENCE batch_no START WITH 1000 INCREMENT BY 10;
SELECT currval('batch_no');
SELECT nextval('batch_no') AS first, nextval('batch_no') AS second;
SELECT lastval();
SELECT currval('invoice_no');
-- setval: the next value is one step on, unless it was not called yet.
SELECT setval('invoice_no', 50);
SELECT nextval('invoice_no');
SELECT setval('invoice_no', 80, false);
SELECT currval('invoice_no');
SELECT nextval('invoice_no');
SELECT setval('invoice_no', 90, true);
SELECT currval('invoice_no');
SELECT lastval();
SELECT setval('invoice_no', 0);
SELECT last_value, is_called FROM batch_no;
-- As a default, and in values.
CREATE TABLE invoices (no BIGINT DEFAULT nextval('invoice_no') PRIMARY KEY, batch INTEGER);
INSERT INTO invoices (batch) VALUES (1), (1), (2);
INSERT INTO invoices VALUES (nextval('batch_no'), 3);
SELECT no, batch FROM invoices ORDER BY no;
SELECT nextval('batch_no') FROM generate_series(1, 3);
-- Nothing of it is rolled back.
BEGIN;
SELECT nextval('invoice_no');
ROLLBACK;
SELECT nextval('invoice_no');
-- Another session gets other numbers, and has no current value of its own.
-- session B
SELECT currval('invoice_no');
SELECT lastval();
SELECT nextval('invoice_no');
-- session A
SELECT currval('invoice_no');
SELECT nextval('invoice_no');
-- Changes.
ALTER SEQUENCE batch_no INCREMENT BY -10;
SELECT nextval('batch_no');
ALTER SEQUENCE batch_no RESTART;
SELECT nextval('batch_no');
ALTER SEQUENCE batch_no RESTART WITH 5 INCREMENT BY 1;
SELECT nextval('batch_no'), nextval('batch_no');
ALTER SEQUENCE batch_no RENAME TO lot_no;
SELECT nextval('lot_no');
SELECT nextval('batch_no');
ALTER SEQUENCE nosuch RESTART;
ALTER SEQUENCE IF EXISTS nosuch RESTART;
-- A default keeps its sequence.
DROP SEQUENCE invoice_no;
DROP SEQUENCE invoice_no CASCADE;
INSERT INTO invoices (batch) VALUES (9);
CREATE SEQUENCE lot_no;
CREATE SEQUENCE IF NOT EXISTS lot_no;
DROP SEQUENCE lot_no;
DROP SEQUENCE lot_no;
DROP SEQUENCE IF EXISTS lot_no;
DROP SEQUENCE invoices;
SELECT nextval('invoices');
-- A transaction makes one, and takes it back.
BEGIN;
CREATE SEQUENCE passing;
SELECT nextval('passing');
ROLLBACK;
SELECT nextval('passing');
-- Owned by a column.
CREATE SEQUENCE owned_no OWNED BY invoices.no;
DROP TABLE invoices;
SELECT nextval('owned_no');
