//! Answers that are larger than what asks for them: each is bounded before it is read.

mod common;

use std::sync::Arc;

use common::*;
use lode_base::OwnerId;
use lode_command::{
    Answer, Batch, Command, CommandError, Device, PageRange, ReadRequest, Reply, ScanTask, Skip,
};
use lode_firmware::Drive;
use lode_program::Program;

fn too_long(answer: Result<Reply, CommandError>) {
    let e = answer.map(drop).unwrap_err();
    assert!(matches!(&e, CommandError::Invalid(what) if what.contains("too long")), "{e}");
}

/// Memory that this process takes at most, since it began.
fn memory_max() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

/// 18 KB of command took 2 GB of memory, and 72 KB all that there was.
#[test]
fn a_page_that_is_named_many_times_is_not_read() {
    let d = Drive::in_memory(1 << 28);
    let extent = allocate(&d, 5, 1)[0];
    let max = d.identity().page_bytes_max as usize;
    put(&d, extent.page(0), &vec![7; max]).unwrap();
    put(&d, extent.page(1), &[8; 100]).unwrap();
    let (view, _) = open_view(&d);
    let before = (d.info().media_bytes_read, memory_max());
    let whole = |page| ReadRequest { lpid: extent.page(page), range: None };
    for (view, count) in [(None, 2_000), (None, 8_000), (Some(view), 8_000), (Some(view), 500_000)] {
        too_long(run(&d, Command::Read { view, pages: vec![whole(0); count] }));
    }
    // Also what is long in parts alone.
    let part = ReadRequest { lpid: extent.page(0), range: Some(5..max as u32) };
    too_long(run(&d, Command::Read { view: None, pages: vec![part; 4_000] }));
    assert_eq!(d.info().media_bytes_read, before.0, "nothing was read");
    // What is not there is told, as it was.
    let missing = [vec![whole(1); 3_000], vec![whole(2)], vec![whole(0); 3_000]].concat();
    assert_eq!(
        run(&d, Command::Read { view: None, pages: missing }).map(drop),
        Err(CommandError::Unmapped(extent.page(2)))
    );
    // Many small ones are no large answer, and do not keep the read units that they lie in.
    let byte = ReadRequest { lpid: extent.page(0), range: Some(9..10) };
    match run(&d, Command::Read { view: None, pages: vec![byte; 100_000] }).unwrap() {
        Reply::Pages(p) => assert!(p.len() == 100_000 && p.iter().all(|p| p[..] == [7])),
        r => panic!("{r:?}"),
    }
    let grown = memory_max() - before.1;
    assert!(grown < 200 << 20, "{grown} bytes of memory");
}

#[test]
fn an_index_that_is_asked_for_many_times_is_not_read() {
    let d = Drive::in_memory(1 << 28);
    write(&d, Batch { index_rules: vec![(OwnerId::new(5), Some(rule()))], ..Batch::default() }).unwrap();
    let extent = allocate(&d, 5, 1)[0];
    let writes = (0..1024).map(|p| table_page(extent.page(p), 5, &[p.into()])).collect();
    write(&d, Batch { writes, ..Batch::default() }).unwrap();
    let (view, _) = open_view(&d);
    let all = PageRange { extent, first: 0, count: 1024 };
    let before = memory_max();
    too_long(run(&d, Command::ReadIndex { view, pages: vec![all; 40_000] }));
    let grown = memory_max() - before;
    assert!(grown < 200 << 20, "{grown} bytes of memory");
    match run(&d, Command::ReadIndex { view, pages: vec![all; 4] }).unwrap() {
        Reply::IndexEntries(e) => assert_eq!(e.len(), 4096),
        r => panic!("{r:?}"),
    }
}

/// A projection may name a column many times: each time it is sent.
#[test]
fn a_column_that_is_named_many_times_is_not_answered() {
    let d = Drive::in_memory(1 << 28);
    let extent = allocate(&d, 5, 1)[0];
    let values: Vec<i64> = (0..3_000).map(|n| n * 1_000_003).collect();
    write(&d, Batch { writes: vec![table_page(extent.page(0), 5, &values)], ..Batch::default() }).unwrap();
    let (view, _) = open_view(&d);
    let scan = |times| {
        Command::Scan(ScanTask {
            view,
            pages: vec![PageRange { extent, first: 0, count: 1024 }],
            program: Arc::new(Program::check(schema(), None, vec![0; times], false).unwrap()),
            answer: Answer::Rows,
            unit_pages: 10,
            limit_rows: None,
            hidden: None,
            matcher: None,
            skip: Skip::Levels,
        })
    };
    let mut q = d.open_queue(1).unwrap();
    let mut ask = |c| {
        q.submit(lode_base::VirtualTime::ZERO, c).unwrap();
        let mut out = Vec::new();
        loop {
            q.complete(lode_base::VirtualTime::ZERO, lode_command::Until::One, &mut out).unwrap();
            if let lode_command::Outcome::Done(r) = out.pop().unwrap().outcome {
                return r;
            }
        }
    };
    too_long(ask(scan(100_000)));
    assert!(ask(scan(100)).is_ok());
}
