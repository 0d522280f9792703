"""Themes: numbers, their operators, functions and casts."""
from .values import FLOATS, INTEGERS, NUMBERS, NUMERICS, POOLS, Maker

OPERATORS = ["+", "-", "*", "/", "%"]
BARE = ["0", "1", "-1", "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
        "-9223372036854775808", "-9223372036854775809", "1.5", "-2.5", ".5", "5.", "1e3", "1e-3", "1E+2", "0.1", "0.10",
        "1.000", "123456789012345678901234567890", "0.00000000000000000001", "99999999999999999999999999999999999999", "1e20",
        "18446744073709551616", "3.14159265358979323846", "007", "1.5e300", "1e400"]


def bare_literals():
    m = Maker("bare literals")
    m.select(*BARE)
    m.select("- 5", "+5", "- -5", "+ -5", "-(-2147483648)", "-(-9223372036854775808)", "-32768::smallint", "(-32768)::smallint",
             "-2147483648::integer", "-9223372036854775808::bigint", "-9223372036854775809::bigint", "NULL", "TRUE", "FALSE",
             "'abc'", "''", "'it''s'", "E'a\\nb'", "E'\\x41'", "'a' 'b'", "U&'\\0041'", "$$a$$", "'\\'", "B'101'", "X'1F'",
             "123abc", "1 AS x", "'x' AS \"Y\"", "1_000", "0x10", "N'abc'", "DATE '2020-01-01'", "TIMESTAMP '2020-01-01'",
             "INTERVAL '1 day'", "1 + NULL", "NULL + NULL", "NULL || 'a'", "- NULL", "NOT NULL", "NULL IS NULL", "NULL = NULL",
             "'1' + 1", "1 + '1'", "'1' + '1'", "'1.5' + 1", "'a' + 1", "'1' * 2.5", "1.5 + '2'", "true + 1", "1 + true", "'1' || 1",
             "1 || '1'", "1 || 2", "true || 'a'", "2 + 3 * 4", "(2 + 3) * 4", "2 - 3 - 4", "2 ^ 3 ^ 2", "2 ^ -1", "-2 ^ 2", "10 / 3 * 3",
             "7 / 2", "-7 / 2", "7 % -2", "-7 % 2", "7.0 / 2", "1 / 3.0", "1.0 / 3", "2.0 / 3.0", "10.0 / 4", "1e0 / 3", "5 / 10.00",
             "1 / 0", "0 / 0", "1.0 / 0", "1 % 0", "1.5 % 0", "1e0 / 0", "0.0 / 0.0", "1 < 2 = true", "1 = 1 = true", "NOT 1 = 2",
             "5 & 3", "5 | 3", "5 # 3", "~5", "1 << 4", "1 << 31", "1 << 32", "1 >> 1", "-1 >> 1", "5 ! ", "|/ 25.0", "||/ 27.0", "@ -5")
    edge = ["2147483647", "-2147483648", "9223372036854775807", "(-9223372036854775808)", "2147483648", "9223372036854775808",
            "32767", "0.1", "1.5", "1e10", "99999999999999999999"]
    m.sample(230, (f"SELECT {a} {op} {b}" for a in edge for op in OPERATORS for b in ["1", "-1", "2", "0", "2147483647", "9223372036854775807", "1.5", "0.3"]))
    return m.done()


def binary(name, lefts, rights, count):
    m = Maker(name)
    made = [f"SELECT {m.value(a)} {op} {m.value(b)}" for _ in range(14) for a in lefts for b in rights for op in OPERATORS]
    m.sample(count, made)
    return m


def integer_arithmetic():
    m = binary("integer arithmetic", INTEGERS, INTEGERS, 260)
    m.select(*(f"- {m.literal(t, v)}" for t in INTEGERS for v in (POOLS[t][0], POOLS[t][1], POOLS[t][-1], "0")))
    m.select(*(f"CAST('{POOLS[t][0]}' AS {t}) {op} CAST('-1' AS {t})" for t in INTEGERS for op in OPERATORS))
    m.select(*(f"CAST('{POOLS[t][-1]}' AS {t}) {op} CAST('{v}' AS {t})" for t in INTEGERS for op in OPERATORS for v in ("1", "-1", "0", "2")))
    m.select("32000::smallint * 32000::smallint", "32767::smallint + 1", "32767::smallint + 1::smallint", "1::smallint - 32768",
             "100::smallint / 7::smallint", "100::smallint / 7", "100::bigint / 7", "7::smallint % 0::smallint", "1::bigint / 0",
             "0::smallint / 0::smallint", "- (-32768)::smallint", "2147483647 + 1::bigint", "2147483647 + 1::smallint")
    return m.done()


def float_arithmetic():
    return binary("float arithmetic", FLOATS, FLOATS + ["DOUBLE PRECISION", "REAL", "INTEGER", "BIGINT"], 260).done()


def numeric_arithmetic():
    m = binary("numeric arithmetic", NUMERICS, NUMERICS, 240)
    m.select("0.1 + 0.2", "1.10 * 1.10", "1.00 - 1", "0.1 * 0.1 * 0.1", "123456789.123456789 * 987654321.987654321",
             "99999999999999999999 * 99999999999999999999", "1.0 / 3.0", "1.00 / 3", "2 / 3.00000000000000000000", "1e-10 * 1e-10",
             "10 % 3.3", "-10 % 3.3", "5.5 % -2", "1.5::numeric / 0.3", "100.0::numeric(10,2) / 3::numeric(10,2)", "1::numeric / 7",
             "1000000::numeric / 7::numeric", "1e30::numeric / 7", "0.000001 / 3", "- 0.00", "0.0 * -1", "1.5 + 1.50", "'NaN'::numeric + 1",
             "'Infinity'::numeric + 1", "'NaN'::numeric = 'NaN'::numeric", "5::numeric / 2", "5::numeric(3,0) / 2::numeric(3,0)")
    return m.done()


def mixed_arithmetic():
    m = Maker("mixed arithmetic")
    made = [f"SELECT {m.value(a)} {op} {m.value(b)}" for _ in range(6) for a in NUMBERS for b in NUMBERS for op in OPERATORS
            if (a in INTEGERS) + (b in INTEGERS) == 1 or (a in FLOATS) != (b in FLOATS)]
    m.sample(280, made)
    return m.done()


def math_functions():
    m = Maker("math functions")
    one = ["abs", "sign", "round", "trunc", "ceil", "floor", "ceiling", "sqrt", "exp", "ln", "log", "log10", "cbrt", "degrees", "radians",
           "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"]
    rounding = ["abs", "sign", "round", "trunc", "ceil", "floor"]
    m.sample(150, (f"SELECT {f}({m.literal(t, v)})" for f in rounding for t in NUMBERS for v in POOLS[t]))
    m.sample(90, (f"SELECT {f}({m.literal(t, v)})" for f in one[6:12] for t in ("INTEGER", "DOUBLE PRECISION", "REAL", "NUMERIC(15,2)") for v in POOLS[t]))
    m.sample(40, (f"SELECT {f}({m.literal(t, v)})" for f in one[12:] for t in ("DOUBLE PRECISION",) for v in POOLS[t]))
    m.select(*(f"{f}({v})" for f in one for v in ("0", "NULL", "-0.5", "2")))
    m.select(*(f"round({v}::{t})" for v in ("0.5", "1.5", "2.5", "-0.5", "-1.5", "-2.5", "0.49999999999999994") for t in ("numeric", "float8", "real")))
    m.select(*(f"{f}({v}, {n})" for f in ("round", "trunc") for v in ("1234.5678", "-1234.5678", "0.05", "2.345", "1.005", "99.995", "5", "15", "-15", "0.5")
               for n in ("2", "1", "0", "-1", "-2", "-5", "10")))
    m.select("round(2.5::float8, 1)", "trunc(2.55::float8, 1)", "round(1.5, NULL)", "round(NULL, 1)", "round(99.99::numeric(4,2), 1)", "round(15, -1)", "round(25, -1)",
             "round(2147483647, -9)", "trunc(9223372036854775807, -3)", "round('NaN'::float8)", "ceil(-0.5)", "floor(-0.5)", "ceil(-0.5::float8)",
             "trunc(-0.5::float8)", "sign(-0.0::float8)", "abs(-32768::smallint)", "abs((-32768)::smallint)", "abs((-2147483648)::int)", "abs(-9223372036854775808)")
    m.sample(110, (f"SELECT {f}({a}, {b})" for f in ("power", "pow", "mod", "atan2", "log", "div", "gcd", "lcm") for a in
                   ("2", "-2", "0", "0.5", "-8", "10::float8", "1e200::float8", "'NaN'::float8", "'-Infinity'::float8", "2.0", "1", "100", "7::bigint", "-7", "7.5", "NULL", "-2147483648::int")
                   for b in ("3", "0", "-1", "0.5", "1000", "'NaN'::float8", "'Infinity'::float8", "1::float8/3", "-2", "2.5", "NULL")))
    m.select("pi()", "random() < 1", "random() >= 0", "width_bucket(5.35, 0.024, 10.06, 5)", "factorial(5)", "factorial(-1)", "factorial(20)", "factorial(25)",
             "scale(1.500)", "trim_scale(1.500)", "min_scale(1.500)", "isnan(1)", "mod(5, 0)", "mod(-32768::smallint, -1::smallint)",
             "gcd(-9223372036854775808, 0)", "lcm(9223372036854775807, 2)", "power(10, 400)", "power(10::float8, 400)", "power(0, -1)", "power(-1, 0.5)", "exp(1000)", "exp(1000::float8)",
             "exp(-1000::float8)", "ln(0)", "ln(-1)", "ln(0::float8)", "sqrt(-1)", "sqrt(-1::float8)", "sqrt(2)", "sqrt(2::numeric)", "log(2, 64)", "log(100)", "log(0)", "log(2.0, 64.0)",
             "acos(2)", "asin(-2)", "tan(pi()/2) > 1e15", "cbrt(27)", "cbrt(-8)")
    return m.done()


def number_casts():
    m = Maker("number casts")
    types = INTEGERS + FLOATS + ["NUMERIC(4,2)", "NUMERIC(15,2)", "NUMERIC(38,0)", "NUMERIC(38,10)", "NUMERIC", "NUMERIC(3)", "DECIMAL(5,1)"]
    m.sample(330, (f"SELECT CAST({m.literal(a, v)} AS {b})" for a in NUMBERS for v in POOLS[a] for b in types if a != b))
    ties = ["0.5", "1.5", "2.5", "3.5", "-0.5", "-1.5", "-2.5", "32767.4", "32767.5", "-32768.5", "-32768.6", "2147483647.4", "2147483647.5",
            "9223372036854775807.5", "1e10", "99.994", "99.995", "99.985", "0.005", "-0.005", "1e-10"]
    m.sample(150, (f"SELECT {v}{via}::{t}" for v in ties for via in ("", "::float8", "::real") for t in ("smallint", "int", "bigint", "numeric(4,2)", "numeric(38,0)")))
    m.select("2.5::int", "3.5::int", "2.5::float8::int", "3.5::float8::int", "(-2.5)::int", "-2.5::int", "true::int", "false::int", "1::boolean", "0::boolean", "2::boolean",
             "true::bigint", "true::smallint", "1::smallint::boolean", "1.0::boolean", "true::numeric", "true::float8", "1::bigint::boolean", "'NaN'::float8::int",
             "'NaN'::float8::numeric", "'Infinity'::float8::numeric", "'NaN'::numeric::float8", "'NaN'::numeric::int", "'NaN'::numeric(4,2)", "'Infinity'::numeric(4,2)",
             "1e308::float8::real", "1e-46::float8::real", "1e39::real", "0.1::real::float8", "0.1::float8::real", "0.1::real::numeric", "0.1::float8::numeric",
             "16777217::real", "9007199254740993::float8", "123456789::real::int", "9223372036854775807::float8::bigint", "9223372036854775807::float8", "9223372036854774784::float8::bigint",
             "1.23456789012345678::float8", "1.23456789::real", "12345.678::numeric(7,2)", "12345.678::numeric(6,2)", "12345.678::numeric(2,-3)", "0.001::numeric(2,2)", "1::numeric(2,2)",
             "0.995::numeric(2,2)", "1::date", "1::timestamp", "1::interval", "1::bytea", "1.5::text::numeric", "CAST(1.50 AS TEXT)", "1::numeric(5,2)::text", "100::numeric::text",
             "1.10::numeric(38,10)::text", "1e3::text", "1e-7::text", "0.00001::float8::text", "0.0001::float8::text", "1e15::float8::text", "1e16::float8::text",
             "123456789012345680::float8::text", "1e5::real::text", "1e6::real::text", "1234567::real::text", "12345678::real::text", "1e7::real::text", "1e-5::real::text", "-0.0::float8::text", "(-0.0)::float8",
             "TRY_CAST('a' AS INTEGER)", "CAST(NULL AS INTEGER)", "NULL::numeric(4,2)", "INT '5'", "FLOAT8 '1.5'", "NUMERIC '1.50'", "int4(2.5)", "float8(1)", "1::float", "1::float(24)", "1.1::float(24)", "1::dec", "5::int2", "5::int8")
    return m.done()


def conditional():
    m = Maker("conditional")
    for f in ("GREATEST", "LEAST", "COALESCE"):
        for t in ("SMALLINT", "INTEGER", "BIGINT", "DOUBLE PRECISION", "NUMERIC(15,2)", "TEXT", "DATE", "TIMESTAMP", "BOOLEAN", "INTERVAL", "BYTEA"):
            for _ in range(2):
                m.select(f"{f}({m.value(t, 0.2)}, {m.value(t, 0.2)}, {m.value(t, 0.2)})")
    for _ in range(50):
        a, b, c = (m.pick(NUMBERS) for _ in range(3))
        m.select(f"{m.pick(['GREATEST', 'LEAST', 'COALESCE'])}({m.value(a, 0.2)}, {m.value(b)}, {m.value(c, 0.2)})")
    for _ in range(30):
        a, b = m.pick(NUMBERS), m.pick(NUMBERS)
        m.select(f"NULLIF({m.value(a)}, {m.value(b)})")
        m.select(f"CASE WHEN {m.value('BOOLEAN', 0.3)} THEN {m.value(a)} ELSE {m.value(b)} END")
    m.select("COALESCE(NULL)", "COALESCE(NULL, NULL)", "COALESCE(1, 2.5)", "COALESCE(NULL, 1, 2.5)", "COALESCE(NULL, 'a')", "COALESCE(1, 'a')", "COALESCE(1, '2')",
             "COALESCE(NULL, 1, 1/0)", "COALESCE(1, 1/0)", "GREATEST(1, NULL)", "GREATEST(NULL, NULL)", "LEAST(NULL, 2, 1)", "GREATEST(1, 2.5)", "GREATEST(1, '2')", "GREATEST(1, 'a')",
             "GREATEST('NaN'::float8, 1)", "LEAST('NaN'::float8, 1)", "GREATEST('NaN'::float8, 'Infinity')", "LEAST('-0'::float8, 0::float8) = 0", "GREATEST('a', 'B')", "GREATEST()",
             "NULLIF(1, 1)", "NULLIF(1, 2)", "NULLIF(NULL, 1)", "NULLIF(1, NULL)", "NULLIF('a', 'a')", "NULLIF(1, 1.0)", "NULLIF(1.0, 1)", "NULLIF(1, 'a')", "NULLIF('NaN'::float8, 'NaN')", "NULLIF('', '')",
             "CASE WHEN NULL THEN 1 ELSE 2 END", "CASE WHEN 1 = 1 THEN 1 END", "CASE WHEN 1 = 2 THEN 1 END", "CASE WHEN 1 THEN 2 END", "CASE WHEN 'true' THEN 1 END",
             "CASE 1 WHEN 1 THEN 'a' WHEN 1/0 THEN 'b' END", "CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE 'c' END", "CASE NULL WHEN NULL THEN 'a' ELSE 'b' END", "CASE 1 WHEN NULL THEN 'a' ELSE 'b' END",
             "CASE 1 WHEN 1.0 THEN 'a' ELSE 'b' END", "CASE 'a' WHEN 'a' THEN 1 ELSE 2.5 END", "CASE WHEN true THEN 1 ELSE 2.5 END", "CASE WHEN false THEN 1 ELSE 2.50 END", "CASE WHEN true THEN 1 ELSE 'a' END",
             "CASE WHEN true THEN NULL ELSE 1 END", "CASE WHEN true THEN '1' ELSE 1 END", "CASE WHEN 1 = 1 THEN 1 ELSE 1/0 END", "CASE WHEN true THEN 1::smallint ELSE 1::bigint END",
             "CASE WHEN true THEN DATE '2020-01-01' ELSE TIMESTAMP '2020-01-01 10:00:00' END", "CASE WHEN true THEN true ELSE 1 END", "CASE 1 WHEN 'a' THEN 1 END",
             "COALESCE(DATE '2020-01-01', TIMESTAMP '2020-01-01 10:00:00')", "GREATEST(DATE '2020-01-01', TIMESTAMP '2020-01-01 10:00:00')", "COALESCE(true, 1)", "NULLIF(true, false)")
    return m.done()
