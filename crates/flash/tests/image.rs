//! Opening image files: epochs, the lock, and one clear line for each kind of damage.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use lode_base::{EblockId, Geometry, PageBuf};
use lode_flash::{FlashError, Medium};
use tempfile::TempDir;

fn geometry() -> Geometry {
    Geometry::new(1, 1, 1, 4096, 4096, 2 << 20, 16).unwrap()
}

fn fresh() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.lode");
    Medium::create_file(&path, geometry(), 7).unwrap();
    (dir, path)
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) {
    fs::File::options().write(true).open(path).unwrap().write_all_at(bytes, at).unwrap();
}

/// Opening must fail with a one-line message that names the file and contains `expected`, and change nothing.
fn check_refused(path: &Path, expected: &str) -> FlashError {
    let before = fs::read(path).ok();
    let e = Medium::open_file(path).expect_err(expected);
    let message = e.to_string();
    assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    assert!(message.starts_with(path.to_str().unwrap()), "{message:?} does not name the file");
    assert_eq!(message.lines().count(), 1, "{message:?}");
    assert_eq!(fs::read(path).ok(), before, "a refused file was changed");
    e
}

#[test]
fn each_opening_has_an_epoch_of_its_own() {
    let (_dir, path) = fresh();
    for epoch in 2..7 {
        let m = Medium::open_file(&path).unwrap();
        assert_eq!(m.open_epoch(), epoch);
        assert_eq!(m.geometry(), &geometry());
        assert!(m.is_fresh());
        let g = m.erase(EblockId::new(0)).unwrap();
        assert_eq!(g.epoch(), epoch);
    }
}

#[test]
fn the_epoch_of_a_damaged_record_is_passed_over() {
    // Epochs 1 and 3 lie at byte 8192, epoch 2 at 12288.
    let (_dir, path) = fresh();
    Medium::open_file(&path).unwrap();
    assert_eq!(Medium::open_file(&path).unwrap().open_epoch(), 3);
    overwrite(&path, 8192 + 20, &[0xff]);
    // Only the record of 2 is whole. Epoch 3 may have been used, so 4 is next, and it must not overwrite the record
    // of 2.
    assert_eq!(Medium::open_file(&path).unwrap().open_epoch(), 4);
    assert_eq!(Medium::open_file(&path).unwrap().open_epoch(), 5);
    overwrite(&path, 8192, &[0xff; 4]);
    overwrite(&path, 12_288, &[0xff; 4]);
    check_refused(&path, "corrupt superblock: neither epoch record");
}

#[test]
fn a_new_image_is_small_and_never_overwrites() {
    let (_dir, path) = fresh();
    assert_eq!(fs::metadata(&path).unwrap().len(), 512 << 10);
    let e = Medium::create_file(&path, geometry(), 8).unwrap_err();
    assert!(matches!(e, FlashError::Exists { .. }), "{e}");
    Medium::open_file(&path).unwrap();
    let e = Medium::create_file(Path::new("/nowhere/at/all.lode"), geometry(), 8).unwrap_err();
    assert_eq!(e.to_string(), "/nowhere/at/all.lode: no such file");
}

#[test]
fn one_opener_at_a_time() {
    let (_dir, path) = fresh();
    let held = Medium::open_file(&path).unwrap();
    assert!(matches!(check_refused(&path, "open elsewhere"), FlashError::Busy { .. }));
    drop(held);
    Medium::open_file(&path).unwrap();
}

#[test]
fn what_is_no_image_is_refused() {
    let (dir, path) = fresh();
    let missing = dir.path().join("missing");
    assert!(matches!(Medium::open_file(&missing), Err(FlashError::NotFound { .. })));
    assert!(matches!(Medium::open_file(dir.path()), Err(FlashError::NotAFile { .. })));
    fs::write(&path, b"").unwrap();
    check_refused(&path, "the file is empty, not a Lode image");
    fs::write(&path, b"SQLite format 3\0").unwrap();
    check_refused(&path, "not a Lode image");
    fs::write(&path, vec![0; 2 << 20]).unwrap();
    check_refused(&path, "not a Lode image");
}

#[test]
fn a_truncated_image_is_refused() {
    let (_dir, path) = fresh();
    let whole = fs::read(&path).unwrap();
    for len in [100, 4095, 4096, 8192, 70_000, whole.len() - 1] {
        fs::write(&path, &whole[..len]).unwrap();
        check_refused(&path, "truncated");
    }
    fs::write(&path, &whole).unwrap();
    let m = Medium::open_file(&path).unwrap();
    m.erase(EblockId::new(3)).unwrap();
    m.program(EblockId::new(3), 0, &PageBuf::copy_from(&[1; 4096])).unwrap();
    m.sync().unwrap();
    m.write_checkpoint_record(0, b"x").unwrap();
    let len = m.image_bytes();
    drop(m);
    fs::File::options().write(true).open(&path).unwrap().set_len(len - 1).unwrap();
    check_refused(&path, "truncated");
}

#[test]
fn any_flipped_byte_of_the_superblock_or_its_copy_is_repaired_and_of_both_is_refused() {
    let (_dir, path) = fresh();
    let whole = fs::read(&path).unwrap();
    for at in (0..8192).step_by(61).chain(0..100).chain(4096..4196).chain([4092, 4095, 8191]) {
        overwrite(&path, at as u64, &[whole[at] ^ 0x40]);
        let m = Medium::open_file(&path).unwrap();
        assert_eq!((m.geometry(), m.repairs()), (&geometry(), 1), "byte {at}");
        drop(m);
        assert!(fs::read(&path).unwrap()[..8192] == whole[..8192], "byte {at} is what it was");
    }
    assert_eq!(Medium::open_file(&path).unwrap().repairs(), 0);
    for (first, second) in [(0, 4096), (9, 4096 + 9), (60, 8191), (4095, 4096)] {
        overwrite(&path, first as u64, &[whole[first] ^ 0x40]);
        overwrite(&path, second as u64, &[whole[second] ^ 0x40]);
        let foreign = (first, second) == (0, 4096);
        check_refused(&path, if foreign { "not a Lode image" } else { "corrupt superblock: at byte 0: " });
        overwrite(&path, 0, &whole[..8192]);
    }
    let mut other = whole[4096..8192].to_vec();
    other[40] ^= 1;
    let crc = lode_base::checksum::crc32c(&other[..4092]);
    other[4092..].copy_from_slice(&crc.to_le_bytes());
    overwrite(&path, 4096, &other);
    check_refused(&path, "the copy at byte 4096: it differs from the superblock");
}

#[test]
fn a_newer_version_is_refused() {
    let (_dir, path) = fresh();
    let mut b = fs::read(&path).unwrap()[..4096].to_vec();
    b[8] = 9;
    let crc = lode_base::checksum::crc32c(&b[..4092]);
    b[4092..].copy_from_slice(&crc.to_le_bytes());
    overwrite(&path, 0, &b);
    overwrite(&path, 4096, &b);
    check_refused(&path, "the image has format version 9; this Lode reads up to 2");
}

#[test]
fn checkpoint_records_alternate_and_survive_a_torn_one() {
    let (_dir, path) = fresh();
    let m = Medium::open_file(&path).unwrap();
    assert_eq!(m.read_checkpoint_records().unwrap(), [None, None]);
    m.write_checkpoint_record(0, b"one").unwrap();
    assert!(!m.is_fresh());
    m.write_checkpoint_record(1, &vec![2; lode_flash::CHECKPOINT_RECORD_BYTES_MAX]).unwrap();
    assert_eq!(m.newest_checkpoint_record().unwrap().unwrap().0, 1);
    drop(m);
    let m = Medium::open_file(&path).unwrap();
    assert!(!m.is_fresh());
    m.write_checkpoint_record(0, b"three").unwrap();
    assert_eq!(m.newest_checkpoint_record().unwrap(), Some((0, b"three".to_vec())));
    drop(m);
    for (copy, repairs) in [((64 << 10) + 33, 1), ((320 << 10) + 33, 1), (0, 0)] {
        if copy != 0 {
            overwrite(&path, copy, b"?");
        }
        let m = Medium::open_file(&path).unwrap();
        assert_eq!(m.newest_checkpoint_record().unwrap(), Some((0, b"three".to_vec())));
        assert_eq!(m.repairs(), repairs);
    }
    // A power cut may have left the copy as it was before.
    let older = fs::read(&path).unwrap()[416 << 10..(416 << 10) + 70_000].to_vec();
    Medium::open_file(&path).unwrap().write_checkpoint_record(1, b"four").unwrap();
    overwrite(&path, 416 << 10, &older);
    let m = Medium::open_file(&path).unwrap();
    assert_eq!(m.newest_checkpoint_record().unwrap(), Some((1, b"four".to_vec())));
    assert_eq!(m.repairs(), 0, "nothing was damaged");
    drop(m);
    overwrite(&path, (192 << 10) + 33, b"?");
    let m = Medium::open_file(&path).unwrap();
    assert_eq!(
        m.newest_checkpoint_record().unwrap(),
        Some((1, b"four".to_vec())),
        "it was brought up to date"
    );
    drop(m);
    overwrite(&path, (192 << 10) + 33, b"?");
    overwrite(&path, (416 << 10) + 33, b"?");
    let m = Medium::open_file(&path).unwrap();
    assert_eq!(m.newest_checkpoint_record().unwrap(), Some((0, b"three".to_vec())));
    assert!(m.read_checkpoint_records().unwrap()[1].is_none());
}
