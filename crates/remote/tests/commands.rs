//! Every command has the same answer over a connection as in the same process.

mod support;

use std::sync::Arc;

use lode_base::{CommitNo, ExtentId, OwnerId, PageBuf, TableId, ViewId, VirtualTime};
use lode_command::{
    Align, Among, Answer, Batch, Command, CommandError, Device, DeviceError, IndexedRead, KeysRule, Outcome,
    PageRange, PageWrite, Queue, ReadRequest, Reply, ScanTask, ScanUnit, SessionWrite, Skip, Tag, Until,
};
use lode_firmware::Drive;
use lode_page::{Column, ColumnBuilder, ColumnType, DataType, PageKind, PageMeta, Schema, Value, encode};
use lode_program::{Aggregation, Call, CompareOp, Expr, IndexRule, KeysForm, Program};
use support::*;

const OWNER: OwnerId = OwnerId::new(7);

fn schema() -> Schema {
    let column = |data_type| ColumnType { data_type, nullable: true };
    Schema { version: 1, columns: [DataType::BigInt, DataType::Text].map(column).into(), absent: Vec::new() }
}

fn table_page(e: ExtentId, page: u16, rows: i64) -> PageWrite {
    let mut a = ColumnBuilder::new(DataType::BigInt);
    let mut b = ColumnBuilder::new(DataType::Text);
    for n in (0..rows).map(|n| n + i64::from(page) * 1000) {
        a.push(&if n % 7 == 0 { Value::Null } else { Value::Int(n) }).unwrap();
        b.push(&Value::text(&format!("row {}", n % 10))).unwrap();
    }
    let lpid = e.page(page);
    let meta = PageMeta {
        lpid,
        table: TableId::new(7),
        commit: CommitNo::new(1),
        schema_version: 1,
        kind: PageKind::Column,
    };
    PageWrite {
        lpid,
        data: encode(&meta, &[a.finish(), b.finish()], 1 << 20).unwrap(),
        align: Align::ReadUnit,
    }
}

fn program(filter: bool) -> Program {
    let over = Expr::compare(CompareOp::Gt, Expr::Column(0), Expr::Const(Value::Int(2100), DataType::BigInt));
    Program::check(schema(), filter.then_some(over), vec![1, 0], true).unwrap()
}

fn scan(view: ViewId, e: ExtentId, answer: Answer) -> Command {
    let program = match answer {
        Answer::Aggregate => {
            let calls = vec![Call::CountRows, Call::Sum(Expr::Column(0)), Call::Max(Expr::Column(0))];
            let aggregation = Aggregation { group_by: vec![1], calls, groups_max: 4 };
            Program::check(schema(), None, vec![], false).unwrap().with_aggregation(aggregation).unwrap()
        }
        _ => program(true),
    };
    // Ranges that follow each other, as the host deals them out.
    let range = |first, count| PageRange { extent: e, first, count };
    let pages = vec![range(0, 1), range(1, 1), range(2, 1022)];
    Command::Scan(ScanTask {
        view,
        pages,
        program: Arc::new(program),
        answer,
        unit_pages: 2,
        limit_rows: None,
        hidden: None,
        matcher: None,
        skip: Skip::Levels,
    })
}

/// The whole pages of a unit, with their bytes.
fn whole(u: &ScanUnit) -> String {
    u.whole.iter().map(|p| format!("{:?} {:?}\n", p.lpid, p.bytes.to_vec())).collect()
}

/// The answer to a command as text. Views are left out, because each side has its own names; bytes are included.
fn text(q: &mut dyn Queue, c: Command) -> (String, Option<Reply>) {
    let at = if let Command::ReadIndexed(read) = &c { Some(read.view) } else { None };
    let (parts, end) = run(q, c);
    let column = |c: &Column| format!("{:?}", (0..c.rows()).map(|r| c.value(r)).collect::<Vec<_>>());
    let mut text = String::new();
    for p in parts {
        let Outcome::Unit(u) = p.outcome else { unreachable!() };
        for page in &u.pages {
            let columns: Vec<_> = page.columns.iter().map(column).collect();
            text += &format!("{:?} {} {:?} {columns:?}\n", page.lpid, page.rows, page.slots);
        }
        for g in &u.groups {
            text += &format!("{} {:?}\n", g.rows, g.columns.iter().map(column).collect::<Vec<_>>());
        }
        text += &whole(&u);
        text += &format!("{:?}\n", u.counts);
    }
    text += &match &end {
        Ok(Reply::Committed { commit, view, entries }) => {
            format!("{commit:?} {} {entries:?}", view.is_some())
        }
        Ok(Reply::LastUnit { unit, counts }) => format!("{} {counts:?}", whole(unit)),
        Ok(Reply::View { commit, .. }) => format!("view of {commit:?}"),
        Ok(Reply::Pages(pages)) => format!("{:?}", pages.iter().map(|p| p.to_vec()).collect::<Vec<_>>()),
        Ok(Reply::Session { highest, .. }) => format!("a session at {highest}"),
        Err(CommandError::ViewClosed(_)) => "a view that is closed".into(),
        Err(CommandError::NoKeys { owner, number, view }) => {
            format!("no keys {number} of {owner} at the view: {}", at == Some(*view))
        }
        Err(CommandError::WrongSequence { wsn, highest, .. }) => format!("{wsn} behind {highest}"),
        Err(CommandError::NoSuchSession(_)) => "no such session".into(),
        other => format!("{other:?}"),
    };
    (text, end.ok())
}

/// Runs all commands one after the other and returns their answers.
fn script(device: &dyn Device) -> Vec<String> {
    let mut q = device.open_queue(4).unwrap();
    let q = &mut *q;
    let mut all = Vec::new();
    let mut go = |c: Command| {
        let name = format!("{c:?}").chars().take_while(|c| c.is_alphanumeric()).collect::<String>();
        let (text, reply) = text(q, c);
        all.push(format!("{name}: {text}"));
        reply
    };
    let Some(Reply::Extents(e)) = go(Command::AllocateExtents { owner: OWNER, count: 2 }) else { panic!() };
    let (e, other) = (e[0], e[1]);
    let rule = IndexRule::new(schema(), vec![0]).unwrap();
    let writes: Vec<_> = (0..9).map(|p| table_page(e, p, 700)).collect();
    go(Command::Write(Batch { writes: writes.clone(), ..Batch::default() }));
    let index_rules = vec![(OWNER, Some(rule))];
    go(Command::Write(Batch { index_rules, ..Batch::default() }));
    go(Command::BuildIndex(OWNER));
    let batch = Batch {
        writes: vec![table_page(e, 3, 50)],
        trims: vec![e.page(5)],
        pin: true,
        answer_entries: true,
        ..Batch::default()
    };
    let Some(Reply::Committed { view: Some(pinned), .. }) = go(Command::Write(batch)) else { panic!() };
    go(Command::Write(Batch {
        writes: vec![table_page(other, 1, 3)],
        releases: vec![e],
        ..Batch::default()
    }));
    for answer in Answer::ALL {
        go(scan(pinned, e, answer));
    }
    let whole = |p: u16| ReadRequest { lpid: e.page(p), range: None };
    let part = ReadRequest { lpid: e.page(2), range: Some(64..1000) };
    go(Command::Read { view: Some(pinned), pages: vec![whole(3), part.clone(), whole(8)] });
    go(Command::Read { view: None, pages: vec![whole(3)] });
    go(Command::Read { view: Some(pinned), pages: vec![whole(5)] });
    go(Command::Read { view: Some(pinned), pages: vec![ReadRequest { range: Some(0..1 << 30), ..part }] });
    let range = PageRange { extent: e, first: 1, count: 6 };
    go(Command::ReadIndex { view: pinned, pages: vec![range] });
    let registered = Some(Arc::new(program(true)));
    let keys = KeysRule { column: 0, all_rows: false, form: KeysForm::Sized { bytes_max: 1 << 16 } };
    let read = |collect, among| {
        Command::ReadIndexed(IndexedRead {
            view: pinned,
            owner: OWNER,
            program: 1,
            pages: vec![range],
            unit_pages: 2,
            skip: Skip::Each,
            collect,
            among,
        })
    };
    let among = Some(Among { owner: OWNER, keys: 2, program: 1, column: 0 });
    go(read(None, None));
    go(Command::RegisterProgram { owner: OWNER, number: 1, program: registered });
    go(read(None, None));
    go(read(Some(2), None));
    go(Command::RegisterKeys { owner: OWNER, number: 2, rule: Some(keys) });
    go(read(None, among));
    go(read(Some(2), None));
    go(read(None, among));
    go(Command::RegisterKeys { owner: OWNER, number: 2, rule: None });
    go(Command::RegisterKeys { owner: OWNER, number: 2, rule: None });
    go(Command::RegisterProgram { owner: OWNER, number: 1, program: None });
    go(Command::CloseView(pinned));
    go(Command::CloseView(pinned));
    go(Command::Read { view: Some(pinned), pages: vec![whole(3)] });
    go(scan(pinned, e, Answer::Rows));
    go(Command::ReadIndex { view: ViewId::new(99), pages: vec![range] });
    let Some(Reply::View { view, .. }) = go(Command::OpenView) else { panic!() };
    go(scan(view, other, Answer::Rows));
    go(Command::ListExtents);
    let Some(Reply::Session { session, .. }) = go(Command::OpenSession) else { panic!() };
    for wsn in [1, 3, 1, 2] {
        let session = Some(SessionWrite { session, wsn });
        go(Command::Write(Batch { trims: vec![other.page(9)], session, ..Batch::default() }));
    }
    go(Command::ResumeSession(session));
    go(Command::CloseSession(session));
    go(Command::ResumeSession(session));
    go(Command::Checkpoint);
    let twice = Batch { trims: vec![other.page(1), other.page(1)], ..Batch::default() };
    go(Command::Write(twice));
    let short = PageWrite { lpid: other.page(1), data: PageBuf::copy_from(&[1]), align: Align::Cell };
    go(Command::Write(Batch { writes: vec![short], ..Batch::default() }));
    go(Command::Write(Batch::default()));
    go(Command::BuildIndex(OwnerId::new(99)));
    go(Command::AllocateExtents { owner: OWNER, count: 0 });
    all
}

#[test]
fn every_command_answers_as_in_the_process() {
    let local = script(&Drive::in_memory(1 << 30));
    let drive = Drive::in_memory(1 << 30);
    let remote = script(&*carry(Arc::new(drive)));
    for (l, r) in local.iter().zip(&remote) {
        assert_eq!(l, r);
    }
    assert_eq!(local.len(), remote.len());
    assert!(local.iter().any(|t| t.contains("Int(2101)")), "{local:#?}");
    assert!(local.iter().any(|t| t.contains("at the view: true")), "{local:#?}");
}

#[test]
fn many_commands_are_under_way_and_each_ends_once() {
    let drive = Drive::in_memory(1 << 30);
    let server = serve(Arc::new(drive.clone()), 1, Vec::new());
    let device = connect(server.addr());
    assert_eq!(device.open_queue(0).err(), Some(DeviceError::QueueDepth { got: 0, max: 1022 }));
    let mut q = device.open_queue(16).unwrap();
    let Ok(Reply::Extents(e)) = ask(&mut *q, Command::AllocateExtents { owner: OWNER, count: 1 }) else {
        panic!()
    };
    let e = e[0];
    // More than a window of answers, so that the server cannot have sent all of a task before it is narrowed.
    let writes = (0..512).map(|p| table_page(e, p, 2000)).collect();
    let Ok(Reply::Committed { view: Some(view), .. }) =
        ask(&mut *q, Command::Write(Batch { writes, pin: true, ..Batch::default() }))
    else {
        panic!()
    };
    let mut tags: Vec<Tag> = Vec::new();
    let all = |_| scan(view, e, Answer::Rows);
    tags.extend((0..3).map(all).map(|c| q.submit(VirtualTime::ZERO, c).unwrap()));
    let read = Command::Read { view: Some(view), pages: vec![ReadRequest { lpid: e.page(1), range: None }] };
    tags.extend((3..16).map(|_| q.submit(VirtualTime::ZERO, read.clone()).unwrap()));
    assert!(q.submit(VirtualTime::ZERO, Command::OpenView).is_err(), "the queue is full");
    let (mut rows, mut ended, mut out) = ([0u64; 3], Vec::new(), Vec::new());
    let mut narrowed = false;
    while ended.len() < tags.len() {
        q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
        assert!(!out.is_empty());
        for c in out.drain(..) {
            match c.outcome {
                Outcome::Unit(u) => {
                    let task = tags.iter().position(|t| *t == c.tag).unwrap();
                    rows[task] += u.pages.iter().map(|p| u64::from(p.rows)).sum::<u64>();
                }
                Outcome::Done(r) => {
                    assert!(!ended.contains(&c.tag));
                    let cancelled = c.tag == tags[2] && r.as_ref().err() == Some(&CommandError::Cancelled);
                    assert!(r.is_ok() || cancelled, "{r:?}");
                    ended.push(c.tag);
                }
            }
        }
        if !narrowed && rows[1] > 0 {
            // The narrowed filter lets no row pass, and the third task ends.
            narrowed = true;
            let none =
                Expr::compare(CompareOp::Lt, Expr::Column(0), Expr::Const(Value::Int(0), DataType::BigInt));
            q.narrow(tags[1], Arc::new(program(true).with_filter(none).unwrap()));
            q.cancel(tags[2]);
            q.cancel(Tag(12345));
        }
    }
    assert!(rows[1] < rows[0] && rows[2] < rows[0], "{rows:?}");
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    assert!(out.is_empty(), "nothing is left");
    drop(q);
    drop(device);
    assert_eq!((drive.info().views, drive.info().sessions), (0, 0), "a client leaves nothing");
}

#[test]
fn a_drive_has_one_client_at_a_time_and_the_next_finds_nothing_of_it() {
    let drive = Drive::in_memory(1 << 30);
    let server = serve(Arc::new(drive.clone()), 1, Vec::new());
    let first = connect(server.addr());
    let busy = lode_remote::RemoteDevice::connect(&server.addr().to_string(), client_options());
    assert!(busy.unwrap_err().to_string().ends_with("the drive is in use by another client"));
    let mut q = first.open_queue(2).unwrap();
    ask(&mut *q, Command::OpenView).unwrap();
    let register = |program| Command::RegisterProgram { owner: OWNER, number: 1, program };
    ask(&mut *q, register(Some(Arc::new(program(true))))).unwrap();
    // All its connections break, and another client connects before it reconnects.
    server.drop_connections();
    let second = connect(server.addr());
    assert_eq!(drive.info().views, 0);
    q.submit(VirtualTime::ZERO, Command::OpenView).unwrap();
    let mut out = Vec::new();
    let gone = q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap_err();
    assert!(gone.to_string().contains("taken over by another client"), "{gone}");
    assert!(first.open_queue(1).is_err(), "the device is gone for good");
    drop((q, first));
    let mut q = second.open_queue(1).unwrap();
    ask(&mut *q, Command::OpenView).unwrap();
    assert!(matches!(ask(&mut *q, register(None)), Err(CommandError::NotRegistered { .. })));
}

#[test]
fn extents_stay_with_who_got_them_when_the_drive_is_opened_anew() {
    let drive = Drive::in_memory(1 << 30);
    let server = serve(Arc::new(drive.clone()), 1, Vec::new());
    let network = Network::new(1, server.addr(), 0);
    let device = connect(network.addr);
    let mut q = device.open_queue(1).unwrap();
    let get = |q: &mut dyn Queue| match ask(q, Command::AllocateExtents { owner: OWNER, count: 1 }) {
        Ok(Reply::Extents(e)) => e[0],
        other => panic!("{other:?}"),
    };
    let e = get(&mut *q);
    network.cut();
    let found = drive.after_power_cut().unwrap().unwrap();
    server.stop();
    let server = serve(Arc::new(found.clone()), 2, found.sessions());
    network.lead_to(server.addr());
    assert_ne!(get(&mut *q), e, "found when extents were forgotten with the drive that handed them out");
    ask(&mut *q, Command::Write(Batch { writes: vec![table_page(e, 0, 10)], ..Batch::default() })).unwrap();
}
