-- What Lode does not have and means to refuse: each is 0A000, changes nothing, and leaves the session usable.

CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER);
INSERT INTO t VALUES (1, 10), (2, 20);
-- differs: no-functions: 0A000
CREATE FUNCTION twice (n INTEGER) RETURNS INTEGER LANGUAGE sql AS $$ SELECT n * 2 $$;
-- differs: no-functions: 0A000
CREATE OR REPLACE FUNCTION touch () RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    NEW.v := NEW.v + 1;
    RETURN NEW;
END;
$body$;
-- differs: no-functions: 0A000
CREATE TRIGGER t_touch BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION touch();
-- differs: no-functions: 0A000
DROP TRIGGER t_touch ON t;
-- differs: no-functions: 0A000
CREATE PROCEDURE nothing () LANGUAGE sql AS $$ SELECT 1 $$;
-- differs: no-functions: 0A000
CALL nothing();
-- differs: no-functions: 0A000
DO $$ BEGIN PERFORM 1; END $$;
-- differs: no-functions: 0A000
CREATE RULE quiet AS ON DELETE TO t DO INSTEAD NOTHING;
-- differs: no-functions: 0A000
DROP RULE quiet ON t;
DELETE FROM t WHERE id = 2;
-- differs: no-roles: 0A000
CREATE ROLE clerk;
-- differs: no-roles: 0A000
GRANT SELECT, INSERT ON t TO clerk;
-- differs: no-roles: 0A000
REVOKE ALL ON t FROM clerk;
-- differs: no-roles: 0A000
DROP ROLE clerk;
-- differs: no-roles: 0A000
ALTER TABLE t ENABLE ROW LEVEL SECURITY;
-- differs: no-roles: 0A000
CREATE POLICY own ON t USING (v > 0);
-- differs: no-partitions: 0A000
CREATE TABLE parts (id INTEGER, day DATE) PARTITION BY RANGE (day);
-- differs: no-partitions: 0A000
CREATE TABLE parts_2024 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
-- differs: no-partitions: 0A000
CREATE TABLE child (extra TEXT) INHERITS (t);
-- differs: no-unlogged-tables: 0A000
CREATE UNLOGGED TABLE fast (a INTEGER);
-- differs: no-row-locks: 0A000
SELECT id FROM t WHERE id = 1 FOR UPDATE;
BEGIN;
-- differs: no-row-locks: 0A000
LOCK TABLE t IN EXCLUSIVE MODE;
ROLLBACK;
BEGIN;
-- differs: no-serializable: 0A000
SET TRANSACTION ISOLATION LEVEL SERIALIZABLE;
ROLLBACK;
-- differs: no-exclusion-constraints: 0A000
CREATE TABLE halls (id INTEGER, EXCLUDE USING btree (id WITH =));
-- differs: no-two-phase-commit: 0A000
PREPARE TRANSACTION 'one';
-- differs: no-tablesample: 0A000
SELECT count(*) >= 0 AS some FROM t TABLESAMPLE BERNOULLI (50);
-- differs: no-own-collations: 0A000
CREATE COLLATION sorted (locale = 'C');
-- differs: no-extensions: 0A000
CREATE EXTENSION IF NOT EXISTS plpgsql;
-- differs: no-statistics: 0A000
CREATE STATISTICS t_stats ON id, v FROM t;
SELECT id, v FROM t ORDER BY id;
