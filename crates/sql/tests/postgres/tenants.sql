-- Many tenants: once in shared tables with a tenant's number in each key, once in a schema each.

CREATE TABLE tenants (id SERIAL PRIMARY KEY, slug VARCHAR(20) UNIQUE NOT NULL, plan TEXT DEFAULT 'free');
CREATE TABLE projects (
    tenant_id INTEGER NOT NULL REFERENCES tenants ON DELETE CASCADE,
    id INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (tenant_id, id),
    UNIQUE (tenant_id, name)
);
CREATE TABLE tasks (
    tenant_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    no INTEGER NOT NULL,
    title TEXT NOT NULL,
    done BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (tenant_id, project_id, no),
    FOREIGN KEY (tenant_id, project_id) REFERENCES projects (tenant_id, id) ON DELETE CASCADE ON UPDATE CASCADE
);
INSERT INTO tenants (slug) VALUES ('acme'), ('globex') RETURNING id;
INSERT INTO tenants (slug, plan) VALUES ('initech', DEFAULT) RETURNING plan;
INSERT INTO tenants (slug) VALUES ('acme');
INSERT INTO projects VALUES (1, 1, 'web'), (1, 2, 'app'), (2, 1, 'web');
INSERT INTO projects VALUES (1, 3, 'web');
INSERT INTO projects VALUES (9, 1, 'web');
-- The next number within a tenant.
INSERT INTO projects (tenant_id, id, name) SELECT 2, coalesce(max(id), 0) + 1, 'ops' FROM projects WHERE tenant_id = 2 RETURNING id;
INSERT INTO projects (tenant_id, id, name) SELECT 3, coalesce(max(id), 0) + 1, 'first' FROM projects WHERE tenant_id = 3 RETURNING id;
INSERT INTO tasks (tenant_id, project_id, no, title) VALUES (1, 1, 1, 'home'), (1, 1, 2, 'login'), (1, 2, 1, 'icon'), (2, 1, 1, 'home');
INSERT INTO tasks (tenant_id, project_id, no, title) VALUES (2, 9, 1, 'stray');
SELECT p.name, count(t.no) AS tasks FROM projects p LEFT JOIN tasks t ON t.tenant_id = p.tenant_id AND t.project_id = p.id WHERE p.tenant_id = 1 GROUP BY p.name ORDER BY p.name;
UPDATE tasks SET done = true WHERE tenant_id = 1 AND project_id = 1 AND no = 1;
UPDATE projects SET id = 10 WHERE tenant_id = 1 AND id = 1;
SELECT project_id, no, done FROM tasks WHERE tenant_id = 1 ORDER BY project_id, no;
SELECT tn.slug, round(100.0 * count(*) FILTER (WHERE t.done) / count(*), 1) AS percent FROM tenants tn JOIN tasks t ON t.tenant_id = tn.id GROUP BY tn.slug ORDER BY tn.slug;
DELETE FROM tenants WHERE slug = 'acme';
SELECT count(*) FROM tasks WHERE tenant_id = 1;
SELECT tenant_id, count(*) FROM projects GROUP BY tenant_id ORDER BY tenant_id;
-- A schema for each.
CREATE SCHEMA tenant_1;
SET search_path = tenant_1;
CREATE TABLE notes (id SERIAL PRIMARY KEY, body TEXT NOT NULL);
INSERT INTO notes (body) VALUES ('one'), ('two');
CREATE SCHEMA tenant_2;
SET search_path = tenant_2;
CREATE TABLE notes (LIKE tenant_1.notes INCLUDING ALL EXCLUDING DEFAULTS);
INSERT INTO notes (body) VALUES ('no number');
CREATE SEQUENCE notes_id_seq OWNED BY notes.id;
ALTER TABLE notes ALTER COLUMN id SET DEFAULT nextval('notes_id_seq');
INSERT INTO notes (body) VALUES ('first of two') RETURNING id;
SELECT id, body FROM notes ORDER BY id;
SET search_path = tenant_1;
SELECT id, body FROM notes ORDER BY id;
CREATE VIEW latest AS SELECT body FROM notes ORDER BY id DESC LIMIT 1;
SET search_path = tenant_2, public;
SELECT body FROM tenant_1.latest;
SELECT n1.body, n2.body FROM tenant_1.notes n1 JOIN notes n2 USING (id);
SELECT 'tenant_1' AS tenant, count(*) FROM tenant_1.notes UNION ALL SELECT 'tenant_2', count(*) FROM tenant_2.notes ORDER BY tenant;
-- One of them is upgraded, in a transaction that fails, and again.
BEGIN;
ALTER TABLE tenant_1.notes ADD COLUMN pinned BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE tenant_2.notes ADD COLUMN pinned BOOLEAN NOT NULL;
ROLLBACK;
SELECT pinned FROM tenant_1.notes;
BEGIN;
ALTER TABLE tenant_1.notes ADD COLUMN pinned BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE tenant_2.notes ADD COLUMN pinned BOOLEAN NOT NULL DEFAULT false;
COMMIT;
SELECT id, pinned FROM tenant_1.notes ORDER BY id;
ALTER SCHEMA tenant_2 RENAME TO archived_2;
SELECT count(*) FROM archived_2.notes;
DROP SCHEMA tenant_1 CASCADE;
SELECT count(*) FROM tenant_1.notes;
SELECT slug FROM tenants ORDER BY slug;
