//! The host fails at each write of the image's file in turn, and power is cut at each operation in turn. The error is
//! clear, synced data survives, and work goes on once the host is well again.

use lode_base::{EblockId, Geometry, PageBuf};
use lode_flash::{FaultKind, Faults, FlashError, Generation, Medium};

const WBLOCK_BYTES: u32 = 4096;

fn geometry() -> Geometry {
    Geometry::new(1, 1, 1, 4096, WBLOCK_BYTES, 256 << 10, 12).unwrap()
}

fn e(n: u32) -> EblockId {
    EblockId::new(n)
}

/// A synced program: its EBLOCK, WBLOCKs, generation and fill.
type Synced = (u32, u32, u32, Generation, u8);

/// Programs, discards and records, small and large, in new space and in old. Returns what was synced, and the errors.
/// A step that fails is skipped.
fn work(m: &Medium, faults: &Faults) -> (Vec<Synced>, Vec<FlashError>) {
    let (mut synced, mut pending, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..3 {
        for (n, at, count) in [(0, 0, 1), (1, 0, 40), (5, 0, 64), (0, 1, 30), (8, 0, 2), (8, 2, 1)] {
            let n = n + round;
            if at == 0 {
                synced.retain(|s: &Synced| s.0 != n);
                pending.retain(|s: &Synced| s.0 != n);
                match m.erase(e(n)) {
                    Ok(_) => {}
                    Err(e) => errors.push(e),
                }
            }
            if m.next_wblock(e(n)) != at {
                continue;
            }
            let fill = (round * 16 + n + at) as u8 + 1;
            let data = PageBuf::copy_from(&vec![fill; (count * WBLOCK_BYTES) as usize]);
            match m.program(e(n), at, &data) {
                Ok(()) => pending.push((n, at, count, m.generation(e(n)), fill)),
                Err(e) => errors.push(e),
            }
        }
        let record = m.write_checkpoint_record(round as usize % 2, &[round as u8; 5000]);
        let sync = m.sync();
        if sync.is_ok() && !faults.is_cut() {
            synced.append(&mut pending);
        }
        errors.extend(record.err().into_iter().chain(sync.err()));
        synced.retain(|s| s.0 != 5 + round);
        if let Err(e) = m.discard(e(5 + round)) {
            errors.push(e);
        }
    }
    (synced, errors)
}

/// Checks that synced data is in the medium.
fn check(m: &Medium, synced: &[Synced], what: &str) {
    for &(n, at, count, generation, fill) in synced {
        m.set_generation(e(n), generation);
        let ppa = geometry().ppa(e(n), at * WBLOCK_BYTES).unwrap();
        let read = m.read(ppa, count * WBLOCK_BYTES).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(read.iter().all(|&b| b == fill), "{what}: EBLOCK {n}, WBLOCK {at}");
    }
}

fn goes_on(m: &Medium, faults: &Faults, seed: u64, what: &str) {
    let (synced, errors) = work(m, faults);
    assert!(errors.is_empty(), "{what}: {}", errors[0]);
    assert!(synced.len() > 8);
    check(m, &synced, what);
    check(&faults.restored(seed).unwrap().0, &synced, what);
}

#[test]
fn the_host_fails_at_any_write_or_sync() {
    let mut failures = [0; 3];
    for (i, kind) in [FaultKind::NoSpace, FaultKind::WriteError, FaultKind::SyncError].into_iter().enumerate()
    {
        for after in 0.. {
            let mut fired = false;
            for seed in [0, 1, 7, 8] {
                let (m, faults) = Medium::simulated(geometry());
                faults.arm(kind, after, seed);
                let (synced, errors) = work(&m, &faults);
                let what = format!("{kind:?} after {after}, seed {seed}");
                fired |= !faults.fired().is_empty();
                // A discard writes nothing. Every other failure is reported.
                assert_eq!(errors.is_empty(), faults.fired().is_empty(), "{what}");
                for e in &errors {
                    let line = e.to_string();
                    assert!(line.starts_with("<simulated>: ") && line.lines().count() == 1, "{what}: {line}");
                    let expected = match kind {
                        FaultKind::NoSpace => e.is_no_space() && !e.is_program_failure(),
                        FaultKind::WriteError => line.contains("Input/output error") && !e.is_no_space(),
                        _ => line.contains("Input/output error") || matches!(e, FlashError::Poisoned { .. }),
                    };
                    assert!(expected, "{what}: {line}");
                    failures[i] += 1;
                }
                check(&m, &synced, &what);
                check(&faults.restored(seed).unwrap().0, &synced, &what);
                faults.disarm_all();
                if kind == FaultKind::SyncError {
                    let (m, faults) = faults.restored(seed).unwrap();
                    goes_on(&m, &faults, seed, &what);
                } else {
                    goes_on(&m, &faults, seed, &what);
                }
            }
            if !fired {
                assert!(after > 2, "{kind:?} strikes {after} times");
                break;
            }
        }
    }
    assert!(failures[0] > 100 && failures[1] > 100 && failures[2] > 8, "{failures:?}");
}

#[test]
fn power_goes_at_any_operation() {
    let (m, faults) = Medium::simulated(geometry());
    work(&m, &faults);
    let operations = faults.operations();
    assert!(operations > 30);
    for after in 0..=operations {
        for seed in 0..6 {
            let (m, faults) = Medium::simulated(geometry());
            faults.cut_after(after);
            let (synced, errors) = work(&m, &faults);
            assert!(errors.is_empty(), "the medium does not know");
            assert_eq!(
                (faults.is_cut(), faults.operations()),
                (after < operations, (after + 1).min(operations))
            );
            let what = format!("cut after {after}, seed {seed}");
            let (m, faults) = faults.restored(seed).unwrap();
            check(&m, &synced, &what);
            if seed == 0 {
                goes_on(&m, &faults, seed, &what);
            }
        }
    }
}
