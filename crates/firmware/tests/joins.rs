//! Reads by the page index: whole pages, keys collected from them, and pages of another table that may have the keys.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::*;
use lode_base::{ExtentId, Geometry, OwnerId, ViewId, VirtualTime};
use lode_command::{
    Among, Answer, Batch, Command, CommandError, Completion, Device, HiddenRows, IndexedRead, KeysRule,
    Outcome, PageRange, Queue, Reply, ScanCounts, ScanTask, Skip, Until,
};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_page::{DataType, Value};
use lode_program::{KeysForm, Program};

/// The table that keys are collected from, and the one whose pages are read among them.
const FIRST: u32 = 5;
const SECOND: u32 = 6;

fn register(
    d: &Drive,
    owner: u32,
    number: u32,
    program: Option<Arc<Program>>,
) -> Result<Reply, CommandError> {
    run(d, Command::RegisterProgram { owner: OwnerId::new(owner), number, program })
}

fn register_keys(d: &Drive, rule: Option<KeysRule>) -> Result<Reply, CommandError> {
    run(d, Command::RegisterKeys { owner: OwnerId::new(FIRST), number: 1, rule })
}

/// The pages that a read answers, by number, and its counts.
fn read(d: &Drive, read: IndexedRead) -> Result<(Vec<u16>, ScanCounts), CommandError> {
    let mut q = d.open_queue(1).unwrap();
    q.submit(VirtualTime::ZERO, Command::ReadIndexed(read)).unwrap();
    let (mut out, mut pages) = (Vec::new(), Vec::new());
    loop {
        q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
        for c in out.drain(..) {
            match c.outcome {
                Outcome::Unit(u) => pages.extend(u.whole),
                Outcome::Done(Ok(Reply::LastUnit { unit, counts })) => {
                    pages.extend(unit.whole);
                    assert_eq!(counts.pages_read, pages.len() as u64);
                    return Ok((pages.iter().map(|p| p.lpid.page()).collect(), counts));
                }
                Outcome::Done(Ok(r)) => panic!("{r:?}"),
                Outcome::Done(Err(e)) => return Err(e),
            }
        }
    }
}

/// Completes a task, of which `out` has what it answered so far.
fn to_the_end(q: &mut dyn Queue, out: &mut Vec<Completion>) {
    while !matches!(out.last().unwrap().outcome, Outcome::Done(_)) {
        q.complete(VirtualTime::ZERO, Until::One, out).unwrap();
    }
}

fn whole(view: ViewId, owner: u32, extent: ExtentId) -> IndexedRead {
    IndexedRead {
        view,
        owner: OwnerId::new(owner),
        program: 0,
        pages: vec![PageRange { extent, first: 0, count: 1024 }],
        unit_pages: 7,
        skip: Skip::Levels,
        collect: None,
        among: None,
    }
}

fn among(keys: u32, program: u32) -> Option<Among> {
    Some(Among { owner: OwnerId::new(FIRST), keys, program, column: 0 })
}

/// Two tables. Page p of the first has the keys 100 p, 100 p + 5, ... and page p of the second 10 p to 10 p + 9.
fn tables(d: &Drive) -> (ExtentId, ExtentId) {
    let (a, b) = (allocate(d, FIRST, 1)[0], allocate(d, SECOND, 1)[0]);
    let index_rules = [FIRST, SECOND].map(|o| (OwnerId::new(o), Some(rule()))).into();
    write(d, Batch { index_rules, ..Batch::default() }).unwrap();
    let first = (0..40u16).map(|p| table_page(a.page(p), FIRST, &[0, 5, 50].map(|k| 100 * i64::from(p) + k)));
    let second = (0..400u16).map(|p| {
        let keys: Vec<i64> = (0..10).map(|k| 10 * i64::from(p) + k).collect();
        table_page(b.page(p), SECOND, &keys)
    });
    write(d, Batch { writes: first.chain(second).collect(), ..Batch::default() }).unwrap();
    register(d, FIRST, 0, Some(program(1000, 1300))).unwrap();
    register(d, SECOND, 0, Some(program(0, 2000))).unwrap();
    (a, b)
}

fn exact() -> KeysRule {
    KeysRule { column: 0, all_rows: false, form: KeysForm::Sized { bytes_max: 4096 } }
}

#[test]
fn a_read_answers_pages_that_the_index_does_not_exclude_at_each_level() {
    let d = Drive::in_memory(1 << 30);
    let (a, _) = tables(&d);
    let view = open_view(&d).0;
    let mut asked = Vec::new();
    for skip in [Skip::Levels, Skip::Each, Skip::Sorted(0)] {
        let (pages, counts) = read(&d, IndexedRead { skip, ..whole(view, FIRST, a) }).unwrap();
        assert_eq!(pages, [10, 11, 12], "{skip:?}");
        asked.push(counts.pages);
    }
    // Page 13 begins with 1300: no page after it can have a row that passes.
    assert_eq!(asked, [40, 40, 14]);
    let bytes = table_page(a.page(10), FIRST, &[1000, 1005, 1050]).data;
    let mut q = d.open_queue(1).unwrap();
    q.submit(
        VirtualTime::ZERO,
        Command::ReadIndexed(IndexedRead { unit_pages: 1024, ..whole(view, FIRST, a) }),
    )
    .unwrap();
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    let [c] = &out[..] else { panic!("one completion: {out:?}") };
    let Outcome::Done(Ok(Reply::LastUnit { unit, .. })) = &c.outcome else { panic!("{c:?}") };
    assert!(unit.whole[0].bytes == bytes, "the first page as it was written");
}

#[test]
fn pages_of_the_second_table_are_read_among_keys_of_the_first() {
    let d = Drive::in_memory(1 << 30);
    let (a, b) = tables(&d);
    let view = open_view(&d).0;
    let mut answers = Vec::new();
    for (all_rows, form) in [
        (false, KeysForm::Sized { bytes_max: 4096 }),
        (true, KeysForm::Sized { bytes_max: 4096 }),
        (false, KeysForm::Sized { bytes_max: 64 }),
        (false, KeysForm::Folded),
    ] {
        register_keys(&d, Some(KeysRule { column: 0, all_rows, form })).unwrap();
        register(&d, FIRST, 0, Some(program(1003, 1300))).unwrap();
        let e = read(&d, IndexedRead { among: among(1, 0), ..whole(view, SECOND, b) }).unwrap_err();
        assert_eq!(e.to_string(), format!("keys 1 of owner 5 were not collected at what view {view} shows"));
        read(&d, IndexedRead { collect: Some(1), ..whole(view, FIRST, a) }).unwrap();
        answers.push(read(&d, IndexedRead { among: among(1, 0), ..whole(view, SECOND, b) }).unwrap().0);
    }
    // Keys 1005 and 1050, ...; of all rows of the pages 1000 too, which lies on the same page as 1005.
    assert_eq!(answers[0], [100, 105, 110, 115, 120, 125]);
    assert_eq!(answers[1], answers[0]);
    // A filter of one block lets few others through, 64 bits let about every page through.
    for wider in &answers[2..] {
        assert!(answers[0].iter().all(|p| wider.contains(p)));
    }
    assert!(answers[2].len() < 40, "{:?}", answers[2]);
    assert!(answers[3].len() > 100, "{:?}", answers[3]);
}

#[test]
fn a_set_is_used_only_where_the_view_shows_what_it_was_collected_from() {
    let d = Drive::in_memory(1 << 30);
    let (a, b) = tables(&d);
    register_keys(&d, Some(exact())).unwrap();
    let old = open_view(&d).0;
    put(&d, b.page(500), &table_page(b.page(500), SECOND, &[3]).data).unwrap();
    let same = open_view(&d).0;
    let collect = |view| read(&d, IndexedRead { collect: Some(1), ..whole(view, FIRST, a) }).map(|_| ());
    let join = |view| read(&d, IndexedRead { among: among(1, 0), ..whole(view, SECOND, b) }).map(|r| r.0);
    collect(same).unwrap();
    // The other table changed, the first did not: both views show the same of it.
    assert_eq!(join(same).unwrap().len(), 6);
    assert_eq!(join(old).unwrap(), join(same).unwrap());
    put(&d, a.page(41), &table_page(a.page(41), FIRST, &[1240]).data).unwrap();
    let new = open_view(&d).0;
    assert!(matches!(join(new), Err(CommandError::NoKeys { .. })));
    assert_eq!(join(same).unwrap().len(), 6);
    collect(new).unwrap();
    assert_eq!(join(new).unwrap().len(), 7);
    assert!(matches!(join(same), Err(CommandError::NoKeys { .. })));
    // Collected at a view that others have left behind, it is good there alone.
    collect(old).unwrap();
    assert_eq!(join(old).unwrap().len(), 6);
    assert!(matches!(join(new), Err(CommandError::NoKeys { .. })));
    // Another program under the number is another set.
    register(&d, FIRST, 0, Some(program(0, 100))).unwrap();
    assert!(matches!(join(old), Err(CommandError::NoKeys { .. })));
}

#[test]
fn what_is_registered_goes_with_a_crash_and_a_set_with_its_rule() {
    let d = Drive::format(Medium::memory(Geometry::file(1 << 28).unwrap()), DriveOptions::default()).unwrap();
    let (a, b) = tables(&d);
    register_keys(&d, Some(exact())).unwrap();
    let view = open_view(&d).0;
    read(&d, IndexedRead { collect: Some(1), ..whole(view, FIRST, a) }).unwrap();
    // The rule goes while a read collects by it.
    let mut q = d.open_queue(1).unwrap();
    let task = IndexedRead { collect: Some(1), unit_pages: 1, ..whole(view, FIRST, a) };
    q.submit(VirtualTime::ZERO, Command::ReadIndexed(IndexedRead { skip: Skip::Each, ..task })).unwrap();
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    register_keys(&d, None).unwrap();
    to_the_end(&mut *q, &mut out);
    let Outcome::Done(Err(e)) = &out.last().unwrap().outcome else { panic!("{out:?}") };
    assert_eq!(e.to_string(), "owner 5 has no registered keys 1");
    let e = read(&d, IndexedRead { among: among(1, 0), ..whole(view, SECOND, b) }).unwrap_err();
    assert_eq!(e.to_string(), "owner 5 has no registered keys 1");
    let d = d.after_power_cut().unwrap().unwrap();
    let view = open_view(&d).0;
    let e = read(&d, whole(view, FIRST, a)).unwrap_err();
    assert_eq!(e.to_string(), "owner 5 has no registered program 0");
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let options =
        DriveOptions { registered_bytes_max: 3000, rules_bytes_max: 800, ..DriveOptions::default() };
    let d = Drive::format(Medium::memory(Geometry::file(1 << 28).unwrap()), options).unwrap();
    let (a, b) = tables(&d);
    let view = open_view(&d).0;
    let message = |r: Result<Reply, CommandError>| r.unwrap_err().to_string();
    let sized = |bytes_max| KeysRule { form: KeysForm::Sized { bytes_max }, ..exact() };
    let needed = message(register_keys(&d, Some(sized(1900))));
    assert!(needed.starts_with("the drive's memory for rules and programs is full: 2156 bytes are needed, "));
    assert_eq!(
        message(register_keys(&d, Some(sized(63)))),
        "bad command: bad set of keys: a set of keys has 64 bytes to 2 MB"
    );
    assert_eq!(message(register_keys(&d, None)), "owner 5 has no registered keys 1");
    assert_eq!(message(register(&d, FIRST, 3, None)), "owner 5 has no registered program 3");
    register_keys(&d, Some(sized(1000))).unwrap();
    // A rule in the place of another takes the other's room.
    register_keys(&d, Some(sized(1100))).unwrap();
    // A third index rule is beyond the memory for rules: the whole batch is refused.
    let c = allocate(&d, 9, 1)[0];
    let index_rules = vec![(OwnerId::new(9), Some(rule()))];
    let batch = Batch { index_rules, writes: vec![table_page(c.page(0), 9, &[1])], ..Batch::default() };
    assert!(matches!(write(&d, batch), Err(CommandError::NoMemory { .. })));
    assert!(get(&d, None, c.page(0)).is_none());
    // The tables go on.
    let index_rules = vec![(OwnerId::new(FIRST), Some(rule()))];
    write(&d, Batch { index_rules, writes: vec![table_page(a.page(50), FIRST, &[7])], ..Batch::default() })
        .unwrap();

    let refused = |r: IndexedRead| read(&d, r).unwrap_err().to_string();
    let of_column = |column| KeysRule { column, ..sized(1000) };
    register_keys(&d, Some(of_column(7))).unwrap();
    assert_eq!(
        refused(IndexedRead { collect: Some(1), ..whole(view, FIRST, a) }),
        "bad command: column 7 of a program with 2 columns has no keys"
    );
    register_keys(&d, Some(sized(1000))).unwrap();
    assert_eq!(
        refused(IndexedRead { collect: Some(1), among: among(1, 0), ..whole(view, FIRST, a) }),
        "bad command: a read collects keys or looks for some, not both"
    );
    assert_eq!(
        refused(IndexedRead { collect: Some(1), ..whole(view, FIRST, b) }),
        format!("bad command: keys of owner 5 are collected, and extent {b} is another's now")
    );
    assert_eq!(
        refused(IndexedRead { skip: Skip::Sorted(4), ..whole(view, FIRST, a) }),
        "bad command: column 4 does not exist: the schema has 2 columns"
    );
    assert!(
        refused(IndexedRead { unit_pages: 0, ..whole(view, FIRST, a) })
            .starts_with("bad command: a scan in units")
    );
    let closed = ViewId::new(99);
    assert_eq!(read(&d, whole(closed, FIRST, a)).unwrap_err(), CommandError::ViewClosed(closed));
}

#[test]
fn a_batch_answers_the_entries_of_its_pages_if_it_is_asked() {
    let d = Drive::in_memory(1 << 30);
    let (a, _) = tables(&d);
    let plain = allocate(&d, 77, 1)[0];
    let writes = vec![
        table_page(a.page(90), FIRST, &[4, 9]),
        page(plain.page(0), &[1; 100]),
        table_page(a.page(3), FIRST, &[-2]),
    ];
    let batch = |answer_entries| Batch { writes: writes.clone(), answer_entries, ..Batch::default() };
    let Ok(Reply::Committed { entries, .. }) = run(&d, Command::Write(batch(false))) else { panic!() };
    assert!(entries.is_empty());
    let Ok(Reply::Committed { entries, .. }) = run(&d, Command::Write(batch(true))) else { panic!() };
    let lpids: BTreeSet<_> = entries.iter().map(|e| e.lpid).collect();
    assert_eq!(lpids, [a.page(90), plain.page(0), a.page(3)].into());
    let rule = rule();
    let bounds: Vec<_> =
        entries.iter().map(|e| e.entry.as_ref().map(|e| rule.bounds(e, 0).unwrap().keys.unwrap())).collect();
    let key = |v| lode_program::key_of(DataType::BigInt, &Value::Int(v)).unwrap();
    assert_eq!(bounds, [Some((key(4), key(9))), None, Some((key(-2), key(-2)))]);
}

/// A read that collects keys is narrowed after its first unit; `None`: it is not.
fn collect_narrowed(d: &Drive, view: ViewId, a: ExtentId, to: Option<Arc<Program>>) {
    let mut q = d.open_queue(1).unwrap();
    let task = IndexedRead { collect: Some(1), unit_pages: 1, skip: Skip::Each, ..whole(view, FIRST, a) };
    let tag = q.submit(VirtualTime::ZERO, Command::ReadIndexed(task)).unwrap();
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    if let Some(program) = to {
        q.narrow(tag, program);
    }
    to_the_end(&mut *q, &mut out);
    assert!(matches!(out.last().unwrap().outcome, Outcome::Done(Ok(_))), "{out:?}");
}

#[test]
fn a_set_has_the_keys_of_its_program_whatever_the_read_is_narrowed_to() {
    let d = Drive::in_memory(1 << 30);
    let (a, b) = tables(&d);
    register_keys(&d, Some(exact())).unwrap();
    let view = open_view(&d).0;
    let join = || read(&d, IndexedRead { among: among(1, 0), ..whole(view, SECOND, b) }).unwrap().0;
    collect_narrowed(&d, view, a, None);
    let expected = join();
    collect_narrowed(&d, view, a, Some(program(1000, 1001)));
    assert_eq!(join(), expected);
    assert_eq!(expected.len(), 6);
}

#[test]
fn a_commit_beside_a_collection_ends_what_it_is_good_for() {
    let d = Drive::in_memory(1 << 30);
    let (a, b) = tables(&d);
    register_keys(&d, Some(exact())).unwrap();
    let view = open_view(&d).0;
    let mut q = d.open_queue(1).unwrap();
    let task = IndexedRead { collect: Some(1), unit_pages: 1, skip: Skip::Each, ..whole(view, FIRST, a) };
    q.submit(VirtualTime::ZERO, Command::ReadIndexed(task)).unwrap();
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    put(&d, a.page(39), &table_page(a.page(39), FIRST, &[1240]).data).unwrap();
    to_the_end(&mut *q, &mut out);
    let join =
        |view| read(&d, IndexedRead { among: among(1, 0), ..whole(view, SECOND, b) }).map(|r| r.0.len());
    assert_eq!(join(view), Ok(6));
    assert!(matches!(join(open_view(&d).0), Err(CommandError::NoKeys { .. })));
}

#[test]
fn whole_pages_hide_no_rows() {
    let d = Drive::in_memory(1 << 30);
    let (a, _) = tables(&d);
    let mut hidden = HiddenRows::default();
    hidden.push(a.page(1), [0]);
    let task = ScanTask {
        view: open_view(&d).0,
        pages: vec![PageRange { extent: a, first: 0, count: 9 }],
        program: program(0, 100),
        answer: Answer::Whole,
        unit_pages: 9,
        limit_rows: None,
        hidden: Some(Arc::new(hidden)),
        matcher: None,
        skip: Skip::Levels,
    };
    let refused = run(&d, Command::Scan(task)).unwrap_err();
    assert_eq!(refused.to_string(), "bad command: whole pages show all their rows");
}
