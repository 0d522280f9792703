//! Round trips of all types, and hostile bytes.

use std::sync::Arc;

use lode_base::{CommitNo, ExtentId, Lpid, PageBuf, TableId};
use proptest::prelude::*;

use super::header::{Header, checksum};
use super::*;
use crate::{ColumnBuilder, DataType, EncodingChoice, Value, Values};

const TYPES: [DataType; 12] = [
    DataType::Boolean,
    DataType::SmallInt,
    DataType::Integer,
    DataType::BigInt,
    DataType::Real,
    DataType::Double,
    DataType::Decimal { precision: 9, scale: 2 },
    DataType::Decimal { precision: 38, scale: 0 },
    DataType::Text,
    DataType::Bytea,
    DataType::Date,
    DataType::Timestamp,
];

fn lpid() -> Lpid {
    ExtentId::new(9).unwrap().page(3)
}

fn meta(kind: PageKind) -> PageMeta {
    PageMeta { lpid: lpid(), table: TableId::new(5), schema_version: 2, kind, commit: CommitNo::new(77) }
}

fn value(t: DataType) -> BoxedStrategy<Value> {
    match t {
        DataType::Boolean => any::<bool>().prop_map(Value::Boolean).boxed(),
        DataType::SmallInt => any::<i16>().prop_map(|v| Value::Int(v.into())).boxed(),
        DataType::Integer | DataType::Date => any::<i32>().prop_map(|v| Value::Int(v.into())).boxed(),
        DataType::BigInt | DataType::Timestamp => any::<i64>().prop_map(Value::Int).boxed(),
        DataType::Real => any::<u32>().prop_map(|v| Value::Real(f32::from_bits(v))).boxed(),
        DataType::Double => any::<u64>().prop_map(|v| Value::Double(f64::from_bits(v))).boxed(),
        DataType::Decimal { precision, .. } => {
            let max = 10i128.pow(precision.into()) - 1;
            prop_oneof![-max..=max, (-99i128..99)].prop_map(Value::Decimal).boxed()
        }
        DataType::Text => "[a-zäß€😀]{0,9}".prop_map(|s| Value::text(&s)).boxed(),
        DataType::Bytea => {
            proptest::collection::vec(any::<u8>(), 0..20).prop_map(|b| Value::Bytes(b.into())).boxed()
        }
    }
}

/// Rows drawn from a few values (so that dictionaries occur) or from many, with few, many, only or no NULLs.
fn rows_of(t: DataType, rows: usize) -> impl Strategy<Value = Vec<Value>> {
    let some = proptest::collection::vec(value(t), 1..40);
    (some, any::<bool>(), 0..4u8, any::<u64>()).prop_map(move |(some, many, nulls, seed)| {
        let mut state = seed;
        (0..rows)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let draw = (state >> 33) as usize;
                match nulls {
                    0 if draw.is_multiple_of(10) => Value::Null,
                    1 if !draw.is_multiple_of(10) => Value::Null,
                    2 => Value::Null,
                    _ if many => some[draw % some.len()].clone(),
                    _ => some[draw % some.len().min(3)].clone(),
                }
            })
            .collect()
    })
}

fn table() -> impl Strategy<Value = Vec<(DataType, Vec<Value>)>> {
    let rows = prop_oneof![Just(0usize), Just(1), 2usize..70, 200usize..900];
    (rows, proptest::collection::vec(0..TYPES.len(), 1..8)).prop_flat_map(|(rows, types)| {
        types.into_iter().map(|t| (Just(TYPES[t]), rows_of(TYPES[t], rows))).collect::<Vec<_>>()
    })
}

/// Makes the checksum of header and directory right, if the directory is there.
fn with_checksum(bytes: &mut [u8]) {
    let mut header: header::Header = bytemuck::pod_read_unaligned(&bytes[..64]);
    let end = TablePage::prefix_bytes(header.columns.into());
    if end <= bytes.len() {
        header.checksum = header::checksum(lpid(), &header, &bytes[64..end]);
        bytes[..64].copy_from_slice(bytemuck::bytes_of(&header));
    }
}

fn built(t: DataType, values: &[Value]) -> Column {
    let mut b = ColumnBuilder::new(t);
    values.iter().for_each(|v| b.push(v).unwrap());
    b.finish()
}

/// Floats by their bits, so that a NaN is itself.
fn same(c: &Column, values: &[Value]) -> bool {
    let equal = |a: &Value, b: &Value| match (a, b) {
        (Value::Null, Value::Null) => true,
        (a, b) => a.compare(b) == Some(std::cmp::Ordering::Equal),
    };
    c.rows() == values.len() && values.iter().enumerate().all(|(row, v)| equal(&c.value(row), v))
}

/// The ways in which a page of these columns may be encoded: whole bytes first.
fn all_choices(columns: &[Column]) -> Vec<(PageKind, Vec<EncodingChoice>)> {
    let mut all = vec![(PageKind::Row, Vec::new()), (PageKind::Column, Vec::new())];
    for choice in EncodingChoice::names().map(|n| EncodingChoice::named(n).unwrap()) {
        let fitting = |c: &Column| if choice.takes(c.data_type()) { choice } else { EncodingChoice::Auto };
        let choices: Vec<EncodingChoice> = columns.iter().map(fitting).collect();
        if choice.is_whole_bytes() {
            all.push((PageKind::Row, choices.clone()));
        }
        all.push((PageKind::Column, choices));
    }
    all
}

/// Encodes, opens by prefix, decodes each column from a buffer that holds only its segment.
fn round_trip(kind: PageKind, columns: &[Column]) -> (PageBuf, TablePage, Vec<Column>) {
    round_trip_as(kind, columns, &[])
}

fn round_trip_as(
    kind: PageKind,
    columns: &[Column],
    choices: &[EncodingChoice],
) -> (PageBuf, TablePage, Vec<Column>) {
    let page = encode_as(&meta(kind), columns, choices, usize::MAX).unwrap();
    assert!(page.len().is_multiple_of(64));
    let prefix = &page[..TablePage::prefix_bytes(columns.len())];
    let opened = TablePage::open(lpid(), page.len() as u32, prefix).unwrap();
    assert_eq!(opened.meta(), &meta(kind));
    let decoded: Vec<Column> = (0..columns.len())
        .map(|i| {
            let range = opened.segment(i);
            assert!(range.start.is_multiple_of(64));
            let large = kind == PageKind::Column && range.len() >= LARGE_SEGMENT_BYTES;
            assert!(!large || range.start.is_multiple_of(4096));
            let mut read = vec![0u8; 64];
            read.extend_from_slice(&page[range.start as usize..range.end as usize]);
            opened.decode(i, PageBuf::copy_from(&read).slice(64..)).unwrap()
        })
        .collect();
    (page, opened, decoded)
}

/// A page either is refused, or its columns can be used.
fn open_hostile(page: &PageBuf) -> Result<(), PageError> {
    if let Ok(opened) = TablePage::open(lpid(), page.len() as u32, page) {
        for i in 0..opened.columns() {
            let segment = || page.slice(opened.segment(i).start as usize..opened.segment(i).end as usize);
            for row in [0, opened.rows() / 2, opened.rows().saturating_sub(1)] {
                if row < opened.rows() {
                    let one = opened.decode_value(i, segment(), row);
                    let some = opened.decode_rows(i, segment(), row / 2..row + 1);
                    if let (Ok(all), Ok(one)) = (opened.decode(i, segment()), one) {
                        assert_eq!(format!("{:?}", all.value(row)), format!("{one:?}"));
                        let some = some.expect("all rows were decoded");
                        assert_eq!(format!("{:?}", some.value(row - row / 2)), format!("{one:?}"));
                    }
                }
            }
        }
    }
    let (_, columns) = decode_page(lpid(), page)?;
    for c in &columns {
        for row in 0..c.rows() {
            if let Value::Bytes(b) = c.value(row)
                && c.data_type() == DataType::Text
            {
                assert!(std::str::from_utf8(&b).is_ok());
            }
        }
        crate::ops::plain(c);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_was_encoded_is_decoded(table in table()) {
        let columns: Vec<Column> = table.iter().map(|(t, v)| built(*t, v)).collect();
        for (kind, choices) in all_choices(&columns) {
            let (page, opened, decoded) = round_trip_as(kind, &columns, &choices);
            for (i, (t, values)) in table.iter().enumerate() {
                let how = opened.encoding(i);
                prop_assert!(same(&decoded[i], values), "{t} as {kind:?}, {how}");
                prop_assert!(same(&crate::ops::plain(&decoded[i]), values), "{t} as {kind:?}, {how}");
                prop_assert_eq!(opened.data_type(i), *t);
                prop_assert_eq!(opened.nulls(i), values.iter().filter(|v| v.is_null()).count());
                let segment = || page.slice(opened.segment(i).start as usize..opened.segment(i).end as usize);
                let rows = values.len();
                for (from, to) in [(0, rows), (rows / 3, rows / 2), (rows / 2, rows / 2), (rows - rows / 5, rows)] {
                    let some = opened.decode_rows(i, segment(), from..to).unwrap();
                    prop_assert!(same(&some, &values[from..to]), "rows {from}..{to} of {t} as {how}");
                }
                for row in (0..rows).step_by(1 + rows / 7) {
                    let one = opened.decode_value(i, segment(), row).unwrap();
                    prop_assert!(same(&built(*t, &[one]), &values[row..=row]), "row {row} of {t} as {how}");
                }
            }
            // Decoded columns, encoded ones among them, are encoded again.
            for (kind, choices) in all_choices(&columns) {
                let (_, _, twice) = round_trip_as(kind, &decoded, &choices);
                prop_assert!(table.iter().zip(&twice).all(|((_, values), c)| same(c, values)));
            }
        }
    }

    #[test]
    fn a_flipped_bit_is_refused_or_harmless(table in table(), at in any::<prop::sample::Index>(), bit in 0..8u32) {
        let columns: Vec<Column> = table.iter().map(|(t, v)| built(*t, v)).collect();
        for (kind, choices) in all_choices(&columns) {
            let page = encode_as(&meta(kind), &columns, &choices, usize::MAX).unwrap();
            let at = at.index(page.len());
            let mut bytes = page.to_vec();
            bytes[at] ^= 1 << bit;
            let outcome = open_hostile(&PageBuf::copy_from(&bytes));
            prop_assert!(outcome.is_err() || at >= TablePage::prefix_bytes(columns.len()));
        }
    }

    /// The checksum does not protect against a hostile writer, so it is corrected here.
    #[test]
    fn a_forged_directory_is_refused_or_harmless(
        table in table(),
        lies in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let columns: Vec<Column> = table.iter().map(|(t, v)| built(*t, v)).collect();
        for (kind, choices) in all_choices(&columns) {
            let mut bytes = encode_as(&meta(kind), &columns, &choices, usize::MAX).unwrap().to_vec();
            let end = TablePage::prefix_bytes(columns.len());
            lies.iter().for_each(|(at, byte)| bytes[at.index(end)] = *byte);
            with_checksum(&mut bytes);
            let _refused_or_harmless = open_hostile(&PageBuf::copy_from(&bytes));
        }
    }

    #[test]
    fn a_forged_segment_is_refused_or_harmless(
        table in table(),
        lies in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let columns: Vec<Column> = table.iter().map(|(t, v)| built(*t, v)).collect();
        for (kind, choices) in all_choices(&columns) {
            let mut bytes = encode_as(&meta(kind), &columns, &choices, usize::MAX).unwrap().to_vec();
            let from = TablePage::prefix_bytes(columns.len());
            if from < bytes.len() {
                lies.iter().for_each(|(at, byte)| {
                    let at = from + at.index(bytes.len() - from);
                    bytes[at] = *byte;
                });
            }
            let _refused_or_harmless = open_hostile(&PageBuf::copy_from(&bytes));
        }
    }

    #[test]
    fn a_cut_page_is_refused(table in table(), at in any::<prop::sample::Index>()) {
        let columns: Vec<Column> = table.iter().map(|(t, v)| built(*t, v)).collect();
        let page = encode(&meta(PageKind::Column), &columns, usize::MAX).unwrap();
        let at = at.index(page.len());
        prop_assert!(open_hostile(&PageBuf::copy_from(&page[..at])).is_err());
        // Cut by a drive that still names the whole length: opens if header and directory are there.
        let opened = TablePage::open(lpid(), page.len() as u32, &page[..at]);
        prop_assert_eq!(opened.is_ok(), at >= TablePage::prefix_bytes(columns.len()));
    }

    #[test]
    fn noise_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(open_hostile(&PageBuf::copy_from(&bytes)).is_err());
    }
}

#[test]
fn a_hundred_thousand_rows() {
    let n = 100_000i64;
    let of = |t, f: &dyn Fn(i64) -> Value| built(t, &(0..n).map(f).collect::<Vec<_>>());
    let decimal = DataType::Decimal { precision: 12, scale: 2 };
    let columns = [
        of(DataType::SmallInt, &|i| Value::Int(i % 50)),
        of(DataType::Date, &|i| Value::Int(8_000 + i * 7_919 % 2_500)),
        of(decimal, &|i| Value::Decimal(i128::from(i * 31))),
        of(DataType::Text, &|i| {
            if i % 3 == 0 { Value::Null } else { Value::text(["AIR", "TRUCK"][i as usize % 2]) }
        }),
    ];
    let (page, opened, decoded) = round_trip(PageKind::Column, &columns);
    assert_eq!((0..4).map(|i| opened.is_dictionary(i)).collect::<Vec<_>>(), [true, true, false, true]);
    assert!(page.len() < 900_000, "{} bytes", page.len());
    for (c, d) in columns.iter().zip(&decoded) {
        assert!((0..c.rows()).all(|row| c.value(row) == d.value(row)));
    }
    let Values::Fixed { width: 4, .. } = decoded[2].values() else { panic!("decimals of 4 bytes") };
    let refused = encode(&meta(PageKind::Row), &columns, 8192);
    assert!(
        matches!(refused, Err(PageError::TooLarge { rows: 100_000, limit_bytes: 8192, .. })),
        "{refused:?}"
    );
}

#[test]
fn the_layout_is_pinned() {
    let columns = [
        built(DataType::Integer, &[Value::Int(1), Value::Null, Value::Int(-2)]),
        built(DataType::Text, &[Value::text("ab"), Value::text(""), Value::text("c")]),
    ];
    let page = encode(&meta(PageKind::Row), &columns, 8192).unwrap();
    assert_eq!(&page[..8], b"LTAB\x01\x01\0\0");
    let number = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
    assert_eq!([number(8), number(12)], [3, 384]);
    assert_eq!([number(16), number(24), number(32), number(36)], [9 << 10 | 3, 77, 5, 2]);
    assert_eq!((number(40), number(60)), (2, 4_036_761_208));
    // Type, precision, scale, encoding, width, width of codes, flags, 0.
    assert_eq!([number(64), number(68), number(80)], [128, 64 + 12, 1]);
    assert_eq!(page[72..80], [3, 0, 0, 2, 4, 0, 1, 0]);
    assert_eq!([number(96), number(100), number(112), number(120)], [256, 64 + 3, 0, 3]);
    assert_eq!(page[104..112], [8, 0, 0, 3, 0, 0, 0, 0]);
    assert_eq!((page[128], number(192), number(196), number(200)), (0b101, 1, 0, -2i32 as u32));
    assert_eq!([number(256), number(260), number(264), number(268)], [0, 2, 2, 3]);
    assert_eq!(&page[320..324], b"abc\0");
}

#[test]
fn values_under_nulls_do_not_reach_the_page() {
    let hidden = Column::new(
        DataType::Text,
        2,
        Some(PageBuf::copy_from(&[0b1111_1110])),
        Values::Var {
            offsets: PageBuf::from_values(&[0u32, 6, 7]),
            data: PageBuf::copy_from(b"secretx-behind"),
        },
    )
    .unwrap();
    for kind in [PageKind::Row, PageKind::Column] {
        let (page, _, decoded) = round_trip(kind, std::slice::from_ref(&hidden));
        assert!(!page.windows(6).any(|w| w == b"secret" || w == b"behind"));
        assert!(same(&decoded[0], &[Value::Null, Value::text("x")]));
    }
}

#[test]
fn dictionaries_shed_what_is_not_used() {
    let words: Vec<Value> = (0..2_000).map(|i| Value::text(["one", "two", "three", "four"][i % 4])).collect();
    let (_, _, decoded) = round_trip(PageKind::Column, &[built(DataType::Text, &words)]);
    let odd: Vec<u32> = (0..1_000).map(|i| i * 4 + 1).filter(|&i| i < 2_000).collect();
    let only_two = crate::ops::take(&decoded[0], &odd);
    let (_, opened, again) = round_trip(PageKind::Column, &[only_two]);
    assert!(opened.is_dictionary(0));
    let Values::Dict { dictionary, .. } = again[0].values() else { panic!("a dictionary") };
    assert_eq!((dictionary.rows(), dictionary.value(0)), (1, Value::text("two")));
    let plain = Column::new(
        DataType::Text,
        1,
        None,
        Values::Dict { code_width: 1, codes: PageBuf::copy_from(&[2]), dictionary: Arc::clone(dictionary) },
    );
    assert!(plain.is_err());
}

/// The case: a page of 2 MB whose codes all name one string of 1 MB.
#[test]
fn a_long_string_is_not_repeated_without_end() {
    let long = built(DataType::Text, &[Value::text(&"x".repeat(100_000))]);
    let repeated = |rows: usize| {
        let codes = PageBuf::copy_from(&vec![0; rows]);
        let values = Values::Dict { code_width: 1, codes, dictionary: Arc::new(long.clone()) };
        Column::new(DataType::Text, rows, None, values).unwrap()
    };
    let refused = encode(&meta(PageKind::Column), &[repeated(50_000)], usize::MAX);
    assert!(matches!(refused, Err(PageError::TooLarge { needed_bytes: 5_000_000_000, .. })), "{refused:?}");
    let (page, _, decoded) = round_trip(PageKind::Column, &[repeated(600)]);
    assert!(page.len() < 110_000 && decoded[0].rows() == 600);

    let mut bytes = page.to_vec();
    let mut header: header::Header = bytemuck::pod_read_unaligned(&bytes[..64]);
    let mut entry: header::Entry = bytemuck::pod_read_unaligned(&bytes[64..96]);
    let codes_more = 2_000_000usize.next_multiple_of(64) - 640;
    entry.bytes += codes_more as u32;
    bytes.splice(entry.offset as usize..entry.offset as usize, vec![0; codes_more]);
    bytes[64..96].copy_from_slice(bytemuck::bytes_of(&entry));
    (header.rows, header.page_bytes) = (2_000_000, bytes.len() as u32);
    header.checksum = header::checksum(lpid(), &header, &bytes[64..96]);
    bytes[..64].copy_from_slice(bytemuck::bytes_of(&header));
    let refused = decode_page(lpid(), &PageBuf::copy_from(&bytes)).err();
    let what = "strings that are too long in all";
    assert_eq!(refused, Some(PageError::Corrupt { lpid: lpid(), what, at: entry.offset as usize }));
}

#[test]
fn a_page_of_another_place_is_refused() {
    let page = encode(&meta(PageKind::Row), &[built(DataType::Date, &[Value::Int(1)])], 8192).unwrap();
    let other = ExtentId::new(9).unwrap().page(4);
    assert!(matches!(decode_page(other, &page), Err(PageError::Corrupt { at: 60, .. })));
    let mut newer = page.to_vec();
    newer[5] = 9;
    let newer = decode_page(lpid(), &PageBuf::copy_from(&newer));
    assert_eq!(newer.err(), Some(PageError::NewerVersion { lpid: lpid(), version: 9, known: 2 }));
}

#[test]
fn less_aligned_bytes_are_copied() {
    let columns = [built(DataType::BigInt, &[Value::Int(5), Value::Int(6)])];
    let (page, opened, _) = round_trip(PageKind::Row, &columns);
    let segment = opened.segment(0);
    let mut read = vec![0u8; 4];
    read.extend_from_slice(&page[segment.start as usize..segment.end as usize]);
    let c = opened.decode(0, PageBuf::copy_from(&read).slice(4..)).unwrap();
    assert!(same(&c, &[Value::Int(5), Value::Int(6)]));
}

#[test]
fn a_matchable_page_has_the_field_of_each_value_that_has_one() {
    let column = |t, values: &[Value]| {
        let mut b = ColumnBuilder::new(t);
        values.iter().for_each(|v| b.push(v).unwrap());
        b.finish()
    };
    let ints = [Value::Int(15), Value::Null, Value::Int(-1)];
    let texts = ["BRASS", "", "PROMO TIN"].map(Value::text);
    let days = [Value::Int(9_374), Value::Null, Value::Int(0)];
    // Two days of the second column of dates have no field: before year 0, and after 16383.
    let far = [Value::Int(9_374), Value::Int(-800_000), Value::Int(6_000_000)];
    let columns = [
        column(DataType::SmallInt, &ints),
        column(DataType::Integer, &ints),
        column(DataType::BigInt, &ints),
        column(DataType::Timestamp, &ints),
        column(DataType::Text, &texts),
        column(DataType::Date, &days),
        column(DataType::Date, &far),
        column(DataType::Double, &[Value::Double(1.5), Value::Null, Value::Double(0.0)]),
    ];
    let choices = vec![EncodingChoice::named("matchable").unwrap(); columns.len()];
    for (kind, version) in [(PageKind::Row, 2), (PageKind::Column, 3)] {
        let (page, opened, decoded) = round_trip_as(kind, &columns, &choices);
        assert_eq!(page[5], version);
        for (i, (c, back)) in columns.iter().zip(&decoded).enumerate() {
            let segment = &page[opened.segment(i).start as usize..opened.segment(i).end as usize];
            for row in 0..c.rows() {
                assert_eq!(back.value(row), c.value(row), "column {i}, row {row}");
                if let Some(field) = crate::matchable::field(c.data_type(), &c.value(row)) {
                    let is_there = field.is_empty() || segment.windows(field.len()).any(|w| w == &*field);
                    assert!(is_there, "column {i}, row {row}");
                }
            }
            let whole = matches!(c.data_type(), DataType::Text | DataType::Double);
            assert_eq!(opened.encoding(i), if whole { "plain" } else { "matchable" });
            assert_eq!(opened.unpacked_bytes(i, back), 0);
        }
        // A field that is none: the sign bit of the first day.
        let at = opened.segment(5).start as usize + 64;
        let mut damaged = page.to_vec();
        damaged[at] ^= 0x80;
        let damaged = PageBuf::copy_from(&damaged);
        let segment = damaged.slice(opened.segment(5).start as usize..opened.segment(5).end as usize);
        assert!(matches!(
            opened.decode(5, segment),
            Err(PageError::Corrupt { what: "a field of no day", .. })
        ));
    }
    // Bytes in a row page of the version before are none of it.
    let mut old = round_trip_as(PageKind::Row, &columns, &choices).0.to_vec();
    old[5] = 1;
    let prefix = TablePage::prefix_bytes(columns.len());
    let mut header: Header = bytemuck::pod_read_unaligned(&old[..64]);
    header.checksum = checksum(lpid(), &header, &old[64..prefix]);
    let e = TablePage::open(lpid(), old.len() as u32, &[bytemuck::bytes_of(&header), &old[64..]].concat());
    let what = "an encoding that such pages do not have";
    assert!(matches!(e, Err(PageError::Corrupt { what: w, .. }) if w == what));
}
