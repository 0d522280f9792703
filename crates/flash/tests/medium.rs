//! Tests what tags detect and what the die refuses, on memory and on files.

use std::fs;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use lode_base::{EblockId, Geometry, PageBuf};
use lode_flash::{FlashError, Generation, Medium, WblockState};

const TAGS_AT: u64 = 512 << 10;
const DATA_AT: u64 = TAGS_AT + 4096;

fn geometry() -> Geometry {
    Geometry::new(1, 1, 1, 4096, 8192, 2 << 20, 16).unwrap()
}

fn page(seed: u8, bytes: usize) -> PageBuf {
    PageBuf::copy_from(
        &(0..bytes).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect::<Vec<_>>(),
    )
}

fn e(n: u32) -> EblockId {
    EblockId::new(n)
}

/// An image whose EBLOCK 0 was programmed with three WBLOCKs, and its generation.
fn programmed(path: &Path) -> Generation {
    let m = Medium::create_file(path, geometry(), 1).unwrap();
    let g = m.erase(e(0)).unwrap();
    m.program(e(0), 0, &page(1, 3 * 8192)).unwrap();
    m.sync().unwrap();
    g
}

fn reopened(path: &Path, g: Generation) -> Medium {
    let m = Medium::open_file(path).unwrap();
    m.set_generation(e(0), g);
    m
}

#[test]
fn what_was_programmed_is_read_back_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let g = programmed(&path);
    let m = reopened(&path, g);
    let at = |offset| m.geometry().ppa(e(0), offset).unwrap();
    let whole = page(1, 3 * 8192);
    for (offset, len) in [(0, 24_576), (64, 1), (4032, 128), (8192, 8192), (20_480, 4096), (12_288, 0)] {
        let read = m.read(at(offset), len).unwrap();
        assert_eq!(&*read, &whole[offset as usize..][..len as usize]);
        assert_eq!(read.as_ptr() as usize % 64, 0, "cells stay aligned");
    }
    assert_eq!(m.read_units_bytes(at(4032), 128), 8192);
    assert_eq!(m.media_bytes_read(), 24_576 + 4096 + 8192 + 8192 + 4096);
    assert!(matches!(m.read(at((2 << 20) - 64), 65), Err(FlashError::BadAddress { .. })));
    assert_eq!(m.probe(e(0), 2).unwrap(), WblockState::Programmed);
    assert_eq!(m.probe(e(0), 3).unwrap(), WblockState::Empty);
}

#[test]
fn flipped_data_flipped_tags_and_moved_data_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let g = programmed(&path);
    let good = fs::read(&path).unwrap();
    let check = |at: u64, bytes: &[u8], expected: &str, state| {
        fs::File::options().write(true).open(&path).unwrap().write_all_at(bytes, at).unwrap();
        let m = reopened(&path, g);
        let error = m.read(m.geometry().ppa(e(0), 4096).unwrap(), 64).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(error.contains("at 0x40"), "the read unit is named: {error}");
        assert_eq!(m.probe(e(0), 0).unwrap(), state);
        assert_eq!(m.probe(e(0), 1).unwrap(), WblockState::Programmed, "the next one is whole");
        let at = at as usize;
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(&good[at..at + bytes.len()], at as u64)
            .unwrap();
        drop(m);
    };
    let second = DATA_AT as usize + 4096;
    check(second as u64 + 5, &[good[second + 5] ^ 1], "checksum mismatch", WblockState::Damaged);
    let tag = TAGS_AT as usize + 16;
    for i in 0..16 {
        let expected = if (4..12).contains(&i) { "wrong generation" } else { "checksum mismatch" };
        check((tag + i) as u64, &[good[tag + i] ^ 0x10], expected, WblockState::Damaged);
    }
    // A misdirected write: the third read unit and its tag, intact and of this generation, at the place of the
    // second.
    let (third, third_tag) = (second + 4096, tag + 16);
    let moved = [&good[third..third + 4096], &good[third_tag..third_tag + 16]].map(<[u8]>::to_vec);
    fs::File::options().write(true).open(&path).unwrap().write_all_at(&moved[1], tag as u64).unwrap();
    check(second as u64, &moved[0], "checksum mismatch", WblockState::Damaged);
}

#[test]
fn erased_data_and_data_of_an_unknown_generation_are_not_read() {
    let m = Medium::memory(geometry());
    let at = m.geometry().ppa(e(5), 0).unwrap();
    assert!(matches!(m.read(at, 64), Err(FlashError::WrongGeneration { .. })), "never programmed");
    let first = m.erase(e(5)).unwrap();
    m.program(e(5), 0, &page(1, 8192)).unwrap();
    m.read(at, 64).unwrap();
    let second = m.erase(e(5)).unwrap();
    assert!(second > first);
    match m.read(at, 64) {
        Err(FlashError::WrongGeneration { got, expected, .. }) => {
            assert_eq!((got, expected), (first, second))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(m.probe(e(5), 0).unwrap(), WblockState::Empty);
    m.program(e(5), 0, &page(2, 8192)).unwrap();
    assert_eq!(m.read(at, 8192).unwrap(), page(2, 8192));
    let cut = m.after_power_cut().unwrap();
    assert!(matches!(cut.read(at, 64), Err(FlashError::WrongGeneration { .. })), "nobody told it yet");
    cut.set_generation(e(5), second);
    assert_eq!(cut.read(at, 8192).unwrap(), page(2, 8192));
    assert!(cut.erase(e(5)).unwrap() > second, "the next epoch's generations are later");
}

#[test]
fn programming_out_of_order_or_unerased_panics() {
    let m = Medium::memory(geometry());
    let program =
        |wblock, bytes| catch_unwind(AssertUnwindSafe(|| m.program(e(0), wblock, &page(0, bytes)))).is_ok();
    assert!(!program(0, 8192), "not erased");
    m.erase(e(0)).unwrap();
    assert!(!program(1, 8192), "passed one over");
    assert!(!program(0, 4096), "half a WBLOCK");
    assert!(!program(0, 0));
    assert!(program(0, 16_384));
    assert!(!program(1, 8192), "twice");
    assert!(program(2, 8192));
    assert_eq!(m.next_wblock(e(0)), 3);
    assert!(!program(3, 2 << 20), "beyond the end");
    m.set_next_wblock(e(0), 200);
    assert!(program(200, 8192), "where recovery found the end");
}

#[test]
fn log_pages_are_read_back_unverified_only() {
    let m = Medium::memory(geometry());
    m.erase(e(1)).unwrap();
    m.program_tagged_inside(e(1), 0, &page(3, 8192)).unwrap();
    let at = m.geometry().ppa(e(1), 4096).unwrap();
    assert_eq!(m.read_unverified(at, 4096).unwrap(), page(3, 8192).slice(4096..));
    assert!(m.read(at, 4096).is_err());
}

#[test]
fn a_small_program_grows_the_image_by_a_megabyte_and_discard_gives_it_back() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let m = Medium::create_file(&path, geometry(), 1).unwrap();
    let before = fs::metadata(&path).unwrap();
    m.erase(e(0)).unwrap();
    m.program(e(0), 0, &page(1, 8192)).unwrap();
    m.sync().unwrap();
    let grown = fs::metadata(&path).unwrap();
    assert_eq!(grown.len() - before.len(), 4096 + (1 << 20));
    m.discard(e(0)).unwrap();
    let punched = fs::metadata(&path).unwrap();
    assert_eq!(punched.len(), grown.len(), "the file keeps its length");
    assert!(punched.blocks() < grown.blocks(), "{} of {} blocks are left", punched.blocks(), grown.blocks());
    assert!(catch_unwind(AssertUnwindSafe(|| m.program(e(0), 1, &page(1, 8192)))).is_err());
    m.erase(e(0)).unwrap();
    m.program(e(0), 0, &page(2, 1 << 20)).unwrap();
    assert_eq!(m.read(m.geometry().ppa(e(0), 0).unwrap(), 1 << 20).unwrap(), page(2, 1 << 20));
}
