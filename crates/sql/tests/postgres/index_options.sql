-- Indexes: names, DESC, NULLS FIRST, partial, INCLUDE, CONCURRENTLY, unique ones.

CREATE TABLE jobs (id INTEGER PRIMARY KEY, state TEXT NOT NULL, prio INTEGER, due DATE, owner TEXT);
INSERT INTO jobs VALUES (1, 'new', 5, '2024-01-03', 'a'), (2, 'done', 1, '2024-01-01', 'b'), (3, 'new', NULL, NULL, 'a'), (4, 'new', 9, '2024-01-02', NULL);
CREATE INDEX jobs_prio ON jobs (prio DESC);
SELECT id FROM jobs ORDER BY prio DESC;
SELECT id FROM jobs ORDER BY prio DESC NULLS LAST;
CREATE INDEX jobs_due ON jobs (due ASC NULLS FIRST, prio DESC NULLS LAST);
SELECT id FROM jobs ORDER BY due ASC NULLS FIRST, prio DESC NULLS LAST;
SELECT id FROM jobs ORDER BY due LIMIT 2;
SELECT id FROM jobs WHERE due > '2024-01-01' ORDER BY due DESC;
CREATE INDEX jobs_mixed ON jobs (owner DESC, id ASC);
SELECT id FROM jobs ORDER BY owner DESC, id ASC;
SELECT id FROM jobs WHERE owner = 'a' ORDER BY id DESC;
-- Partial.
CREATE INDEX jobs_open ON jobs (prio) WHERE state = 'new';
SELECT id FROM jobs WHERE state = 'new' AND prio > 3 ORDER BY prio;
SELECT id FROM jobs WHERE prio < 3;
UPDATE jobs SET state = 'done' WHERE id = 4;
SELECT id FROM jobs WHERE state = 'new' AND prio IS NOT NULL;
CREATE UNIQUE INDEX jobs_one_new ON jobs (owner) WHERE state = 'new';
DELETE FROM jobs WHERE id = 3;
CREATE UNIQUE INDEX jobs_one_new ON jobs (owner) WHERE state = 'new';
INSERT INTO jobs VALUES (5, 'new', 1, NULL, 'a');
INSERT INTO jobs VALUES (5, 'done', 1, NULL, 'a');
UPDATE jobs SET state = 'new' WHERE id = 5;
INSERT INTO jobs VALUES (6, 'new', 1, NULL, 'a') ON CONFLICT (owner) WHERE state = 'new' DO NOTHING;
-- INCLUDE.
CREATE INDEX jobs_covering ON jobs (state) INCLUDE (prio, due);
SELECT prio, due FROM jobs WHERE state = 'new' ORDER BY prio;
CREATE UNIQUE INDEX jobs_id_incl ON jobs (id) INCLUDE (owner);
INSERT INTO jobs VALUES (5, 'new', 1, NULL, 'zz');
CREATE TABLE incl (a INTEGER, b INTEGER, UNIQUE (a) INCLUDE (b));
INSERT INTO incl VALUES (1, 1), (1, 2);
-- Names that the database gives, and methods.
CREATE INDEX ON jobs (state, prio);
CREATE INDEX ON jobs (state, prio);
DROP INDEX jobs_state_prio_idx;
DROP INDEX jobs_state_prio_idx1;
CREATE INDEX jobs_tree ON jobs USING btree (state);
CREATE INDEX CONCURRENTLY jobs_conc ON jobs (state);
DROP INDEX CONCURRENTLY jobs_conc;
-- differs: index-kinds: 0A000
CREATE INDEX jobs_hash ON jobs USING hash (state);
CREATE INDEX jobs_odd ON jobs USING nosuch (state);
BEGIN;
CREATE INDEX CONCURRENTLY jobs_conc ON jobs (state);
ROLLBACK;
-- NULLs in unique indexes.
CREATE TABLE codes (a INTEGER, b INTEGER);
CREATE UNIQUE INDEX codes_ab ON codes (a, b);
INSERT INTO codes VALUES (1, NULL), (1, NULL), (NULL, NULL);
INSERT INTO codes VALUES (2, 2), (2, 2);
CREATE UNIQUE INDEX codes_a ON codes (a);
CREATE UNIQUE INDEX codes_nn ON codes (b) NULLS NOT DISTINCT;
-- Errors.
CREATE INDEX jobs_prio ON jobs (prio);
CREATE INDEX bad ON jobs (nosuch);
CREATE INDEX bad ON nosuch (a);
CREATE INDEX bad ON jobs (prio) WHERE nosuch = 1;
CREATE INDEX bad ON jobs (prio) WHERE count(*) > 1;
CREATE INDEX bad ON jobs (prio) INCLUDE (nosuch);
CREATE INDEX bad ON jobs ();
DROP INDEX nosuch;
