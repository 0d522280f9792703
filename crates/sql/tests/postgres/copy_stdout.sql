-- COPY TO STDOUT: tables, columns, queries; text and CSV.

CREATE TABLE songs (id INTEGER PRIMARY KEY, title TEXT, seconds INTEGER, price NUMERIC(5, 2), on_air BOOLEAN, day DATE, at TIMESTAMP, rate DOUBLE PRECISION, raw BYTEA);
INSERT INTO songs VALUES
    (1, 'Blue', 180, 0.99, true, '2024-01-31', '2024-01-31 10:20:30', 0.5, '\x00ff'),
    (2, E'Tab\there', NULL, 12.5, false, NULL, '2024-02-29 23:59:59.25', 1e20, '\x'),
    (3, E'Two\nlines, "quoted"', 0, NULL, NULL, '0001-01-01', NULL, -0.001, NULL),
    (4, '', 5, 1, true, '9999-12-31', '1969-12-31 00:00:00', 3, '\x5c');
COPY songs TO STDOUT;
COPY songs (id, title) TO STDOUT;
COPY (SELECT id, seconds FROM songs WHERE seconds IS NOT NULL ORDER BY seconds DESC) TO STDOUT;
COPY (SELECT title, count(*) AS n FROM songs WHERE id < 3 GROUP BY title ORDER BY title) TO STDOUT WITH (FORMAT csv, HEADER);
COPY songs TO STDOUT WITH (FORMAT csv);
COPY songs (id, title, price) TO STDOUT (FORMAT csv, HEADER true, DELIMITER ';');
-- differs: copy-options: 42601
COPY songs (id, title) TO STDOUT (FORMAT csv, FORCE_QUOTE *);
COPY songs (id, title) TO STDOUT (FORMAT csv, QUOTE '''', NULL 'none');
COPY songs (id, price, on_air) TO STDOUT (NULL '-', DELIMITER '|');
COPY songs (id, on_air) TO STDOUT (HEADER);
COPY songs (id) TO STDOUT CSV HEADER;
COPY (VALUES (1, 'a'), (2, 'b|c')) TO STDOUT DELIMITER '|';
COPY (SELECT 1 WHERE false) TO STDOUT;
COPY (SELECT NULL, '', '\N', '\.', E'\\') TO STDOUT;
COPY (SELECT NULL, '', '\N', 'a,b') TO STDOUT (FORMAT csv);
-- Changes may be copied as well.
COPY (INSERT INTO songs (id, title) VALUES (5, 'New') RETURNING id, title) TO STDOUT;
COPY (UPDATE songs SET seconds = 9 WHERE id = 5 RETURNING seconds) TO STDOUT;
COPY (DELETE FROM songs WHERE id = 5 RETURNING id) TO STDOUT;
CREATE VIEW short_songs AS SELECT id, title FROM songs WHERE seconds < 100;
COPY (SELECT * FROM short_songs ORDER BY id) TO STDOUT;
-- Errors.
-- differs: views-are-copied: rows
-- > 3	Two\nlines, "quoted"
-- > 4	
COPY short_songs TO STDOUT;
COPY nosuch TO STDOUT;
COPY songs (nosuch) TO STDOUT;
COPY (SELECT nosuch FROM songs) TO STDOUT;
COPY (DELETE FROM songs) TO STDOUT;
COPY songs TO STDOUT (FORMAT csv, DELIMITER '"');
COPY songs TO STDOUT (QUOTE '"');
COPY songs TO STDOUT (FORMAT csv, FORMAT text);
COPY songs TO STDOUT (HEADER maybe);
COPY (SELECT 1 / 0) TO STDOUT;
-- differs: copy-options: 0A000
COPY songs TO STDOUT (FORMAT csv, FORCE_QUOTE (nosuch));
SELECT count(*) FROM songs;
