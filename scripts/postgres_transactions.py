#!/usr/bin/env python3
"""Runs crates/sql/tests/transactions.txt and errors.txt against PostgreSQL, and prints each answer that differs from the file.

    scripts/postgres_transactions.py "host=/tmp user=postgres dbname=postgres"

Each line is `SESSION: statement -> answer`; `-> ours / theirs` where the two differ on purpose. Sessions are psql processes,
BEGIN is BEGIN ISOLATION LEVEL REPEATABLE READ. A statement that blocks in PostgreSQL must not be in the file.
"""
import pathlib
import re
import subprocess
import sys

TESTS = pathlib.Path(__file__).parent.parent / "crates/sql/tests"
FILES = [TESTS / "transactions.txt", TESTS / "errors.txt"]


class Session:
    def __init__(self, target):
        command = ["psql", "-X", "-q", "-At", "-F", ",", "-v", "VERBOSITY=sqlstate", target]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def ask(self, sql):
        tag = re.sub(r"\bBEGIN\b(?! ISO)", "BEGIN ISOLATION LEVEL REPEATABLE READ", sql)
        self.process.stdin.write("\\unset QUIET\n" + tag + ";\n\\set QUIET 1\n\\echo __end\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if line == "__end":
                break
            if line and not line.startswith(("WARNING", "NOTICE")):
                lines.append(line)
        for line in lines:
            if line.startswith("ERROR:"):
                return line.split()[-1]
        answer = " ".join(lines[-1:] if re.match(r"^[A-Z]+( |$)", lines[-1]) else lines) if lines else ""
        return answer.replace("INSERT 0 ", "INSERT ")


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else "host=/tmp user=postgres dbname=postgres"
    checked = differ = 0
    sessions = {}
    lines = [(file, *line) for file in FILES for line in enumerate(file.read_text().splitlines(), 1)]
    for file, number, line in lines:
        line = line.strip()
        if line.startswith("== "):
            sessions = {name: Session(target) for name in "ABC"}
            sessions["A"].ask("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            continue
        if not line or line.startswith("#"):
            continue
        who, rest = line.split(": ", 1)
        sql, _, expected = rest.partition(" -> ")
        expected = expected.split(" / ")[-1]
        got = sessions[who].ask(sql)
        if expected:
            checked += 1
            if got != expected:
                differ += 1
                print(f"{file.name}:{number}: {sql}: PostgreSQL answers {got!r}, the file says {expected!r}")
    print(f"{checked} answers compared, {differ} differ")
    sys.exit(differ != 0)


main()
