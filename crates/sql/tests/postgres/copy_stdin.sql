-- COPY FROM STDIN: text and CSV, defaults, and lines that are wrong.

CREATE TABLE birds (id SERIAL PRIMARY KEY, name TEXT NOT NULL, wings_cm NUMERIC(6, 1), seen DATE, rare BOOLEAN DEFAULT false);
COPY birds (id, name, wings_cm, seen, rare) FROM STDIN;
10	wren	15.5	2024-03-01	f
11	kite	180	2024-03-02	t
12	dove	\N	\N	\N
\.
SELECT * FROM birds ORDER BY id;
-- Some columns: the others get their defaults.
COPY birds (name) FROM STDIN;
robin
crow
\.
SELECT id, name, rare FROM birds WHERE id < 10 ORDER BY id;
COPY birds (name, seen) FROM stdin;
\.
-- Escapes of the text format.
CREATE TABLE texts (id INTEGER, t TEXT);
COPY texts FROM STDIN;
1	tab\there
2	line\nbreak
3	back\\slash
4	
5	\N
6	quote's "too"
7	\x41\101
\.
SELECT id, t, length(t) FROM texts ORDER BY id;
COPY texts FROM STDIN WITH (DELIMITER '|', NULL '-');
8|a	b
9|-
10|\|
\.
SELECT id, t FROM texts WHERE id >= 8 ORDER BY id;
COPY texts FROM STDIN (FORMAT text, HEADER);
id	t
11	after a head
\.
SELECT t FROM texts WHERE id = 11;
-- CSV.
COPY texts FROM STDIN WITH (FORMAT csv);
20,plain
21,"with, comma"
22,"with ""quotes"""
23,
24,""
25,"two
lines"
\.
SELECT id, t, t IS NULL AS empty FROM texts WHERE id BETWEEN 20 AND 29 ORDER BY id;
COPY texts (t, id) FROM STDIN WITH (FORMAT csv, HEADER true, DELIMITER ';', QUOTE '''');
t;id
'semi;colon';30
no quotes;31
\.
SELECT id, t FROM texts WHERE id >= 30 ORDER BY id;
COPY texts FROM STDIN WITH (FORMAT csv, NULL 'none', FORCE_NOT_NULL (t));
40,none
41,
\.
SELECT id, t FROM texts WHERE id >= 40 ORDER BY id;
COPY texts FROM STDIN CSV HEADER;
id,t
50,old style
\.
COPY texts FROM STDIN DELIMITER ',';
51,old too
\.
SELECT id, t FROM texts WHERE id >= 50 ORDER BY id;
-- What is wrong: nothing of it is kept.
COPY birds (id, name) FROM STDIN;
20	swan
20	goose
\.
COPY birds (id, name) FROM STDIN;
21	swan
22	\N
\.
COPY birds (id, name) FROM STDIN;
23	swan
x	goose
\.
COPY birds (id, name) FROM STDIN;
24	swan
25
\.
COPY birds (id, name) FROM STDIN;
26	swan	white
\.
COPY birds (name, seen) FROM STDIN;
swan	2024-02-30
\.
COPY texts FROM STDIN (FORMAT csv);
60,"never closed
\.
SELECT count(*) FROM birds;
COPY nosuch FROM STDIN;
\.
COPY birds (nosuch) FROM STDIN;
\.
COPY birds (id, id) FROM STDIN;
\.
COPY birds FROM STDIN (FORMAT nosuch);
\.
COPY birds FROM STDIN (NOSUCH true);
\.
COPY birds FROM STDIN (DELIMITER 'ab');
\.
-- In a transaction, with a condition, and rolled back.
BEGIN;
COPY birds (name) FROM STDIN;
gull
tern
\.
SELECT count(*) FROM birds WHERE name IN ('gull', 'tern');
ROLLBACK;
SELECT count(*) FROM birds WHERE name IN ('gull', 'tern');
COPY birds (id, name) FROM STDIN WHERE id > 70;
70	ant
71	owl
\.
SELECT name FROM birds WHERE id >= 70;
