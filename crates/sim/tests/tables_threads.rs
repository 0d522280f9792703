//! Conflicting transactions over a table with a delta on real threads, while other threads merge the delta and work in the
//! background. Their history satisfies snapshot isolation, and the rows pass the check. `LODE_ROUNDS=200` runs more rounds.

mod sessions;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lode_base::random::mix;
use lode_engine::{
    Changes, ColumnDef, Database, DatabaseOptions, Deferral, EngineError, Snapshot, Table, TableDef,
    TableOptions, WriteTxn,
};
use lode_page::{Column, ColumnBuilder, DataType, Value};
use lode_sim::history::{Op, Outcome, Transaction};

use sessions::{Ended, durability, rounds, transaction};

const THREADS: u64 = 3;
const TRANSACTIONS: u64 = 100;
const KEYS: u64 = 12;
const TABLE: &str = "t";
const COLUMNS: [(&str, DataType); 2] = [("k", DataType::BigInt), ("s", DataType::Text)];

fn database(round: u64) -> Database {
    // Claims are forgotten soon, or never.
    let recent_bytes = if round.is_multiple_of(3) { 1 } else { 1 << 20 };
    let database = sessions::database(round, DatabaseOptions { recent_bytes, ..DatabaseOptions::default() });
    let column = |(name, data_type): (&str, DataType)| ColumnDef::new(name, data_type);
    let def = TableDef {
        name: TABLE.into(),
        columns: COLUMNS.map(column).into(),
        primary_key: vec![0],
        primary_key_deferral: Deferral::None,
        primary_key_name: None,
        options: TableOptions { changes: Changes::Delta, ..TableOptions::default() },
        constraints: Vec::new(),
    };
    database.create_table(def, false).unwrap();
    database
}

fn column(data_type: DataType, value: &Value) -> Column {
    let mut b = ColumnBuilder::new(data_type);
    b.push(value).unwrap();
    b.finish()
}

fn text(values: &[u64]) -> Column {
    let numbers: Vec<String> = values.iter().map(u64::to_string).collect();
    column(DataType::Text, &Value::text(&numbers.join(" ")))
}

/// The numbers in the row with a key.
fn numbers(s: &Snapshot, t: &Table, key: u64) -> Result<Option<Vec<u64>>, EngineError> {
    let Some(row) = s.row_by_key(t, &[0], &[Value::Int(key as i64)])? else { return Ok(None) };
    match &s.row_values(t, row, &[1])?[0] {
        Value::Bytes(text) => {
            let text = String::from_utf8(text.to_vec()).unwrap();
            Ok(Some(text.split(' ').map(|n| n.parse().unwrap()).collect()))
        }
        other => panic!("{other:?}"),
    }
}

/// Writes the row with a key, or deletes it.
fn write(txn: &mut WriteTxn, key: u64, values: Option<&[u64]>) -> Result<(), EngineError> {
    let current = txn.current()?;
    let t = current.table(TABLE).unwrap();
    let row = current.row_by_key(&t, &[0], &[Value::Int(key as i64)])?;
    match (row, values) {
        (Some(row), Some(values)) => txn.update(TABLE, &[row], &[1], vec![text(values)]).map(drop),
        (Some(row), None) => txn.delete(TABLE, &[row]).map(drop),
        (None, Some(values)) => {
            let key = column(DataType::BigInt, &Value::Int(key as i64));
            txn.insert(TABLE, vec![key, text(values)]).map(drop)
        }
        (None, None) => Ok(()),
    }
}

/// The reads and writes of a transaction. Even keys are registers, odd keys are lists.
fn work(txn: &mut WriteTxn, seed: u64, counter: &AtomicU64) -> Result<Vec<Op>, EngineError> {
    let mut ops = Vec::new();
    for i in 0..1 + mix(seed) % 6 {
        let r = mix(seed.wrapping_mul(31).wrapping_add(i));
        let (key, writes) = (r % KEYS, (r >> 32).is_multiple_of(2));
        let current = txn.current()?;
        let t = current.table(TABLE).unwrap();
        let found = numbers(&current, &t, key)?;
        let value = counter.fetch_add(1, Ordering::Relaxed);
        if key % 2 == 1 {
            let values = found.unwrap_or_default();
            ops.push(Op::ReadList { list: key, values: values.clone() });
            if writes {
                write(txn, key, Some(&[values, vec![value]].concat()))?;
                ops.push(Op::Append { list: key, value });
            }
            continue;
        }
        // A transaction that reads before it writes tells the order of versions.
        ops.push(Op::Read { register: key, value: found.map(|v| v[0]) });
        if writes && r >> 60 == 0 {
            write(txn, key, None)?;
            ops.push(Op::Delete { register: key });
        } else if writes {
            write(txn, key, Some(&[value]))?;
            ops.push(Op::Write { register: key, value });
        }
    }
    Ok(ops)
}

/// Merges until the sessions are over. Answers how often.
fn merger(db: &Database, is_over: &AtomicBool) -> u64 {
    let mut merges = 0;
    while !is_over.load(Ordering::Relaxed) {
        match merges % 3 {
            0 => drop(db.work(1 << 16)),
            _ => db.merge(TABLE).unwrap(),
        }
        merges += 1;
    }
    merges
}

#[test]
fn histories_of_threads_are_clean() {
    let (mut merges, mut played) = (0, 0);
    let tally = rounds(|round, clock| {
        let db = database(round);
        let is_over = AtomicBool::new(false);
        let one = |seed| {
            let mut txn = db.begin_write().unwrap();
            txn.set_durability(durability(round));
            let snapshot = txn.snapshot().csn().raw();
            let ops = work(&mut txn, seed, clock).unwrap();
            let outcome = match txn.commit() {
                Ok(_) => Outcome::Committed,
                // Both made a row with one key.
                Err(EngineError::Conflict { .. } | EngineError::DuplicateKey { .. }) => Outcome::Aborted,
                Err(e) => panic!("{e}"),
            };
            Ended { ops, outcome, snapshot, commit: None }
        };
        let session = |n| -> Vec<Transaction> {
            (0..TRANSACTIONS).map(|i| transaction((round, n, i), clock, one)).collect()
        };
        let ended: Vec<_> = std::thread::scope(|s| {
            let (db, is_over) = (&db, &is_over);
            let merger = s.spawn(move || merger(db, is_over));
            let sessions: Vec<_> = (0..THREADS).map(|n| s.spawn(move || session(n))).collect();
            let ended = sessions.into_iter().map(|s| s.join()).collect();
            is_over.store(true, Ordering::Relaxed);
            merges += merger.join().unwrap();
            played += 1;
            ended
        });
        (db, ended.into_iter().flat_map(Result::unwrap).collect())
    });
    println!("{} commits, {} conflicts, {merges} merges", tally.commits, tally.conflicts);
    let proves = tally.conflicts > 0 && merges > played;
    assert!(proves, "without conflicts and merges the test proves nothing");
}
