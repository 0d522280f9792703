//! Transactions over trees: an ordered map that is on disk.
//!
//! ```text
//!   Database::open ─► create_tree ─► begin ─► put, get, delete, scan ─► commit: durable when it returns
//!                                      └─ two that write one key: the one that commits later is run again
//! ```
//!
//! `cargo run -p lode --example trees -- [FILE]`

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use lode::{Database, EngineError};

pub(crate) fn run(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    // The file is made if it does not exist.
    let db = Database::open(path)?;
    let fruit = db.create_tree("fruit", true)?;

    // All changes of a transaction, or none.
    let mut txn = db.begin()?;
    txn.put(&fruit, b"apple", b"3")?;
    txn.put(&fruit, b"cherry", b"12")?;
    txn.put(&fruit, b"pear", b"2")?;
    txn.commit()?;

    // A transaction sees the state at its begin, and its own changes. Dropping it undoes them.
    let mut txn = db.begin()?;
    txn.delete(&fruit, b"apple")?;
    writeln!(
        out,
        "within: apple is {}",
        if txn.get(&fruit, b"apple")?.is_none() { "gone" } else { "there" }
    )?;
    drop(txn);

    // Keys in order, from "b" on.
    let txn = db.begin()?;
    let mut range = txn.scan(&fruit, "b"..)?;
    while let Some((key, value)) = range.next()? {
        writeln!(out, "{}: {}", key.escape_ascii(), value.escape_ascii())?;
    }
    drop(range);
    drop(txn);

    // Nobody waits for a lock. Of two transactions that write one key, the later one fails at its commit, and is run again.
    let mut first = db.begin()?;
    let mut second = db.begin()?;
    first.put(&fruit, b"pear", b"5")?;
    second.put(&fruit, b"pear", b"9")?;
    first.commit()?;
    match second.commit() {
        Err(EngineError::Conflict { .. }) => writeln!(out, "the second one conflicts")?,
        other => unreachable!("{other:?}: the first one wrote pear"),
    }

    // Closing writes a checkpoint, so that the next opening is quick. Without it nothing is lost either.
    db.close()?;
    let db = Database::open(path)?;
    let fruit = db.tree("fruit").expect("it was made above");
    let txn = db.begin()?;
    let pear = txn.get(&fruit, b"pear")?.expect("it was committed");
    writeln!(out, "reopened: pear: {}", pear.escape_ascii())?;
    Ok(())
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).map_or_else(|| PathBuf::from("trees.lode"), PathBuf::from);
    run(&path, &mut io::stdout())
}
