//! Tests a metadata-only medium: what it keeps, and that its die is as strict as others.

use std::panic::{AssertUnwindSafe, catch_unwind};

use lode_base::{EblockId, Geometry, PageBuf};
use lode_flash::{FlashError, Medium, WblockState};

fn e(n: u32) -> EblockId {
    EblockId::new(n)
}

fn medium() -> Medium {
    Medium::metadata_only(Geometry::new(1, 1, 1, 4096, 8192, 1 << 20, 16).unwrap())
}

/// Words as those of a mapping page.
fn own(seed: u64, wblocks: u64) -> PageBuf {
    let word = |n: u64| 4096 << 42 | (n.wrapping_mul(seed | 0x9E37_79B9_7F4A_7C15) >> 41) << 6;
    PageBuf::copy_from(&(0..wblocks * 1024).flat_map(|n| word(n).to_le_bytes()).collect::<Vec<_>>())
}

#[test]
fn own_pages_come_back_and_those_of_users_say_nothing() {
    let m = medium();
    m.erase(e(2)).unwrap();
    m.program_users(e(2), 0, 3).unwrap();
    m.program(e(2), 3, &own(1, 2)).unwrap();
    m.program_tagged_inside(e(2), 5, &own(2, 1)).unwrap();
    let at = |offset| m.geometry().ppa(e(2), offset).unwrap();
    let whole = [&*own(1, 2), &*own(2, 1)].concat();
    for (offset, len) in [(3, 3 * 8192), (3, 8192), (4, 100), (4, 8192), (5, 8192)] {
        let from = (offset - 3) as usize * 8192;
        assert_eq!(*m.read(at(offset * 8192), len).unwrap(), whole[from..from + len as usize]);
    }
    assert_eq!(*m.read(at(3 * 8192 + 4096 + 64), 9000).unwrap(), whole[4160..13_160]);
    let users = m.read(at(64), 20_000).unwrap();
    assert!(users.len() == 20_000 && users.iter().all(|&b| b == users[0]));
    assert_eq!(m.unkept(7).unwrap(), users.slice(..7));
    let both = m.read(at(2 * 8192), 2 * 8192).unwrap();
    assert!(both[..8192] == users[..8192] && both[8192..] == whole[..8192]);
    assert_eq!(m.read_units_bytes(at(64), 20_000), 20_480);
    assert!(matches!(m.read(at(5 * 8192), 8193), Err(FlashError::WrongGeneration { .. })), "not programmed");
    assert!(matches!(m.read(at((1 << 20) - 64), 65), Err(FlashError::BadAddress { .. })));
    let unverified = m.read_unverified(at(5 * 8192), 2 * 8192).unwrap();
    assert!(unverified[..8192] == whole[16_384..] && unverified[8192..].iter().all(|&b| b == 0));
    let states = [0, 3, 5, 6].map(|w| m.probe(e(2), w).unwrap());
    let programmed = WblockState::Programmed;
    assert_eq!(states, [programmed, programmed, programmed, WblockState::Empty]);
}

#[test]
fn programs_are_in_order_and_erasures_forget() {
    let m = medium();
    let refused = |f: &dyn Fn() -> Result<(), FlashError>| catch_unwind(AssertUnwindSafe(f)).is_err();
    assert!(refused(&|| m.program_users(e(1), 0, 1)), "it is not erased");
    let first = m.erase(e(1)).unwrap();
    assert!(refused(&|| m.program_users(e(1), 1, 1)) && refused(&|| m.program_users(e(1), 0, 129)));
    assert!(refused(&|| m.program_users(e(1), 0, 0)) && refused(&|| m.program(e(1), 0, &[1; 100])));
    m.program(e(1), 0, &own(1, 4)).unwrap();
    assert!(refused(&|| m.program_users(e(1), 3, 1)));
    let second = m.erase(e(1)).unwrap();
    let at = m.geometry().ppa(e(1), 0).unwrap();
    match m.read(at, 64) {
        Err(FlashError::WrongGeneration { got, expected, .. }) => {
            assert_eq!((got, expected), (first, second))
        }
        read => panic!("{read:?}"),
    }
    m.program_users(e(1), 0, 1).unwrap();
    assert!(matches!(m.read(at, 16_384), Err(FlashError::WrongGeneration { .. })), "the rest went");
    m.discard(e(1)).unwrap();
    assert!(m.read(at, 64).is_err() && m.probe(e(1), 0).unwrap() == WblockState::Empty);
    let all = Medium::memory(*m.geometry());
    all.erase(e(1)).unwrap();
    assert!(all.keeps_user_data() && all.unkept(1).is_none() && !m.keeps_user_data());
    assert!(refused(&|| all.program_users(e(1), 0, 1)), "a medium that keeps them is given them");
}

#[test]
fn it_is_found_again_as_it_was() {
    let m = medium();
    let g = m.erase(e(3)).unwrap();
    m.program(e(3), 0, &own(7, 2)).unwrap();
    m.program_users(e(3), 2, 1).unwrap();
    m.write_checkpoint_record(1, b"a checkpoint").unwrap();
    m.sync().unwrap();
    let again = m.after_power_cut().unwrap();
    assert_eq!(again.newest_checkpoint_record().unwrap(), Some((1, b"a checkpoint".to_vec())));
    let at = m.geometry().ppa(e(3), 0).unwrap();
    assert!(again.read(at, 64).is_err(), "nobody told its generation");
    again.set_generation(e(3), g);
    again.set_next_wblock(e(3), 3);
    assert_eq!(again.read(at, 16_384).unwrap(), own(7, 2));
    // The two media are independent.
    again.program(e(3), 3, &own(8, 1)).unwrap();
    m.program(e(3), 3, &own(9, 1)).unwrap();
    let fourth = m.geometry().ppa(e(3), 3 * 8192).unwrap();
    assert!(again.read(fourth, 8192).unwrap() == own(8, 1) && m.read(fourth, 8192).unwrap() == own(9, 1));
}
