"""Scripts of crates/sql/tests/postgres: text into statements. crates/sql/tests/postgres/script.rs does the same."""
import dataclasses
import re

COPY_IN = re.compile(r"copy\s.*\sfrom\s+stdin\b", re.IGNORECASE | re.DOTALL)
SESSION = re.compile(r"-- session ([A-Z])$")
DOLLAR = re.compile(r"\$([A-Za-z_]\w*)?\$")


@dataclasses.dataclass
class Statement:
    """A statement: the line where it begins, who says it, its text without `;`, and the lines that COPY reads."""

    line: int
    session: str
    sql: str
    data: str
    # Whether its rows are nobody's business, as those of EXPLAIN.
    any_rows: bool

    def words(self):
        """The statement on one line."""
        return " ".join(self.sql.split())


def split(text):
    """The statements of a script."""
    statements = []
    session = "A"
    any_rows = False
    place = 0
    while True:
        space = re.compile(r"\s*").match(text, place)
        place = space.end()
        if place == len(text):
            return statements
        if text.startswith("--", place):
            end = line_end(text, place)
            named = SESSION.match(text[place:end].rstrip())
            if named:
                session = named.group(1)
            any_rows |= text[place:end].rstrip() == "-- any rows"
            place = end
            continue
        end = statement_end(text, place)
        sql = text[place:end]
        line = text.count("\n", 0, place) + 1
        data = ""
        place_after = end + 1
        if COPY_IN.match(sql):
            begin = line_end(text, end) + 1
            stop = text.index("\\.\n", begin - 1)
            data = text[begin:stop]
            place_after = stop + 3
        statements.append(Statement(line, session, sql, data, any_rows))
        any_rows = False
        place = place_after


def line_end(text, place):
    """The place of the next newline, or the end."""
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def statement_end(text, place):
    """The place of the `;` that ends the statement at `place`."""
    begin = place
    while place < len(text):
        c = text[place]
        if c == ";":
            return place
        if c == "'":
            escapes = place > 0 and text[place - 1] in "eE" and not (place > 1 and text[place - 2].isalnum())
            place += 1
            while text[place] != "'":
                place += 2 if escapes and text[place] == "\\" else 1
        elif c == '"':
            place = text.index('"', place + 1)
        elif text.startswith("--", place):
            place = line_end(text, place)
        elif text.startswith("/*", place):
            place = text.index("*/", place) + 1
        elif c == "$" and (tag := DOLLAR.match(text, place)):
            place = text.index(tag.group(0), tag.end()) + len(tag.group(0)) - 1
        place += 1
    raise ValueError(f"no ; ends {text[begin:begin + 60]!r}")
