//! `SET lode.durability`: what a commit waits for, and which commits a power cut may lose.

use std::sync::Arc;

use lode_base::Geometry;
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::{Drive, DriveOptions, Unrecovered};
use lode_flash::{Faults, Medium};
use lode_sql::{CommitDurability, Queries, Session, SessionOptions};

fn opened(drive: Drive) -> Database {
    Database::open(Arc::new(drive), DatabaseOptions::default()).unwrap()
}

fn new_database() -> (Database, Faults) {
    let geometry = Geometry::new(1, 1, 1, 4096, 4096, 256 << 10, 64).unwrap();
    let (medium, faults) = Medium::simulated(geometry);
    (opened(Drive::format(medium, DriveOptions::default()).unwrap()), faults)
}

fn session(db: &Database) -> Session {
    Queries::new(db.clone(), 1 << 30).and_then(|q| q.session(&SessionOptions::default())).unwrap()
}

async fn count(s: &Session) -> usize {
    s.collect("SELECT k FROM t").await.unwrap().iter().map(|b| b.num_rows()).sum()
}

#[tokio::test]
async fn the_setting_is_shown_refused_reset_and_a_session_s_own() {
    let (db, _faults) = new_database();
    let (a, b) = (session(&db), session(&db));
    assert_eq!((a.durability(), db.group()), (CommitDurability::Commit, None));
    a.execute("SET lode.durability = group(7)").await.unwrap();
    b.execute("SET lode.durability = 'group(3)'").await.unwrap();
    assert_eq!(db.group().unwrap().as_millis(), 3, "as often as the one who asks for most");
    b.execute("SET lode.durability TO none").await.unwrap();
    assert_eq!((b.durability(), db.group().unwrap().as_millis()), (CommitDurability::None, 7));
    let shown = a.collect("SHOW lode.durability").await.unwrap();
    let shown = datafusion::arrow::util::pretty::pretty_format_batches(&shown).unwrap().to_string();
    assert!(shown.contains("group(7)"), "{shown}");
    for wrong in ["soon", "group(0)", "group(1, 2)", "-1", "'group(99999999999)'"] {
        let e = a.execute(&format!("SET lode.durability = {wrong}")).await.unwrap_err().to_string();
        assert!(e.contains("expected commit, group(milliseconds") && !e.contains('\n'), "{e}");
    }
    assert_eq!(a.durability(), CommitDurability::Group(7), "what is wrong changes nothing");
    a.execute("RESET lode.durability").await.unwrap();
    assert_eq!((a.durability(), db.group()), (CommitDurability::Commit, None));
    a.execute("SET lode.durability = group").await.unwrap();
    assert_eq!(db.group().unwrap().as_millis(), 10);
    drop((a, b));
    assert_eq!(db.group(), None, "nobody waits for a sync any more");
}

#[tokio::test]
async fn a_power_cut_takes_the_last_commits_at_most_and_none_of_those_before_a_durable_one() {
    let mut gone = 0;
    for seed in 0..24 {
        let (db, faults) = new_database();
        let s = session(&db);
        s.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT); CREATE INDEX by_v ON t USING btree (v)")
            .await
            .unwrap();
        let mode = ["none", "group(5)"][seed as usize % 2];
        s.execute(&format!("SET lode.durability = {mode}")).await.unwrap();
        for k in 0..6 {
            s.execute(&format!("INSERT INTO t VALUES ({k}, 'a')")).await.unwrap();
        }
        assert_eq!(count(&s).await, 6, "what is committed shows");
        s.execute("SET lode.durability = commit; BEGIN; INSERT INTO t VALUES (6, 'b'); COMMIT")
            .await
            .unwrap();
        s.execute(&format!("SET lode.durability = {mode}")).await.unwrap();
        for k in 7..12 {
            s.execute(&format!("BEGIN; INSERT INTO t VALUES ({k}, 'c'); COMMIT")).await.unwrap();
        }
        drop((s, db));
        faults.cut();
        let (medium, _faults) = faults.restored(seed).unwrap();
        let db = opened(Unrecovered::new(medium, DriveOptions::default()).recover().unwrap());
        assert_eq!(db.check().unwrap(), Vec::<String>::new());
        let s = session(&db);
        let there = count(&s).await;
        assert!((7..=12).contains(&there), "seed {seed}: {there}");
        let all = format!("SELECT k FROM t WHERE k < {there}");
        let first: usize = s.collect(&all).await.unwrap().iter().map(|b| b.num_rows()).sum();
        assert_eq!(first, there, "seed {seed}: a prefix");
        gone += 12 - there;
    }
    assert!(gone > 0, "something was not durable yet");
}
