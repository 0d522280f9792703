-- A queue of jobs: workers take the oldest one, finish it or give it back.

CREATE TABLE jobs (
    id BIGSERIAL PRIMARY KEY,
    kind TEXT NOT NULL,
    payload TEXT NOT NULL DEFAULT '{}',
    state TEXT NOT NULL DEFAULT 'ready',
    priority SMALLINT NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    run_at TIMESTAMP NOT NULL DEFAULT now(),
    last_error TEXT,
    CONSTRAINT jobs_state CHECK (state IN ('ready', 'running', 'done', 'dead'))
);
CREATE INDEX jobs_next ON jobs (priority DESC, run_at, id) WHERE state = 'ready';
CREATE UNIQUE INDEX jobs_once ON jobs (kind, payload) WHERE state IN ('ready', 'running');
INSERT INTO jobs (kind, payload, priority, run_at) VALUES
    ('mail', 'to:ann', 0, '2024-01-01 10:00'),
    ('mail', 'to:ben', 5, '2024-01-01 10:01'),
    ('scan', 'disk1', 0, '2024-01-01 09:00'),
    ('scan', 'disk2', 0, '2999-01-01')
RETURNING id;
INSERT INTO jobs (kind, payload) VALUES ('mail', 'to:ann');
INSERT INTO jobs (kind, payload) VALUES ('mail', 'to:ann') ON CONFLICT DO NOTHING RETURNING id;
-- A worker takes a job.
UPDATE jobs SET state = 'running', worker = 'w1', attempts = attempts + 1
WHERE id = (SELECT id FROM jobs WHERE state = 'ready' AND run_at <= now() ORDER BY priority DESC, run_at, id LIMIT 1)
RETURNING id, kind, payload, attempts;
UPDATE jobs SET state = 'running', worker = 'w2', attempts = attempts + 1
WHERE id = (SELECT id FROM jobs WHERE state = 'ready' AND run_at <= now() ORDER BY priority DESC, run_at, id LIMIT 1)
RETURNING id, kind, payload, attempts;
-- The way that PostgreSQL's queues go.
-- differs: no-row-locks: 0A000
SELECT id FROM jobs WHERE state = 'ready' AND run_at <= now() ORDER BY priority DESC, run_at LIMIT 1 FOR UPDATE SKIP LOCKED;
-- differs: no-row-locks: 0A000
SELECT id FROM jobs WHERE state = 'ready' ORDER BY id FOR UPDATE;
UPDATE jobs SET state = 'done' WHERE id = 2 AND worker = 'w1';
UPDATE jobs SET state = 'done' WHERE id = 2 AND worker = 'w1' AND state = 'running';
-- One failed: later again, with its error.
UPDATE jobs SET state = 'ready', worker = NULL, last_error = 'disk on fire', run_at = run_at + INTERVAL '1 hour' * attempts
WHERE id = 3 RETURNING state, run_at, last_error;
UPDATE jobs SET state = 'lost' WHERE id = 3;
-- Two workers at once: session B waits for none.
BEGIN;
UPDATE jobs SET state = 'running', worker = 'w1' WHERE id = 1;
-- session B
SELECT id, state FROM jobs WHERE id = 1;
UPDATE jobs SET state = 'running', worker = 'w2' WHERE id = 3 RETURNING id;
-- session A
COMMIT;
-- session B
SELECT id, state, worker FROM jobs ORDER BY id;
-- session A
-- The same job: the second one fails.
BEGIN;
SELECT state FROM jobs WHERE id = 4;
-- session B
UPDATE jobs SET state = 'running', worker = 'w2' WHERE id = 4;
-- session A
-- differs: conflicts-at-commit: UPDATE 1
UPDATE jobs SET state = 'running', worker = 'w1' WHERE id = 4;
-- differs: conflicts-at-commit: 40001
COMMIT;
SELECT worker FROM jobs WHERE id = 4;
-- Workers that died.
UPDATE jobs SET state = CASE WHEN attempts >= 1 THEN 'dead' ELSE 'ready' END, worker = NULL
WHERE state = 'running' AND worker IN ('w1', 'w2');
SELECT state, count(*) AS n FROM jobs GROUP BY state ORDER BY state;
-- Done jobs go to the archive.
CREATE TABLE jobs_archive (LIKE jobs INCLUDING DEFAULTS, archived DATE DEFAULT '2024-02-02');
WITH moved AS (DELETE FROM jobs WHERE state IN ('done', 'dead') RETURNING id, kind, payload, state, priority, attempts, worker, run_at, last_error)
INSERT INTO jobs_archive (id, kind, payload, state, priority, attempts, worker, run_at, last_error) SELECT * FROM moved;
SELECT id, kind, state, archived FROM jobs_archive ORDER BY id;
SELECT id, state FROM jobs ORDER BY id;
SELECT kind, count(*) FILTER (WHERE state = 'ready') AS ready, max(attempts) AS most FROM jobs GROUP BY kind ORDER BY kind;
-- A notification is another database's business.
-- differs: no-notifications: 0A000
NOTIFY jobs;
-- differs: no-notifications: 0A000
LISTEN jobs;
-- differs: no-advisory-locks: 42883
SELECT pg_try_advisory_lock(7);
TRUNCATE jobs RESTART IDENTITY;
INSERT INTO jobs (kind) VALUES ('first') RETURNING id;
