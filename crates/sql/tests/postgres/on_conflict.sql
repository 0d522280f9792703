-- INSERT ... ON CONFLICT DO NOTHING and DO UPDATE.

CREATE TABLE stock (sku TEXT PRIMARY KEY, qty INTEGER NOT NULL DEFAULT 0, note TEXT, bin INTEGER UNIQUE);
INSERT INTO stock VALUES ('pen', 10, NULL, 1), ('cup', 5, 'blue', 2);
INSERT INTO stock VALUES ('pen', 99, 'x', 9) ON CONFLICT DO NOTHING;
INSERT INTO stock VALUES ('pen', 99, 'x', 9), ('hat', 1, NULL, 3) ON CONFLICT (sku) DO NOTHING;
INSERT INTO stock VALUES ('new', 1, NULL, 1) ON CONFLICT DO NOTHING;
INSERT INTO stock VALUES ('new', 1, NULL, 1) ON CONFLICT (sku) DO NOTHING;
INSERT INTO stock VALUES ('new', 1, NULL, 1) ON CONFLICT (bin) DO NOTHING;
INSERT INTO stock VALUES ('pen', 7) ON CONFLICT ON CONSTRAINT stock_pkey DO NOTHING;
INSERT INTO stock VALUES ('twin', 1), ('twin', 2) ON CONFLICT DO NOTHING;
SELECT * FROM stock ORDER BY sku;
-- DO UPDATE, excluded, and the row that is there.
INSERT INTO stock (sku, qty) VALUES ('pen', 3) ON CONFLICT (sku) DO UPDATE SET qty = stock.qty + excluded.qty;
SELECT qty FROM stock WHERE sku = 'pen';
INSERT INTO stock (sku, qty) VALUES ('pen', 1), ('mug', 4) ON CONFLICT (sku) DO UPDATE SET qty = excluded.qty, note = 'was ' || stock.qty;
SELECT sku, qty, note FROM stock WHERE sku IN ('pen', 'mug') ORDER BY sku;
INSERT INTO stock AS s (sku, qty) VALUES ('cup', 2) ON CONFLICT (sku) DO UPDATE SET qty = s.qty * excluded.qty;
SELECT qty FROM stock WHERE sku = 'cup';
INSERT INTO stock (sku) VALUES ('cup') ON CONFLICT (sku) DO UPDATE SET qty = excluded.qty RETURNING sku, qty;
INSERT INTO stock (sku, qty) VALUES ('cup', 8) ON CONFLICT (sku) DO UPDATE SET qty = DEFAULT RETURNING qty;
INSERT INTO stock (sku, qty, note) VALUES ('cup', 8, 'n') ON CONFLICT (sku) DO UPDATE SET (qty, note) = (excluded.qty, excluded.note) RETURNING *;
-- WHERE: a row that it does not want stays, and is not returned.
INSERT INTO stock (sku, qty) VALUES ('cup', 1) ON CONFLICT (sku) DO UPDATE SET qty = excluded.qty WHERE stock.qty < excluded.qty;
INSERT INTO stock (sku, qty) VALUES ('cup', 50) ON CONFLICT (sku) DO UPDATE SET qty = excluded.qty WHERE stock.qty < excluded.qty RETURNING qty;
INSERT INTO stock (sku, qty) VALUES ('cup', 2), ('pot', 2) ON CONFLICT (sku) DO UPDATE SET qty = 0 WHERE stock.note = 'nosuch' RETURNING sku;
INSERT INTO stock (sku, bin) VALUES ('pot2', 2) ON CONFLICT ON CONSTRAINT stock_bin_key DO UPDATE SET note = 'bin taken by ' || excluded.sku RETURNING sku, note;
-- From a query.
CREATE TABLE arrivals (sku TEXT, qty INTEGER);
INSERT INTO arrivals VALUES ('pen', 100), ('fan', 20);
INSERT INTO stock (sku, qty) SELECT sku, qty FROM arrivals WHERE true ON CONFLICT (sku) DO UPDATE SET qty = stock.qty + excluded.qty;
SELECT sku, qty FROM stock ORDER BY sku;
-- One statement does not touch a row twice.
INSERT INTO stock (sku, qty) VALUES ('one', 1), ('one', 2) ON CONFLICT (sku) DO UPDATE SET qty = excluded.qty;
INSERT INTO stock (sku, qty) VALUES ('pen', 1), ('pen', 2) ON CONFLICT (sku) DO UPDATE SET qty = excluded.qty;
SELECT count(*) FROM stock WHERE sku = 'one';
-- Another constraint still holds.
INSERT INTO stock (sku, bin) VALUES ('pen', 2) ON CONFLICT (sku) DO UPDATE SET bin = excluded.bin;
INSERT INTO stock (sku, qty) VALUES ('pen', NULL) ON CONFLICT (sku) DO UPDATE SET qty = 1;
INSERT INTO stock (sku, qty) VALUES ('pen', 1) ON CONFLICT (sku) DO UPDATE SET qty = NULL;
INSERT INTO stock (sku, bin) VALUES ('pen', 2) ON CONFLICT (bin) DO UPDATE SET note = 'both';
-- The key itself changes.
INSERT INTO stock (sku, qty) VALUES ('fan', 1) ON CONFLICT (sku) DO UPDATE SET sku = 'ventilator' RETURNING sku, qty;
-- Keys of two columns, in any order.
CREATE TABLE votes (poll INTEGER, who TEXT, choice TEXT, PRIMARY KEY (poll, who));
INSERT INTO votes VALUES (1, 'ada', 'yes') ON CONFLICT (who, poll) DO UPDATE SET choice = excluded.choice;
INSERT INTO votes VALUES (1, 'ada', 'no') ON CONFLICT (who, poll) DO UPDATE SET choice = excluded.choice;
SELECT * FROM votes;
-- NULL is in nobody's way.
INSERT INTO stock (sku, bin) VALUES ('n1', NULL), ('n2', NULL) ON CONFLICT (bin) DO NOTHING;
-- Errors.
INSERT INTO votes VALUES (1, 'ada', 'x') ON CONFLICT (poll) DO NOTHING;
INSERT INTO votes VALUES (1, 'ada', 'x') ON CONFLICT (nosuch) DO NOTHING;
INSERT INTO votes VALUES (1, 'ada', 'x') ON CONFLICT ON CONSTRAINT nosuch DO NOTHING;
INSERT INTO votes VALUES (1, 'ada', 'x') ON CONFLICT DO UPDATE SET choice = 'y';
INSERT INTO votes VALUES (1, 'ada', 'x') ON CONFLICT (poll, who) DO UPDATE SET nosuch = 1;
INSERT INTO votes VALUES (1, 'ada', 'x') ON CONFLICT (poll, who) DO UPDATE SET choice = excluded.nosuch;
INSERT INTO votes VALUES (1, 'ada', 'x') ON CONFLICT (poll, who) DO UPDATE SET choice = choice || who;
INSERT INTO votes VALUES (1, 'ada', 'x') ON CONFLICT (poll, who) DO UPDATE SET choice = nosuch.choice;
INSERT INTO votes VALUES (2, 'bob', 'x') ON CONFLICT (poll, who) DO UPDATE SET choice = 'y' WHERE count(*) > 1;
SELECT poll, who, choice FROM votes ORDER BY poll;
