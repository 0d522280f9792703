"""Themes: dates, times and intervals."""
from .values import DATE, INTERVAL, TIMESTAMP, Maker

FIELDS = ["year", "month", "day", "hour", "minute", "second", "milliseconds", "microseconds", "epoch", "dow", "isodow", "doy", "week", "isoyear",
          "quarter", "decade", "century", "millennium", "julian"]
UNITS = ["microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year", "decade", "century", "millennium"]


def dates(values=DATE):
    return [f"DATE '{v}'" for v in values]


def stamps(values=TIMESTAMP):
    return [f"TIMESTAMP '{v}'" for v in values]


def intervals(values=INTERVAL):
    return [f"INTERVAL '{v}'" for v in values]


def extract():
    m = Maker("extract")
    m.sample(110, (f"SELECT extract({f} FROM {v})" for f in FIELDS for v in stamps()))
    m.sample(70, (f"SELECT extract({f} FROM {v})" for f in FIELDS for v in dates()))
    m.sample(70, (f"SELECT extract({f} FROM {v})" for f in FIELDS for v in intervals()))
    m.sample(70, (f"SELECT date_part('{f}', {v})" for f in FIELDS for v in stamps() + dates() + intervals()))
    m.sample(70, (f"SELECT date_trunc('{f}', {v})" for f in UNITS for v in stamps() + dates()))
    m.sample(25, (f"SELECT date_trunc('{f}', {v})" for f in UNITS for v in intervals()))
    m.select("extract(timezone FROM TIMESTAMP '2020-01-01')", "extract(foo FROM DATE '2020-01-01')", "date_part('foo', DATE '2020-01-01')", "date_trunc('foo', DATE '2020-01-01')", "extract(year FROM NULL::date)", "date_part(NULL, DATE '2020-01-01')", "date_part('YEAR', DATE '2020-01-01')", "date_trunc('DAY', NULL::timestamp)", "extract('year' FROM DATE '2020-01-01')",
             "extract(year FROM '2020-01-01')", "date_trunc('day', '2020-01-01 10:00:00')", "extract(epoch FROM INTERVAL '1 month')", "extract(epoch FROM INTERVAL '1 year')", "extract(day FROM INTERVAL '40 days')", "extract(hour FROM INTERVAL '49 hours')", "extract(month FROM INTERVAL '13 months')", "extract(second FROM INTERVAL '1 minute 2.5 seconds')", "extract(week FROM DATE '2021-01-03')", "extract(isoyear FROM DATE '2021-01-03')",
             "extract(year FROM DATE 'infinity')", "extract(month FROM DATE 'infinity')", "date_part('epoch', TIMESTAMP '1969-12-31 23:59:59.5')", "extract(epoch FROM DATE '1969-12-31')", "extract(dow FROM DATE '2020-01-05')", "extract(isodow FROM DATE '2020-01-05')", "extract(century FROM DATE '2000-12-31')", "extract(century FROM DATE '2001-01-01')", "extract(year FROM DATE '2020-01-01') + 1", "extract(year FROM DATE '2020-01-01')::int",
             "date_bin('15 minutes', TIMESTAMP '2020-02-11 15:44:17', TIMESTAMP '2001-01-01')", "date_bin(INTERVAL '1 day', TIMESTAMP '1969-12-31 15:44:17', TIMESTAMP '1970-01-01')", "make_date(2020, 2, 29)", "make_date(2019, 2, 29)", "make_timestamp(2020, 1, 2, 3, 4, 5.5)", "make_interval(days => 10)", "to_date('2020-02-29', 'YYYY-MM-DD')", "to_date('29/02/2020', 'DD/MM/YYYY')", "to_timestamp(0) = to_timestamp(0)", "isfinite(DATE 'infinity')", "isfinite(DATE '2020-01-01')",
             "age(TIMESTAMP '2020-03-01', TIMESTAMP '2020-01-31')", "age(TIMESTAMP '2001-04-10', TIMESTAMP '1957-06-13')", "age(DATE '2020-02-29', DATE '2019-02-28')", "justify_days(INTERVAL '35 days')", "justify_hours(INTERVAL '27 hours')", "justify_interval(INTERVAL '1 mon -1 hour')")
    for f in FIELDS[:14]:
        m.add(f"SELECT id, extract({f} FROM {m.pick(['d', 'ts', 'ts'])}) FROM {m.table('time')} ORDER BY id", f"SELECT id FROM {m.table('time')} WHERE extract({f} FROM {m.pick(['d', 'ts'])}) {m.pick(['=', '<', '>='])} {m.pick(['1', '4', '12', '2020', '0'])} ORDER BY id")
    for u in UNITS[2:10]:
        m.add(f"SELECT id, date_trunc('{u}', {m.pick(['d', 'ts', 'ts'])}) FROM {m.table('time')} WHERE d > '0001-12-31' ORDER BY id", f"SELECT date_trunc('{u}', ts), count(*) FROM {m.table('time')} GROUP BY 1 ORDER BY 1")
    return m.done()


def time_arithmetic():
    m = Maker("time arithmetic")
    m.sample(60, (f"SELECT {d} {op} {n}" for d in dates() for op in "+-" for n in ("0", "1", "30", "365", "2147483647", "-1", "100000", "1::smallint", "1::bigint", "1.5", "'1'")))
    m.sample(30, (f"SELECT {a} - {b}" for a in dates() for b in dates()))
    m.sample(90, (f"SELECT {d} {op} {i}" for d in dates() for op in "+-" for i in intervals()))
    m.sample(110, (f"SELECT {t} {op} {i}" for t in stamps() for op in "+-" for i in intervals()))
    m.sample(50, (f"SELECT {a} - {b}" for a in stamps() for b in stamps()))
    m.sample(20, (f"SELECT {a} - {b}" for a in dates() for b in stamps()))
    month_ends = ["2020-01-31", "2021-01-31", "2020-02-29", "2020-03-31", "2020-12-31", "2020-08-31", "2019-10-31"]
    m.sample(60, (f"SELECT {t} '{d}' {op} INTERVAL '{i}'" for t in ("DATE", "TIMESTAMP") for d in month_ends for op in "+-" for i in ("1 month", "2 months", "6 months", "1 year", "1 month 1 day", "-1 month", "13 months", "4 years")))
    m.select("1 + DATE '2020-01-01'", "INTERVAL '1 day' + DATE '2020-01-01'", "INTERVAL '1 day' - DATE '2020-01-01'", "DATE '2020-01-01' + DATE '2020-01-01'", "DATE '2020-01-01' * 2", "TIMESTAMP '2020-01-01' + 1", "TIMESTAMP '2020-01-01' + TIMESTAMP '2020-01-01'", "DATE '2020-01-01' + NULL", "DATE '2020-01-01' - NULL::date", "- DATE '2020-01-01'", "DATE '9999-12-31' + 1", "DATE '0001-01-01' - 1", "DATE '5874897-12-31' + 1", "DATE '2020-01-01' + 2147483647",
             "TIMESTAMP '294276-12-31 23:59:59.999999' + INTERVAL '1 microsecond'", "DATE '2020-01-01' + TIME '10:00'", "DATE '2020-01-01' - '2019-01-01'", "'2020-01-01' - DATE '2019-01-01'", "DATE '2020-01-01' + '1 day'", "TIMESTAMP '2020-01-01' - '2019-01-01'", "TIMESTAMP '2020-01-01' + '1 day'", "DATE 'infinity' - 1", "DATE 'infinity' > DATE '9999-12-31'", "TIMESTAMP '2020-01-01' - INTERVAL '1 month' * 2", "(DATE '2020-03-01' - DATE '2020-02-01') * 2",
             "(DATE '2020-03-01' - DATE '2020-02-01') / 2", "DATE '2020-01-01' + INTERVAL '1 day' = DATE '2020-01-02'", "(DATE '2020-01-31' + INTERVAL '1 month')::date", "TIMESTAMP '2020-01-01 12:00:00'::date", "TIMESTAMP '1969-12-31 23:59:59.999999'::date", "DATE '2020-01-01'::timestamp", "TIMESTAMP '2020-01-01 12:34:56.789'::timestamp(0)", "TIMESTAMP '2020-01-01 12:34:56.5'::timestamp(0)", "CAST('2020-01-01 12:34:56.789456' AS TIMESTAMP(3))", "DATE '2020-01-01'::text", "TIMESTAMP '2020-01-01'::text", "TIMESTAMP '2020-01-01'::varchar(10)", "DATE '2020-01-01'::int", "TIMESTAMP '2020-01-01'::time", "INTERVAL '1 day' + TIMESTAMP '2020-01-01'")
    columns = ["d + 1", "d - 1", "d - DATE '2020-01-01'", "d + INTERVAL '1 month'", "ts + INTERVAL '1 month'", "ts - INTERVAL '1 month'", "ts - TIMESTAMP '2020-01-01 00:00:00'", "ts - d", "d - ts", "ts + INTERVAL '1 day 2 hours'", "d + k", "ts::date", "d::timestamp", "d::text", "ts::text", "ts::date - d", "d = ts", "d < ts", "ts - INTERVAL '1 year'", "d - INTERVAL '100 days'", "ts + k * INTERVAL '1 day'", "greatest(d, ts::date)"]
    m.add(*(f"SELECT id, {c} FROM {m.table('time')} WHERE id NOT IN (9, 10) ORDER BY id" for c in columns), *(f"SELECT id, {c} FROM {m.table('time')} WHERE id = {n}" for c in columns for n in (9, 10)))
    for c in ("d + 1 = DATE '2020-01-02'", "d - 1 > DATE '2020-01-01'", "d + INTERVAL '1 month' = DATE '2020-02-29'", "ts + INTERVAL '1 month' > TIMESTAMP '2020-03-01'", "ts - INTERVAL '1 year' < '2000-01-01'", "ts - TIMESTAMP '2020-01-01' > INTERVAL '1 day'", "ts - TIMESTAMP '2020-01-01' BETWEEN INTERVAL '0' AND INTERVAL '100 days'", "d - DATE '2020-01-01' > 30", "d = ts", "d < ts", "ts::date = d",
              "d BETWEEN DATE '2020-01-01' AND DATE '2020-12-31'", "d BETWEEN DATE '2020-01-31' - INTERVAL '1 month' AND DATE '2020-01-31' + INTERVAL '1 month'", "d >= DATE '2020-01-01' - 1", "d IN ('2020-01-01', '2020-02-29')", "d = '2020-02-29'", "d = TIMESTAMP '2020-01-01 00:00:00'", "d < TIMESTAMP '2020-01-01 00:00:01'", "ts < DATE '1970-01-01'", "ts = '1970-01-01'", "ts >= '2020-02-29 12:34:56.789012'", "ts > '1969-12-31 23:59:59.999998'",
              "d > '9999-12-30'", "d < '0001-01-02'", "d IS DISTINCT FROM '2020-01-01'", "ts IS NOT DISTINCT FROM TIMESTAMP '2020-01-01'", "d NOT IN ('2020-01-01', NULL)", "d NOT BETWEEN '1900-01-01' AND '2100-01-01'", "d > 'infinity'", "d < 'infinity'", "ts > '-infinity'", "d = '2020-02-30'", "d = 'x'", "d <> ts", "date_trunc('month', d) = DATE '2020-01-01'", "ts::text LIKE '2020%'"):
        m.add(f"SELECT id FROM {m.table('time')} WHERE {c} ORDER BY id")
    return m.done()


def interval_():
    m = Maker("intervals")
    m.sample(60, (f"SELECT {a} {op} {b}" for a in intervals() for b in intervals() for op in ("=", "<", ">=", "<>", "IS DISTINCT FROM")))
    m.sample(40, (f"SELECT {a} {op} {b}" for a in intervals() for b in intervals() for op in "+-"))
    m.sample(60, (f"SELECT {a} {op} {n}" for a in intervals() for op in "*/" for n in ("2", "0.5", "3", "-1", "0", "1.5::float8", "7", "'NaN'::float8", "1e9::float8")))
    m.select(*(i for i in intervals()), "INTERVAL '1 day' = INTERVAL '24 hours'", "INTERVAL '1 month' = INTERVAL '30 days'", "INTERVAL '1 year' = INTERVAL '360 days'", "INTERVAL '1 year' = INTERVAL '365 days'", "INTERVAL '1 year' = INTERVAL '12 months'", "INTERVAL '1 month' < INTERVAL '31 days'", "INTERVAL '1 month' > INTERVAL '29 days'", "- INTERVAL '1 day'", "- INTERVAL '1 month -1 day'", "2 * INTERVAL '1 day'", "0.5 * INTERVAL '1 month'", "INTERVAL '1' DAY",
             "INTERVAL '1' MONTH", "INTERVAL '1.5' DAY", "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '1 2' DAY TO HOUR", "INTERVAL '1 day' / 0", "INTERVAL '1 month' / 2", "INTERVAL '1 day' / 7", "INTERVAL '1 day' + 1", "INTERVAL '1 day' < 1", "INTERVAL '1 day' * INTERVAL '1 day'", "INTERVAL '1 day' / INTERVAL '1 hour'", "abs(INTERVAL '-1 day')", "NULL + INTERVAL '1 day'", "INTERVAL '1 day' IN (INTERVAL '24 hours')", "INTERVAL '1 day' BETWEEN INTERVAL '1 hour' AND INTERVAL '1 month'",
             "GREATEST(INTERVAL '1 month', INTERVAL '31 days')", "LEAST(INTERVAL '1 day', INTERVAL '24 hours') = INTERVAL '1 day'", "INTERVAL '1 day' = '24 hours'", "INTERVAL '2147483647 days'", "INTERVAL '2147483648 days'", "INTERVAL '178956970 years'", "INTERVAL '2147483647 days' + INTERVAL '1 day'", "INTERVAL '1 day'::text", "INTERVAL '-1 month 1 day'", "INTERVAL ''", "INTERVAL 'x'", "INTERVAL '1 day 25:00:00'", "INTERVAL '1 hour' * 1.5", "INTERVAL '1 day'::time", "INTERVAL '0' = INTERVAL '1 month -30 days'")
    m.add("SELECT count(DISTINCT x) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '24 hours'), (INTERVAL '2 days')) AS t(x)", "SELECT x FROM (VALUES (INTERVAL '1 month'), (INTERVAL '31 days'), (INTERVAL '29 days')) AS t(x) ORDER BY x", "SELECT sum(x) FROM (VALUES (INTERVAL '1 month'), (INTERVAL '31 days')) AS t(x)", "SELECT avg(x) FROM (VALUES (INTERVAL '1 month'), (INTERVAL '31 days')) AS t(x)", "SELECT min(x), max(x) FROM (VALUES (INTERVAL '1 month'), (INTERVAL '31 days')) AS t(x)",
          "SELECT sum(ts - TIMESTAMP '2020-01-01') FROM e_time WHERE id < 8", "SELECT avg(ts - TIMESTAMP '2020-01-01') FROM e_time WHERE id IN (1, 4)", "SELECT max(ts - d), min(ts - d) FROM e_time", "SELECT a.id, b.id FROM (VALUES (1, INTERVAL '1 day')) AS a(id, x) JOIN (VALUES (2, INTERVAL '24 hours')) AS b(id, x) ON a.x = b.x", "SELECT x, count(*) FROM (VALUES (INTERVAL '1 month'), (INTERVAL '30 days')) AS t(x) GROUP BY x HAVING count(*) > 1 AND x = INTERVAL '30 days'".replace("x, count(*)", "count(*)"))
    return m.done()


def formats():
    m = Maker("formats")
    time_formats = ["YYYY-MM-DD", "YYYY-MM-DD HH24:MI:SS", "HH12:MI:SS AM", "HH:MI pm", "MS", "US", "FF3", "DDD", "DD", "D", "ID", "IW", "WW", "W", "IYYY", "Q", "J", "CC", "YY", "YYY", "Y,YYY", "Month", "MONTH", "month", "Mon", "MON", "Day", "DAY", "Dy", "dy", "FMMonth", "FMDD", "FMHH24", "DDth", "FMDDth", "SSSS", "\"quoted\" YYYY", "RM", "BC", "YYYYMMDD", "", "YYYY/MM/DD\"T\"HH24", "FMDay, FMDD FMMonth YYYY"]
    m.sample(120, (f"SELECT to_char({v}, '{f}')" for v in stamps() + dates(["0001-01-01", "2020-02-29", "2021-01-03", "9999-12-31"]) for f in time_formats))
    number_formats = ["999", "000", "9,999", "0.00", "9.9", "999.99", "FM999.99", "FM0.00", "FM9,999,999.00", "S999", "999S", "MI999", "999MI", "999PR", "SG999", "9.99EEEE", "RN", "FMRN", "999%", "$999", "0999", "B999", "99V99", "999th", "FM999999999999999999", ""]
    m.sample(110, (f"SELECT to_char({v}, '{f}')" for v in ("0", "1", "-1", "123", "-123", "1234", "0.5", "-0.5", "12.345", "1234567.891", "1e10::float8", "'NaN'::float8", "NULL::int", "99.995") for f in number_formats))
    m.select("to_char(INTERVAL '15 hours 2 minutes 12 seconds', 'HH24:MI:SS')", "to_char(INTERVAL '1 day', 'DD')", "to_char(NULL::timestamp, 'YYYY')", "to_char(TIMESTAMP '2020-01-01', NULL)", "to_number('12,454.8-', '99G999D9S')", "to_number('1234', '9999')", "to_char('2020-01-01', 'YYYY')", "to_timestamp('2020-01-02', 'YYYY-MM-DD')::timestamp")
    m.add("SELECT id, to_char(ts, 'YYYY-MM-DD HH24:MI:SS.US') FROM e_time ORDER BY id", "SELECT id, to_char(d, 'FMMonth DD, YYYY') FROM x_time ORDER BY id", "SELECT id, to_char(i, '999') FROM e_int WHERE id < 9 ORDER BY id")
    return m.done()
