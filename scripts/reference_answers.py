#!/usr/bin/env python3
"""Makes data/tpch/sf*/q*.csv: the answers to the 22 queries of TPC-H, by another engine (DuckDB).

    scripts/install_test_tools.sh          # once: DuckDB for Python
    scripts/reference_answers.py           # scales 0.01 and 0.1

The data comes from the `tpchgen` crate, as in `lode load tpch`: the example `tpch_csv` of lode-bench writes them as CSV.
The queries are those of crates/bench/src/tpch/queries. DuckDB computes decimals exactly, and AVG and division as DOUBLE.

Each file is CSV; its header gives `name:type` for each column, and types tell the comparison what must agree exactly:
`double` alone may differ by rounding (see crates/bench/src/tpch/answers.rs). An empty field is NULL. Rows stand in the
order of the query. If a LIMIT cut between equal sort keys, the answer would not be unique; the script refuses that.
"""

import argparse
import csv
import datetime
import decimal
import math
import pathlib
import subprocess
import tempfile

import duckdb

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUERIES = ROOT / "crates/bench/src/tpch/queries"

TABLES = {
    "region": "r_regionkey BIGINT, r_name VARCHAR, r_comment VARCHAR",
    "nation": "n_nationkey BIGINT, n_name VARCHAR, n_regionkey BIGINT, n_comment VARCHAR",
    "part": "p_partkey BIGINT, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR, p_type VARCHAR, p_size INTEGER, "
    "p_container VARCHAR, p_retailprice DECIMAL(15,2), p_comment VARCHAR",
    "supplier": "s_suppkey BIGINT, s_name VARCHAR, s_address VARCHAR, s_nationkey BIGINT, s_phone VARCHAR, "
    "s_acctbal DECIMAL(15,2), s_comment VARCHAR",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INTEGER, ps_supplycost DECIMAL(15,2), "
    "ps_comment VARCHAR",
    "customer": "c_custkey BIGINT, c_name VARCHAR, c_address VARCHAR, c_nationkey BIGINT, c_phone VARCHAR, "
    "c_acctbal DECIMAL(15,2), c_mktsegment VARCHAR, c_comment VARCHAR",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus VARCHAR, o_totalprice DECIMAL(15,2), "
    "o_orderdate DATE, o_orderpriority VARCHAR, o_clerk VARCHAR, o_shippriority INTEGER, o_comment VARCHAR",
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INTEGER, "
    "l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), "
    "l_returnflag VARCHAR, l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, "
    "l_shipinstruct VARCHAR, l_shipmode VARCHAR, l_comment VARCHAR",
}

# Sort keys of the queries with a LIMIT, as columns of the answer, and the LIMIT.
LIMITED = {2: ([0, 2, 1, 3], 100), 3: ([1, 2], 10), 10: ([2], 20), 18: ([4, 3], 100), 21: ([1, 0], 100)}


def query(number, scale):
    """The text of a query; Q11's fraction depends on the scale."""
    text = (QUERIES / f"q{number}.sql").read_text()
    fraction = f"{decimal.Decimal('0.0001') / decimal.Decimal(scale):f}"
    return text.replace("{fraction}", fraction)


def load(data):
    """A DuckDB database in memory with the eight tables of this directory."""
    db = duckdb.connect()
    for table, columns in TABLES.items():
        db.execute(f"CREATE TABLE {table} ({columns})")
        db.execute(f"COPY {table} FROM '{data / table}.csv' (HEADER, DELIMITER ',', QUOTE '\"', ESCAPE '\"')")
    return db


def kind(description):
    """What the comparison must know of a column's type."""
    t = str(description[1]).upper()
    if t.startswith("DECIMAL"):
        return "decimal"
    if t in ("DOUBLE", "FLOAT"):
        return "double"
    if t == "DATE":
        return "date"
    if t in ("VARCHAR", "STRING"):
        return "text"
    if "INT" in t or t == "NUMBER":
        return "integer"
    raise SystemExit(f"a column of type {t} is not expected in an answer")


def field(value):
    """A value as text; NULL is the empty field, and no text may be empty."""
    if value is None:
        return ""
    if isinstance(value, float):
        assert math.isfinite(value)
        return repr(value)
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, datetime.date):
        return value.isoformat()
    text = str(value)
    assert text != "", "an empty text would be taken for NULL"
    return text


def answer(db, number, scale, out):
    """Runs one query and writes its answer."""
    sql = query(number, scale)
    cursor = db.execute(sql)
    header = [f"{d[0]}:{kind(d)}" for d in cursor.description]
    rows = cursor.fetchall()
    if number in LIMITED:
        keys, limit = LIMITED[number]
        more = db.execute(sql.replace(f"LIMIT {limit}", f"LIMIT {limit + 1}")).fetchall()
        if len(more) > limit and [more[limit][k] for k in keys] == [more[limit - 1][k] for k in keys]:
            raise SystemExit(f"Q{number} at scale {scale}: its LIMIT cuts between equal rows, the answer is open")
    out.mkdir(parents=True, exist_ok=True)
    with open(out / f"q{number}.csv", "w", newline="") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow(header)
        w.writerows([field(v) for v in row] for row in rows)
    return len(rows)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--scale", action="append", help="a scale factor (default: 0.01 and 0.1)")
    p.add_argument("--data", type=pathlib.Path, help="a directory with sf<scale>/<table>.csv instead of making them")
    p.add_argument("--out", type=pathlib.Path, default=ROOT / "data/tpch", help="where the answers go")
    args = p.parse_args()
    for scale in args.scale or ["0.01", "0.1"]:
        with tempfile.TemporaryDirectory() as tmp:
            data = (args.data or pathlib.Path(tmp)) / f"sf{scale}"
            if not args.data:
                make = ["cargo", "run", "--quiet", "-p", "lode-bench", "--example", "tpch_csv", "--", scale, str(data)]
                subprocess.run(make, cwd=ROOT, check=True)
            db = load(data)
            counts = [answer(db, n, scale, args.out / f"sf{scale}") for n in range(1, 23)]
            print(f"scale {scale}: rows " + " ".join(f"Q{i + 1}:{c}" for i, c in enumerate(counts)))


if __name__ == "__main__":
    main()
