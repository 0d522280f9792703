-- CREATE VIEW and what can be asked of one.

CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT NOT NULL, author TEXT, pages INTEGER, price NUMERIC(6, 2));
CREATE TABLE loans (book INTEGER REFERENCES books (id), who TEXT, since DATE, back DATE);
INSERT INTO books VALUES (1, 'Dunes', 'Herb', 412, 9.50), (2, 'Waves', 'Virginia', 220, 7.00), (3, 'Stars', 'Iain', 500, 12.25);
INSERT INTO loans VALUES (1, 'ada', '2024-01-05', NULL), (2, 'bob', '2024-01-07', '2024-01-20'), (1, 'cyd', '2023-12-01', '2023-12-20');
CREATE VIEW thick AS SELECT id, title, pages FROM books WHERE pages > 300;
SELECT * FROM thick ORDER BY id;
SELECT title FROM thick WHERE pages < 450;
-- Names of columns, all or some.
CREATE VIEW priced (book_id, cost) AS SELECT id, price FROM books;
SELECT book_id, cost FROM priced ORDER BY cost DESC;
CREATE VIEW renamed (number) AS SELECT id, title FROM books;
SELECT number, title FROM renamed ORDER BY number LIMIT 1;
CREATE VIEW calculated AS SELECT title, pages * 2 AS sides, upper(author) FROM books;
SELECT * FROM calculated ORDER BY title;
-- Joins, groups, set operations, WITH, and a view over a view.
CREATE VIEW lent AS SELECT b.title, l.who, l.since FROM loans l JOIN books b ON b.id = l.book WHERE l.back IS NULL;
SELECT * FROM lent;
CREATE VIEW by_book AS SELECT book, count(*) AS n, max(since) AS newest FROM loans GROUP BY book HAVING count(*) > 0;
SELECT b.title, v.n, v.newest FROM by_book v JOIN books b ON b.id = v.book ORDER BY b.title;
CREATE VIEW words AS SELECT title AS word FROM books UNION SELECT who FROM loans;
SELECT word FROM words ORDER BY word;
CREATE VIEW with_part AS WITH big AS (SELECT id FROM books WHERE pages >= 412) SELECT count(*) AS n FROM big;
SELECT n FROM with_part;
CREATE VIEW thick_dear AS SELECT t.id, p.cost FROM thick t JOIN priced p ON p.book_id = t.id WHERE p.cost > 10;
SELECT * FROM thick_dear;
CREATE VIEW sorted AS SELECT title FROM books ORDER BY title DESC LIMIT 2;
SELECT title FROM sorted;
CREATE VIEW constants AS SELECT 1 AS one, 'two'::TEXT AS two, DATE '2024-01-01' AS day;
SELECT * FROM constants;
CREATE VIEW from_values AS SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (n, t);
SELECT t, n FROM from_values ORDER BY n DESC;
-- A view shows what its tables have now.
INSERT INTO books VALUES (4, 'Tomes', 'Anon', 1000, 30.00);
SELECT count(*) FROM thick;
SELECT thick.title FROM thick, priced WHERE thick.id = priced.book_id AND cost = 30;
SELECT (SELECT max(pages) FROM thick) AS most;
SELECT title FROM books WHERE id IN (SELECT id FROM thick_dear) ORDER BY title;
CREATE TABLE copied AS SELECT * FROM thick;
SELECT count(*) FROM copied;
-- Columns that a table gets later are not the view's.
CREATE VIEW everything AS SELECT * FROM loans;
ALTER TABLE loans ADD COLUMN fine INTEGER DEFAULT 0;
SELECT * FROM everything WHERE who = 'ada';
-- Errors.
CREATE VIEW thick AS SELECT 1 AS a;
CREATE VIEW books AS SELECT 1 AS a;
CREATE TABLE thick (a INTEGER);
CREATE VIEW bad AS SELECT nosuch FROM books;
CREATE VIEW bad AS SELECT * FROM nosuch;
CREATE VIEW bad AS SELECT id, id FROM books;
CREATE VIEW bad (a, b, c) AS SELECT id, title FROM books;
CREATE VIEW bad (a, a) AS SELECT id, title FROM books;
SELECT * FROM bad;
SELECT nosuch FROM thick;
CREATE INDEX thick_index ON thick (id);
TRUNCATE thick;
-- In a transaction.
BEGIN;
CREATE VIEW passing AS SELECT id FROM books WHERE id < 3;
SELECT count(*) FROM passing;
ROLLBACK;
SELECT count(*) FROM passing;
