-- ON UPDATE CASCADE, SET NULL, SET DEFAULT, RESTRICT, NO ACTION.

CREATE TABLE users (id INTEGER PRIMARY KEY, login TEXT UNIQUE);
INSERT INTO users VALUES (0, 'nobody'), (1, 'ann'), (2, 'ben'), (3, 'cyd'), (4, 'dan'), (5, 'eve');
CREATE TABLE posts (id INTEGER PRIMARY KEY, author INTEGER REFERENCES users (id) ON UPDATE CASCADE);
CREATE TABLE likes (id INTEGER PRIMARY KEY, who INTEGER REFERENCES users (id) ON UPDATE SET NULL);
CREATE TABLE bans (id INTEGER PRIMARY KEY, who INTEGER DEFAULT 0 REFERENCES users (id) ON UPDATE SET DEFAULT);
CREATE TABLE keys (id INTEGER PRIMARY KEY, who INTEGER REFERENCES users (id) ON UPDATE RESTRICT);
CREATE TABLE cards (id INTEGER PRIMARY KEY, who INTEGER REFERENCES users (id));
CREATE TABLE mails (id INTEGER PRIMARY KEY, login TEXT REFERENCES users (login) ON UPDATE CASCADE ON DELETE SET NULL);
INSERT INTO posts VALUES (1, 1), (2, 1), (3, 2);
INSERT INTO likes VALUES (1, 2), (2, 2);
INSERT INTO bans VALUES (1, 3);
INSERT INTO keys VALUES (1, 4);
INSERT INTO cards VALUES (1, 5);
INSERT INTO mails VALUES (1, 'ann'), (2, 'ben'), (3, NULL);
UPDATE users SET id = 11 WHERE id = 1;
SELECT id, author FROM posts ORDER BY id;
UPDATE users SET id = 12 WHERE id = 2;
SELECT id, author FROM posts ORDER BY id;
SELECT id, who FROM likes ORDER BY id;
UPDATE users SET id = 13 WHERE id = 3;
SELECT id, who FROM bans;
UPDATE users SET id = 14 WHERE id = 4;
UPDATE users SET id = 15 WHERE id = 5;
-- A change that leaves the key as it is.
UPDATE users SET login = 'daniel' WHERE id = 4;
UPDATE users SET id = 4 WHERE id = 4;
UPDATE users SET login = 'anna' WHERE login = 'ann';
SELECT id, login FROM mails ORDER BY id;
DELETE FROM users WHERE login = 'ben';
UPDATE likes SET who = NULL;
UPDATE posts SET author = 11;
DELETE FROM users WHERE login = 'ben';
SELECT id, login FROM mails ORDER BY id;
-- Back and forth in one transaction, and rolled back.
BEGIN;
UPDATE users SET id = 21 WHERE id = 11;
SELECT DISTINCT author FROM posts;
UPDATE users SET id = 31 WHERE id = 21;
SELECT DISTINCT author FROM posts;
ROLLBACK;
SELECT DISTINCT author FROM posts;
-- Through several tables, and to itself.
CREATE TABLE a (id INTEGER PRIMARY KEY);
CREATE TABLE b (id INTEGER PRIMARY KEY REFERENCES a (id) ON UPDATE CASCADE ON DELETE CASCADE);
CREATE TABLE c (b INTEGER REFERENCES b (id) ON UPDATE CASCADE ON DELETE CASCADE, n INTEGER CHECK (b < 100));
INSERT INTO a VALUES (1), (2);
INSERT INTO b VALUES (1), (2);
INSERT INTO c VALUES (1, 10), (2, 20);
UPDATE a SET id = id + 50;
SELECT b, n FROM c ORDER BY n;
UPDATE a SET id = 200 WHERE id = 51;
SELECT b, n FROM c ORDER BY n;
CREATE TABLE tree (id INTEGER PRIMARY KEY, up INTEGER REFERENCES tree (id) ON UPDATE CASCADE);
INSERT INTO tree VALUES (1, NULL), (2, 1), (3, 1), (4, 2);
UPDATE tree SET id = 10 WHERE id = 1;
UPDATE tree SET id = 20 WHERE id = 2;
SELECT id, up FROM tree ORDER BY id;
-- A default that no row has, a NULL that is not allowed.
CREATE TABLE d (u INTEGER DEFAULT 77 REFERENCES users (id) ON UPDATE SET DEFAULT);
INSERT INTO d VALUES (0);
UPDATE users SET id = 100 WHERE id = 0;
DELETE FROM d;
DELETE FROM bans;
CREATE TABLE e (u INTEGER NOT NULL REFERENCES users (id) ON UPDATE SET NULL);
INSERT INTO e VALUES (0);
UPDATE users SET id = 100 WHERE id = 0;
-- Keys of two columns.
CREATE TABLE seats (hall INTEGER, no INTEGER, PRIMARY KEY (hall, no));
CREATE TABLE tickets (id INTEGER, hall INTEGER, no INTEGER, FOREIGN KEY (hall, no) REFERENCES seats (hall, no) ON UPDATE CASCADE);
INSERT INTO seats VALUES (1, 1), (1, 2);
INSERT INTO tickets VALUES (1, 1, 1), (2, 1, NULL);
UPDATE seats SET no = no + 10;
SELECT * FROM tickets ORDER BY id;
