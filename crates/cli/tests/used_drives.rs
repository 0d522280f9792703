//! TPC-H and the space of an image, on drives that were filled, overwritten and reopened.

mod common;

use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use common::{Dir, lode, succeed};
use lode_base::Geometry;
use lode_bench::tpch::answers::Answer;
use lode_bench::tpch::data::load;
use lode_bench::tpch::run::run;
use lode_bench::tpch::schema::Layout;
use lode_bench::tpch::{QUERIES, Scale, TABLES};
use lode_engine::{Database, DatabaseOptions};
use lode_firmware::{Drive, DriveOptions};
use lode_sql::{Offload, Queries, Session, SessionOptions};

const SCALE: f64 = 0.01;

/// A drive of 48 MB, the database on it, and a session.
struct Used {
    drive: Drive,
    database: Database,
    session: Session,
    victims: u64,
}

impl Used {
    fn of(drive: Drive, victims: u64) -> Self {
        let database = Database::open(Arc::new(drive.clone()), DatabaseOptions::default()).unwrap();
        let options = SessionOptions { target_partitions: 2, ..SessionOptions::default() };
        let session = Queries::new(database.clone(), 1 << 30).and_then(|q| q.session(&options)).unwrap();
        Self { drive, database, session, victims }
    }

    fn make(path: &Path) -> Self {
        let g = Geometry::new(1, 1, 1, 4096, 4096, 512 << 10, 96).unwrap();
        Self::of(Drive::create_file(path, g, DriveOptions::default(), 7).unwrap(), 0)
    }

    /// Closes it, or drops it like a kill would, and opens it again.
    fn again(self, path: &Path, close: bool) -> Self {
        let Self { drive, database, session, victims } = self;
        let victims = victims + drive.info().gc_victims;
        drop((session, database));
        match close {
            true => drive.close().unwrap(),
            false => drop(drive),
        }
        let drive = Drive::open_file(path, DriveOptions::default()).unwrap();
        assert_eq!(drive.info().recovery.clean, close);
        Self::of(drive, victims)
    }

    async fn sql(&self, text: &str) {
        self.session.execute(text).await.unwrap_or_else(|e| panic!("{text}: {e}"));
    }

    async fn load(&self, layout: Layout) {
        let go_on = Arc::new(|_| ControlFlow::Continue(()));
        load(&self.session, Scale::new(SCALE).unwrap(), layout, go_on).await.unwrap();
    }

    /// Fills the drive until it refuses more, then overwrites its data repeatedly.
    async fn churn(&self) {
        self.sql("CREATE TABLE junk (id BIGINT PRIMARY KEY, a BIGINT, b TEXT) WITH (layout = 'row')").await;
        let mut rows = 0u64;
        let full = loop {
            let text = format!(
                "INSERT INTO junk SELECT x, x::BIGINT * 7919, repeat(CAST(x::BIGINT * 31 AS TEXT), 12) \
                 FROM generate_series({}, {}) t(x)",
                rows + 1,
                rows + 4000
            );
            match self.session.execute(&text).await {
                Ok(_) => rows += 4000,
                Err(e) => break e.to_string(),
            }
            assert!(rows < 4_000_000, "the drive never fills up");
        };
        assert!(full.contains("full"), "{full}");
        assert!(rows > 20_000, "{rows} rows fill it");
        self.sql(&format!("DELETE FROM junk WHERE id > {}", rows * 6 / 10)).await;
        for turn in 0..24 {
            self.sql(&format!("UPDATE junk SET a = a + 1 WHERE id / 300 % 12 = {}", turn % 12)).await;
        }
    }

    async fn check(&self) {
        let scale = Scale::new(SCALE).unwrap();
        for level in [Offload::Off, Offload::Auto] {
            for query in &QUERIES {
                self.database.clear_pool();
                let run = run(&self.session, query, scale, level).await.unwrap_or_else(|e| panic!("{e}"));
                let expected = Answer::shipped(query, scale).unwrap().unwrap();
                run.answer.compare(query, &expected).unwrap_or_else(|d| panic!("offload {level}: {d}"));
            }
        }
        self.drive.check_invariants();
        assert_eq!(self.drive.check().problems, Vec::<String>::new());
        assert_eq!(self.database.check().unwrap(), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tpch_answers_are_right_on_a_drive_that_was_filled_overwritten_and_reopened() {
    let dir = Dir::new();
    let path = dir.join("used.lode");
    let mut used = Used::make(&path);
    for round in 0..4 {
        used.load(if round % 2 == 0 { Layout::Column } else { Layout::Row }).await;
        used.churn().await;
        // Each row is updated twice, so that every page is rewritten with the same content.
        used.sql("UPDATE lineitem SET l_tax = l_tax + 0.01 WHERE l_orderkey % 3 = 0").await;
        used.sql("UPDATE lineitem SET l_tax = l_tax - 0.01 WHERE l_orderkey % 3 = 0").await;
        used = used.again(&path, round % 2 == 1);
        used.check().await;
        used.sql("DROP TABLE junk").await;
        for table in &TABLES {
            used.sql(&format!("DELETE FROM {}; DROP TABLE {}", table.name, table.name)).await;
        }
        used = used.again(&path, round < 2);
    }
    used.load(Layout::Column).await;
    used.check().await;
    let victims = used.victims + used.drive.info().gc_victims;
    assert!(victims > 0, "GC never ran");
    drop(used);
    let path = path.to_str().unwrap();
    succeed(["drive", "check", path]);
    succeed(["drive", "scrub", path]);
}

fn on_disk(path: &str) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn the_space_of_a_dropped_table_goes_back_to_the_file_system() {
    let dir = Dir::new();
    let drive = dir.file("space.lode");
    succeed([
        "sql",
        &drive,
        "-c",
        "CREATE TABLE small (a INTEGER PRIMARY KEY); INSERT INTO small VALUES (1)",
    ]);
    let empty = on_disk(&drive);
    succeed(["load", "tpch", "--scale", "0.2", "--encoding", "plain", "--drive", &drive]);
    let loaded = on_disk(&drive);
    assert!(loaded > 40_000_000, "{loaded} bytes for TPC-H at scale 0.2");
    let drop_all: String = TABLES.iter().map(|t| format!("DROP TABLE {};", t.name)).collect();
    succeed(["sql", &drive, "-c", &drop_all]);
    let dropped = on_disk(&drive);
    assert!(dropped < empty + (2 << 20), "{dropped} of {loaded} bytes stay; the empty image took {empty}");
    succeed(["drive", "check", &drive]);
    // This also holds for a drive that stays open, without any command.
    succeed(["load", "tpch", "--scale", "0.2", "--encoding", "plain", "--drive", &drive]);
    let mut shell = lode().args(["sql", &drive]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(shell.stdin.as_mut().unwrap(), drop_all.as_bytes()).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while on_disk(&drive) > loaded / 4 * 3 {
        assert!(std::time::Instant::now() < deadline, "{} of {loaded} bytes stay", on_disk(&drive));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(shell.stdin.take());
    assert!(shell.wait_with_output().unwrap().status.success());
    assert!(on_disk(&drive) < empty + (2 << 20));
}
