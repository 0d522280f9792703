"""Themes: comparisons, three-valued logic, membership, rows."""
from .values import INTEGERS, NUMBERS, POOLS, Maker

COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "!="]
DISTINCT = ["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


def comparisons():
    m = Maker("comparisons")
    for t in POOLS:
        for _ in range(11):
            m.select(f"{m.value(t)} {m.pick(COMPARISONS + DISTINCT)} {m.value(t)}")
    m.sample(190, [f"SELECT {m.value(a)} {op} {m.value(b)}" for a in NUMBERS for b in NUMBERS for op in ("=", "<", ">=", "IS DISTINCT FROM") if a != b])
    m.select(*(f"'{a}'::float8 {op} '{b}'::float8" for a, b in (("NaN", "NaN"), ("NaN", "Infinity"), ("-0", "0"), ("NaN", "1"), ("-Infinity", "NaN")) for op in ("=", "<", ">", "<>", ">=")))
    m.select(*(f"'{a}'::real {op} '{b}'::float8" for a, b in (("NaN", "NaN"), ("0.1", "0.1"), ("1.5", "1.5"), ("16777217", "16777217")) for op in ("=", "<", ">")))
    m.select("0.1::real = 0.1", "0.1::float8 = 0.1", "0.1 = 0.10", "1 = 1.0", "1.0 = 1.00000", "9007199254740993 = 9007199254740992::float8", "9007199254740993::bigint = 9007199254740992::float8",
             "9007199254740993::numeric = 9007199254740992::float8", "9223372036854775807 = 9223372036854775807::float8", "9223372036854775807 < 9223372036854775808", "2147483647 < 2147483648",
             "0.1::float8 + 0.2::float8 = 0.3::float8", "0.1 + 0.2 = 0.3", "99999999999999999999999999999999999999 > 9223372036854775807", "'a' < 'B'", "'a' < 'b'", "'' < 'a'", "'a' = 'a '", "'a' < 'ä'",
             "'Z' < 'a'", "'abc' < 'abcd'", "'10' < '9'", "'😀' > '日'", "'\\' < 'a'", "true > false", "true = 't'", "'yes' = true")
    return m.done()


def unlike_comparisons():
    m = Maker("unlike comparisons")
    samples = {"SMALLINT": "1::smallint", "INTEGER": "1", "BIGINT": "1::bigint", "REAL": "1::real", "DOUBLE PRECISION": "1::float8", "NUMERIC": "1.0", "TEXT": "'1'::text", "VARCHAR": "'1'::varchar",
               "BOOLEAN": "true", "DATE": "DATE '2020-01-01'", "TIMESTAMP": "TIMESTAMP '2020-01-01 00:00:00'", "INTERVAL": "INTERVAL '1 day'", "BYTEA": "CAST('1' AS BYTEA)"}
    m.select(*(f"{a} {op} {b}" for x, a in samples.items() for y, b in samples.items() if x != y for op in ("=",)))
    m.sample(70, (f"SELECT {a} {op} {b}" for x, a in samples.items() for y, b in samples.items() if x != y for op in ("<", "IS DISTINCT FROM", "+", "||")))
    m.select("'1' = 1", "1 = '1'", "'a' = 1", "1 = 'a'", "'1.5' = 1", "'1.0' = 1.0", "1.0 = '1'", "' 1 ' = 1", "'' = 1", "'99999999999' = 1", "'99999999999' = 1::bigint", "'1' = 1::float8", "'x' = 1::float8", "1 = true",
             "true = 1", "'t' = true", "'maybe' = true", "true = 'off'", "date '2020-01-01' = 1", "date '2020-01-01' = '2020-01-01'", "'2020-01-01' = date '2020-01-01'", "date '2020-01-01' = 'x'",
             "date '2020-01-01' = '2020-1-1'", "timestamp '2020-01-01' = '2020-01-01'", "timestamp '2020-01-01' = date '2020-01-01'", "date '2020-01-01' < timestamp '2020-01-01 00:00:01'",
             "timestamp '2020-01-01' = '20200101'", "date '2020-01-01' < 'infinity'", "interval '1 day' = '24 hours'", "CAST('a' AS BYTEA) = 'a'", "CAST('a' AS BYTEA) = '\\x61'", "CAST('a' AS BYTEA) = 'a'::text",
             "1 IN ('1', '2')", "1 IN ('1', 'a')", "'a' IN (1, 2)", "'1'::text IN (1)", "1 BETWEEN '0' AND '2'", "1 BETWEEN '0' AND 'x'", "1 IN (1, 2.5)", "1.5 IN (1, 1.5)", "true IN (1)", "1 = NULL::text", "'1'::text = 1.0",
             "date '2020-01-01' IN ('2020-01-01')", "date '2020-01-01' BETWEEN '2019-01-01' AND '2021-01-01'")
    for column, table in (("t", "text"), ("v", "text")):
        for other in ("1", "123", "'123'", "1.5", "true", "DATE '2020-01-01'", "NULL", "CAST('123' AS VARCHAR(3))"):
            m.add(f"SELECT id FROM e_{table} WHERE {column} = {other} ORDER BY id", f"SELECT id FROM e_{table} WHERE {column} < {other} ORDER BY id")
    for column in ("s", "i", "b"):
        for other in ("'1'", "'a'", "'1'::text", "1.0", "1.5", "true", "'99999999999'", "1::float8", "'1.0'", "NULL", "DATE '2020-01-01'", "9223372036854775808", "1e30", "1e30::float8", "'NaN'::float8", "-32769", "2147483648", "0.5"):
            table = m.table("int")
            m.add(f"SELECT id FROM {table} WHERE {column} {m.pick(['=', '<', '>=', '<>'])} {other} ORDER BY id")
    m.add("SELECT e_int.id FROM e_int JOIN e_text ON e_int.i = e_text.t ORDER BY 1", "SELECT e_int.id FROM e_int JOIN e_flt ON e_int.i = e_flt.d ORDER BY 1", "SELECT e_int.id FROM e_int JOIN e_num ON e_int.b = e_num.n ORDER BY 1",
          "SELECT a.id, b.id FROM e_time a JOIN e_time b ON a.d = b.ts ORDER BY 1, 2", "SELECT a.id, b.id FROM e_bool a JOIN e_int b ON a.o = b.i ORDER BY 1, 2",
          "SELECT a.id, b.id FROM e_flt a JOIN e_num b ON a.d = b.m ORDER BY 1, 2", "SELECT a.id, b.id FROM e_flt a JOIN e_flt b ON a.r = b.d ORDER BY 1, 2", "SELECT a.id, b.id FROM e_int a JOIN e_int b ON a.s = b.b ORDER BY 1, 2")
    return m.done()


def logic():
    m = Maker("logic")
    three = ["TRUE", "FALSE", "NULL", "CAST(NULL AS BOOLEAN)"]
    m.select(*(f"{a} {op} {b}" for a in three[:3] for b in three[:3] for op in ("AND", "OR", "=", "<", "IS DISTINCT FROM")))
    m.select(*(f"{a} {test}" for a in three for test in ("IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE", "IS UNKNOWN", "IS NOT UNKNOWN", "IS NULL", "IS NOT NULL")))
    m.select(*(f"NOT {a}" for a in three), *(f"NOT {a} AND {b}" for a in three[:3] for b in three[:3]))
    m.select("1 IS DISTINCT FROM 2 AND FALSE", "1 IS DISTINCT FROM 2 AND TRUE", "1 IS DISTINCT FROM 1 OR TRUE", "1 IS NOT DISTINCT FROM 1 AND FALSE", "NULL IS DISTINCT FROM 1 AND NULL IS NULL", "NULL IS NOT DISTINCT FROM NULL OR FALSE",
             "1 IS DISTINCT FROM 1 + 1", "TRUE IS DISTINCT FROM FALSE = TRUE", "1 = 2 IS DISTINCT FROM TRUE", "NOT 1 IS DISTINCT FROM 1", "1 IS NOT DISTINCT FROM 1 = TRUE", "1 < 2 IS TRUE", "NOT TRUE IS NULL", "NULL = 1 IS NULL",
             "1 IS NULL OR 1 IS NOT NULL", "NOT NULL IS NULL", "TRUE OR 1/0 = 1", "FALSE AND 1/0 = 1", "NULL AND FALSE OR TRUE", "TRUE AND 'yes'", "1 AND 2", "'a' AND TRUE", "TRUE OR NULL", "NOT 1", "NOT 'f'", "TRUE = 'on'", "TRUE AND NULL IS NULL",
             "2 BETWEEN 1 AND 3 AND TRUE", "2 BETWEEN 3 AND 1", "2 BETWEEN SYMMETRIC 3 AND 1", "NULL BETWEEN 1 AND 2", "1 BETWEEN NULL AND 0", "1 BETWEEN 0 AND NULL", "1 NOT BETWEEN 2 AND NULL", "NOT 1 BETWEEN 2 AND 3", "'NaN'::float8 BETWEEN 1 AND 'NaN'",
             "1 IN (1, NULL)", "1 IN (2, NULL)", "1 NOT IN (1, NULL)", "1 NOT IN (2, NULL)", "NULL IN (1)", "NULL NOT IN (1)", "NULL IN (NULL)", "1 NOT IN (2, 3)", "'a' IN ('a', NULL)", "1 IN (1.0, 2)", "NOT 1 IN (2)", "1 = 1 IN (TRUE)",
             "1 NOT IN (1) OR 1 NOT IN (2)", "NULL NOT IN (1) OR NULL NOT IN (2)", "1 = ANY (ARRAY[1, 2])", "1 <> ALL (ARRAY[2, NULL])", "bool_and(x) FROM (VALUES (TRUE), (NULL)) AS t(x)", "EXISTS (SELECT NULL)", "NOT EXISTS (SELECT 1 WHERE FALSE)",
             "1 IN (SELECT NULL)", "1 NOT IN (SELECT NULL)", "1 NOT IN (SELECT 2 WHERE FALSE)", "NULL IN (SELECT 1 WHERE FALSE)", "NULL NOT IN (SELECT 1 WHERE FALSE)", "1 IN (SELECT 1 UNION ALL SELECT NULL)", "2 IN (SELECT 1 UNION ALL SELECT NULL)", "2 NOT IN (SELECT 1 UNION ALL SELECT NULL)",
             "1 > ALL (SELECT 0 UNION ALL SELECT NULL)", "1 = ANY (SELECT 1)", "1 > ANY (SELECT 2 UNION ALL SELECT NULL)")
    for _ in range(30):
        a, b, c = (m.pick(three[:3]) for _ in range(3))
        m.select(f"{m.pick(['', 'NOT '])}{a} {m.pick(['AND', 'OR'])} {m.pick(['', 'NOT '])}{b} {m.pick(['AND', 'OR'])} {c}")
    conditions = ["o", "NOT o", "o AND q", "o OR q", "NOT (o AND q)", "NOT (o OR q)", "o = q", "o <> q", "o < q", "o IS DISTINCT FROM q", "o IS NOT DISTINCT FROM q", "o IS NULL", "o IS NOT TRUE", "q IS NOT FALSE", "o IS UNKNOWN",
                  "o IS DISTINCT FROM q AND k = 1", "k = 1 OR o IS DISTINCT FROM q", "o IS DISTINCT FROM TRUE AND q IS DISTINCT FROM TRUE", "o IS NOT DISTINCT FROM q OR k = 2", "NOT o IS DISTINCT FROM q", "(o AND q) IS NULL", "(o OR q) IS NULL",
                  "o = TRUE", "o <> TRUE", "o IN (TRUE)", "o NOT IN (TRUE)", "o NOT IN (TRUE, NULL)", "o IN (q)", "o NOT IN (q)", "CASE WHEN o THEN q ELSE NOT q END", "COALESCE(o, q)", "COALESCE(o, FALSE)", "o AND NULL", "o OR NULL", "NULL", "FALSE", "o BETWEEN FALSE AND q",
                  "k NOT IN (1) OR k NOT IN (2)", "k NOT IN (1, 2)", "k NOT IN (1, NULL)", "k IN (1, NULL)", "NOT (k IN (1, NULL))", "k NOT IN (1) AND k NOT IN (2)", "k <> 1 OR k <> 2", "k = 1 AND k = 2", "k IS NULL OR k NOT IN (3)", "k IN (SELECT k FROM e_int)", "k NOT IN (SELECT k FROM e_int)",
                  "k NOT IN (SELECT k FROM e_int WHERE k IS NOT NULL AND k < 3)", "EXISTS (SELECT 1 FROM e_int WHERE e_int.k = t.k)", "NOT EXISTS (SELECT 1 FROM e_int WHERE e_int.k = t.k)", "k > ALL (SELECT k FROM e_int WHERE k < 2)", "k = ANY (SELECT k FROM e_flt)"]
    m.add(*(f"SELECT id FROM {m.table('bool')} AS t WHERE {c} ORDER BY id" for c in conditions))
    m.add(*(f"SELECT id, {c} FROM {m.table('bool')} AS t ORDER BY id" for c in conditions if "SELECT" not in c or "NOT IN" in c or "IN (" in c))
    return m.done()


def rows():
    m = Maker("rows")
    parts = ["(1, NULL)", "(1, 2)", "(NULL, NULL)", "(2, 1)", "(NULL, 2)", "ROW(1, 2)", "(1, 3)"]
    m.sample(90, (f"SELECT {a} {op} {b}" for a in parts for b in parts for op in ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")))
    m.select(*(f"{a} {t}" for a in parts + ["ROW(NULL)", "ROW(1, NULL)", "ROW(NULL, NULL)"] for t in ("IS NULL", "IS NOT NULL")))
    m.select("NOT (ROW(1, NULL) IS NULL)", "(1, 2) IN ((1, 2), (3, 4))", "(1, 2) IN ((3, 4))", "(1, NULL) IN ((1, 2))", "(1, NULL) IN ((2, 2))", "(1, 2) NOT IN ((1, NULL))", "(1, 2) NOT IN ((2, NULL))", "(1, 2) = (1, 2, 3)", "(1, 'a') = (1, 'a')", "(1, 'a') = ('1', 'a')", "(1, 2) = (1, 'a')",
             "(1, 2) < (1, 3)", "(1, NULL) < (2, 1)", "(1, NULL) < (1, 1)", "(2, 1) > (1, NULL)", "(1, 2) BETWEEN (1, 1) AND (1, 3)", "(1, 2.0) = (1.0, 2)", "(1, 2) = (SELECT 1, 2)", "(1, 2) IN (SELECT 1, 2)", "(1, NULL) IN (SELECT 1, 2)", "(1, 2) NOT IN (SELECT 1, NULL)", "(NULL, 2) NOT IN (SELECT 1, 3)", "ROW(1) = ROW(1)", "(1) = (1)", "ROW() IS NULL",
             "((1, 2), 3) = ((1, 2), 3)", "(1, 2) IS DISTINCT FROM (1, NULL)", "(1, 2) = NULL", "ROW(1, 2)::text", "(1, 2) = ANY (SELECT 1, 2)")
    for c in ("(s, i) = (1, 1)", "(s, i) IN ((1, 1), (2, 3))", "(s, i) IN ((0, NULL), (1, 1))", "(s, i) NOT IN ((0, NULL), (1, 1))", "(s, i) NOT IN ((0, 0))", "(s, i) < (1, 2)", "(s, i) >= (0, 0)", "(s, i) <> (0, 0)", "(s, b) = (0, NULL)", "ROW(s, i) IS NULL", "ROW(s, i) IS NOT NULL", "NOT (ROW(s, i) IS NULL)",
              "(s, i) IS DISTINCT FROM (0, 0)", "(s, i) IS NOT DISTINCT FROM (0, NULL)", "(s, i, b) > (1, 1, 1)", "(k, s) IN (SELECT k, s FROM e_int WHERE id < 5)", "(k, s) NOT IN (SELECT k, s FROM e_int WHERE id BETWEEN 9 AND 12)", "(k, s) NOT IN (SELECT k, s FROM e_int WHERE id > 12)", "(i, b) NOT IN (SELECT i, b FROM e_int WHERE id IN (1, 15))",
              "(i, s) > (SELECT 0, 0)", "(i, s) = (SELECT 1, 1)", "(i, s) = (SELECT k, k FROM e_int WHERE id = 1)", "(s, i) BETWEEN (0, 0) AND (1, 1)"):
        m.add(f"SELECT id FROM {m.table('int')} WHERE {c} ORDER BY id")
    m.add("SELECT id, (s, i) = (1, 1) FROM e_int ORDER BY id", "SELECT id, (s, i) IN ((0, NULL), (1, 1)) FROM e_int ORDER BY id", "SELECT id, (s, i) < (1, 2) FROM e_int ORDER BY id", "SELECT id, ROW(s, i) IS NULL, ROW(s, i) IS NOT NULL FROM e_int ORDER BY id")
    return m.done()
