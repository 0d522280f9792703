#!/usr/bin/env python3
"""Compares the answers of `lode bench age --out DIR` with DuckDB's on the same rows.

    scripts/install_test_tools.sh          # once: DuckDB for Python
    lode bench age --scale 0.1 --out aged
    scripts/check_aged_answers.py aged

DuckDB reads the refreshed tables from the Parquet files in the directory, runs the queries of
crates/bench/src/tpch/queries, and writes its answers to DIR/duckdb. Cells must agree as in
crates/bench/src/tpch/answers.rs: a DOUBLE of DuckDB (AVG, division) with a relative difference of 1e-9 and one unit in
the last place of Lode's decimal, everything else exactly. Rows that are equal in the columns of ORDER BY may come in any
order.
"""

import argparse
import csv
import decimal
import json
import pathlib
import sys

import duckdb

from reference_answers import TABLES, answer

TOLERANCE = decimal.Decimal("1e-9")
# The columns of ORDER BY of the queries in which they do not fix the place of each row.
PARTIAL = {3: [1, 2], 5: [1], 10: [2], 11: [1], 18: [4, 3]}


def load(data):
    """A DuckDB database in memory with the eight tables of this directory."""
    db = duckdb.connect()
    for table, columns in TABLES.items():
        db.execute(f"CREATE TABLE {table} ({columns})")
        db.execute(f"INSERT INTO {table} SELECT * FROM read_parquet(?)", [str(data / f"{table}.parquet")])
    return db


def read(path):
    """The types of the columns and the rows of an answer; None is NULL."""
    with open(path, newline="") as f:
        lines = list(csv.reader(f))
    kinds = [name.rsplit(":", 1)[1] for name in lines[0]]
    return kinds, [[None if cell == "" else cell for cell in row or [""]] for row in lines[1:]]


def agree(got, got_kind, expected, expected_kind):
    """Whether two cells are equal."""
    if got is None or expected is None:
        return got is expected
    if "double" in (got_kind, expected_kind):
        g, e = decimal.Decimal(got), decimal.Decimal(expected)
        places = len(got.partition(".")[2])
        unit = decimal.Decimal(1).scaleb(-places) if got_kind == "decimal" else 0
        return abs(g - e) <= unit + TOLERANCE * max(abs(g), abs(e))
    if "decimal" in (got_kind, expected_kind):
        return decimal.Decimal(got) == decimal.Decimal(expected)
    return got == expected


def difference(number, got_path, expected_path):
    """What differs between two answers, or None."""
    (got_kinds, got), (kinds, expected) = read(got_path), read(expected_path)
    if len(got_kinds) != len(kinds) or len(got) != len(expected):
        return f"{len(got)} rows of {len(got_kinds)} columns, not {len(expected)} of {len(kinds)}"

    def find(pairs, columns):
        for at, (g, e) in enumerate(pairs):
            for c in columns:
                if not agree(g[c], got_kinds[c], e[c], kinds[c]):
                    return f"row {at + 1}, column {c + 1}: got {g[c]}, expected {e[c]}"
        return None

    everything = range(len(kinds))
    if number not in PARTIAL:
        return find(zip(got, expected), everything)

    def key(row):
        exact = (c for c in everything if "double" not in (got_kinds[c], kinds[c]))
        return [
            str(decimal.Decimal(row[c]).normalize()) if "decimal" in (got_kinds[c], kinds[c]) else str(row[c])
            for c in exact
        ]

    return find(zip(got, expected), PARTIAL[number]) or find(
        zip(sorted(got, key=key), sorted(expected, key=key)), everything
    )


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("dir", type=pathlib.Path, help="the directory of --out")
    args = p.parse_args()
    with open(args.dir / "results.jsonl") as f:
        total = [json.loads(line) for line in f][-1]
    if total["row"] != "total":
        sys.exit(f"{args.dir}: the run did not end")
    # Q11's fraction is computed from the scale's decimal text.
    scale = format(decimal.Decimal(str(total["scale"])), "f")
    db = load(args.dir)
    out = args.dir / "duckdb"
    differing, rows = 0, 0
    for number in range(1, 23):
        rows += answer(db, number, scale, out)
        found = difference(number, args.dir / "answers" / f"q{number}.csv", out / f"q{number}.csv")
        if found:
            differing += 1
            print(f"Q{number}: {found}")
    if differing:
        sys.exit(f"{differing} of 22 answers differ from those of DuckDB {duckdb.__version__}")
    print(f"22 answers ({rows} rows) after {total['round']} rounds at scale {scale} equal those of DuckDB {duckdb.__version__}")


if __name__ == "__main__":
    main()
