//! Compares the allocated memory with the budgets of a database, while several times that memory is written and read.

use std::sync::Arc;

use lode::{Durability, Memory};
use lode_engine::Database;
use lode_firmware::Drive;

/// Memory without a budget: a transaction, a batch of 1 MB under way, the buffers of GC, and the short buffers that a
/// thread keeps.
const UNBUDGETED_BYTES: usize = 2 << 20;
const VALUE_BYTES: usize = 1000;

/// The test uses one thread, so that all allocations are counted.
#[test]
fn what_is_allocated_is_what_was_divided() {
    let limit_bytes = 24u64 << 20;
    let memory = Memory::within(limit_bytes);
    memory.limit_process();
    // The test has no tables.
    let unused = memory.database.pool_bytes + memory.drive.index_cache_bytes;
    let most = memory.budget_bytes() - unused + UNBUDGETED_BYTES;
    let dir = tempfile::tempdir().unwrap();
    let geometry = lode::file_geometry(1 << 30).unwrap();
    let keys = 2 * limit_bytes as u32 / VALUE_BYTES as u32;
    let used = allocation_counter::measure(|| {
        let drive = Drive::create_file(&dir.path().join("m.lode"), geometry, memory.drive, 1).unwrap();
        let db = Database::open(Arc::new(drive), memory.database).unwrap();
        db.set_durability(Durability::None);
        let tree = db.create_tree("t", false).unwrap();
        let key = |i: u32| (i % keys).wrapping_mul(0x9e37_79b1).to_be_bytes();
        for i in 0..3 * keys / 10 {
            let mut txn = db.begin().unwrap();
            for k in 10 * i..10 * i + 10 {
                txn.put(&tree, &key(k), &[k as u8; VALUE_BYTES]).unwrap();
                if i > keys / 10 {
                    txn.get(&tree, &key(k.wrapping_mul(7919))).unwrap().unwrap();
                }
            }
            txn.commit().unwrap();
            db.work(1 << 20);
        }
        let held = db.tree_stats().held_bytes;
        assert!(held > limit_bytes as usize / 4, "{held} bytes of pages are all that is held");
    });
    assert!(used.bytes_max as usize <= most, "{} bytes are allocated at the most, of {most}", used.bytes_max);
}
