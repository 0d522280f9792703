"""Edge values of each type as text, and the ways to write them in SQL."""
import random

INT2 = ["-32768", "-32767", "-1", "0", "1", "2", "7", "32766", "32767"]
INT4 = ["-2147483648", "-2147483647", "-32769", "-1", "0", "1", "2", "3", "46341", "65536", "2147483646", "2147483647"]
INT8 = ["-9223372036854775808", "-9223372036854775807", "-2147483649", "-1", "0", "1", "2", "10", "3037000500",
        "4294967296", "9007199254740993", "9223372036854775806", "9223372036854775807"]
FLT4 = ["NaN", "Infinity", "-Infinity", "-0", "0", "1", "-1", "0.1", "1.5", "2.5", "-2.5", "3.4028235e38",
        "-3.4028235e38", "1.1754944e-38", "1e-45", "16777217", "1e10"]
FLT8 = ["NaN", "Infinity", "-Infinity", "-0", "0", "1", "-1", "0.1", "0.5", "1.5", "2.5", "-2.5", "1e308", "-1e308",
        "1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "9007199254740993", "9223372036854775807",
        "1e15", "1e16", "1e-5", "1e-4", "123456789.125"]
NUM4 = ["-99.99", "99.99", "0.01", "-0.01", "0", "0.05", "1", "12.34", "50.5"]
NUM15 = ["-9999999999999.99", "9999999999999.99", "0.01", "0", "-0.15", "1.00", "2.50", "1234.56", "5000000000000"]
NUM38 = ["-99999999999999999999999999999999999999", "99999999999999999999999999999999999999", "0", "1", "-7", "10",
         "18446744073709551616", "9223372036854775808", "10000000000000000000"]
WIDE = ["-9999999999999999999999999999.9999999999", "9999999999999999999999999999.9999999999", "0", "0.0000000001",
        "-0.25", "0.5", "123.456", "3.3333333333", "9223372036854775807.5"]
BOOL = ["true", "false"]
TEXT = ["", " ", "a", "abc", "ABC", "  padded  ", "123", "-7", "1.5", "äöü", "日本語", "😀a😀", "a%b", "a_b", "it''s", "NaN", "true",
        "2020-02-29", "hello world", "aXbXc", "\\", "a\\b"]
DATE = ["0001-01-01", "1582-10-15", "1900-02-28", "1969-12-31", "1970-01-01", "1999-12-31", "2000-02-29", "2016-12-31",
        "2020-01-01", "2020-01-31", "2020-02-29", "2021-03-31", "2023-01-01", "2024-12-30", "9999-12-31"]
TIMESTAMP = ["0001-01-01 00:00:00", "1582-10-15 06:30:00.000001", "1900-02-28 23:59:59.5", "1960-05-05 05:05:05.123456",
             "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00", "1999-12-31 23:59:59", "2000-01-01 00:00:00.000001",
             "2020-01-31 10:00:00.5", "2020-02-29 12:34:56.789012", "2021-03-31 23:59:59.999999",
             "2024-12-30 01:02:03", "9999-12-31 23:59:59.999999"]
INTERVAL = ["1 day", "24 hours", "-1 day", "1 month", "-1 month", "30 days", "1 year", "1 year 2 months 3 days 04:05:06.789",
            "0", "0.000001 seconds", "1 microsecond", "-1 second", "100 years", "25 hours", "1 month -30 days", "1.5 days",
            "90 minutes", "1 week", "13 months", "1 mon 1 day -01:00:00"]
BYTEA = ["", "abc", "\\x00", "\\xff", "\\xff00ff", "\\x616263", "ABC"]

POOLS = {
    "SMALLINT": INT2, "INTEGER": INT4, "BIGINT": INT8, "REAL": FLT4, "DOUBLE PRECISION": FLT8,
    "NUMERIC(4,2)": NUM4, "NUMERIC(15,2)": NUM15, "NUMERIC(38,0)": NUM38, "NUMERIC(38,10)": WIDE,
    "BOOLEAN": BOOL, "TEXT": TEXT, "DATE": DATE, "TIMESTAMP": TIMESTAMP, "INTERVAL": INTERVAL, "BYTEA": BYTEA,
}
INTEGERS = ["SMALLINT", "INTEGER", "BIGINT"]
FLOATS = ["REAL", "DOUBLE PRECISION"]
NUMERICS = ["NUMERIC(4,2)", "NUMERIC(15,2)", "NUMERIC(38,0)", "NUMERIC(38,10)"]
NUMBERS = INTEGERS + FLOATS + NUMERICS

# The columns of the test tables: (table, column, type).
COLUMNS = [
    ("int", "s", "SMALLINT"), ("int", "i", "INTEGER"), ("int", "b", "BIGINT"), ("flt", "r", "REAL"),
    ("flt", "d", "DOUBLE PRECISION"), ("num", "p", "NUMERIC(4,2)"), ("num", "m", "NUMERIC(15,2)"),
    ("num", "n", "NUMERIC(38,0)"), ("num", "w", "NUMERIC(38,10)"), ("text", "t", "TEXT"), ("text", "v", "VARCHAR(8)"),
    ("time", "d", "DATE"), ("time", "ts", "TIMESTAMP"), ("bool", "o", "BOOLEAN"), ("bool", "q", "BOOLEAN"),
    ("bool", "y", "BYTEA"),
]
ROWS = {"int": 24, "flt": 23, "num": 16, "text": 30, "time": 20, "bool": 9}


class Maker:
    """Statements of one theme, without repetitions, chosen by a generator with the theme's name as its seed."""

    def __init__(self, theme):
        self.random = random.Random("edges " + theme)
        self.statements = {}

    def add(self, *statements):
        for sql in statements:
            self.statements.setdefault(sql)

    def select(self, *expressions):
        self.add(*("SELECT " + e for e in expressions))

    def sample(self, count, statements):
        """Some of `statements`, in their order."""
        statements = [s for s in dict.fromkeys(statements) if s not in self.statements]
        keep = set(self.random.sample(range(len(statements)), min(count, len(statements))))
        self.add(*(s for place, s in enumerate(statements) if place in keep))

    def done(self):
        return list(self.statements)

    def pick(self, options):
        return self.random.choice(options)

    def value(self, sql_type, null=0.04):
        """A value of the type, in one of its spellings."""
        if self.random.random() < null:
            return f"CAST(NULL AS {sql_type})"
        return self.literal(sql_type, self.pick(POOLS.get(sql_type) or TEXT))

    def literal(self, sql_type, text):
        if sql_type == "INTERVAL":
            return f"INTERVAL '{text}'"
        if sql_type == "TEXT" and self.random.random() < 0.6:
            return f"'{text}'"
        if sql_type in ("DATE", "TIMESTAMP") and self.random.random() < 0.5:
            return f"{sql_type} '{text}'"
        form = self.random.random()
        return f"'{text}'::{sql_type}" if form < 0.3 else f"CAST('{text}' AS {sql_type})"

    def table(self, name):
        """The table, or its twin that is indexed."""
        return self.pick("ex") + "_" + name
