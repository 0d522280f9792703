"""The test tables: crates/sql/tests/edges/tables.sql makes them, in PostgreSQL and in Lode.

Each `e_` table has a twin `x_` with the same rows: in Lode it is loaded in column pages and indexed.
"""
import pathlib

FILE = pathlib.Path(__file__).parent.parent.parent / "crates/sql/tests/edges/tables.sql"
TABLES = ["int", "flt", "num", "text", "time", "bool"]


def sql_for_postgres():
    statements = FILE.read_text()
    for table in TABLES:
        statements += f"INSERT INTO x_{table} SELECT * FROM e_{table};\n"
    return statements
