#!/usr/bin/env python3
"""Makes data/mariadb/plans.json and explain.txt: the join orders of a real MariaDB for the 22 queries of TPC-H.

    apt-get install --no-install-recommends mariadb-server      # once
    python3 -m pip install tpchgen-cli                          # once
    scripts/mariadb_plans.py [--scale 1]

YourSQL (Jo et al., VLDB 2016) is held against MariaDB 5.5.42 with tables in InnoDB's way, in pages of 16 KiB, with indexes on
primary and foreign keys. A newer MariaDB plans as that one did once it is told to: see SETTINGS. Of the server only EXPLAIN is
taken, and no time.

The server is started here, on a socket in a temporary folder, and stopped at the end.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
QUERIES = ROOT / "crates/bench/src/tpch/queries"
OUT = ROOT / "data/mariadb"

TABLES = {
    "region": ("r_regionkey INT, r_name CHAR(25), r_comment VARCHAR(152)", "r_regionkey", []),
    "nation": ("n_nationkey INT, n_name CHAR(25), n_regionkey INT, n_comment VARCHAR(152)", "n_nationkey", ["n_regionkey"]),
    "part": (
        "p_partkey INT, p_name VARCHAR(55), p_mfgr CHAR(25), p_brand CHAR(10), p_type VARCHAR(25), p_size INT, "
        "p_container CHAR(10), p_retailprice DECIMAL(15,2), p_comment VARCHAR(23)",
        "p_partkey",
        [],
    ),
    "supplier": (
        "s_suppkey INT, s_name CHAR(25), s_address VARCHAR(40), s_nationkey INT, s_phone CHAR(15), s_acctbal DECIMAL(15,2), "
        "s_comment VARCHAR(101)",
        "s_suppkey",
        ["s_nationkey"],
    ),
    "partsupp": (
        "ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost DECIMAL(15,2), ps_comment VARCHAR(199)",
        "ps_partkey, ps_suppkey",
        ["ps_suppkey"],
    ),
    "customer": (
        "c_custkey INT, c_name VARCHAR(25), c_address VARCHAR(40), c_nationkey INT, c_phone CHAR(15), c_acctbal DECIMAL(15,2), "
        "c_mktsegment CHAR(10), c_comment VARCHAR(117)",
        "c_custkey",
        ["c_nationkey"],
    ),
    "orders": (
        "o_orderkey INT, o_custkey INT, o_orderstatus CHAR(1), o_totalprice DECIMAL(15,2), o_orderdate DATE, "
        "o_orderpriority CHAR(15), o_clerk CHAR(15), o_shippriority INT, o_comment VARCHAR(79)",
        "o_orderkey",
        ["o_custkey"],
    ),
    "lineitem": (
        "l_orderkey INT, l_partkey INT, l_suppkey INT, l_linenumber INT, l_quantity DECIMAL(15,2), "
        "l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag CHAR(1), "
        "l_linestatus CHAR(1), l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct CHAR(25), "
        "l_shipmode CHAR(10), l_comment VARCHAR(44)",
        "l_orderkey, l_linenumber",
        ["l_partkey, l_suppkey", "l_suppkey"],
    ),
}

# What 5.5 did otherwise, or did not have. Selectivity of conditions without an index and statistics of columns came with 10.0.
SETTINGS = {
    "optimizer_use_condition_selectivity": "1",
    "use_stat_tables": "'never'",
    "join_cache_level": "2",
    "optimizer_switch": "'"
    + ",".join(
        [
            "extended_keys=off",
            "exists_to_in=off",
            "orderby_uses_equalities=off",
            "condition_pushdown_for_derived=off",
            "condition_pushdown_for_subquery=off",
            "condition_pushdown_from_having=off",
            "split_materialized=off",
            "rowid_filter=off",
            "optimize_join_buffer_size=off",
        ]
    )
    + "'",
}

# The indexes of index condition pushdown, one for the filter of each query that the paper filters early.
FILTER_INDEXES = {
    2: ("part", "p_size, p_type"),
    5: ("orders", "o_orderdate"),
    8: ("part", "p_type"),
    9: ("part", "p_name"),
    10: ("orders", "o_orderdate"),
    12: ("lineitem", "l_receiptdate, l_shipmode"),
    14: ("lineitem", "l_shipdate"),
    17: ("part", "p_brand, p_container"),
}


class Server:
    """A MariaDB on a socket of its own."""

    def __init__(self, folder):
        self.folder, self.socket = folder, folder / "s"
        user = ["--user=mysql"] if os.geteuid() == 0 else []
        if user:
            shutil.chown(folder, "mysql")
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={folder}/data", "--auth-root-authentication-method=normal", *user],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        self.process = subprocess.Popen(
            ["mariadbd", "--no-defaults", f"--datadir={folder}/data", f"--socket={self.socket}", "--skip-networking", *user]
            + ["--innodb-page-size=16k", "--innodb-buffer-pool-size=1G", "--innodb-flush-log-at-trx-commit=0"]
            + ["--innodb-doublewrite=0", "--innodb-stats-persistent-sample-pages=100", "--local-infile=1", "--innodb-log-file-size=512M"],
            stderr=subprocess.DEVNULL,
        )
        for _ in range(600):
            if self.run("SELECT 1", check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise SystemExit("the server did not start")

    def run(self, sql, database="", check=True, form="--batch"):
        command = ["mariadb", "--no-defaults", f"--socket={self.socket}", "--user=root", "--local-infile=1", form, "--raw"]
        return subprocess.run([*command, database] if database else command, input=sql, text=True, check=check, capture_output=True)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def load(server, scale, folder):
    subprocess.run(["tpchgen-cli", "tbl", "--scale-factor", str(scale), "--output-dir", str(folder)], check=True)
    server.run("CREATE DATABASE tpch CHARACTER SET latin1 COLLATE latin1_bin")
    for table, (columns, key, indexes) in TABLES.items():
        columns = columns.replace(",", " NOT NULL,").replace("(15 NOT NULL,2)", "(15,2)") + " NOT NULL"
        made = "".join(f"ALTER TABLE {table} ADD INDEX ({index});" for index in indexes)
        server.run(
            f"CREATE TABLE {table} ({columns}, PRIMARY KEY ({key})) ENGINE=InnoDB; SET unique_checks=0;"
            f"LOAD DATA LOCAL INFILE '{folder}/{table}.tbl' INTO TABLE {table} FIELDS TERMINATED BY '|'; {made}"
            f"ANALYZE TABLE {table};",
            "tpch",
        )
        print(f"loaded {table}", flush=True)


def query(number, scale):
    fraction = f"{0.0001 / scale:.10f}".rstrip("0")
    return (QUERIES / f"q{number}.sql").read_text().replace("{fraction}", fraction)


def explained(server, sql):
    """The rows of EXPLAIN, each as a dictionary, and their text."""
    settings = "".join(f"SET {name} = {value};" for name, value in SETTINGS.items())
    text = server.run(f"{settings}\nEXPLAIN\n{sql}", "tpch").stdout
    lines = [line.split("\t") for line in text.splitlines()]
    names = [name.lower() for name in lines[0]]
    return [dict(zip(names, line)) for line in lines[1:]], text


def step(row):
    value = lambda name: None if row[name] == "NULL" else row[name]
    return {
        "select": f"{row['id']} {row['select_type']}",
        "table": value("table"),
        "access": value("type"),
        "key": value("key"),
        "ref": value("ref"),
        "rows": value("rows"),
        "extra": row["extra"],
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--scale", type=float, default=1)
    scale = arguments.parse_args().scale
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        (folder / "server").mkdir()
        (folder / "tables").mkdir()
        server = Server(folder / "server")
        try:
            load(server, scale, folder / "tables")
            version = server.run("SELECT version()", form="-sN").stdout.strip().split("-")[0]
            plans = {"mariadb": version, "scale": scale, "settings": SETTINGS, "queries": [], "with_filter_index": []}
            texts = []
            for number in range(1, 23):
                rows, text = explained(server, query(number, scale))
                plans["queries"].append({"query": number, "steps": [step(r) for r in rows]})
                texts.append(f"Q{number}\n{text}")
            for number, (table, columns) in FILTER_INDEXES.items():
                server.run(f"ALTER TABLE {table} ADD INDEX filter_columns ({columns}); ANALYZE TABLE {table};", "tpch")
                rows, text = explained(server, query(number, scale))
                server.run(f"ALTER TABLE {table} DROP INDEX filter_columns; ANALYZE TABLE {table};", "tpch")
                index = f"{table} ({columns})"
                plans["with_filter_index"].append({"query": number, "index": index, "steps": [step(r) for r in rows]})
                texts.append(f"Q{number} with an index on {index}\n{text}")
        finally:
            server.stop()
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "plans.json").write_text(json.dumps(plans, indent=1) + "\n")
    (OUT / "explain.txt").write_text("\n".join(texts))


if __name__ == "__main__":
    main()
