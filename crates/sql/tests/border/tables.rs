//! Random tables: all types, NULLs, extreme values; column pages from loads and row pages from inserts. `id`
//! increases over the table, so that the page index can skip pages.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array,
    Int16Array, Int32Array, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
};
use lode_sql::Session;

use super::random::{Choices, Random};

const LOADS: usize = 4;
const ROWS_A_LOAD: i64 = 220;
const INSERTS: usize = 2;
const ROWS_AN_INSERT: i64 = 90;

/// Makes and fills a table.
pub(crate) async fn create(session: &Session, name: &str, random: &mut Random) {
    create_with(session, name, "", random).await;
}

/// Makes and fills a table with these options, as in `WITH (...)`.
pub(crate) async fn create_with(session: &Session, name: &str, options: &str, random: &mut Random) {
    let columns = "id INTEGER NOT NULL, b BOOLEAN, si SMALLINT, i INTEGER, l BIGINT, r REAL, d DOUBLE, \
                   n DECIMAL(9, 2), w DECIMAL(30, 4), s VARCHAR, x BYTEA, dt DATE, ts TIMESTAMP";
    run(session, &format!("CREATE TABLE {name} ({columns}, PRIMARY KEY (id)) {options}")).await;
    let mut id = 0;
    for _ in 0..LOADS {
        let batch = rows(id..id + ROWS_A_LOAD, random);
        let loaded = session.load_batches(name, futures::stream::iter([Ok(batch)])).await;
        assert_eq!(loaded.expect("the rows load"), ROWS_A_LOAD as u64);
        id += ROWS_A_LOAD;
    }
    run(session, &format!("CREATE TABLE {name}_more AS SELECT * FROM {name} WHERE false")).await;
    for _ in 0..INSERTS {
        let batch = rows(id..id + ROWS_AN_INSERT, random);
        let more = format!("{name}_more");
        session.load_batches(&more, futures::stream::iter([Ok(batch)])).await.expect("the rows load");
        run(session, &format!("INSERT INTO {name} SELECT * FROM {more}; DELETE FROM {more}")).await;
        id += ROWS_AN_INSERT;
    }
    run(session, &format!("DROP TABLE {name}_more")).await;
}

pub(crate) async fn run(session: &Session, sql: &str) {
    if let Err(e) = session.collect(sql).await {
        panic!("{sql}\nfails: {e}");
    }
}

/// The values of a column follow a few patterns, so that equalities and joins match. Extreme values are mixed in.
fn rows(ids: std::ops::Range<i64>, random: &mut Random) -> RecordBatch {
    let n = ids.clone().count();
    let nulls = *random.one(&[1_000_000, 20, 4]);
    let spread = *random.one(&[3, 20, 400]);
    let mut ints = |low: i64, high: i64, extremes: &[i64]| -> Vec<Option<i64>> {
        (0..n)
            .map(|_| match random.below(nulls) {
                0 => None,
                _ if !extremes.is_empty() && random.once_in(40) => Some(*random.one(extremes)),
                _ => Some(random.signed(low.max(-spread), high.min(spread))),
            })
            .collect()
    };
    let small = ints(i64::MIN, i64::MAX, &[i16::MIN.into(), i16::MAX.into()]);
    let int = ints(i64::MIN, i64::MAX, &[i32::MIN.into(), i32::MAX.into()]);
    let long = ints(i64::MIN, i64::MAX, &[i64::MIN, i64::MAX]);
    let bools = ints(0, 1, &[]);
    let narrow = ints(i64::MIN, i64::MAX, &[-999_999_999, 999_999_999]);
    let wide = ints(i64::MIN, i64::MAX, &[i64::MIN, i64::MAX]);
    let dates = ints(-400, 400, &[-700_000, 700_000]);
    let times = ints(-400, 400, &[-60_000_000_000_000_000, 60_000_000_000_000_000]);
    let texts = ints(0, 400, &[]);
    let bytes = ints(0, 400, &[]);
    let reals = ints(-400, 400, &[]);
    let doubles = ints(-400, 400, &[]);
    let mut special = |v: Option<i64>| {
        let odd = [f64::NAN, -0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE];
        v.map(|v| if random.once_in(8) { *random.one(&odd) } else { v as f64 / 4.0 })
    };
    let reals: Vec<Option<f32>> = reals.into_iter().map(|v| special(v).map(|f| f as f32)).collect();
    let doubles: Vec<Option<f64>> = doubles.into_iter().map(&mut special).collect();
    let id: Vec<i32> = ids.map(|i| i as i32).collect();
    let column = |name: &'static str, a: ArrayRef| (name, a);
    let i32s = |v: Vec<Option<i64>>| v.into_iter().map(|v| v.map(|v| v as i32));
    let texts: Vec<Option<String>> = texts.into_iter().map(|v| v.map(text)).collect();
    let bytes: Vec<Option<Vec<u8>>> = bytes.into_iter().map(|v| v.map(|v| text(v).into_bytes())).collect();
    let wide = wide.into_iter().map(|v| v.map(|v| i128::from(v) * 7));
    let columns: Vec<(&str, ArrayRef)> = vec![
        column("id", Arc::new(Int32Array::from(id))),
        column("b", Arc::new(bools.into_iter().map(|v| v.map(|v| v == 1)).collect::<BooleanArray>())),
        column("si", Arc::new(small.into_iter().map(|v| v.map(|v| v as i16)).collect::<Int16Array>())),
        column("i", Arc::new(i32s(int).collect::<Int32Array>())),
        column("l", Arc::new(Int64Array::from(long))),
        column("r", Arc::new(Float32Array::from(reals))),
        column("d", Arc::new(Float64Array::from(doubles))),
        column("n", decimals(narrow.into_iter().map(|v| v.map(i128::from)), 9, 2)),
        column("w", decimals(wide, 30, 4)),
        column("s", Arc::new(texts.iter().map(Option::as_deref).collect::<StringViewArray>())),
        column("x", Arc::new(bytes.iter().map(Option::as_deref).collect::<BinaryViewArray>())),
        column("dt", Arc::new(i32s(dates).collect::<Date32Array>())),
        column("ts", Arc::new(TimestampMicrosecondArray::from(times))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, n != "id")))
        .expect("columns of one length")
}

fn decimals(v: impl Iterator<Item = Option<i128>>, precision: u8, scale: i8) -> ArrayRef {
    let array: Decimal128Array = v.collect();
    Arc::new(array.with_precision_and_scale(precision, scale).expect("digits fit"))
}

/// Short and long strings, some with LIKE's wildcards and non-ASCII characters.
fn text(v: i64) -> String {
    let stems =
        ["", "a", "ab", "ä%", "b_a", "\\a", "ab%b", "a longer text of more than twelve bytes", "日本", "A"];
    let v = v as usize;
    format!("{}{}", stems[v % stems.len()], stems[v / 10 % stems.len()])
}
