-- TRUNCATE of one and of several, CASCADE, RESTRICT, RESTART IDENTITY.

CREATE TABLE logs (id SERIAL PRIMARY KEY, line TEXT);
INSERT INTO logs (line) VALUES ('a'), ('b'), ('c');
TRUNCATE logs;
SELECT count(*) FROM logs;
INSERT INTO logs (line) VALUES ('d') RETURNING id;
TRUNCATE TABLE logs RESTART IDENTITY;
INSERT INTO logs (line) VALUES ('e') RETURNING id;
TRUNCATE logs CONTINUE IDENTITY;
INSERT INTO logs (line) VALUES ('f') RETURNING id;
CREATE TABLE numbered (n INTEGER GENERATED ALWAYS AS IDENTITY (START WITH 50), v TEXT);
INSERT INTO numbered (v) VALUES ('a'), ('b');
TRUNCATE numbered RESTART IDENTITY;
INSERT INTO numbered (v) VALUES ('c') RETURNING n;
-- A sequence that the table does not own goes on.
CREATE SEQUENCE own;
CREATE TABLE lent (n INTEGER DEFAULT nextval('own'));
INSERT INTO lent DEFAULT VALUES;
TRUNCATE lent RESTART IDENTITY;
INSERT INTO lent DEFAULT VALUES RETURNING n;
-- Foreign keys.
CREATE TABLE owners (id SERIAL PRIMARY KEY, name TEXT);
CREATE TABLE pets (id SERIAL PRIMARY KEY, owner INTEGER REFERENCES owners (id));
CREATE TABLE visits (pet INTEGER REFERENCES pets (id), day DATE);
INSERT INTO owners (name) VALUES ('Ann'), ('Ben');
INSERT INTO pets (owner) VALUES (1), (2);
INSERT INTO visits VALUES (1, '2024-01-01');
TRUNCATE owners;
TRUNCATE owners RESTRICT;
TRUNCATE owners, pets;
TRUNCATE visits;
TRUNCATE pets;
TRUNCATE pets, visits;
INSERT INTO pets (owner) VALUES (1) RETURNING id;
INSERT INTO visits VALUES (3, '2024-02-02');
TRUNCATE owners CASCADE;
SELECT (SELECT count(*) FROM owners) AS o, (SELECT count(*) FROM pets) AS p, (SELECT count(*) FROM visits) AS v;
INSERT INTO owners (name) VALUES ('Cyd') RETURNING id;
TRUNCATE owners RESTART IDENTITY CASCADE;
INSERT INTO owners (name) VALUES ('Dan') RETURNING id;
INSERT INTO pets (owner) VALUES (1) RETURNING id;
TRUNCATE owners, pets, visits RESTART IDENTITY;
-- Rolled back, with its numbers.
INSERT INTO logs (line) VALUES ('g'), ('h');
BEGIN;
TRUNCATE logs RESTART IDENTITY;
INSERT INTO logs (line) VALUES ('i') RETURNING id;
ROLLBACK;
SELECT id, line FROM logs ORDER BY id;
INSERT INTO logs (line) VALUES ('j') RETURNING id;
BEGIN;
SAVEPOINT s;
TRUNCATE logs;
ROLLBACK TO s;
COMMIT;
SELECT count(*) FROM logs;
-- What is not there or is no table.
TRUNCATE nosuch;
TRUNCATE logs, nosuch;
SELECT count(*) FROM logs;
CREATE VIEW seen AS SELECT line FROM logs;
TRUNCATE seen;
TRUNCATE own;
TRUNCATE logs, logs;
SELECT count(*) FROM seen;
