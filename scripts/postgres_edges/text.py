"""Themes: text and bytes, patterns, casts from and to text."""
from .values import BYTEA, FLT8, NUMBERS, POOLS, TEXT, Maker

SHOWN = ["SMALLINT", "INTEGER", "BIGINT", "REAL", "DOUBLE PRECISION", "NUMERIC(4,2)", "NUMERIC(38,10)", "BOOLEAN", "DATE", "TIMESTAMP",
         "INTERVAL", "BYTEA"]


def text_functions():
    m = Maker("text functions")
    strings = [f"'{t}'" for t in TEXT] + ["NULL"]
    for f in ("length", "char_length", "octet_length", "upper", "lower", "reverse", "trim", "ltrim", "rtrim", "btrim", "initcap", "ascii", "md5", "bit_length"):
        m.sample(9, (f"SELECT {f}({s})" for s in strings))
    subjects = ["'abcdef'", "'äöü日本'", "''", "'😀a😀'", "NULL"]
    m.sample(90, [f"SELECT {f}({s}, {a}{b})" for f in ("substr", "substring") for s in subjects for a in ("1", "0", "-1", "-5", "3", "100", "2147483647", "NULL") for b in ("", ", 2", ", 0", ", 100", ", -1", ", 2147483647", ", NULL")])
    m.select("substring('abcdef' FROM 2 FOR 3)", "substring('abcdef' FROM -2 FOR 5)", "substring('abcdef' FROM 3)", "substring('abcdef' FOR 2)", "substring('abcdef' FROM 0)", "substring('abcdef' FROM 0 FOR 2)", "substring('abc' FROM 'b.')", "substring('abc' FROM -1 FOR 2147483647)",
             "overlay('abcdef' PLACING 'XX' FROM 2 FOR 3)", "overlay('abcdef' PLACING 'XX' FROM 2)")
    m.sample(50, [f"SELECT {f}({s}, {n})" for f in ("left", "right") for s in subjects for n in ("0", "1", "2", "-1", "-2", "100", "-100", "NULL", "2147483647", "-2147483648")])
    m.sample(60, [f"SELECT {f}({s}, {n}{p})" for f in ("lpad", "rpad") for s in subjects for n in ("0", "1", "3", "8", "-1", "NULL") for p in ("", ", 'xy'", ", ''", ", 'é'", ", NULL")])
    m.sample(40, [f"SELECT {f}({s}, {c})" for f in ("ltrim", "rtrim", "btrim", "trim") for s in ("'xxabcxx'", "'  abc  '", "'ababab'", "''", "'ääbää'") for c in ("'x'", "'xa'", "''", "'ab'", "' '", "'ä'", "NULL")])
    m.select("trim(BOTH 'x' FROM 'xxaxx')", "trim(LEADING 'x' FROM 'xxaxx')", "trim(TRAILING 'x' FROM 'xxaxx')", "trim(BOTH FROM '  a  ')", "trim(LEADING FROM '  a  ')", "trim(E'\\t' || 'a' || E'\\n')", "trim(' a' || E'\\t')", "trim(BOTH 'ab' FROM 'abcab')", "trim('x' FROM 'xax')")
    m.sample(50, [f"SELECT {f}" for s in ("'abcabc'", "''", "'äöü'", "NULL", "'aaa'") for p in ("'c'", "''", "'z'", "'ü'", "NULL", "'aa'", "'abcabcd'") for f in (f"position({p} IN {s})", f"strpos({s}, {p})", f"starts_with({s}, {p})")])
    m.sample(40, [f"SELECT replace({s}, {a}, {b})" for s in ("'abcabc'", "''", "'aaa'", "'ääa'") for a in ("'a'", "''", "'aa'", "'z'", "'ä'", "NULL") for b in ("'X'", "''", "'aa'", "NULL")])
    m.sample(30, [f"SELECT repeat({s}, {n})" for s in ("'ab'", "''", "'ä'", "NULL") for n in ("0", "1", "3", "-1", "NULL", "-2147483648")])
    m.sample(50, [f"SELECT split_part({s}, {d}, {n})" for s in ("'a,b,c'", "''", "',a,'", "'a,,b'", "'abc'", "NULL") for d in ("','", "''", "',,'", "'x'", "NULL") for n in ("1", "2", "3", "4", "0", "-1", "-2", "-4", "NULL", "2147483647")])
    m.select("concat('a', 'b')", "concat('a', NULL, 'b')", "concat(NULL)", "concat(NULL, NULL)", "concat(1, 'a', 2.50, true)", "concat('a', 1.0::float8)", "concat(DATE '2020-01-01', 'x')", "concat(1e20::float8)", "concat()", "concat('')", "concat(true)", "concat(TIMESTAMP '2020-01-01 00:00:00')", "concat(CAST('a' AS BYTEA))",
             "concat_ws(',', 'a', 'b')", "concat_ws(',', 'a', NULL, 'b')", "concat_ws(NULL, 'a', 'b')", "concat_ws('', 'a', 'b')", "concat_ws(',', NULL)", "concat_ws(',')", "concat_ws(',', '', '')", "concat_ws(',', 1, true, 2.5)", "concat_ws(',', NULL, 'a')", "concat_ws('-', 'a', NULL, NULL, 'b')",
             "'a' || 'b'", "'a' || NULL", "NULL || NULL", "'a' || 1", "1 || 'a'", "'a' || 1.50", "'a' || true", "'a' || DATE '2020-01-01'", "'a' || 1e20::float8", "'a' || ''", "'a' || 'b' || 'c'", "'a' || 1 + 2", "'a' || (1 + 2)", "'ab' || CAST('x' AS CHAR(3)) || 'c'", "1 || 2", "'a' || INTERVAL '1 day'", "'a' || TIMESTAMP '2020-01-01 00:00:00.50'",
             "'a' || 1.0::real", "'a' || NULL::text", "chr(65)", "chr(228)", "chr(128512)", "chr(0)", "chr(-1)", "chr(1114112)", "ascii('ä')", "ascii('')", "to_hex(255)", "to_hex(-1)", "to_hex(9223372036854775807)", "translate('abcabc', 'ab', 'x')", "translate('abc', 'abc', '')", "translate('abc', '', 'x')", "translate('äbc', 'äb', 'xy')",
             "md5('')", "md5('abc')", "md5('ä')", "md5(CAST('abc' AS BYTEA))", "encode(CAST('abc' AS BYTEA), 'hex')", "encode(CAST('abc' AS BYTEA), 'base64')", "decode('616263', 'hex')", "decode('6162zz', 'hex')", "decode('YWJj', 'base64')", "lower('ÄÖÜ')", "initcap('hello wORLD foo_bar')", "initcap('o''neil äb')",
             "length(1)", "length(true)", "upper(1)", "length('abc'::char(5))", "char_length('abc  '::char(5))", "octet_length('abc'::char(5))", "length(CAST('abc' AS BYTEA))", "octet_length(CAST('äb' AS BYTEA))", "length(123::text)", "lower(NULL)", "left('abc', '1')", "repeat('a', '2')", "substr(12345, 2)", "replace(12, 1, 3)",
             "strpos('abc', 1)", "position(1 IN 'a1')", "regexp_replace('abcabc', 'b', 'X')", "regexp_replace('abcabc', 'b', 'X', 'g')", "regexp_replace('abc', '(a)(b)', '\\2\\1')", "regexp_replace('ABC', 'b', 'x', 'i')", "regexp_like('abc', 'b')", "regexp_count('abcabc', 'b')", "regexp_substr('abc', 'b.')", "'abc' ~ 'b'", "'abc' !~ 'b'", "'ABC' ~* 'b'", "'abc' ~ '^b'",
             "'abc' ~ '('", "regexp_match('abc', 'b')", "string_to_array('a,b', ',')", "quote_literal('it''s')", "quote_ident('A b')", "format('%s-%s', 1, 'a')", "levenshtein('a', 'b')", "least('b', 'a')", "'a' COLLATE \"C\" < 'B'", "'abc'::varchar(2)", "'abc'::char(2)", "'abc'::varchar", "'abc'::char", "'äöü'::varchar(2)", "'a'::char(3)", "'a'::char(3) || 'b'", "'a'::char(3) = 'a'", "'a '::varchar = 'a'::varchar",
             "'a  '::char(3) = 'a'::char(5)", "'a '::char(2) = 'a'::text", "'abc'::varchar(0)", "'ab   '::varchar(3)", "123::varchar(2)", "123::char(2)", "CAST(NULL AS VARCHAR(2))", "true::varchar(2)", "1.5::varchar(2)")
    m.add(*(f"SELECT id, {e} FROM {m.table('text')} ORDER BY id" for e in ("length(t), char_length(v)", "octet_length(t)", "upper(t), lower(v)", "reverse(t)", "trim(t), ltrim(v)", "t || v", "t || '-' || v", "left(t, 2), right(t, -1)", "substr(t, 2, 3)", "substr(t, -1, 3)", "lpad(t, 5, '*')", "rpad(v, 4, 'äb')", "replace(t, 'a', 'ÄÄ')", "split_part(t, 'b', 2)",
          "strpos(t, v)", "position('a' IN t)", "starts_with(t, 'a')", "starts_with(t, v)", "concat(t, v)", "concat_ws('|', t, v)", "md5(t)", "ascii(t)", "repeat(v, 2)", "initcap(t)", "translate(t, 'abc', 'xy')", "coalesce(t, v, 'none')", "nullif(t, v)", "greatest(t, v), least(t, v)", "t = v, t < v", "t IS DISTINCT FROM v", "t::varchar(3)", "t::char(3)", "length(t::char(8))", "CASE WHEN t = v THEN 'same' WHEN t < v THEN 'less' ELSE 'other' END", "CAST(t AS BYTEA)")))
    return m.done()


def like():
    m = Maker("like")
    subjects = ["'abc'", "''", "'a%b'", "'a_b'", "'äöü'", "'A'", "'a\\b'", "'%'", "NULL", "'aXc'", "'日本'", "'\\'"]
    patterns = ["'abc'", "'a%'", "'%c'", "'%b%'", "'a_c'", "'_'", "'__'", "''", "'%'", "'a\\%b'", "'a\\_b'", "'\\%'", "'\\\\'", "'a\\\\b'", "'A%'", "'ä__'", "'%%'", "'_%_'", "NULL", "'a\\b'", "'%\\'", "'Ä%'", "'a%c%'", "'___%'"]
    m.sample(210, (f"SELECT {s} {op} {p}" for s in subjects for p in patterns for op in ("LIKE", "LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE")))
    m.select("'a%b' LIKE 'a!%b' ESCAPE '!'", "'aXb' LIKE 'a!%b' ESCAPE '!'", "'a!b' LIKE 'a!!b' ESCAPE '!'", "'a\\b' LIKE 'a\\b' ESCAPE ''", "'a%b' LIKE 'a\\%b' ESCAPE ''", "'abc' LIKE 'a%' ESCAPE '%'", "'abc' LIKE 'abc' ESCAPE 'ab'", "'abc' LIKE 'a!' ESCAPE '!'", "'abc' LIKE 'a%' ESCAPE NULL", "'a_c' LIKE 'a#_c' ESCAPE '#'",
             "'abc' LIKE 'a#_c' ESCAPE '#'", "'A_C' ILIKE 'a#_c' ESCAPE '#'", "'abc' ~~ 'a%'", "'abc' !~~ 'a%'", "'abc' ~~* 'A%'", "1 LIKE '1'", "'1' LIKE 1", "1::text LIKE '1%'", "true LIKE 't%'", "'abc'::char(5) LIKE 'abc'", "'abc'::char(5) LIKE 'abc  '", "CAST('abc' AS BYTEA) LIKE CAST('a%' AS BYTEA)", "'abc' SIMILAR TO 'a(b|c)c'", "'abc' LIKE ANY (ARRAY['a%', 'b%'])", "'a\nb' LIKE 'a_b'".replace("\n", "' || chr(10) || '"),
             "'Ä' ILIKE 'ä'", "NOT 'a' LIKE 'b'", "'a' NOT LIKE NULL", "NULL LIKE NULL", "'abc' LIKE 'a' || '%'", "'a' || 'bc' LIKE 'abc'")
    for pattern in patterns + ["'%a%'", "'%日%'", "'1%'", "' %'", "'% '", "'a%b%c'", "'%longer%twelve%'"]:
        column = m.pick(["t", "v"])
        m.add(f"SELECT id FROM {m.table('text')} WHERE {column} {m.pick(['LIKE', 'NOT LIKE', 'LIKE', 'ILIKE'])} {pattern} ORDER BY id")
    m.add("SELECT id FROM e_text WHERE t LIKE v ORDER BY id", "SELECT id FROM x_text WHERE v LIKE t ORDER BY id", "SELECT id FROM e_text WHERE t ILIKE v ORDER BY id", "SELECT id FROM e_text WHERE t LIKE v || '%' ORDER BY id", "SELECT id, t LIKE 'a%', v NOT LIKE '%b' FROM e_text ORDER BY id", "SELECT id FROM x_text WHERE t LIKE 'a!%%' ESCAPE '!' ORDER BY id",
          "SELECT id FROM e_text WHERE v LIKE 'a!_%' ESCAPE '!' ORDER BY id", "SELECT id FROM e_text WHERE v LIKE '%\\%' ORDER BY id", "SELECT id FROM e_text WHERE t LIKE 'a\\\\%' ORDER BY id", "SELECT id FROM e_text WHERE NOT (t LIKE 'a%' OR v LIKE 'a%') ORDER BY id", "SELECT id FROM x_text WHERE t LIKE 'a%' IS NULL ORDER BY id")
    return m.done()


def text_casts():
    m = Maker("text casts")
    odd = {
        "SMALLINT": ["1", " 1 ", "+1", "-1", "32767", "32768", "-32769", "", " ", "1.0", "1e2", "0x1F", "abc", "1 2", "١", "--1", "007", "1_000", "- 1"],
        "INTEGER": ["1", " 7", "+5", "2147483647", "2147483648", "-2147483648", "", "1.5", "1e3", "0b1", "1a", "9999999999", "0", "-0", "\\t1"],
        "BIGINT": ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", " 12 ", "", "1.0", "x", "1e18"],
        "DOUBLE PRECISION": ["1", " 1.5 ", "1e400", "-1e400", "1e-400", "NaN", "nan", "-NaN", "inf", "+inf", "Infinity", "-infinity", "infinit", "", "1e", ".5", "5.", ".", "1e5x", "0x1p3", "1,5", "+1.5e+3", "1d", "1f", "4.9e-324", "2e-324", "-0"],
        "REAL": ["1e39", "1e-50", "3.5e38", "NaN", "inf", "0.1", "16777217", "", "x", "1e-45", "7e-46"],
        "NUMERIC": ["1", " 1.50 ", "1e3", "1e-3", "NaN", "Infinity", "-inf", "", "1.", ".1", ".", "1e", "abc", "+1", "--1", "1_0", "1e100", "0.1e1", "1 2", "123456789012345678901234567890.123456789"],
        "NUMERIC(4,2)": ["99.994", "99.995", "100", "-99.999", "0.005", "0.004", "-0.005", "1e1", "1e2", "NaN", "Infinity", "", "x"],
        "NUMERIC(38,0)": ["99999999999999999999999999999999999999", "100000000000000000000000000000000000000", "0.5", "1.5", "2.5", "-0.5", "1e37", "1e38"],
        "BOOLEAN": ["t", "T", "true", "TRUE", "tRuE", " true ", "tr", "y", "yes", "ye", "on", "o", "of", "off", "1", "0", "2", "f", "F", "fal", "false", "n", "no", "", "  ", "NULL", "truee", "01", "-1", "1.0"],
        "DATE": ["2020-01-01", "2020-1-1", " 2020-01-01 ", "20200101", "2020-02-30", "2020-13-01", "2019-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "10000-01-01", "99999-01-01", "-0001-01-01", "2020/01/01", "01/02/2020", "1/2/20", "January 5, 2020", "5 Jan 2020", "2020-Jan-05", "2020-001", "infinity", "-infinity", "epoch",
                 "", "x", "2020-01-01 10:00:00", "2020-01-01T10:00:00", "2020-01-01 25:00:00", "0044-03-15 BC", "J2451187", "2020-01", "2020", "20-01-01", "2020-01-01x", "2020-01-01 BC", "5874897-12-31", "5874898-01-01", "2020.01.01", "200101"],
        "TIMESTAMP": ["2020-01-01", "2020-01-01 10:11:12", "2020-01-01T10:11:12", "2020-01-01 10:11", "2020-01-01 10", "2020-01-01 10:11:12.123456", "2020-01-01 10:11:12.1234567", "2020-01-01 10:11:12.1234565", "2020-01-01 10:11:12.9999999", "2020-01-01 24:00:00", "2020-01-01 24:00:01", "2020-01-01 23:59:60", "2020-01-01 25:00:00",
                      "2020-01-01 10:60:00", "2020-02-30 00:00:00", "2020-01-01 10:11:12 PM", "2020-01-01 3:04:05 PM", "2020-01-01 10:11:12Z", "2020-01-01 10:11:12+02", "2020-01-01 10:11:12+02:00", "  2020-01-01  10:11:12  ", "20200101T101112", "20200101 101112", "infinity", "-infinity", "epoch", "", "x", "2020-1-1 1:2:3", "0001-01-01 00:00:00",
                      "9999-12-31 23:59:59.999999", "10000-01-01 00:00:00", "294276-12-31 23:59:59", "294277-01-01 00:00:00", "Jan 5 2020 10:00", "2020-01-01 10:11:12.", "2020-01-01 10:11:12,5", "2020-01-01 00:00:00 BC", "4714-01-01 00:00:00 BC", "1969-12-31 23:59:59.9999995"],
        "BYTEA": ["", "abc", "\\x", "\\x6", "\\x61", "\\X61", "\\xzz", "\\x 61 62", "ä", "\\000", "\\141", "\\\\", "\\", "a\\", "\\999", "\\x6162"],
        "VARCHAR(3)": ["", "abc", "abcd", "äöüß", "   ", "a    ", "😀😀😀😀"],
        "CHAR(3)": ["", "a", "abcd", "äöüß", "a    "],
        "INTERVAL": ["1 day", "1day", "-1 days", "1 day ago", "1 mon", "1 month", "1 m", "1 min", "1:02", "1:02:03", "01:02:03.5", "1 2:03:04", "1-2", "1 year 2 mons", "P1Y2M3DT4H5M6S", "P1D", "PT1.5S", "@ 1 minute", "1.5 hours", "1.5 months", "0.5 years", "1 week", "1 fortnight", "1", "", "x", "1 decade", "1 century", "1 quarter", "1e3 seconds", "100000000 years", "1 day 1 day", "-1:00", "1 day -1:00", "+1 day", "1 ms", "1 us", "5 millisecond", "178000000 years", "1 month 1.5 days"],
    }
    for t, texts in odd.items():
        forms = ["CAST('{}' AS {})", "'{}'::{}"] + (["CAST(CAST('{}' AS TEXT) AS {})"] if t != "BYTEA" else [])
        m.select(*(m.pick(forms).format(x, t) for x in texts))
        m.select(f"CAST(CAST('{texts[0]}' AS TEXT) AS {t})", f"'x'::text::{t}")
    m.sample(170, (f"SELECT CAST({m.literal(t, v)} AS {m.pick(['TEXT', 'TEXT', 'VARCHAR', 'VARCHAR(12)'])})" for t in SHOWN for v in POOLS[t]))
    m.select(*(f"'{v}'::float8::text" for v in FLT8), *(f"'{v}'::real::text" for v in POOLS["REAL"]), *(f"INTERVAL '{v}'::text" for v in POOLS["INTERVAL"]), *(f"CAST({v} AS TEXT)" for v in ("1e0::float8", "100::float8", "1e21::float8", "0.000012345::float8", "123456.789::real", "1e100::float8", "1.0", "1.50", "0.00", "-0.0", "1e2", "1e-5")))
    others = ["BOOLEAN", "DATE", "TIMESTAMP", "INTERVAL", "BYTEA", "INTEGER", "DOUBLE PRECISION"]
    m.select(*(f"CAST({m.literal(a, m.pick(POOLS[a]))} AS {b})" for a in others for b in others if a != b))
    m.add(*(f"SELECT id, CAST({c} AS {t}) FROM {m.table(table)} ORDER BY id" for table, c, t in (("int", "s", "TEXT"), ("int", "b", "VARCHAR(5)"), ("flt", "r", "TEXT"), ("flt", "d", "TEXT"), ("num", "p", "TEXT"), ("num", "w", "TEXT"), ("num", "n", "VARCHAR"), ("time", "d", "TEXT"), ("time", "ts", "TEXT"), ("time", "ts", "DATE"), ("time", "d", "TIMESTAMP"), ("bool", "o", "TEXT"), ("bool", "o", "INTEGER"), ("bool", "y", "TEXT"),
          ("int", "s", "DOUBLE PRECISION"), ("int", "b", "DOUBLE PRECISION"), ("int", "b", "REAL"), ("int", "i", "NUMERIC(15,2)"), ("flt", "r", "DOUBLE PRECISION"), ("num", "w", "DOUBLE PRECISION"), ("num", "m", "REAL"), ("num", "p", "INTEGER"), ("num", "w", "NUMERIC(38,2)"), ("num", "p", "NUMERIC(3,1)"), ("int", "b", "INTEGER"), ("int", "i", "SMALLINT"), ("int", "i", "BOOLEAN"), ("num", "w", "BIGINT"), ("flt", "d", "INTEGER"), ("flt", "d", "REAL"))))
    m.add(*(f"SELECT id, CAST(t AS {t}) FROM e_text WHERE id = {n}" for t in ("INTEGER", "BIGINT", "DOUBLE PRECISION", "NUMERIC(15,2)", "BOOLEAN", "DATE", "TIMESTAMP", "BYTEA") for n in (9, 10, 11, 12, 13, 14, 15, 21, 24, 25, 26, 27)))
    m.add(*(f"SELECT id, CAST({c} AS {t}) FROM e_flt WHERE id = {n}" for c in ("r", "d") for t in ("SMALLINT", "INTEGER", "BIGINT", "NUMERIC(15,2)") for n in (2, 3, 4, 6, 9, 11, 15, 20)))
    return m.done()


def bytes_():
    m = Maker("bytes")
    v = [f"CAST('{b}' AS BYTEA)" for b in BYTEA] + ["NULL::bytea"]
    m.sample(70, (f"SELECT {a} {op} {b}" for a in v for b in v for op in ("=", "<", ">=", "||", "<>", "IS DISTINCT FROM")))
    for f in ("length", "octet_length", "md5", "bit_length", "upper", "reverse", "sha256"):
        m.sample(4, (f"SELECT {f}({a})" for a in v))
    m.select("substr(CAST('\\xff00ff' AS BYTEA), 2)", "substring(CAST('abc' AS BYTEA) FROM 2 FOR 1)", "position(CAST('b' AS BYTEA) IN CAST('abc' AS BYTEA))", "CAST('abc' AS BYTEA) || 'd'", "trim(CAST('  a ' AS BYTEA))", "'\\x61'::bytea", "'a'::bytea = '\\x61'", "get_byte(CAST('abc' AS BYTEA), 0)", "CAST('\\xe4' AS BYTEA)::text", "'\\xDEADbeef'::bytea", "E'\\\\x61'::bytea", "left(CAST('abc' AS BYTEA), 1)")
    for c in ("y = CAST('abc' AS BYTEA)", "y = '\\x616263'", "y > CAST('\\x00' AS BYTEA)", "y < CAST('b' AS BYTEA)", "y IS NULL", "y IN (CAST('' AS BYTEA), CAST('\\xff' AS BYTEA))", "y NOT IN (CAST('' AS BYTEA), NULL)", "y BETWEEN CAST('A' AS BYTEA) AND CAST('z' AS BYTEA)", "length(y) > 1", "y IS DISTINCT FROM CAST('abc' AS BYTEA)", "y = 'abc'", "y <> ''"):
        m.add(f"SELECT id FROM {m.table('bool')} WHERE {c} ORDER BY id")
    m.add("SELECT y FROM e_bool ORDER BY y, id", "SELECT y FROM e_bool ORDER BY y DESC, id", "SELECT DISTINCT y FROM x_bool ORDER BY y", "SELECT y, count(*) FROM e_bool GROUP BY y ORDER BY y", "SELECT min(y), max(y) FROM e_bool", "SELECT id, length(y), y || y, encode(y, 'hex') FROM e_bool ORDER BY id", "SELECT a.id, b.id FROM e_bool a JOIN e_bool b ON a.y = b.y ORDER BY 1, 2", "SELECT count(DISTINCT y) FROM e_bool", "SELECT coalesce(y, CAST('none' AS BYTEA)) FROM e_bool ORDER BY id", "SELECT max(y) FROM e_bool GROUP BY k ORDER BY k")
    return m.done()
