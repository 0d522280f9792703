-- Ends of sequences, cycles, and options that contradict one another.

CREATE SEQUENCE small MAXVALUE 3;
SELECT nextval('small'), nextval('small'), nextval('small');
SELECT nextval('small');
SELECT nextval('small');
SELECT setval('small', 4);
ALTER SEQUENCE small CYCLE;
SELECT nextval('small');
ALTER SEQUENCE small NO CYCLE MAXVALUE 2;
SELECT nextval('small');
SELECT nextval('small');
ALTER SEQUENCE small NO MAXVALUE;
SELECT nextval('small');
CREATE SEQUENCE down INCREMENT BY -1 MINVALUE -2;
SELECT nextval('down'), nextval('down');
SELECT nextval('down');
CREATE SEQUENCE wheel MINVALUE 10 MAXVALUE 12 START 11 CYCLE;
SELECT nextval('wheel') FROM generate_series(1, 5);
CREATE SEQUENCE narrow AS SMALLINT;
SELECT setval('narrow', 32767);
SELECT nextval('narrow');
CREATE SEQUENCE wide;
SELECT setval('wide', 9223372036854775807);
SELECT nextval('wide');
CREATE SEQUENCE stepping INCREMENT BY 1000000000000000000 CACHE 1;
SELECT nextval('stepping') FROM generate_series(1, 3);
-- A table whose numbers run out.
CREATE SEQUENCE seat_no MAXVALUE 2;
CREATE TABLE seats (no INTEGER DEFAULT nextval('seat_no'), who TEXT);
INSERT INTO seats (who) VALUES ('a'), ('b');
INSERT INTO seats (who) VALUES ('c');
SELECT no, who FROM seats ORDER BY no;
-- A number that the column cannot hold.
CREATE SEQUENCE big_no START 3000000000;
CREATE TABLE small_column (n INTEGER DEFAULT nextval('big_no'), who TEXT);
INSERT INTO small_column (who) VALUES ('a');
-- Options.
CREATE SEQUENCE bad INCREMENT BY 0;
CREATE SEQUENCE bad MINVALUE 5 MAXVALUE 5 START 5;
CREATE SEQUENCE bad MINVALUE 10 MAXVALUE 5;
CREATE SEQUENCE bad START 0;
CREATE SEQUENCE bad START 11 MAXVALUE 10;
CREATE SEQUENCE bad AS SMALLINT MAXVALUE 40000;
CREATE SEQUENCE bad AS TEXT;
CREATE SEQUENCE bad CACHE 0;
CREATE SEQUENCE bad INCREMENT BY 1 INCREMENT BY 2;
ALTER SEQUENCE wheel MAXVALUE 9;
ALTER SEQUENCE wheel RESTART WITH 13;
SELECT nextval('nosuch');
SELECT setval('nosuch', 1);
SELECT nextval(NULL);
