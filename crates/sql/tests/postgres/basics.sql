-- Tables, keys, changes, transactions and two sessions: what every other script stands on.

CREATE TABLE depots (id INTEGER PRIMARY KEY, city VARCHAR(20) NOT NULL UNIQUE);
CREATE TABLE trucks (
    id BIGINT,
    depot INTEGER REFERENCES depots (id) ON DELETE CASCADE,
    tons NUMERIC(5, 2) CHECK (tons > 0),
    bought DATE,
    seen TIMESTAMP,
    ratio DOUBLE PRECISION,
    ok BOOLEAN,
    tag BYTEA,
    PRIMARY KEY (id)
);
INSERT INTO depots VALUES (1, 'Graz'), (2, 'Linz'), (3, 'Wien');
INSERT INTO trucks VALUES
    (1, 1, 7.5, '2020-02-29', '2024-01-01 10:20:30', 0.5, true, '\x01ff'),
    (2, 1, 12, NULL, '2024-01-01 10:20:30.25', 1e20, false, NULL),
    (3, 2, NULL, '1999-12-31', NULL, NULL, NULL, '\x');
SELECT * FROM trucks ORDER BY id;
-- unordered
SELECT city FROM depots;
SELECT d.city, count(t.id) AS n, sum(t.tons) AS tons FROM depots d LEFT JOIN trucks t ON t.depot = d.id GROUP BY d.city ORDER BY d.city;
INSERT INTO depots VALUES (1, 'Salzburg');
INSERT INTO depots VALUES (4, 'Graz');
INSERT INTO depots VALUES (4, NULL);
INSERT INTO depots (id, city) VALUES (4, 'a name that is much too long');
INSERT INTO trucks (id, depot) VALUES (9, 77);
INSERT INTO trucks (id, tons) VALUES (9, -1);
INSERT INTO nosuch VALUES (1);
SELECT nosuch FROM depots;
SELEC 1;
UPDATE trucks SET tons = tons + 1 WHERE depot = 1;
UPDATE trucks SET tons = 0 WHERE id = 1;
SELECT id, tons FROM trucks WHERE tons IS NOT NULL ORDER BY tons DESC;
DELETE FROM depots WHERE id = 1;
SELECT id FROM trucks;
BEGIN;
INSERT INTO depots VALUES (5, 'Bern');
SAVEPOINT s;
INSERT INTO depots VALUES (5, 'Basel');
SELECT id FROM depots WHERE id = 5;
ROLLBACK TO SAVEPOINT s;
SELECT city FROM depots WHERE id = 5;
-- session B
SELECT city FROM depots WHERE id = 5;
INSERT INTO depots VALUES (6, 'Ulm');
-- session A
SELECT city FROM depots WHERE id = 6;
COMMIT;
SELECT id, city FROM depots ORDER BY id;
BEGIN;
UPDATE depots SET city = 'Köln' WHERE id = 6;
-- session B
UPDATE depots SET city = 'Bonn' WHERE id = 5;
-- session A
-- differs: conflicts-at-commit: UPDATE 1
UPDATE depots SET city = 'Berne' WHERE id = 5;
-- differs: conflicts-at-commit: 40001
COMMIT;
SELECT id, city FROM depots WHERE id >= 5 ORDER BY id;
-- any rows
EXPLAIN SELECT * FROM depots;
DROP TABLE trucks;
DROP TABLE depots;
