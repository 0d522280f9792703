"""A session of PostgreSQL, in the frontend/backend protocol 3.0 over a Unix socket: one simple query at a time.

psql shows neither the fields of an error nor an answer's bytes, so this speaks the protocol itself.
"""
import re
import select
import socket
import struct

SETTINGS = {
    "user": "postgres",
    "client_encoding": "UTF8",
    "client_min_messages": "error",
    "TimeZone": "UTC",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "statement_timeout": "60s",
    "max_parallel_workers_per_gather": "0",
}
# The fields of an error that are recorded, and their names.
FIELDS = {"s": "schema", "t": "table", "c": "column", "d": "type", "n": "constraint"}


class Answer:
    """The answer to one statement, as messages bring it."""

    def __init__(self):
        self.names = None
        self.rows = []
        self.copied = []
        self.tag = None
        self.error = None


class Client:
    """One session. `ask` sends; `answer` waits for what comes."""

    def __init__(self, path, database):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.buffer = b""
        settings = {**SETTINGS, "database": database}
        body = b"".join(k.encode() + b"\0" + v.encode() + b"\0" for k, v in settings.items()) + b"\0"
        self.socket.sendall(struct.pack("!ii", len(body) + 8, 196608) + body)
        self.open = Answer()
        self.data = ""
        assert self.answer(10).error is None

    def ask(self, sql, data=""):
        self.open = Answer()
        self.data = data
        self.send(b"Q", sql.encode() + b"\0")

    def send(self, kind, body):
        self.socket.sendall(kind + struct.pack("!i", len(body) + 4) + body)

    def answer(self, seconds):
        """The answer, or None if it is not complete after `seconds`."""
        while True:
            while (message := self.message()) is None:
                if not select.select([self.socket], [], [], seconds)[0]:
                    return None
                received = self.socket.recv(1 << 16)
                assert received, "the connection is closed"
                self.buffer += received
            if self.take(*message):
                return self.open

    def message(self):
        if len(self.buffer) < 5:
            return None
        end = 1 + struct.unpack("!i", self.buffer[1:5])[0]
        if len(self.buffer) < end:
            return None
        kind, body = self.buffer[:1], self.buffer[5:end]
        self.buffer = self.buffer[end:]
        return kind, body

    def take(self, kind, body):
        """Takes a message. Returns whether it was the last of the answer."""
        if kind == b"T":
            self.open.names = column_names(body)
        elif kind == b"D":
            self.open.rows.append(values(body))
        elif kind == b"C":
            self.open.tag = body[:-1].decode()
        elif kind == b"G":
            if self.data:
                self.send(b"d", self.data.encode())
            self.send(b"c", b"")
        elif kind == b"d":
            self.open.copied.append(body.decode())
        elif kind == b"E":
            parts = {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}
            fields = [f"{name} {parts[f]}" for f, name in FIELDS.items() if f in parts]
            # The schema of temporary tables has a number of the session.
            self.open.error = [parts["C"]] + [re.sub(r"^schema pg_temp_\d+$", "schema pg_temp", f) for f in fields]
        return kind == b"Z"


def column_names(body):
    count = struct.unpack("!h", body[:2])[0]
    names, place = [], 2
    for _ in range(count):
        end = body.index(b"\0", place)
        names.append(body[place:end].decode())
        place = end + 19
    return names


def values(body):
    count = struct.unpack("!h", body[:2])[0]
    row, place = [], 2
    for _ in range(count):
        size = struct.unpack("!i", body[place:place + 4])[0]
        place += 4
        if size < 0:
            row.append(None)
            continue
        row.append(body[place:place + size].decode())
        place += size
    return row
