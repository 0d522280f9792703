-- PREPARE, EXECUTE, DEALLOCATE.

CREATE TABLE users (id SERIAL PRIMARY KEY, name TEXT NOT NULL, age INTEGER, joined DATE DEFAULT '2024-01-01');
PREPARE add_user (TEXT, INTEGER) AS INSERT INTO users (name, age) VALUES ($1, $2) RETURNING id;
EXECUTE add_user ('ann', 30);
EXECUTE add_user ('ben', 20 + 5);
EXECUTE add_user ('cyd', NULL);
PREPARE by_age AS SELECT name FROM users WHERE age > $1 ORDER BY name;
EXECUTE by_age (26);
EXECUTE by_age ('20');
PREPARE older AS UPDATE users SET age = age + $1 WHERE name = $2;
EXECUTE older (1, 'ann');
EXECUTE older (1, 'nobody');
PREPARE gone (INTEGER) AS DELETE FROM users WHERE id = $1 RETURNING name, age;
EXECUTE gone (3);
EXECUTE gone (3);
PREPARE all_users AS SELECT id, name, age FROM users ORDER BY id;
EXECUTE all_users;
PREPARE twice AS SELECT $1::INTEGER + $1::INTEGER AS sum;
EXECUTE twice (21);
PREPARE upsert AS INSERT INTO users (id, name) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET name = excluded.name RETURNING id, name, age;
EXECUTE upsert (1, 'anna');
EXECUTE upsert (50, 'new');
PREPARE values_of AS VALUES ($1::TEXT, 1), ('b', $2);
EXECUTE values_of ('a', 2);
PREPARE since (DATE) AS SELECT count(*) FROM users WHERE joined >= $1;
EXECUTE since ('2024-01-01');
EXECUTE since ('2025-01-01'::DATE);
PREPARE page AS SELECT id FROM users ORDER BY id LIMIT $1 OFFSET $2;
EXECUTE page (1, 1);
-- In transactions; a prepared statement is not rolled back.
BEGIN;
PREPARE within AS SELECT count(*) FROM users;
EXECUTE add_user ('passing', 1);
EXECUTE within;
ROLLBACK;
EXECUTE within;
-- Each session has its own.
-- session B
EXECUTE within;
PREPARE within AS SELECT 'b' AS mine;
EXECUTE within;
-- session A
-- Errors.
EXECUTE nosuch;
EXECUTE add_user ('few');
EXECUTE add_user ('many', 1, 2);
EXECUTE add_user ('bad', 'number');
EXECUTE by_age (DATE '2024-01-01');
EXECUTE twice;
PREPARE all_users AS SELECT 1;
PREPARE bad AS SELECT nosuch FROM users;
PREPARE bad AS SELECT * FROM nosuch;
PREPARE bad (NOTATYPE) AS SELECT $1;
PREPARE bad AS SELECT $0;
PREPARE bad AS CREATE TABLE x (a INTEGER);
EXECUTE upsert (60, NULL);
-- Definitions that change underneath.
ALTER TABLE users ADD COLUMN extra TEXT DEFAULT 'e';
EXECUTE all_users;
EXECUTE add_user ('after', 9);
PREPARE star AS SELECT * FROM users WHERE id = 1;
ALTER TABLE users DROP COLUMN extra;
EXECUTE star;
ALTER TABLE users RENAME TO people;
EXECUTE by_age (1);
ALTER TABLE people RENAME TO users;
EXECUTE by_age (26);
DEALLOCATE by_age;
EXECUTE by_age (1);
DEALLOCATE PREPARE twice;
DEALLOCATE twice;
DEALLOCATE ALL;
EXECUTE all_users;
