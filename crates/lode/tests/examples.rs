//! The examples print, and answer, what their comments promise.

#[path = "../examples/front_end.rs"]
mod front_end;
#[cfg(feature = "sql")]
#[path = "../examples/sql.rs"]
mod sql;
#[path = "../examples/trees.rs"]
mod trees;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};

use lode::Database;

#[test]
fn trees_have_transactions_order_and_conflicts() {
    let dir = tempfile::tempdir().unwrap();
    let mut out = Vec::new();
    trees::run(&dir.path().join("my.lode"), &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "within: apple is gone\ncherry: 12\npear: 2\nthe second one conflicts\nreopened: pear: 5\n"
    );
}

#[cfg(feature = "sql")]
#[tokio::test]
async fn sql_has_rows_transactions_and_sqlstates() {
    let mut out = Vec::new();
    sql::run(&mut out).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    let rest = text.strip_prefix("Bergen: 80\nOslo: 175\n23505: ").unwrap_or_else(|| panic!("{text}"));
    assert_eq!(rest.lines().count(), 1, "{rest}");
}

/// A client of the front-end: a line goes out, a line comes back.
struct Client(BufReader<TcpStream>);

impl Client {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    fn ask(&mut self, request: &str) -> String {
        writeln!(self.0.get_mut(), "{request}").unwrap();
        self.line()
    }
}

#[test]
fn a_front_end_serves_keys_and_values_to_several_clients() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("my.lode");
    let db = Database::open(&path).unwrap();
    let tree = db.create_tree("pairs", true).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let client = || Client(BufReader::new(TcpStream::connect(address).unwrap()));
    std::thread::scope(|threads| {
        let served = threads.spawn(|| front_end::serve(&listener, &db, &tree, 2));
        let (mut a, mut b) = (client(), client());
        assert_eq!(a.ask("GET city"), "NONE");
        assert_eq!(a.ask("PUT city Oslo"), "OK");
        assert_eq!(b.ask("GET city"), "VALUE Oslo");
        assert_eq!(b.ask("PUT fare 120"), "OK");
        assert_eq!(a.ask("FROM d 9"), "fare 120");
        assert_eq!(a.line(), "END");
        assert_eq!(a.ask("DEL city"), "OK");
        assert_eq!(b.ask("GET city"), "NONE");
        assert!(b.ask("SELECT 1").starts_with("ERROR the requests are GET"));
        assert!(b.ask(&format!("PUT {} 1", "k".repeat(100_000))).starts_with("ERROR "));
        drop((a, b));
        served.join().unwrap().unwrap();
    });
    // What was answered is in the file, though nobody closed it.
    drop(db);
    let db = Database::open(&path).unwrap();
    let tree = db.tree("pairs").unwrap();
    assert_eq!(db.begin().unwrap().get(&tree, b"fare").unwrap().as_deref(), Some(&b"120"[..]));
}
