"""Themes: columns, conditions, sets, subqueries, aggregates, windows."""
from .values import COLUMNS, FLOATS, INTEGERS, NUMBERS, NUMERICS, POOLS, ROWS, TEXT, Maker

NUMBER_COLUMNS = [c for c in COLUMNS if c[2] in NUMBERS]
MILD = "id <= 8"


def tables():
    m = Maker("tables")
    for name in ROWS:
        m.add(f"SELECT * FROM e_{name} ORDER BY id", f"SELECT * FROM x_{name} ORDER BY id")
    return m.done()


def simple_value(m, sql_type):
    """Mostly written as people write it."""
    if sql_type.startswith("VARCHAR"):
        sql_type = "TEXT"
    pool = POOLS[sql_type]
    v = m.pick(pool)
    if sql_type in INTEGERS or sql_type in NUMERICS:
        return v if m.random.random() < 0.6 else m.literal(sql_type, v)
    if sql_type == "TEXT" or (sql_type in ("DATE", "TIMESTAMP", "BYTEA") and m.random.random() < 0.4):
        return f"'{v}'"
    if sql_type == "BOOLEAN":
        return v.upper()
    if sql_type in FLOATS and v[-1].isdigit() and m.random.random() < 0.4:
        return v
    return m.literal(sql_type, v)


def where():
    m = Maker("where")
    for table, c, t in COLUMNS:
        for _ in range(12):
            m.add(f"SELECT id FROM {m.table(table)} WHERE {c} {m.pick(['=', '<', '<=', '>', '>=', '<>', 'IS DISTINCT FROM', 'IS NOT DISTINCT FROM'])} {simple_value(m, t)} ORDER BY id")
        for _ in range(5):
            a, b, d = simple_value(m, t), simple_value(m, t), simple_value(m, t)
            m.add(f"SELECT id FROM {m.table(table)} WHERE {c} {m.pick(['', 'NOT '])}BETWEEN {a} AND {b} ORDER BY id",
                  f"SELECT id FROM {m.table(table)} WHERE {c} {m.pick(['', 'NOT '])}IN ({a}, {b}{m.pick(['', ', NULL', ', ' + d])}) ORDER BY id",
                  f"SELECT id FROM {m.table(table)} WHERE {c} {m.pick(['<', '>'])} {a} {m.pick(['AND', 'OR'])} {m.pick(['', 'NOT '])}{c} {m.pick(['=', '<=', '>='])} {b} ORDER BY id")
        m.add(f"SELECT id FROM {m.table(table)} WHERE {c} NOT IN ({a}) OR {c} NOT IN ({b}) ORDER BY id", f"SELECT id FROM {m.table(table)} WHERE {c} IS DISTINCT FROM {a} AND k IS NOT NULL ORDER BY id",
              f"SELECT id FROM {m.table(table)} WHERE NOT ({c} = {a} OR {c} IS NULL) ORDER BY id", f"SELECT id FROM {m.table(table)} WHERE {c} = NULL ORDER BY id", f"SELECT id FROM {m.table(table)} WHERE ({c} = {a}) IS NULL ORDER BY id", f"SELECT id FROM {m.table(table)} WHERE {c} IN (NULL) OR {c} IS NULL ORDER BY id")
    # Literals beyond the column's type, and of another.
    for table, c, t in NUMBER_COLUMNS:
        for v in m.random.sample(["32768", "-32769", "2147483648", "-2147483649", "9223372036854775808", "-9223372036854775809", "0.5", "-0.5", "99.995", "100", "1e38", "1e39", "1e400", "'NaN'::float8", "'Infinity'::float8", "'-Infinity'::float8", "0.1::real", "16777217::real", "9007199254740993", "9223372036854775807::float8", "1.000000000000000000000000000001", "-0.0"], 10):
            m.add(f"SELECT id FROM {m.table(table)} WHERE {c} {m.pick(['=', '<', '<=', '>', '>=', '<>'])} {v} ORDER BY id")
    pairs = [("int", "s", "i"), ("int", "i", "b"), ("int", "s", "b"), ("flt", "r", "d"), ("num", "p", "m"), ("num", "m", "w"), ("num", "n", "w"), ("text", "t", "v"), ("time", "d", "ts"), ("bool", "o", "q")]
    for table, a, b in pairs:
        for op in ("=", "<", ">=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"):
            m.add(f"SELECT id FROM {m.table(table)} WHERE {a} {op} {b} ORDER BY id")
        m.add(f"SELECT id FROM {m.table(table)} WHERE {a} BETWEEN {b} AND {b} ORDER BY id", f"SELECT id FROM {m.table(table)} WHERE {a} IN ({b}, NULL) ORDER BY id")
    conditions = {
        "int": ["s + i > 0", "i * 2 = 6", "b / 2 = 1", "i % 2 = 1", "i % 2 = -1", "-i > 0", "abs(s) > 5", "i + 1 > i", "s / s = 1", "i - s = 0", "b > i AND i > s", "CASE WHEN s = 0 THEN FALSE ELSE i / s > 0 END", "s <> 0 AND i / s > 0", "coalesce(s, 0) = 0", "nullif(i, 0) IS NULL", "greatest(s, i) = i", "s::text = '1'", "i::float8 > 2.5", "i > 2.5", "i = 3.0", "i + 0.5 > 3", "sqrt(i) > 1", "mod(i, 3) = 0", "round(i / 2.0) = 2", "i BETWEEN s AND b", "s IN (i, b)", "i IN (1, 2, 3) AND NOT s = 2", "s * s * s > 100", "i = 1 OR i = NULL"],
        "flt": ["r + d > 0", "d * 2 = 5", "d / 2 = 0.25", "-d > 0", "abs(d) < 2", "d + 1 = d", "r = 0.1", "r = 0.1::real", "d = 0.1", "r::float8 = d", "d = d", "d <> d", "round(d) = 2", "trunc(d) = -2", "d > r", "floor(d) = ceil(d)", "d::int = 2", "1 / d > 0", "d IN (0.5, 1.5, 'NaN')", "d = 1", "r = 16777217", "d > 1e307", "d * 10 > 1e308", "d BETWEEN 0 AND 'Infinity'::float8", "d = -0.0", "d < 0", "sign(d) = -1", "d = 'NaN'", "d > 'Infinity'", "r IN (1, 100, NULL)"],
        "num": ["p + m > 0", "m * 2 = 5", "m / 2 = 1.25", "-p > 0", "abs(w) < 1", "n + 1 > n", "p * p > 100", "m % 1 = 0.5", "round(m) = 3", "trunc(w) = 0", "n = 18446744073709551616", "w = 0.05", "p = 0.05", "p > 99.985", "m = 2.5", "m = 2.50000", "w = n", "p = w", "m > 1e12", "n > 1e37", "w < 1e-9", "p::int = 1", "m::float8 = 0.05", "p IN (0.01, 1, 12.34)", "p / 3 = 1.11", "w * 3 = 10", "n / 3 = 1", "ceil(p) = 13", "m + 0.01 = 0.06", "m * p = 30.8642"],
        "text": ["t || v = 'abcabc'", "upper(t) = 'ABC'", "length(t) = 3", "octet_length(t) > length(t)", "substr(t, 1, 1) = 'a'", "t > 'a'", "t < 'Z'", "t >= 'ä'", "v = ''", "t <> ''", "t || NULL = 'a'", "trim(t) = ''", "left(t, 1) = right(t, 1)", "position('b' IN t) > 0", "coalesce(t, '') = ''", "reverse(t) = t", "t IN ('abc', '', NULL)", "t NOT IN ('abc', '')", "t BETWEEN 'a' AND 'b'", "starts_with(t, '')", "t::varchar(3) = 'hel'", "t = 'abc' OR v IS NULL", "lower(v) = v", "lpad(t, 2) = 'ab'", "md5(t) = md5(v)", "t LIKE v", "replace(t, 'a', '') = ''", "v < 'a longer text'", "t = ' '"],
    }
    for table, list_ in conditions.items():
        for c in list_:
            m.add(f"SELECT id FROM {m.table(table)} WHERE {c} ORDER BY id", f"SELECT id FROM {m.table(table)} WHERE {MILD} AND {c} ORDER BY id")
    return m.done()


def columns():
    m = Maker("columns")
    binary = [(t, a, b) for t, a, _ in NUMBER_COLUMNS for u, b, _ in NUMBER_COLUMNS if t == u]
    for table, a, b in binary:
        for op in ("+", "-", "*", "/", "%"):
            if op in "/%":
                m.add(f"SELECT id, {a} {op} {b} FROM {m.table(table)} WHERE {MILD} AND {b} <> 0 ORDER BY id")
            else:
                m.add(f"SELECT id, {a} {op} {b} FROM {m.table(table)} WHERE {MILD} ORDER BY id")
    m.sample(200, [f"SELECT {a} {op} {b} FROM {m.table(table)} WHERE id = {n}" for table, a, b in binary for op in ("+", "-", "*", "/", "%") for n in range(9, ROWS[table] + 1)])
    m.sample(110, [f"SELECT {e} FROM {m.table(table)} WHERE id = {n}" for table, c, t in NUMBER_COLUMNS for e in (f"- {c}", f"abs({c})", f"{c} + 1", f"{c} - 1", f"{c} * 2", f"{c} * -1", f"{c} / -1", f"{c} + 0.5", f"{c} * 1.5", f"{c} / 2", f"{c} % 3", f"1 / {c}", f"{c} / 0", f"{c} + 1::bigint") for n in range(9, ROWS[table] + 1)])
    for table, c, t in NUMBER_COLUMNS:
        m.add(*(f"SELECT id, {e} FROM {m.table(table)} WHERE {MILD} ORDER BY id" for e in (f"- {c}", f"abs({c})", f"{c} + 1", f"{c} / 2", f"{c} * 1.5", f"{c} % 3", f"round({c})", f"trunc({c}), ceil({c}), floor({c})", f"sign({c})", f"{c} / 3.0", f"{c} * 1e0::float8", f"{c} > 1, {c} = 1", f"sqrt(abs({c}))")))
        m.add(f"SELECT id, {c} IS DISTINCT FROM 0 FROM {m.table(table)} ORDER BY id", f"SELECT id, {c} = 0, {c} < 1, {c} NOT IN (1, NULL) FROM {m.table(table)} ORDER BY id", f"SELECT id, CASE WHEN {c} > 0 THEN 'plus' WHEN {c} < 0 THEN 'minus' ELSE 'none' END FROM {m.table(table)} ORDER BY id",
              f"SELECT id, COALESCE({c}, 1), NULLIF({c}, 1), GREATEST({c}, 0), LEAST({c}, 0) FROM {m.table(table)} ORDER BY id", f"SELECT id, {c} FROM {m.table(table)} ORDER BY {c}, id", f"SELECT id, {c} FROM {m.table(table)} ORDER BY {c} DESC, id", f"SELECT id FROM {m.table(table)} ORDER BY {c} NULLS FIRST, id LIMIT 6", f"SELECT id FROM {m.table(table)} ORDER BY {c} DESC NULLS LAST, id DESC LIMIT 6")
    for table, c, t in COLUMNS[9:]:
        m.add(f"SELECT id, {c} FROM {m.table(table)} ORDER BY {c}, id", f"SELECT id, {c} FROM {m.table(table)} ORDER BY {c} DESC, id", f"SELECT id FROM {m.table(table)} ORDER BY {c} NULLS FIRST, id LIMIT 6", f"SELECT id FROM {m.table(table)} ORDER BY {c} DESC NULLS LAST, id LIMIT 6", f"SELECT id FROM {m.table(table)} ORDER BY {c} IS NULL, {c} DESC, id OFFSET 5 LIMIT 5")
    return m.done()


def sets():
    m = Maker("sets")
    left = "(VALUES (1), (1), (2), (NULL), (NULL), (3))"
    right = "(VALUES (1), (NULL), (4))"
    for op in ("UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"):
        m.add(f"SELECT x FROM {left} AS a(x) {op} SELECT x FROM {right} AS b(x) ORDER BY 1", f"SELECT x FROM {right} AS b(x) {op} SELECT x FROM {left} AS a(x) ORDER BY 1", f"SELECT k FROM e_int {op} SELECT k FROM e_flt ORDER BY 1", f"SELECT s FROM e_int {op} SELECT i FROM e_int ORDER BY 1", f"SELECT i FROM e_int {op} SELECT b FROM x_int ORDER BY 1",
              f"SELECT t FROM e_text {op} SELECT v FROM x_text ORDER BY 1", f"SELECT r FROM e_flt WHERE r <> 0 {op} SELECT d FROM e_flt WHERE d <> 0 ORDER BY 1", f"SELECT p FROM e_num {op} SELECT m FROM e_num ORDER BY 1", f"SELECT d FROM e_time {op} SELECT ts FROM e_time ORDER BY 1", f"SELECT o, q FROM e_bool {op} SELECT q, o FROM e_bool ORDER BY 1, 2", f"SELECT i FROM e_int {op} SELECT m FROM e_num ORDER BY 1",
              f"SELECT 1 {op} SELECT 1.0 ORDER BY 1", f"SELECT 1 {op} SELECT '1' ORDER BY 1", f"SELECT 1 {op} SELECT 'a' ORDER BY 1", f"SELECT NULL {op} SELECT 1 ORDER BY 1", f"SELECT NULL {op} SELECT NULL ORDER BY 1", f"SELECT 1 {op} SELECT 1.5 ORDER BY 1", f"SELECT 1 {op} SELECT 1.5::float8 ORDER BY 1", f"SELECT 1.5 {op} SELECT 1.50::numeric(10,2) ORDER BY 1", f"SELECT 1::smallint {op} SELECT 9223372036854775807 ORDER BY 1", f"SELECT 1 {op} SELECT true ORDER BY 1",
              f"SELECT 1, 2 {op} SELECT 1 ORDER BY 1", f"SELECT DATE '2020-01-01' {op} SELECT TIMESTAMP '2020-01-01 00:00:00' ORDER BY 1", f"SELECT 'NaN'::float8 {op} SELECT 'NaN'::float8 ORDER BY 1", f"SELECT 1::real {op} SELECT 1.5 ORDER BY 1", f"SELECT DATE '2020-01-01' {op} SELECT '2020-01-01' ORDER BY 1")
    m.add("SELECT 1 UNION SELECT 2 INTERSECT SELECT 2 ORDER BY 1", "SELECT 1 UNION ALL SELECT 2 EXCEPT SELECT 1 ORDER BY 1", "SELECT 1 EXCEPT SELECT 2 EXCEPT SELECT 1 ORDER BY 1", "(SELECT 1 UNION ALL SELECT 1) EXCEPT ALL SELECT 1", "SELECT 1 EXCEPT ALL (SELECT 1 UNION ALL SELECT 1)", "SELECT NULL UNION SELECT NULL UNION SELECT 1 ORDER BY 1", "SELECT '1' UNION SELECT 2 ORDER BY 1", "SELECT NULL UNION ALL SELECT 'a' ORDER BY 1", "SELECT NULL UNION SELECT NULL UNION SELECT 1.5 ORDER BY 1",
          "VALUES (1), (2.5)", "VALUES (1), ('2')", "VALUES (1), ('a')", "VALUES (1, 2), (3)", "VALUES (NULL), (1)", "VALUES (1), (NULL), ('3')", "VALUES (true), ('f')", "VALUES (DATE '2020-01-01'), ('2020-01-02')", "VALUES (1::smallint), (100000)", "VALUES (1), (2), (3) LIMIT 2", "VALUES (3), (1), (2) ORDER BY 1", "SELECT DISTINCT k FROM e_int ORDER BY k", "SELECT DISTINCT s, i FROM e_int WHERE k > 5 ORDER BY 1, 2", "SELECT count(*) FROM (SELECT DISTINCT r FROM e_flt) AS x", "SELECT count(*) FROM (SELECT DISTINCT d FROM e_flt) AS x",
          "SELECT DISTINCT ON (k) k, id FROM e_int ORDER BY k, id DESC", "SELECT count(*) FROM (SELECT 0::float8 UNION SELECT '-0'::float8) AS x", "SELECT count(*) FROM (SELECT 'NaN'::float8 UNION SELECT 'NaN'::float8) AS x", "SELECT 'a' UNION SELECT 'a ' ORDER BY 1", "SELECT 'a'::char(3) UNION SELECT 'a'::char(5) ORDER BY 1", "SELECT DISTINCT t FROM (VALUES ('a'), ('A'), (''), (NULL)) AS x(t) ORDER BY t")
    return m.done()


def subqueries():
    m = Maker("subqueries")
    m.select("(SELECT 1)", "(SELECT 1 WHERE FALSE)", "(SELECT 1 UNION ALL SELECT 2)", "(SELECT 1, 2)", "(SELECT i FROM e_int)", "(SELECT i FROM e_int WHERE id = 1)", "(SELECT i FROM e_int WHERE id = 100)", "(SELECT i FROM e_int WHERE id < 3)", "(SELECT i FROM e_int WHERE id < 3 LIMIT 1) IS NOT NULL", "1 + (SELECT NULL::int)", "1 + (SELECT 1 WHERE FALSE)", "(SELECT max(i) FROM e_int WHERE FALSE)", "(SELECT count(*) FROM e_int WHERE FALSE)", "EXISTS (SELECT 1 FROM e_int)",
             "EXISTS (SELECT 1 / 0)", "1 IN (SELECT k FROM e_int)", "100 IN (SELECT k FROM e_int)", "100 NOT IN (SELECT k FROM e_int)", "1 NOT IN (SELECT k FROM e_int)", "NULL IN (SELECT k FROM e_int WHERE FALSE)", "1 > ALL (SELECT k FROM e_int WHERE FALSE)", "1 > ANY (SELECT k FROM e_int WHERE FALSE)", "CASE WHEN TRUE THEN 1 ELSE (SELECT k FROM e_int) END", "'a' IN (SELECT k FROM e_int)", "1.0 IN (SELECT k FROM e_int)", "(SELECT k FROM e_int WHERE id = 1) = (SELECT k FROM e_flt WHERE id = 1)")
    m.add("SELECT id FROM e_int WHERE i = (SELECT i FROM e_int) ORDER BY id", "SELECT id FROM e_int WHERE i = (SELECT max(i) FROM e_int) ORDER BY id", "SELECT id FROM e_int WHERE i > (SELECT avg(i) FROM e_int) ORDER BY id", "SELECT id FROM e_flt WHERE d = (SELECT max(d) FROM e_flt) ORDER BY id", "SELECT id FROM e_flt WHERE d >= (SELECT max(r) FROM x_flt) ORDER BY id", "SELECT id FROM e_int WHERE i = (SELECT i FROM x_int WHERE FALSE) ORDER BY id", "SELECT id FROM e_int AS a WHERE i = (SELECT max(i) FROM e_int AS b WHERE b.k = a.k) ORDER BY id", "SELECT id, (SELECT max(i) FROM x_int AS b WHERE b.k = a.k) FROM e_int AS a ORDER BY id",
          "SELECT id, (SELECT count(*) FROM x_int AS b WHERE b.k = a.k) FROM e_int AS a ORDER BY id", "SELECT id, (SELECT b.i FROM x_int AS b WHERE b.id = a.id) FROM e_int AS a ORDER BY id", "SELECT id, (SELECT b.i FROM x_int AS b WHERE b.k = a.k) FROM e_int AS a ORDER BY id", "SELECT id FROM e_int WHERE k NOT IN (SELECT k FROM e_flt) ORDER BY id", "SELECT id FROM e_int WHERE k NOT IN (SELECT k FROM e_flt WHERE k IS NOT NULL) ORDER BY id", "SELECT id FROM e_int WHERE (k IN (SELECT k FROM e_flt)) IS NULL ORDER BY id", "SELECT id FROM e_int WHERE k IN (SELECT k FROM e_flt) OR i = 0 ORDER BY id", "SELECT id FROM e_int WHERE i NOT IN (SELECT b FROM x_int WHERE b IS NOT NULL) ORDER BY id",
          "SELECT id FROM e_int WHERE i < ALL (SELECT i FROM x_int WHERE id <= 3) ORDER BY id", "SELECT id FROM e_int WHERE i > ANY (SELECT b FROM x_int WHERE id <= 3) ORDER BY id", "SELECT id FROM e_int AS a WHERE EXISTS (SELECT 1 FROM x_int AS b WHERE b.i = a.s AND b.id <> a.id) ORDER BY id", "SELECT id FROM e_int AS a WHERE NOT EXISTS (SELECT 1 FROM x_int AS b WHERE b.k = a.k AND b.id <> a.id) ORDER BY id", "SELECT id FROM e_text WHERE t IN (SELECT v FROM x_text) ORDER BY id", "SELECT id FROM e_text WHERE t NOT IN (SELECT v FROM x_text WHERE v IS NOT NULL) ORDER BY id",
          "WITH x AS (SELECT 1 AS a) SELECT a + 1 FROM x", "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x WHERE n < 5) SELECT n FROM x ORDER BY n", "SELECT id FROM e_int ORDER BY id LIMIT -1", "SELECT id FROM e_int ORDER BY id OFFSET -1", "SELECT id FROM e_int ORDER BY id LIMIT 0", "SELECT id FROM e_int ORDER BY id LIMIT NULL", "SELECT id FROM e_int ORDER BY id OFFSET 22", "SELECT id FROM e_int ORDER BY id OFFSET 100", "SELECT id FROM e_int ORDER BY id LIMIT 1 + 1", "SELECT id FROM e_int ORDER BY id LIMIT '2'", "SELECT id FROM e_int ORDER BY id LIMIT 1.5", "SELECT id FROM e_int ORDER BY id LIMIT 2.5", "SELECT id FROM e_int ORDER BY id LIMIT 'a'",
          "SELECT id FROM e_int ORDER BY id LIMIT 9223372036854775807 OFFSET 22", "SELECT id FROM e_int ORDER BY id LIMIT 9223372036854775808", "SELECT id FROM e_int ORDER BY id LIMIT (SELECT 2)", "SELECT id FROM e_int ORDER BY id OFFSET NULL LIMIT 2", "SELECT id FROM e_int ORDER BY id FETCH FIRST 2 ROWS ONLY", "SELECT k FROM e_int ORDER BY k FETCH FIRST 1 ROW WITH TIES", "SELECT id FROM e_int ORDER BY 2", "SELECT id FROM e_int ORDER BY 0", "SELECT id, k FROM e_int ORDER BY 2 DESC NULLS LAST, 1", "SELECT id AS x FROM e_int ORDER BY x LIMIT 2", "SELECT id AS x FROM e_int ORDER BY x + 1 LIMIT 2", "SELECT DISTINCT k FROM e_int ORDER BY i", "SELECT id FROM e_int WHERE x = 1",
          "SELECT nosuch FROM e_int", "SELECT nosuch(1)", "SELECT 1 FROM nosuch", "SELECT e_int.nosuch FROM e_int", "SELECT id FROM e_int AS a JOIN e_int AS b ON a.id = b.id", "SELECT id, sum(i) FROM e_int", "SELECT sum(sum(i)) FROM e_int", "SELECT id FROM e_int WHERE sum(i) > 1", "SELECT id FROM e_int GROUP BY k", "SELECT abs('a')", "SELECT abs()", "SELECT length(1, 2)", "SELECT id FROM e_int WHERE i", "SELECT id FROM e_int WHERE 'x'", "SELECT id FROM e_int WHERE NULL", "SELECT id FROM e_int WHERE 1", "SELECT id FROM e_int WHERE 't' AND id < 3 ORDER BY id", "SELECT 1 +", "SELECT * FROM e_int WHERE id = 1 AND",
          "SELECT a.id, b.id FROM e_flt AS a JOIN e_flt AS b ON a.d = b.d WHERE a.id < b.id ORDER BY 1, 2", "SELECT a.id, b.id FROM e_flt AS a JOIN x_flt AS b ON a.r = b.r WHERE a.id < b.id ORDER BY 1, 2", "SELECT a.id, b.id FROM e_flt AS a LEFT JOIN x_flt AS b ON a.d = b.r ORDER BY 1, 2", "SELECT a.id, b.id FROM e_num AS a JOIN x_num AS b ON a.p = b.m ORDER BY 1, 2", "SELECT a.id, b.id FROM e_num AS a JOIN x_num AS b ON a.n = b.w ORDER BY 1, 2", "SELECT a.id, b.id FROM e_int AS a JOIN x_int AS b ON a.s = b.i ORDER BY 1, 2", "SELECT a.id, b.id FROM e_text AS a JOIN x_text AS b ON a.t = b.v ORDER BY 1, 2", "SELECT a.id, b.id FROM e_int AS a FULL JOIN e_num AS b ON a.i = b.n ORDER BY 1, 2",
          "SELECT a.id, b.id FROM e_bool AS a JOIN e_bool AS b ON a.o IS NOT DISTINCT FROM b.q ORDER BY 1, 2", "SELECT a.id, b.id FROM e_int AS a LEFT JOIN x_int AS b ON a.k = b.k AND b.i > 5 WHERE a.id < 9 ORDER BY 1, 2", "SELECT a.id, b.id FROM e_int AS a LEFT JOIN x_int AS b ON a.k = b.k AND a.id = 1 WHERE a.id < 5 ORDER BY 1, 2", "SELECT k FROM e_int NATURAL JOIN e_flt WHERE id < 5 ORDER BY id", "SELECT id, a.k FROM e_int AS a JOIN e_flt AS b USING (id) WHERE id < 5 ORDER BY id", "SELECT count(*) FROM e_int CROSS JOIN e_flt", "SELECT generate_series(1, 3)", "SELECT x FROM generate_series(3, 1, -1) AS t(x) ORDER BY x", "SELECT unnest(ARRAY[1, 2])")
    return m.done()


def aggregates():
    m = Maker("aggregates")
    for table, c, t in NUMBER_COLUMNS:
        for f in ("sum", "avg", "min", "max", "count"):
            m.add(f"SELECT {f}({c}) FROM {m.table(table)}", f"SELECT {f}({c}) FROM {m.table(table)} WHERE {MILD}", f"SELECT k, {f}({c}) FROM {m.table(table)} GROUP BY k ORDER BY k", f"SELECT {f}({c}) FROM {m.table(table)} WHERE FALSE", f"SELECT {f}(DISTINCT {c}) FROM {m.table(table)} WHERE {MILD}",
                  f"SELECT {f}({c}) FILTER (WHERE {c} > 0) FROM {m.table(table)}", f"SELECT k, {f}({c}) FILTER (WHERE id > 2) FROM {m.table(table)} WHERE {MILD} GROUP BY k ORDER BY k", f"SELECT {f}({c}) FROM {m.table(table)} WHERE k IN (4, 5, 9)", f"SELECT {f}({c}) FROM {m.table(table)} WHERE {c} IS NULL")
        for f in ("stddev", "stddev_pop", "var_pop", "variance", "var_samp"):
            m.add(f"SELECT {f}({c}) FROM {m.table(table)} WHERE {MILD}")
        m.add(f"SELECT stddev({c}), variance({c}) FROM {m.table(table)} WHERE id = 1", f"SELECT variance({c}) FROM {m.table(table)} WHERE FALSE", f"SELECT k, sum({c} * 2), avg({c} + 1) FROM {m.table(table)} WHERE {MILD} GROUP BY k ORDER BY k", f"SELECT sum({c}) FROM {m.table(table)} WHERE {MILD} HAVING sum({c}) > 0", f"SELECT k FROM {m.table(table)} WHERE {MILD} GROUP BY k HAVING avg({c}) > 1 ORDER BY k", f"SELECT {c}, count(*) FROM {m.table(table)} WHERE {c} <> 0 OR {c} IS NULL GROUP BY {c} ORDER BY {c}",
              f"SELECT count(DISTINCT {c}), count({c}), count(*) FROM {m.table(table)}", f"SELECT sum({c}) / count({c}), sum({c}) / 3 FROM {m.table(table)} WHERE {MILD}", f"SELECT max({c}) - min({c}) FROM {m.table(table)} WHERE {MILD}", f"SELECT sum(- {c}), min(abs({c})) FROM {m.table(table)} WHERE {MILD}", f"SELECT sum(CASE WHEN {c} > 0 THEN 1 ELSE 0 END), sum(CASE WHEN {c} > 0 THEN {c} END) FROM {m.table(table)} WHERE {MILD}")
    for table, c, t in COLUMNS[9:]:
        for f in ("min", "max", "count"):
            m.add(f"SELECT {f}({c}) FROM {m.table(table)}", f"SELECT k, {f}({c}) FROM {m.table(table)} GROUP BY k ORDER BY k", f"SELECT {f}({c}) FROM {m.table(table)} WHERE FALSE", f"SELECT {f}(DISTINCT {c}) FILTER (WHERE id > 3) FROM {m.table(table)}")
        m.add(f"SELECT {c}, count(*) FROM {m.table(table)} GROUP BY {c} ORDER BY {c}", f"SELECT sum({c}) FROM {m.table(table)}", f"SELECT avg({c}) FROM {m.table(table)}")
    for v, t in (("(32767), (32767)", "SMALLINT"), ("(2147483647), (2147483647)", "INTEGER"), ("(9223372036854775807), (9223372036854775807)", "BIGINT"), ("(-9223372036854775808), (-1)", "BIGINT"), ("('NaN'), (1)", "DOUBLE PRECISION"), ("('Infinity'), ('-Infinity')", "DOUBLE PRECISION"), ("(1e308), (1e308)", "DOUBLE PRECISION"), ("(3e38), (3e38)", "REAL"), ("(0.1), (0.2), (0.3)", "REAL"),
                 ("(0.1), (0.2), (0.3)", "DOUBLE PRECISION"), ("(99.99), (99.99)", "NUMERIC(4,2)"), ("('99999999999999999999999999999999999999'), (1)", "NUMERIC(38,0)"), ("('99999999999999999999999999999999999999'), ('99999999999999999999999999999999999999')", "NUMERIC(38,0)"), ("(1.5), (NULL), (2.5)", "NUMERIC(15,2)"), ("(NULL), (NULL)", "INTEGER"), ("(1), (2)", "INTEGER"), ("(1), (2), (2)", "BIGINT"), ("(1.10), (2.20)", "NUMERIC(38,10)")):
        for f in ("sum", "avg", "max", "stddev", "var_pop"):
            m.add(f"SELECT {f}(CAST(x AS {t})) FROM (VALUES {v}) AS t(x)")
    three = "(VALUES (1, TRUE), (1, FALSE), (1, NULL), (2, TRUE), (2, NULL), (3, FALSE), (3, NULL), (4, NULL), (5, TRUE)) AS t(g, x)"
    m.add(f"SELECT g, bool_and(x), bool_or(x) FROM {three} GROUP BY g ORDER BY g", f"SELECT bool_and(x), bool_or(x), every(x) FROM {three}", f"SELECT bool_and(x) FROM {three} WHERE FALSE", f"SELECT bool_and(x) FILTER (WHERE g = 5), bool_or(x) FILTER (WHERE g = 3) FROM {three}", f"SELECT count(*) FILTER (WHERE x), count(x) FILTER (WHERE NOT x) FROM {three}", "SELECT bool_and(o), bool_or(q) FROM x_bool", "SELECT k, bool_and(o), bool_or(q) FROM e_bool GROUP BY k ORDER BY k", "SELECT min(o), max(o) FROM e_bool", "SELECT bool_and(1) FROM e_int",
          "SELECT string_agg(t, ',' ORDER BY id) FROM e_text WHERE id < 9", "SELECT string_agg(t, ',' ORDER BY t, id) FROM e_text", "SELECT string_agg(t, ',' ORDER BY id DESC) FROM x_text", "SELECT k, string_agg(v, '|' ORDER BY id) FROM e_text GROUP BY k ORDER BY k", "SELECT string_agg(DISTINCT v, ',' ORDER BY v) FROM e_text WHERE id < 9", "SELECT string_agg(t, NULL ORDER BY id) FROM e_text WHERE id < 5", "SELECT string_agg(NULL, ',')", "SELECT string_agg(t, ',') FROM e_text WHERE FALSE", "SELECT string_agg(t, v ORDER BY id) FROM e_text WHERE id < 6", "SELECT string_agg(t, '' ORDER BY id) FILTER (WHERE id > 3) FROM e_text WHERE id < 7",
          "SELECT string_agg(id::text, ',' ORDER BY id) FROM e_int", "SELECT string_agg(id, ',') FROM e_int", "SELECT array_agg(k ORDER BY id) FROM e_int WHERE id < 9", "SELECT count(*) FROM e_int WHERE FALSE", "SELECT k, count(*) FROM e_int WHERE FALSE GROUP BY k", "SELECT sum(1) FROM e_int", "SELECT sum(NULL) FROM e_int", "SELECT count(NULL) FROM e_int", "SELECT max(NULL) FROM e_int", "SELECT sum('a') FROM e_int", "SELECT avg(1)", "SELECT sum(1.5) FROM e_int", "SELECT count(DISTINCT (k, s)) FROM e_int", "SELECT count(DISTINCT k, s) FROM e_int", "SELECT count() FROM e_int", "SELECT sum(k, s) FROM e_int",
          "SELECT count(*) FROM e_int HAVING count(*) > 100", "SELECT count(*) FROM e_int HAVING FALSE", "SELECT 1 FROM e_int HAVING TRUE", "SELECT k, s, count(*) FROM e_int WHERE id > 8 GROUP BY k, s ORDER BY k, s", "SELECT k, count(*) FROM e_int GROUP BY ROLLUP (k) ORDER BY k, 2", "SELECT k, count(*) FROM e_int GROUP BY CUBE (k) ORDER BY k, 2", "SELECT k, GROUPING(k), count(*) FROM e_int GROUP BY GROUPING SETS ((k), ()) ORDER BY 1, 2, 3", "SELECT k + 1, count(*) FROM e_int GROUP BY k + 1 ORDER BY 1", "SELECT k AS g, count(*) FROM e_int GROUP BY g ORDER BY g", "SELECT k, count(*) FROM e_int GROUP BY 1 ORDER BY 2 DESC, 1", "SELECT i % 2, count(*) FROM e_int GROUP BY i % 2 ORDER BY 1",
          "SELECT min(i), max(i), sum(i), avg(i), count(i), count(*) FROM x_int", "SELECT k, min(s), max(b), sum(i) FROM x_int GROUP BY k ORDER BY k", "SELECT sum(s) FROM x_int", "SELECT sum(s), avg(s) FROM x_int WHERE i > 0", "SELECT sum(i * s) FROM x_int WHERE id < 9", "SELECT sum(i * i) FROM x_int", "SELECT sum(i::bigint * i) FROM x_int", "SELECT sum(s * s) FROM x_int", "SELECT sum(m * p) FROM x_num WHERE id < 9", "SELECT sum(m * (1 - p)) FROM x_num WHERE id < 9", "SELECT sum(n * n) FROM x_num", "SELECT sum(w * w) FROM x_num WHERE id < 9", "SELECT sum(n), sum(w) FROM x_num WHERE id IN (9, 11)", "SELECT sum(n + 1) FROM x_num WHERE id = 9", "SELECT sum(d * 2), sum(r) FROM x_flt WHERE id < 9", "SELECT min(d), max(d) FROM x_flt WHERE k = 4", "SELECT min(d), max(d) FROM x_flt WHERE k = 5", "SELECT max(r) FROM x_flt WHERE k = 5",
          "SELECT count(*) FROM x_flt WHERE d = 'NaN'", "SELECT min(length(t)), max(length(v)) FROM x_text", "SELECT min(t || v) FROM x_text", "SELECT min(upper(t)), max(lower(v)) FROM e_text", "SELECT max(d) - min(d) FROM x_time", "SELECT max(ts) - min(ts) FROM x_time", "SELECT max(d + 1) FROM x_time", "SELECT corr(i, s), covar_pop(i, s), covar_samp(i, s) FROM e_int WHERE id < 9", "SELECT regr_slope(i, s), regr_intercept(i, s), regr_count(i, s) FROM e_int WHERE id < 9", "SELECT bit_and(i), bit_or(i), bit_xor(i) FROM e_int WHERE id < 9", "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i) FROM e_int WHERE id < 9", "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY i) FROM e_int WHERE id < 9", "SELECT mode() WITHIN GROUP (ORDER BY k) FROM e_int", "SELECT sum(i) FILTER (WHERE NULL) FROM e_int", "SELECT count(*) FILTER (WHERE i > 0 AND s IS NULL) FROM e_int")
    return m.done()


def windows():
    m = Maker("windows")
    frames = ["", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING", "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING", "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW", "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING", "ROWS 2 PRECEDING", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW", "ROWS BETWEEN -1 PRECEDING AND CURRENT ROW", "ROWS BETWEEN 1 FOLLOWING AND 1 PRECEDING"]
    for table, c, t in (("int", "s", 0), ("int", "i", 0), ("int", "b", 0), ("num", "p", 0), ("num", "m", 0), ("flt", "d", 0), ("flt", "r", 0)):
        for frame in m.random.sample(frames, 6) + [""]:
            f = m.pick(["sum", "avg", "min", "max", "count", "first_value", "last_value"])
            order = "k, id" if "RANGE BETWEEN 1" not in frame else "id"
            m.add(f"SELECT id, {f}({c}) OVER (ORDER BY {order}{' ' + frame if frame else ''}) FROM {m.table(table)} WHERE {MILD} ORDER BY id")
        m.add(f"SELECT id, sum({c}) OVER (PARTITION BY k) FROM {m.table(table)} ORDER BY id", f"SELECT id, rank() OVER (ORDER BY {c}), dense_rank() OVER (ORDER BY {c} DESC) FROM {m.table(table)} ORDER BY id", f"SELECT id, lag({c}) OVER (ORDER BY id), lead({c}, 2, 0) OVER (ORDER BY id) FROM {m.table(table)} ORDER BY id", f"SELECT id, min({c}) OVER (ORDER BY id), max({c}) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM {m.table(table)} ORDER BY id",
              f"SELECT id, sum({c}) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM {m.table(table)} ORDER BY id", f"SELECT id, rank() OVER (PARTITION BY k ORDER BY {c} NULLS FIRST) FROM {m.table(table)} ORDER BY id", f"SELECT id, avg({c}) OVER (PARTITION BY k ORDER BY id) FROM {m.table(table)} WHERE {MILD} ORDER BY id", f"SELECT id, count({c}) OVER (ORDER BY {c}) FROM {m.table(table)} ORDER BY id")
    for frame in frames:
        # Rows of one k are peers: only a frame of peers says which of them are in it.
        order = "k NULLS FIRST, id" if frame.startswith("ROWS") else "k NULLS FIRST"
        m.add(f"SELECT id, count(*) OVER (ORDER BY {order}{' ' + frame if frame else ''}) FROM e_int ORDER BY id", f"SELECT id, sum(k) OVER (ORDER BY id{' ' + frame if frame else ''}) FROM x_int ORDER BY id")
    for f in ("row_number()", "ntile(4)", "ntile(0)", "ntile(NULL)", "percent_rank()", "cume_dist()", "lag(i, 0)", "lag(i, -1)", "lag(i, NULL)", "lead(i, 100, -1)", "lag(i, 1, 0.5)", "lag(s, 1, 0)", "nth_value(i, 2)", "nth_value(i, 0)", "nth_value(i, 100)", "first_value(k)", "last_value(k)", "lag(k, 1, 'a')"):
        m.add(f"SELECT id, {f} OVER (ORDER BY id) FROM e_int WHERE {MILD} ORDER BY id", f"SELECT id, {f} OVER (PARTITION BY k ORDER BY id DESC) FROM x_int ORDER BY id")
    m.add("SELECT id, lag(t) OVER (ORDER BY id), lead(v, 1, 'none') OVER (ORDER BY id) FROM e_text ORDER BY id", "SELECT id, rank() OVER (ORDER BY t), dense_rank() OVER (ORDER BY v DESC) FROM e_text ORDER BY id", "SELECT id, max(t) OVER (PARTITION BY k ORDER BY id) FROM e_text ORDER BY id", "SELECT id, string_agg(t, ',') OVER (ORDER BY id) FROM e_text WHERE id < 6 ORDER BY id", "SELECT id, d - lag(d) OVER (ORDER BY d) FROM e_time WHERE d IS NOT NULL ORDER BY d, id LIMIT 3", "SELECT id, count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL '1 month' PRECEDING AND INTERVAL '1 month' FOLLOWING) FROM e_time ORDER BY id", "SELECT id, count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW) FROM e_time ORDER BY id", "SELECT id, count(*) OVER (ORDER BY d RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM e_time ORDER BY id",
          "SELECT id, count(*) OVER (ORDER BY i RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM e_int ORDER BY id", "SELECT id, count(*) OVER (ORDER BY b RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM e_int ORDER BY id", "SELECT id, count(*) OVER (ORDER BY s DESC RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM e_int ORDER BY id", "SELECT id, count(*) OVER (ORDER BY d RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM e_flt ORDER BY id", "SELECT id, count(*) OVER (ORDER BY p RANGE BETWEEN 0.5 PRECEDING AND 0.5 FOLLOWING) FROM e_num ORDER BY id", "SELECT id, sum(i) FILTER (WHERE s > 0) OVER (ORDER BY id) FROM e_int WHERE id < 9 ORDER BY id", "SELECT id, sum(sum(i)) OVER (ORDER BY id) FROM e_int WHERE id < 9 GROUP BY id ORDER BY id", "SELECT k, rank() OVER (ORDER BY count(*)) FROM e_int GROUP BY k ORDER BY 2, 1", "SELECT id FROM e_int WHERE rank() OVER (ORDER BY id) = 1", "SELECT rank() FROM e_int", "SELECT sum(i) OVER w FROM e_int WHERE id < 4 WINDOW w AS (ORDER BY id) ORDER BY 1", "SELECT bool_and(o) OVER (ORDER BY id), bool_or(q) OVER (ORDER BY id) FROM e_bool ORDER BY id", "SELECT id, count(*) OVER () FROM e_int WHERE FALSE", "SELECT id, stddev(i) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM e_int WHERE id < 9 ORDER BY id")
    return m.done()
