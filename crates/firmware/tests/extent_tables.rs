//! The tables of extents: what they take of the drive, and what becomes of a drive that is asked for too many.

mod common;

use common::*;
use lode_base::{ExtentId, Geometry, OwnerId};
use lode_command::{Batch, Command, CommandError, Reply};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::Medium;

fn try_allocate(d: &Drive, count: u32) -> Result<Vec<ExtentId>, CommandError> {
    match run(d, Command::AllocateExtents { owner: OwnerId::new(3), count })? {
        Reply::Extents(e) => Ok(e),
        r => panic!("{r:?}"),
    }
}

fn release(d: &Drive, extents: &[ExtentId]) {
    for some in extents.chunks(20_000) {
        write(d, Batch { releases: some.to_vec(), ..Batch::default() }).unwrap();
    }
}

fn extents_of(d: &Drive) -> usize {
    match run(d, Command::ListExtents).unwrap() {
        Reply::ExtentList(l) => l.len(),
        r => panic!("{r:?}"),
    }
}

fn checkpoint(d: &Drive) {
    run(d, Command::Checkpoint).unwrap();
}

/// Two allocations of 1,048,576 extents left a drive of 128 MB on which a trim was answered with "full" and no checkpoint
/// could be written; four left it read-only.
#[test]
fn an_allocation_that_the_tables_cannot_take_changes_nothing() {
    let d = Drive::in_memory(128 << 20);
    let first = allocate(&d, 7, 1)[0];
    put(&d, first.page(1), &[1; 5000]).unwrap();
    put(&d, first.page(2), &[2; 5000]).unwrap();
    let usable = d.info().usable_bytes;
    for _ in 0..4 {
        let full = try_allocate(&d, 1 << 20).unwrap_err();
        assert!(
            matches!(full, CommandError::OutOfSpace { free_bytes, needed_bytes } if free_bytes < needed_bytes),
            "{full}"
        );
    }
    assert_eq!((d.info().extents, d.info().usable_bytes), (1, usable));
    // By little and little, until there is no room for more.
    let mut all = Vec::new();
    let full = loop {
        match try_allocate(&d, 20_000) {
            Ok(e) => all.extend(e),
            Err(e) => break e,
        }
        assert!(all.len() < 1 << 23, "there is no end to it");
    };
    assert!(all.len() > 100_000, "{} extents and {full}", all.len());
    assert!(
        matches!(full, CommandError::OutOfSpace { free_bytes, needed_bytes } if free_bytes < needed_bytes),
        "{full}"
    );
    assert_eq!(d.info().extents, all.len() as u64 + 1);
    write(&d, Batch { trims: vec![first.page(1)], ..Batch::default() }).unwrap();
    checkpoint(&d);
    put(&d, first.page(3), &[3; 5000]).unwrap();
    // Pages in the highest extents have mapping pages, and homes in their tables.
    put(&d, all.last().unwrap().page(9), &[9; 5000]).unwrap();
    checkpoint(&d);
    d.check_invariants();
    sound(&d);
    let d = d.after_power_cut().unwrap().unwrap();
    assert_eq!((extents_of(&d), d.info().read_only.clone()), (all.len() + 1, None));
    assert_eq!(get(&d, None, first.page(1)), None);
    assert_eq!(get(&d, None, all.last().unwrap().page(9)), Some(vec![9; 5000]));
    release(&d, &all);
    checkpoint(&d);
    assert!(try_allocate(&d, 20_000).is_ok());
    sound(&d);
}

/// Sixteen allocations of 1,048,576 extents, all of them released, left 5.8 MB of 193 usable for good.
#[test]
fn extents_that_were_released_give_their_room_back() {
    let d = Drive::in_memory(256 << 20);
    let kept = allocate(&d, 7, 1)[0];
    put(&d, kept.page(1), &[1; 5000]).unwrap();
    checkpoint(&d);
    let usable = d.info().usable_bytes;
    for round in 0..3 {
        let mut all = Vec::new();
        while all.len() < 600_000 {
            all.extend(try_allocate(&d, 50_000).unwrap());
        }
        // In the highest one there was a page.
        put(&d, all.last().unwrap().page(0), &[7; 5000]).unwrap();
        checkpoint(&d);
        assert!(d.info().usable_bytes < usable - (4 << 20), "{} of {usable}", d.info().usable_bytes);
        let (view, _) = open_view(&d);
        release(&d, &all);
        checkpoint(&d);
        // What a view shows is not handed out again, although the table has let go of it.
        let e = try_allocate(&d, 3).unwrap();
        assert!(e.iter().all(|e| !all.contains(e)), "{e:?}");
        release(&d, &e);
        close_view(&d, view);
        checkpoint(&d);
        assert_eq!(d.info().usable_bytes, usable, "round {round}");
        assert_eq!(try_allocate(&d, 1).unwrap()[0].raw(), 1);
        release(&d, &[ExtentId::new(1).unwrap()]);
        sound(&d);
    }
    // A hole below one that is kept costs nothing but the table's reference to it.
    let mut all = Vec::new();
    while all.len() < 600_000 {
        all.extend(try_allocate(&d, 50_000).unwrap());
    }
    let last = all.pop().unwrap();
    put(&d, last.page(0), &[8; 5000]).unwrap();
    release(&d, &all);
    checkpoint(&d);
    let d = d.after_power_cut().unwrap().unwrap();
    sound(&d);
    assert_eq!((extents_of(&d), get(&d, None, last.page(0))), (2, Some(vec![8; 5000])));
    release(&d, &[last]);
    checkpoint(&d);
    let d = d.after_power_cut().unwrap().unwrap();
    assert_eq!((extents_of(&d), d.info().usable_bytes), (1, usable));
    assert_eq!(try_allocate(&d, 2).unwrap().iter().map(|e| e.raw()).collect::<Vec<_>>(), [1, 2]);
    d.clone().close().unwrap();
}

/// Pieces of the table come and go while power does, too.
#[test]
fn a_table_that_shrinks_is_recovered() {
    let geometry = Geometry::new(2, 1, 1, 4096, 4096, 256 << 10, 120).unwrap();
    let options = || DriveOptions { checkpoint_log_bytes: 1 << 20, ..DriveOptions::default() };
    let (m, mut faults) = Medium::simulated(geometry);
    let mut d = Drive::format(m, options()).unwrap();
    let mut r = Random(5);
    let mut owned = std::collections::BTreeSet::new();
    for seed in 0..60 {
        for _ in 0..r.below(6) {
            match r.below(3) {
                0 => {
                    let got = try_allocate(&d, 1 + r.below(3000) as u32).unwrap();
                    assert!(got.iter().all(|e| !owned.contains(e)));
                    // An allocation is durable with the next batch.
                    put(&d, got[0].page(1), &[5; 300]).unwrap();
                    owned.extend(got);
                }
                1 => {
                    let from = r.below(4000);
                    let some: std::collections::BTreeSet<ExtentId> = owned
                        .iter()
                        .copied()
                        .filter(|e| e.raw() >= from)
                        .take(r.below(3500) as usize)
                        .collect();
                    release(&d, &some.iter().copied().collect::<Vec<_>>());
                    owned.retain(|e| !some.contains(e));
                }
                _ => checkpoint(&d),
            }
        }
        faults.cut();
        let (m, f) = faults.restored(seed).unwrap();
        faults = f;
        d = Unrecovered::new(m, options()).recover().unwrap();
        d.check_invariants();
        sound(&d);
        let Ok(Reply::ExtentList(list)) = run(&d, Command::ListExtents) else { panic!() };
        assert!(list.iter().map(|e| e.extent).eq(owned.iter().copied()), "seed {seed}");
    }
}
