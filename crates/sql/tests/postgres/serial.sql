-- SERIAL, BIGSERIAL, SMALLSERIAL: a sequence of the column's own.

CREATE TABLE guests (id SERIAL PRIMARY KEY, name TEXT NOT NULL);
INSERT INTO guests (name) VALUES ('Ada'), ('Grace');
INSERT INTO guests (name) VALUES ('Edsger') RETURNING id;
SELECT id, name FROM guests ORDER BY id;
SELECT currval('guests_id_seq');
SELECT nextval('guests_id_seq');
INSERT INTO guests VALUES (DEFAULT, 'Barbara') RETURNING id, name;
-- A value given by hand does not move the sequence.
INSERT INTO guests VALUES (6, 'Donald');
INSERT INTO guests (name) VALUES ('Tony');
INSERT INTO guests (name) VALUES ('Tony');
SELECT id, name FROM guests ORDER BY id;
SELECT setval('guests_id_seq', (SELECT max(id) FROM guests));
INSERT INTO guests (name) VALUES ('Leslie') RETURNING id;
-- NOT NULL comes with it.
INSERT INTO guests VALUES (NULL, 'nobody');
-- A rolled back number is not given again.
BEGIN;
INSERT INTO guests (name) VALUES ('Rolled') RETURNING id;
ROLLBACK;
INSERT INTO guests (name) VALUES ('Frances') RETURNING id;
-- A statement that fails uses its numbers up as well.
INSERT INTO guests (name) VALUES ('x'), (NULL);
INSERT INTO guests (name) VALUES ('Radia') RETURNING id;
CREATE TABLE events (id BIGSERIAL, kind VARCHAR(10), PRIMARY KEY (id));
INSERT INTO events (kind) SELECT 'k' || n FROM generate_series(1, 5) AS n ORDER BY n;
SELECT id, kind FROM events ORDER BY id;
SELECT setval('events_id_seq', 4000000000);
INSERT INTO events (kind) VALUES ('far') RETURNING id;
CREATE TABLE tiny (id SMALLSERIAL, v TEXT);
SELECT setval('tiny_id_seq', 32766);
INSERT INTO tiny (v) VALUES ('last') RETURNING id;
INSERT INTO tiny (v) VALUES ('one more');
-- Two of them in one table.
CREATE TABLE pair (a SERIAL, b SERIAL, c INTEGER);
INSERT INTO pair (c) VALUES (1), (2);
INSERT INTO pair (b, c) VALUES (10, 3);
SELECT a, b, c FROM pair ORDER BY c;
SELECT nextval('pair_a_seq') AS a, nextval('pair_b_seq') AS b;
-- The name is taken: another one is made.
CREATE SEQUENCE rooms_id_seq;
CREATE TABLE rooms (id SERIAL PRIMARY KEY, n INTEGER);
INSERT INTO rooms (n) VALUES (1) RETURNING id;
SELECT nextval('rooms_id_seq1');
-- The sequence goes with its table, and not before it.
DROP SEQUENCE guests_id_seq;
DROP TABLE guests;
SELECT nextval('guests_id_seq');
-- What does not work.
CREATE TABLE bad (id SERIAL DEFAULT 5);
CREATE TABLE bad (id SERIAL NULL);
UPDATE pair SET a = DEFAULT WHERE c = 1;
SELECT a FROM pair WHERE c = 1;
