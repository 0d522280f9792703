//! The store as a device: the engine runs on it, and its bytes lie on the drive's own blocks.

mod common;

use std::sync::Arc;

use common::*;
use lode_command::{Align, Batch, Command, CommandError, Device, PageRange, ReadRequest, Reply};
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::{BlockDrive, BlockOptions as DriveBlocks, Drive};
use lode_lss::{BLOCK_BYTES, BlockOptions, Blocks, Cleaning, Clock, LssError, LssOptions};

/// A larger store than in the power-cut tests: the catalog and its trees must fit.
fn large() -> (Drive, u64, LssOptions) {
    let drive = Drive::in_memory(256 << 20);
    (drive, 2 + 40 * 255, LssOptions { segment_blocks: 255, ..LssOptions::default() })
}

#[test]
fn the_engine_runs_on_it_and_finds_its_trees_again() {
    let (drive, blocks, options) = large();
    let device: Arc<dyn Device> = Arc::new(drive.clone());
    let packets = BlockOptions::default();
    let mut clock = Clock::default();
    let lss = lode_lss::Lss::format(device.clone(), blocks, packets, options.clone(), 5, &mut clock).unwrap();
    let key = |n: u32| n.to_be_bytes();
    {
        let db = Database::open(Arc::new(lss.clone()), DatabaseOptions::default()).unwrap();
        let tree = db.create_tree("t", false).unwrap();
        for part in 0..20u32 {
            let mut txn = db.begin().unwrap();
            for n in 0..500 {
                let n = part * 500 + n;
                txn.put(&tree, &key(n), format!("value {n}").as_bytes()).unwrap();
            }
            txn.commit().unwrap();
        }
        let mut txn = db.begin().unwrap();
        (0..10_000).step_by(3).for_each(|n| txn.delete(&tree, &key(n)).unwrap());
        txn.commit().unwrap();
        db.flush().unwrap();
        let mut txn = db.begin().unwrap();
        txn.put(&tree, &key(1), b"after the flush").unwrap();
        txn.commit().unwrap();
    }
    lss.check_invariants();
    drop(lss);
    // The power is cut and restored.
    let drive = drive.after_power_cut().unwrap().unwrap();
    let lss = lode_lss::Lss::open(Arc::new(drive), blocks, packets, options, &mut clock).unwrap();
    lss.check_invariants();
    let db = Database::open(Arc::new(lss), DatabaseOptions::default()).unwrap();
    let tree = db.tree("t").unwrap();
    let txn = db.begin().unwrap();
    for n in 0..10_000u32 {
        let expected = match n {
            1 => Some(b"after the flush".to_vec()),
            n if n % 3 == 0 => None,
            n => Some(format!("value {n}").into_bytes()),
        };
        assert_eq!(txn.get(&tree, &key(n)).unwrap().map(|v| v.to_vec()), expected, "key {n}");
    }
}

#[test]
fn what_it_writes_lies_on_the_blocks_of_the_drive() {
    let drive = drive();
    let made =
        BlockDrive::make(drive.clone(), DriveBlocks { block_bytes: 4096, capacity_blocks: Some(BLOCKS) });
    drop(made.unwrap());
    let lss = format(&drive, BlockOptions::default(), options(Cleaning::OldestWhole, false));
    let e = allocate(&lss, 3, 1)[0];
    let data: Vec<u8> = (0..10_000u32).map(|n| ((n * 31) >> 3) as u8).collect();
    write(&lss, Batch { writes: vec![page(e.page(4), &data)], ..Batch::default() }).unwrap();
    assert_eq!(get(&lss, None, e.page(4)), Some(data.clone()));
    drop(lss);
    // The first unit of the first segment: 64 bytes of header, then the page.
    let blocks = BlockDrive::open(drive.clone()).unwrap();
    let found = blocks.read(2, 3).unwrap();
    assert_eq!(&found[64..64 + data.len()], &data[..]);
    drop(blocks);
    let lss = open(&drive, BlockOptions::default(), options(Cleaning::OldestWhole, false)).unwrap();
    assert_eq!(get(&lss, None, e.page(4)), Some(data));
}

#[test]
fn a_write_of_a_megabyte_goes_in_18_packets_and_one_of_255_blocks_in_17() {
    let (drive, blocks, _) = large();
    let b = Blocks::new(Arc::new(drive), blocks, BlockOptions::default(), &mut Clock::default()).unwrap();
    let data = lode_base::PageBuf::copy_from(&[7; BLOCK_BYTES]);
    for (count, packets) in [(255, 17), (256, 18), (1, 1), (15, 1), (16, 2)] {
        let before = b.counts().packets;
        b.write(&mut Clock::default(), 0, vec![data.clone(); count]).unwrap();
        assert_eq!(b.counts().packets - before, packets, "{count} blocks");
    }
}

#[test]
fn what_a_drive_of_blocks_can_not_do_is_refused() {
    let drive = drive();
    let lss = format(&drive, BlockOptions::default(), options(Cleaning::OldestWhole, false));
    let e = allocate(&lss, 3, 1)[0];
    let invalid = |c: Command| match run(&lss, c) {
        Err(CommandError::Invalid(_)) => {}
        other => panic!("{other:?}"),
    };
    invalid(Command::OpenSession);
    let big = page(e.page(0), &vec![1; lss.identity().page_bytes_max as usize + 64]);
    invalid(Command::Write(Batch { writes: vec![big], ..Batch::default() }));
    let short = page(e.page(0), &[1; 63]);
    invalid(Command::Write(Batch { writes: vec![short], ..Batch::default() }));
    let nowhere = page(lode_base::ExtentId::new(77).unwrap().page(0), &[1; 64]);
    let refused = run(&lss, Command::Write(Batch { writes: vec![nowhere], ..Batch::default() }));
    assert!(matches!(refused, Err(CommandError::NoSuchExtent(_))), "{refused:?}");
    write(&lss, Batch { writes: vec![page(e.page(0), &[5; 100])], ..Batch::default() }).unwrap();
    let beyond = ReadRequest { lpid: e.page(0), range: Some(50..101) };
    invalid(Command::Read { view: None, pages: vec![beyond] });
    let within = ReadRequest { lpid: e.page(0), range: Some(50..100) };
    match run(&lss, Command::Read { view: None, pages: vec![within] }) {
        Ok(Reply::Pages(p)) => assert_eq!(&p[0][..], &[5; 50]),
        other => panic!("{other:?}"),
    }
    // A full store returns an error, and continues when there is room.
    let mut n = 0;
    let full = loop {
        n += 1;
        let b = Batch { writes: vec![page(e.page(n), &[n as u8; 50_000])], ..Batch::default() };
        match write(&lss, b) {
            Ok(_) => {}
            Err(e) => break e,
        }
    };
    assert!(matches!(full, CommandError::OutOfSpace { .. }), "{full}");
    write(&lss, Batch { trims: (1..n).map(|n| e.page(n)).collect(), ..Batch::default() }).unwrap();
    for n in 1..10 {
        let mut p = page(e.page(n), &[9; 50_000]);
        p.align = Align::ReadUnit;
        write(&lss, Batch { writes: vec![p], ..Batch::default() }).unwrap();
    }
    lss.check_invariants();
    let (view, _) = open_view(&lss);
    let pages = vec![PageRange { extent: e, first: 0, count: 1024 }];
    match run(&lss, Command::ReadIndex { view, pages }) {
        Ok(Reply::IndexEntries(found)) => assert_eq!(found.len(), 10),
        other => panic!("{other:?}"),
    }
}

#[test]
fn blocks_without_a_store_and_drives_with_something_else_are_refused() {
    let drive = drive();
    let none = open(&drive, BlockOptions::default(), LssOptions::default());
    assert!(matches!(none, Err(LssError::NoStore)), "{none:?}");
    let other = common::drive();
    allocate(&other, 4, 1);
    let refused = open(&other, BlockOptions::default(), LssOptions::default());
    assert!(matches!(refused, Err(LssError::Damaged { .. })), "{refused:?}");
}
