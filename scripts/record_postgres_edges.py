#!/usr/bin/env python3
"""Asks PostgreSQL 15 for expressions over the edges of every type, and records its answers for crates/sql/tests/edges.rs.

    scripts/record_postgres_edges.py                    # starts a throw-away cluster (as user postgres, Unix socket only)
    scripts/record_postgres_edges.py "host=/tmp user=postgres dbname=postgres"      # or asks a running one

Writes crates/sql/tests/edges/postgres15/<theme>.txt. The statements are those of scripts/postgres_edges/, made from a fixed
seed: two runs write the same files. The cluster has the locale C.UTF-8; no statement depends on a locale or a time zone.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from postgres_edges import tables, themes  # noqa: E402

FOLDER = pathlib.Path(__file__).parent.parent / "crates/sql/tests/edges/postgres15"
BINARIES = "/usr/lib/postgresql/15/bin"
SETTINGS = """\\set QUIET 1
\\pset format unaligned
\\pset tuples_only on
\\pset fieldsep '\\t'
SET client_min_messages = error;
SET TimeZone = 'UTC';
SET DateStyle = 'ISO, MDY';
SET IntervalStyle = 'postgres';
SET bytea_output = 'hex';
SET extra_float_digits = 1;
SET statement_timeout = '20s';
SET max_parallel_workers_per_gather = 0;
"""
HEAD = """# Recorded from PostgreSQL 15 by scripts/record_postgres_edges.py. Do not edit: run the script again.
# `? statement`, then either `! SQLSTATE`, or `: type, type, ...` and a line `|value<tab>value...` for each row, as COPY
# writes values: \\N is NULL, \\\\ a backslash. `== theme` begins a theme.
"""


class Cluster:
    """A PostgreSQL 15 in a temporary folder, reached by a Unix socket there."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="edges")
        shutil.chown(self.folder, "postgres")
        self.data = f"{self.folder}/data"
        self.run(f"{BINARIES}/initdb -D {self.data} -U postgres -E UTF8 --locale=C.UTF-8 -A trust --no-sync")
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off"
        self.run(f"{BINARIES}/pg_ctl -D {self.data} -w -l {self.folder}/log -o '{options}' start")
        return f"host={self.folder} user=postgres dbname=postgres"

    def __exit__(self, *_):
        self.run(f"{BINARIES}/pg_ctl -D {self.data} -m immediate stop")
        shutil.rmtree(self.folder)

    def run(self, command):
        as_postgres = ["su", "postgres", "-c", command] if os.getuid() == 0 else ["sh", "-c", command]
        subprocess.run(as_postgres, check=True, stdout=subprocess.DEVNULL, cwd="/")


def ask(target, statements):
    """(SQLSTATE, types, rows) of each statement."""
    script = [SETTINGS, "DROP SCHEMA public CASCADE; CREATE SCHEMA public;", tables.sql_for_postgres()]
    for number, sql in enumerate(statements):
        assert "\n" not in sql and ";" not in sql, sql
        # COPY writes values well, but SQLSTATE does not show an error that occurs after the first rows.
        script.append(f"{sql} \\g /dev/null")
        script.append(f"\\echo __rows {number} :SQLSTATE")
        script.append(f"COPY ({sql}) TO STDOUT;")
        script.append("\\echo __types")
        script.append(f"{sql} \\gdesc")
    script.append("\\echo __end")
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write("\n".join(script) + "\n")
        file.flush()
        command = ["psql", "-X", "-q", "-v", "VERBOSITY=sqlstate", "-f", file.name, target]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    lines = done.stdout.split("\n")
    setup = [e for e in done.stderr.split("\n") if e][:1]
    answers = []
    place = 0
    while lines[place] != "__end":
        head, number, state = lines[place].split(" ")
        assert (head, number) == ("__rows", str(len(answers))), (lines[place], setup)
        place += 1
        rows = []
        while lines[place] != "__types":
            rows.append(lines[place])
            place += 1
        place += 1
        types = []
        while not lines[place].startswith(("__rows ", "__end")):
            types.append(lines[place].split("\t")[-1])
            place += 1
        answers.append((state, types, rows))
    assert len(answers) == len(statements)
    return answers


def record(target):
    made = themes.themes()
    for name, statements in made.items():
        assert len(statements) == len(set(statements)), name
    answers = iter(ask(target, [sql for statements in made.values() for sql in statements]))
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    total = size = 0
    for name, statements in made.items():
        out = [HEAD, f"== {name}"]
        asked = failed = 0
        for sql in statements:
            state, types, rows = next(answers)
            # Statements that depend on the time zone are left out.
            if any("with time zone" in t for t in types):
                continue
            asked += 1
            out.append(f"? {sql}")
            if state != "00000":
                failed += 1
                out.append(f"! {state}")
                continue
            assert types, sql
            out.append(": " + ", ".join(types))
            out.extend("|" + row for row in rows)
        text = "\n".join(out) + "\n"
        (FOLDER / f"{name}.txt").write_text(text)
        total += asked
        size += len(text.encode())
        print(f"{name:24} {asked:5} cases, {failed:4} of them errors")
    print(f"{total} cases, {size} bytes")


def main():
    if len(sys.argv) > 1:
        record(sys.argv[1])
        return
    with Cluster() as target:
        record(target)


if __name__ == "__main__":
    main()
