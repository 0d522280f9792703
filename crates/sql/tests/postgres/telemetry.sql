-- Telemetry: sensors, readings by the minute, roll-ups, gaps, retention.

CREATE TABLE sensors (
    id SMALLINT PRIMARY KEY,
    name TEXT NOT NULL,
    unit VARCHAR(8) NOT NULL DEFAULT 'C',
    low REAL,
    high REAL,
    CHECK (low < high)
);
CREATE TABLE readings (
    sensor SMALLINT NOT NULL REFERENCES sensors (id) ON DELETE CASCADE,
    at TIMESTAMP NOT NULL,
    value DOUBLE PRECISION,
    PRIMARY KEY (sensor, at)
);
CREATE INDEX readings_at ON readings (at DESC);
INSERT INTO sensors (id, name, low, high) VALUES (1, 'attic', -10, 50), (2, 'cellar', 0, 25.5);
INSERT INTO sensors VALUES (3, 'door', 'lux', 0, 1000), (4, 'spare', DEFAULT, NULL, NULL);
INSERT INTO sensors VALUES (5, 'bad', 'C', 5, 1);
INSERT INTO readings SELECT 1, '2024-07-01 00:00'::timestamp + n * INTERVAL '1 minute', 20 + n * 0.25 FROM generate_series(0, 119) AS n;
INSERT INTO readings SELECT 2, t, extract(minute FROM t) / 4 FROM generate_series('2024-07-01 00:00'::timestamp, '2024-07-01 02:00', '30 minutes') AS t;
INSERT INTO readings VALUES (1, '2024-07-01 00:05', 99);
INSERT INTO readings VALUES (1, '2024-07-01 00:05', 99), (3, '2024-07-01 00:05', 400), (3, '2024-07-01 00:06', NULL) ON CONFLICT (sensor, at) DO NOTHING;
INSERT INTO readings VALUES (3, '2024-07-01 00:05', 410) ON CONFLICT (sensor, at) DO UPDATE SET value = excluded.value RETURNING value;
SELECT sensor, count(*) AS n, count(value) AS given, min(value), max(value) FROM readings GROUP BY sensor ORDER BY sensor;
SELECT at, value FROM readings WHERE sensor = 1 ORDER BY at DESC LIMIT 3;
SELECT s.name, r.value FROM sensors s JOIN readings r ON r.sensor = s.id WHERE r.at = '2024-07-01 00:30' ORDER BY s.name;
-- The last of each.
SELECT DISTINCT ON (sensor) sensor, at, value FROM readings WHERE value IS NOT NULL ORDER BY sensor, at DESC;
-- Roll-up by the hour, kept up by an upsert.
CREATE TABLE hourly (
    sensor SMALLINT,
    hour TIMESTAMP,
    n INTEGER NOT NULL,
    low DOUBLE PRECISION,
    high DOUBLE PRECISION,
    total DOUBLE PRECISION,
    mean DOUBLE PRECISION GENERATED ALWAYS AS (total / n) STORED,
    PRIMARY KEY (sensor, hour)
);
INSERT INTO hourly (sensor, hour, n, low, high, total)
SELECT sensor, date_trunc('hour', at), count(value), min(value), max(value), sum(value) FROM readings WHERE value IS NOT NULL GROUP BY 1, 2;
SELECT sensor, hour, n, low, high, mean FROM hourly ORDER BY sensor, hour;
INSERT INTO readings VALUES (2, '2024-07-01 02:15', 2.5);
INSERT INTO hourly (sensor, hour, n, low, high, total)
SELECT sensor, date_trunc('hour', at), count(value), min(value), max(value), sum(value) FROM readings WHERE sensor = 2 AND at >= '2024-07-01 02:00' GROUP BY 1, 2
ON CONFLICT (sensor, hour) DO UPDATE SET n = excluded.n, low = excluded.low, high = excluded.high, total = excluded.total
RETURNING n, mean;
-- Gaps: minutes without a reading.
SELECT count(*) AS missing FROM generate_series('2024-07-01 00:00'::timestamp, '2024-07-01 02:00', '1 minute') AS m LEFT JOIN readings r ON r.sensor = 2 AND r.at = m WHERE r.at IS NULL;
SELECT b.bucket, count(r.value) AS n FROM generate_series(0, 3) AS b (bucket) LEFT JOIN readings r ON r.sensor = 1 AND extract(hour FROM r.at) = b.bucket GROUP BY b.bucket ORDER BY b.bucket;
SELECT at, value - lag(value) OVER (ORDER BY at) AS change FROM readings WHERE sensor = 2 ORDER BY at;
-- Values out of bounds.
CREATE VIEW alarms AS SELECT r.sensor, s.name, r.at, r.value FROM readings r JOIN sensors s ON s.id = r.sensor WHERE r.value > s.high OR r.value < s.low;
SELECT count(*) FROM alarms;
UPDATE sensors SET high = 40 WHERE id = 1;
SELECT name, min(at) AS first, count(*) AS n FROM alarms GROUP BY name;
-- A column comes later, with a value for what is there.
ALTER TABLE readings ADD COLUMN quality SMALLINT NOT NULL DEFAULT 100;
UPDATE readings SET quality = 0 WHERE value IS NULL;
SELECT quality, count(*) FROM readings GROUP BY quality ORDER BY quality;
ALTER TABLE readings ALTER COLUMN quality TYPE INTEGER;
SELECT max(quality) FROM readings WHERE sensor = 1;
ALTER TABLE readings ADD CONSTRAINT quality_range CHECK (quality BETWEEN 0 AND 100);
UPDATE readings SET quality = 101 WHERE sensor = 3;
-- Retention.
DELETE FROM readings WHERE at < '2024-07-01 01:00';
SELECT count(*), min(at) FROM readings;
DELETE FROM sensors WHERE id = 1;
SELECT count(*) FROM readings;
INSERT INTO readings VALUES (1, '2024-07-02 00:00', 1);
INSERT INTO readings VALUES (40000, '2024-07-02 00:00', 1);
INSERT INTO readings VALUES (2, 'some time', 1);
TRUNCATE sensors;
TRUNCATE sensors CASCADE;
SELECT count(*) FROM readings;
COPY (SELECT sensor, hour, n FROM hourly ORDER BY sensor, hour) TO STDOUT;
