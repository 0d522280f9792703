-- DECLARE, FETCH, MOVE, CLOSE.

CREATE TABLE lines (no INTEGER PRIMARY KEY, body TEXT);
INSERT INTO lines SELECT n, 'line ' || n FROM generate_series(1, 20) AS g (n);
DECLARE early CURSOR FOR SELECT no FROM lines;
FETCH 1 FROM early;
BEGIN;
DECLARE c CURSOR FOR SELECT no, body FROM lines ORDER BY no;
FETCH c;
FETCH 2 FROM c;
FETCH NEXT FROM c;
FETCH FORWARD 3 FROM c;
FETCH FORWARD FROM c;
FETCH 0 FROM c;
MOVE 2 IN c;
FETCH c;
MOVE c;
FETCH 100 FROM c;
FETCH c;
CLOSE c;
FETCH c;
ROLLBACK;
-- It shows what was there when it was declared.
BEGIN;
DECLARE old CURSOR FOR SELECT count(*) AS n, sum(no) AS s FROM lines;
DECLARE rows CURSOR FOR SELECT no FROM lines WHERE no > 18 ORDER BY no;
DELETE FROM lines WHERE no = 20;
FETCH ALL FROM old;
FETCH ALL FROM rows;
FETCH ALL FROM rows;
SELECT count(*) FROM lines;
COMMIT;
FETCH old;
-- Backward.
BEGIN;
-- differs: cursors-go-forward: 0A000
DECLARE back SCROLL CURSOR FOR SELECT no FROM lines ORDER BY no LIMIT 5;
-- differs: cursors-go-forward: 25P02
FETCH LAST FROM back;
ROLLBACK;
BEGIN;
DECLARE forward NO SCROLL CURSOR FOR SELECT no FROM lines ORDER BY no;
FETCH 2 FROM forward;
FETCH BACKWARD 1 FROM forward;
ROLLBACK;
-- Several, closed together; a savepoint; an error.
BEGIN;
DECLARE one CURSOR FOR SELECT no FROM lines WHERE no = 1;
DECLARE two CURSOR FOR SELECT no FROM lines WHERE no = 2;
FETCH FROM one;
FETCH FROM two;
CLOSE ALL;
FETCH one;
ROLLBACK;
BEGIN;
SAVEPOINT s;
DECLARE inside CURSOR FOR SELECT 1 AS a;
ROLLBACK TO s;
FETCH inside;
ROLLBACK;
BEGIN;
DECLARE c CURSOR FOR SELECT 1 AS a;
DECLARE c CURSOR FOR SELECT 2 AS a;
ROLLBACK;
BEGIN;
DECLARE fails CURSOR FOR SELECT 1 / (no - 3) AS q FROM lines ORDER BY no;
-- differs: fetch-computes-ahead: 22012
FETCH 2 FROM fails;
-- differs: fetch-computes-ahead: 25P02
FETCH 1 FROM fails;
FETCH 1 FROM fails;
COMMIT;
BEGIN;
DECLARE bad CURSOR FOR SELECT nosuch FROM lines;
ROLLBACK;
BEGIN;
DECLARE bad CURSOR FOR DELETE FROM lines RETURNING no;
ROLLBACK;
BEGIN;
CLOSE nosuch;
ROLLBACK;
CLOSE nosuch;
-- WITH HOLD lives longer than its transaction.
BEGIN;
DECLARE held CURSOR WITH HOLD FOR SELECT no FROM lines ORDER BY no LIMIT 3;
FETCH held;
COMMIT;
FETCH 5 FROM held;
CLOSE held;
DECLARE outside CURSOR WITH HOLD FOR SELECT body FROM lines WHERE no = 4;
FETCH outside;
CLOSE outside;
-- A change of the row that it stands on.
BEGIN;
DECLARE c CURSOR FOR SELECT no FROM lines WHERE no < 4;
FETCH c;
-- differs: no-current-of: 0A000
DELETE FROM lines WHERE CURRENT OF c;
ROLLBACK;
SELECT count(*) FROM lines;
