//! One message of every kind survives encoding and decoding. Mutated bytes are refused, or decode to another message.

use std::sync::Arc;

use lode_base::wire::{Malformed, Reader, Writer, read_whole};
use lode_base::{
    CommitNo, EblockId, ExtentId, Geometry, OwnerId, PageBuf, SessionId, Split, ViewId, VirtualDuration,
    VirtualTime, split::Part,
};
use lode_page::{Column, ColumnBuilder, ColumnType, DataType, Schema, Value};
use lode_program::matcher::Limits;
use lode_program::{Aggregation, Call, CompareOp, Expr, IndexEntry, IndexRule, KeysForm, Matcher, Program};
use proptest::prelude::*;

use super::*;
use crate::*;

fn geometry() -> Geometry {
    Geometry::new(2, 1, 1, 4096, 8192, 1 << 20, 64).unwrap()
}

fn schema() -> Schema {
    let column = |data_type| ColumnType { data_type, nullable: true };
    Schema { version: 3, columns: [DataType::BigInt, DataType::Text].map(column).into(), absent: Vec::new() }
}

fn extent(n: u64) -> ExtentId {
    ExtentId::new(n).unwrap()
}

fn commands() -> Vec<Command> {
    let rule = IndexRule::new(schema(), vec![0]).unwrap();
    let page = |p: u16, len: usize, align| PageWrite {
        lpid: extent(5).page(p),
        data: PageBuf::copy_from(&vec![p as u8; len]),
        align,
    };
    let batch = Batch {
        writes: vec![page(1, 100, Align::Cell), page(2, 4096, Align::ReadUnit)],
        trims: vec![extent(5).page(9)],
        releases: vec![extent(8), extent(9)],
        index_rules: vec![(OwnerId::new(4), Some(rule)), (OwnerId::new(5), None)],
        pin: true,
        answer_entries: true,
        session: Some(SessionWrite { session: SessionId::new(77), wsn: 12 }),
        unforced: false,
        leave_bytes: 1 << 40,
    };
    let filter = Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::Const(Value::Int(5), DataType::BigInt));
    let rows = Program::check(schema(), Some(filter), vec![1], true).unwrap();
    let calls = vec![Call::CountRows, Call::Sum(Expr::Column(0))];
    let groups = Program::check(schema(), None, vec![], false)
        .unwrap()
        .with_aggregation(Aggregation { group_by: vec![1], calls, groups_max: 9 })
        .unwrap();
    let pages = vec![PageRange { extent: extent(5), first: 3, count: 1021 }];
    let mut hidden = HiddenRows::default();
    hidden.push(extent(5).page(3), [0, 7, 1 << 20]);
    hidden.push(extent(5).page(9), [1]);
    let matcher = Matcher::of_keys(&[b"BRASS", &[0x80, 0, 0, 15]], 1 << 3).unwrap();
    let scan = |program, answer, limit_rows, hidden: Option<&HiddenRows>| {
        let (view, pages) = (ViewId::new(3), pages.clone());
        Command::Scan(ScanTask {
            view,
            pages,
            program: Arc::new(program),
            answer,
            unit_pages: 16,
            limit_rows,
            hidden: hidden.map(|h| Arc::new(h.clone())),
            matcher: hidden.map(|_| Arc::new(matcher.clone())),
            skip: if limit_rows.is_some() { Skip::Sorted(1) } else { Skip::Each },
        })
    };
    let registered = Arc::new(rows.clone());
    let keys = |form| KeysRule { column: 1, all_rows: true, form };
    let read = IndexedRead {
        view: ViewId::new(3),
        owner: OwnerId::new(4),
        program: 9,
        pages: pages.clone(),
        unit_pages: 64,
        skip: Skip::Never,
        collect: Some(1),
        among: Some(Among { owner: OwnerId::new(5), keys: 2, program: 8, column: 3 }),
    };
    let requests = vec![
        ReadRequest { lpid: extent(5).page(1), range: None },
        ReadRequest { lpid: extent(5).page(2), range: Some(5..70) },
    ];
    vec![
        Command::Write(batch),
        Command::Write(Batch::default()),
        Command::Read { view: Some(ViewId::new(3)), pages: requests.clone() },
        Command::Read { view: None, pages: requests },
        scan(rows.clone(), Answer::Rows, Some(7), Some(&hidden)),
        scan(rows, Answer::Hints { filter: true }, None, Some(&hidden)),
        scan(groups, Answer::Aggregate, None, None),
        Command::OpenView,
        Command::CloseView(ViewId::new(3)),
        Command::AllocateExtents { owner: OwnerId::new(4), count: 2 },
        Command::ListExtents,
        Command::BuildIndex(OwnerId::new(4)),
        Command::ReadIndex { view: ViewId::new(3), pages },
        Command::RegisterProgram { owner: OwnerId::new(4), number: 9, program: Some(registered) },
        Command::RegisterProgram { owner: OwnerId::new(4), number: 9, program: None },
        Command::RegisterKeys { owner: OwnerId::new(4), number: 1, rule: Some(keys(KeysForm::Folded)) },
        Command::RegisterKeys {
            owner: OwnerId::new(4),
            number: 1,
            rule: Some(keys(KeysForm::Sized { bytes_max: 4096 })),
        },
        Command::RegisterKeys { owner: OwnerId::new(4), number: 1, rule: None },
        Command::ReadIndexed(IndexedRead { collect: None, among: None, ..read.clone() }),
        Command::ReadIndexed(read),
        Command::Checkpoint,
        Command::Flush,
        Command::OpenSession,
        Command::ResumeSession(SessionId::new(77)),
        Command::CloseSession(SessionId::new(77)),
    ]
}

fn column(t: DataType, values: &[Value]) -> Column {
    let mut b = ColumnBuilder::new(t);
    values.iter().for_each(|v| b.push(v).unwrap());
    b.finish()
}

fn outcomes() -> Vec<Outcome> {
    let columns = vec![
        column(DataType::BigInt, &[Value::Int(6), Value::Null]),
        column(DataType::Text, &[Value::text("six"), Value::text("")]),
    ];
    let counts = ScanCounts { pages: 1, rows_out: 2, groups_out: 3, ..ScanCounts::default() };
    let unit = ScanUnit {
        pages: vec![
            PageRows { lpid: extent(5).page(1), rows: 2, columns: columns.clone(), slots: Some(vec![4, 9]) },
            PageRows { lpid: extent(5).page(2), rows: 0, columns: vec![], slots: None },
        ],
        whole: vec![
            WholePage { lpid: extent(5).page(7), bytes: PageBuf::copy_from(&[7; 100]) },
            WholePage { lpid: extent(5).page(8), bytes: PageBuf::copy_from(&[8; 64]) },
        ],
        groups: vec![GroupRows { rows: 2, columns }],
        hints: vec![
            PageHints { first: extent(5).page(1), bytes: vec![0, 1, 1] },
            PageHints { first: extent(6).page(1023), bytes: vec![1] },
        ],
        counts,
    };
    let rule = IndexRule::new(schema(), vec![0]).unwrap();
    let mut entry = vec![0; rule.entry_bytes()];
    entry[0] = 5;
    let entry = IndexEntry::decode(&rule, &entry).unwrap();
    let (lpid, session) = (extent(5).page(1), SessionId::new(77));
    let indexed = vec![
        IndexedPage { lpid, len_bytes: 8192, entry: Some(entry) },
        IndexedPage { lpid, len_bytes: 64, entry: None },
    ];
    let info = |pages_mapped| ExtentInfo { extent: extent(5), owner: OwnerId::new(4), pages_mapped };
    let replies = vec![
        Reply::Done,
        Reply::Committed { commit: CommitNo::new(9), view: Some(ViewId::new(3)), entries: indexed.clone() },
        Reply::Committed { commit: CommitNo::new(9), view: None, entries: vec![] },
        Reply::Pages(vec![PageBuf::copy_from(&[1; 100]), PageBuf::empty(), PageBuf::copy_from(&[2; 64])]),
        Reply::View { view: ViewId::new(3), commit: CommitNo::new(9) },
        Reply::Extents(vec![extent(5), extent(6)]),
        Reply::ExtentList(vec![info(Some(3)), info(None)]),
        Reply::Indexed { pages: 4 },
        Reply::IndexEntries(indexed),
        Reply::Scanned(counts),
        Reply::LastUnit { unit: Box::new(unit.clone()), counts },
        Reply::Session { session, highest: 12 },
    ];
    let ppa = geometry().ppa(EblockId::new(3), 640).unwrap();
    let errors = vec![
        CommandError::OutOfSpace { free_bytes: 1, needed_bytes: 2 },
        CommandError::Unmapped(lpid),
        CommandError::Uncorrectable { lpid, ppa, what: "a checksum".into() },
        CommandError::ViewClosed(ViewId::new(3)),
        CommandError::TooManyViews(3),
        CommandError::NoSuchExtent(extent(5)),
        CommandError::NoIndexRule(OwnerId::new(4)),
        CommandError::Invalid("this".into()),
        CommandError::BadPage { lpid, what: "that".into() },
        CommandError::Overflow(lpid),
        CommandError::WrongSequence { session, wsn: 4, highest: 2 },
        CommandError::NoSuchSession(session),
        CommandError::TooManySessions(3),
        CommandError::NoContent,
        CommandError::Cancelled,
        CommandError::Medium("it failed".into()),
        CommandError::MediumFull("no storage space".into()),
        CommandError::ReadOnly("it failed before".into()),
        CommandError::no_program(OwnerId::new(4), 7),
        CommandError::no_keys_rule(OwnerId::new(4), 7),
        CommandError::NoKeys { owner: OwnerId::new(4), number: 7, view: ViewId::new(3) },
        CommandError::NoMemory { needed_bytes: 9, free_bytes: 8 },
        CommandError::TimeOutOfRange { at: VirtualTime::NEVER, max: VirtualTime::BEGIN_MAX },
    ];
    let done = replies.into_iter().map(Ok).chain(errors.into_iter().map(Err)).map(Outcome::Done);
    std::iter::once(Outcome::Unit(unit)).chain(done).collect()
}

fn completion(outcome: Outcome) -> Completion {
    let mut split = Split::default();
    split.add(Part::Media, VirtualDuration::from_ps(5));
    split.add(Part::Link, VirtualDuration::from_ps(6));
    Completion { tag: Tag(1 << 40), at: VirtualTime::from_ps(11), split, outcome }
}

fn written(put: impl Fn(&mut Writer<'_>)) -> Vec<u8> {
    let mut b = Vec::new();
    put(&mut Writer::new(&mut b));
    b
}

fn read<T>(bytes: &[u8], take: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>) -> Result<T, Malformed> {
    read_whole(&PageBuf::copy_from(bytes), take)
}

/// Debug text leaves out the bytes of pages, so the decoded message is also encoded again and compared.
fn comes_back<T: std::fmt::Debug>(
    t: &T,
    put: impl Fn(&mut Writer<'_>, &T),
    take: impl Fn(&mut Reader<'_>) -> Result<T, Malformed>,
) {
    let b = written(|w| put(w, t));
    let back = read(&b, &take).unwrap_or_else(|e| panic!("{t:?}: {e}"));
    assert_eq!(format!("{back:?}"), format!("{t:?}"));
    assert_eq!(written(|w| put(w, &back)), b);
    (0..b.len()).for_each(|n| assert!(read(&b[..n], &take).is_err(), "{t:?} cut to {n} bytes"));
}

fn put_plain(w: &mut Writer<'_>, c: &Command) {
    put_command(w, c, Instead::default());
}

#[test]
fn everything_comes_back() {
    commands().iter().for_each(|c| comes_back(c, put_plain, take_command));
    for outcome in outcomes() {
        comes_back(&completion(outcome), put_completion, |r| take_completion(r, &geometry()));
    }
    for e in [DeviceError::QueueDepth { got: 9, max: 8 }, DeviceError::Gone("away".into())] {
        comes_back(&e, put_device_error, take_device_error);
    }
    let identity = Identity {
        model: "a drive".into(),
        geometry: geometry(),
        page_bytes_max: 1,
        batch_bytes_max: 1 << 40,
        batch_pages_max: 3,
        queue_depth_max: 4,
        views_max: 5,
        sessions_max: 6,
        in_flight_max: 7,
        durable: true,
        matcher: Some(Limits { keys: 3, key_bytes: 9 }),
    };
    comes_back(&identity, put_identity, take_identity);
    let four = Identity { matcher: Some(Limits { keys: 4, key_bytes: 16 }), ..identity };
    assert!(read(&written(|w| put_identity(w, &four)), take_identity).is_err());
}

#[test]
fn another_view_and_session_may_go_in_their_place() {
    let session = Some(SessionWrite { session: SessionId::new(1), wsn: 2 });
    let instead = Instead { view: Some(ViewId::new(99)), session };
    for c in commands() {
        let back = read(&written(|w| put_command(w, &c, instead)), take_command).unwrap();
        match back {
            Command::Write(b) => assert_eq!(b.session, session),
            Command::Read { view: Some(v), .. }
            | Command::ReadIndex { view: v, .. }
            | Command::ReadIndexed(IndexedRead { view: v, .. })
            | Command::CloseView(v)
            | Command::Scan(ScanTask { view: v, .. }) => assert_eq!(v.raw(), 99),
            other => assert_eq!(format!("{other:?}"), format!("{c:?}")),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn mutated_bytes_are_refused_or_another_of_the_kind(which: u8, at: u16, to: u8, more: u16, other: u8, cut: bool) {
        let mutate = |mut b: Vec<u8>| {
            let n = b.len();
            b[usize::from(at) % n] = to;
            if cut {
                b.truncate(usize::from(more) % n);
            } else {
                b[usize::from(more) % n] ^= other;
            }
            b
        };
        let all = commands();
        let b = mutate(written(|w| put_plain(w, &all[usize::from(which) % all.len()])));
        if let Ok(c) = read(&b, take_command) {
            prop_assert!(read(&written(|w| put_plain(w, &c)), take_command).is_ok());
        }
        let all = outcomes();
        let c = completion(all[usize::from(which) % all.len()].clone());
        let b = mutate(written(|w| put_completion(w, &c)));
        let take = |r: &mut Reader<'_>| take_completion(r, &geometry());
        if let Ok(c) = read(&b, take) {
            prop_assert!(read(&written(|w| put_completion(w, &c)), take).is_ok());
        }
    }

    #[test]
    fn random_bytes_are_refused(bytes: Vec<u8>) {
        let _ = read(&bytes, take_command);
        let _ = read(&bytes, |r| take_completion(r, &geometry()));
        let _ = read(&bytes, take_identity);
        let _ = read(&bytes, take_device_error);
    }
}

#[test]
fn hints_that_no_extent_has_or_that_say_neither_yes_nor_no_are_refused() {
    let unit = |page: u16, bytes: &[u8]| {
        let hints = vec![PageHints { first: extent(5).page(page), bytes: bytes.to_vec() }];
        let outcome = Outcome::Unit(ScanUnit { hints, ..ScanUnit::default() });
        let c = completion(outcome);
        written(|w| put_completion(w, &c))
    };
    let taken = |bytes: &[u8]| read(bytes, |r| take_completion(r, &geometry()));
    assert!(taken(&unit(1023, &[1])).is_ok());
    for (page, bytes) in [(1023, &[0, 1][..]), (0, &[2]), (0, &[])] {
        let e = taken(&unit(page, bytes)).unwrap_err().to_string();
        assert!(e.contains("hints of pages that no extent has"), "{e}");
    }
}
