#!/usr/bin/env python3
"""Runs the scripts of crates/sql/tests/postgres on PostgreSQL 15, and records its answers for crates/sql/tests/postgres.rs.

    scripts/record_postgres.py                  # all scripts
    scripts/record_postgres.py shop ledger      # these
    scripts/record_postgres.py --check          # writes nothing, and says which recordings would change

Starts a throw-away cluster (as user postgres, Unix socket only). Each script has a new database with the locale C.UTF-8. The
head of a recording says what its lines mean. BEGIN and START TRANSACTION begin a transaction at REPEATABLE READ, which is the
level that Lode has; a statement outside of a transaction is at READ COMMITTED.
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from postgres import client, script  # noqa: E402
from record_postgres_edges import Cluster  # noqa: E402

FOLDER = pathlib.Path(__file__).parent.parent / "crates/sql/tests/postgres"
HEAD = """# Recorded from PostgreSQL 15 by scripts/record_postgres.py. Do not edit: run the script again.
# `? statement`, then its answer: `: names of columns`, `| values of a row`, `> line that COPY wrote`, `= command tag`, or
# `! SQLSTATE` and the fields of the error. Fields are apart by a tab, as COPY writes them: \\N is NULL, \\\\ a backslash.
# `~` before an answer: PostgreSQL waited for another session. The rows of a plan are not recorded.
"""
BEGINS = re.compile(r"\s*(begin|start\s+transaction)\b(?!.*isolation)", re.IGNORECASE | re.DOTALL)
ISOLATION = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
# A statement that has no answer after these seconds waits for another session.
WAIT_SECONDS = 1


def escaped(value):
    if value is None:
        return "\\N"
    for plain, code in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(plain, code)
    return value


def lines_of(statement, answer, waited):
    lines = ["~"] if waited else []
    if answer.error:
        return lines + ["! " + "\t".join(answer.error)]
    if answer.names is not None:
        lines.append(": " + "\t".join(map(escaped, answer.names)))
        rows = [] if statement.any_rows else answer.rows
        lines += ["| " + "\t".join(map(escaped, row)) for row in rows]
    lines += ["> " + part for line in answer.copied for part in line.rstrip("\n").split("\n")]
    return lines + ["= " + (answer.tag or "")]


class Run:
    """One script on its database."""

    def __init__(self, path, database):
        self.open = lambda: client.Client(path, database)
        self.sessions = {}
        self.pending = {}

    def record(self, text):
        """The recording of a script, and its numbers of statements and errors."""
        statements = script.split(text)
        answers = [None] * len(statements)
        for number, statement in enumerate(statements):
            name = statement.session
            assert name not in self.pending, f"line {statement.line}: session {name} still waits"
            session = self.sessions.get(name) or self.sessions.setdefault(name, self.open())
            session.ask(statement.sql, statement.data)
            answer = session.answer(WAIT_SECONDS)
            if answer is None:
                self.pending[name] = number
                continue
            answers[number] = lines_of(statement, answer, False)
            if BEGINS.match(statement.sql):
                session.ask(ISOLATION)
                session.answer(10)
            for other, waiting in list(self.pending.items()):
                if (answer := self.sessions[other].answer(WAIT_SECONDS)) is not None:
                    answers[waiting] = lines_of(statements[waiting], answer, True)
                    del self.pending[other]
        assert not self.pending, f"{self.pending} still wait at the end"
        for session in self.sessions.values():
            session.socket.close()
        out = [HEAD]
        for statement, answer in zip(statements, answers):
            out.append("? " + statement.words() + "\n")
            out.extend(line + "\n" for line in answer)
        errors = sum(a[-1].startswith("!") for a in answers)
        return "".join(out), len(statements), errors


def record(folder, names, check):
    total = changed = 0
    for file in sorted(FOLDER.glob("*.sql")):
        if names and file.stem not in names:
            continue
        control = client.Client(f"{folder}/.s.PGSQL.5432", "postgres")
        control.ask(f'CREATE DATABASE "{file.stem}" TEMPLATE template0')
        assert control.answer(30).error is None
        control.socket.close()
        text, statements, errors = Run(f"{folder}/.s.PGSQL.5432", file.stem).record(file.read_text())
        recording = FOLDER / "recorded" / f"{file.stem}.txt"
        differs = not recording.exists() or recording.read_text() != text
        changed += differs
        if not check:
            recording.write_text(text)
        total += statements
        print(f"{file.stem:28} {statements:4} statements, {errors:3} of them errors{', changed' * differs}")
    for recording in (FOLDER / "recorded").glob("*.txt"):
        if not (FOLDER / f"{recording.stem}.sql").exists() and not check:
            recording.unlink()
    print(f"{total} statements, {changed} recordings {'would change' if check else 'changed'}")
    return changed


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    with Cluster() as target:
        folder = target.split()[0].removeprefix("host=")
        changed = record(folder, [a for a in arguments if a != "--check"], check)
    sys.exit(bool(check and changed))


if __name__ == "__main__":
    main()
