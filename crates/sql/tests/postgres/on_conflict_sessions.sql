-- ON CONFLICT of sessions that meet: transactions interleaved, old snapshots, and one who waits in PostgreSQL.

CREATE TABLE counters (name TEXT PRIMARY KEY, n INTEGER NOT NULL);
INSERT INTO counters VALUES ('hits', 1);
-- One after the other.
-- session B
INSERT INTO counters VALUES ('hits', 1) ON CONFLICT (name) DO UPDATE SET n = counters.n + excluded.n RETURNING n;
-- session A
INSERT INTO counters VALUES ('hits', 1) ON CONFLICT (name) DO UPDATE SET n = counters.n + excluded.n RETURNING n;
-- A transaction that began before does not see the row, but meets its key.
BEGIN;
SELECT count(*) FROM counters;
-- session B
INSERT INTO counters VALUES ('late', 1);
-- session A
SELECT count(*) FROM counters WHERE name = 'late';
-- differs: conflicts-at-commit: INSERT 0 1
INSERT INTO counters VALUES ('late', 5) ON CONFLICT (name) DO NOTHING;
-- differs: conflicts-at-commit: 40001
COMMIT;
SELECT name, n FROM counters ORDER BY name;
BEGIN;
SELECT count(*) FROM counters;
-- session B
INSERT INTO counters VALUES ('later', 1);
-- session A
-- differs: conflicts-at-commit: INSERT 0 1
INSERT INTO counters VALUES ('later', 5) ON CONFLICT (name) DO UPDATE SET n = counters.n + 5;
-- differs: conflicts-at-commit: 40001
COMMIT;
SELECT n FROM counters WHERE name = 'later';
-- A row that another changed since.
BEGIN;
SELECT n FROM counters WHERE name = 'hits';
-- session B
UPDATE counters SET n = 100 WHERE name = 'hits';
-- session A
-- differs: conflicts-at-commit: INSERT 0 1
INSERT INTO counters VALUES ('hits', 1) ON CONFLICT (name) DO UPDATE SET n = counters.n + 1;
-- differs: conflicts-at-commit: 40001
COMMIT;
SELECT n FROM counters WHERE name = 'hits';
-- DO NOTHING beside a row that both see changes nothing, and conflicts with nobody.
BEGIN;
SELECT n FROM counters WHERE name = 'hits';
INSERT INTO counters VALUES ('hits', 1) ON CONFLICT DO NOTHING;
-- session B
UPDATE counters SET n = 101 WHERE name = 'hits';
-- session A
COMMIT;
SELECT n FROM counters WHERE name = 'hits';
-- Two that insert one key at once: the second waits in PostgreSQL.
BEGIN;
INSERT INTO counters VALUES ('race', 1);
-- session B
-- differs: no-statement-waits: INSERT 0 1
INSERT INTO counters VALUES ('race', 10) ON CONFLICT (name) DO NOTHING;
-- session A
-- differs: no-statement-waits: 23505
COMMIT;
-- differs: no-statement-waits: rows
-- | 10
SELECT n FROM counters WHERE name = 'race';
DELETE FROM counters WHERE name = 'race';
-- The first is rolled back: the second has the key.
BEGIN;
INSERT INTO counters VALUES ('race', 1);
-- session B
INSERT INTO counters VALUES ('race', 10) ON CONFLICT (name) DO UPDATE SET n = -1;
-- session A
ROLLBACK;
SELECT n FROM counters WHERE name = 'race';
-- Two that count up.
BEGIN;
INSERT INTO counters VALUES ('race', 1) ON CONFLICT (name) DO UPDATE SET n = counters.n + 1;
-- session B
INSERT INTO counters VALUES ('race', 1) ON CONFLICT (name) DO UPDATE SET n = counters.n + 1;
-- session A
-- differs: no-statement-waits: 40001
COMMIT;
-- differs: no-statement-waits: rows
-- | 11
SELECT n FROM counters WHERE name = 'race';
-- session C
INSERT INTO counters SELECT 'bulk' || n, n FROM generate_series(1, 3) AS g (n) ON CONFLICT DO NOTHING;
-- session B
INSERT INTO counters SELECT 'bulk' || n, 0 FROM generate_series(2, 5) AS g (n) ON CONFLICT (name) DO UPDATE SET n = excluded.n;
-- session A
SELECT name, n FROM counters WHERE name LIKE 'bulk%' ORDER BY name;
