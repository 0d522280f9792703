//! COPY FROM STDIN and TO STDOUT by the binary: rows in a script, on standard input, and from one drive to another; and
//! how errors of statements are shown.

mod common;

use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

use common::{Dir, fail, lode, one_line, succeed};

const SCRIPT: &str = "\
CREATE TABLE t (a INT PRIMARY KEY, b TEXT, d TIMESTAMP);
COPY t FROM STDIN;
1\tone; and a semicolon\t2024-05-01 10:30
2\t\\N\t\\N
3\ta\\tb 'quote\t2024-05-01T10:30:15Z
\\.
INSERT INTO t VALUES (4, 'four', NULL);
COPY t (a, b) FROM STDIN (FORMAT csv, HEADER);
a,b
5,\"five, \"\"quoted\"\"\"
\\.
SELECT count(*) FROM t;
";

/// Runs the binary with these bytes on its standard input.
fn with_input<const N: usize>(args: [&str; N], input: &str) -> Output {
    let mut child = lode().args(args).stdin(Stdio::piped()).spawn().expect("lode runs");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn rows_stand_in_a_script() {
    let dir = Dir::new();
    let (file, script) = (dir.file("a.lode"), dir.file("a.sql"));
    fs::write(&script, SCRIPT).unwrap();
    let out = succeed(["sql", &file, "-f", &script]);
    assert!(out.contains("COPY 3\nINSERT 1\nCOPY 1\n"), "{out}");
    let rows = "1\tone; and a semicolon\t2024-05-01 10:30:00\n2\t\\N\t\\N\n3\ta\\tb 'quote\t2024-05-01 10:30:15\n\
                4\tfour\t\\N\n5\tfive, \"quoted\"\t\\N\n";
    let query = "COPY (SELECT * FROM t ORDER BY a) TO STDOUT";
    assert_eq!(succeed(["sql", &file, "-c", query]), rows);
    // From one drive to another.
    let other = dir.file("b.lode");
    succeed(["sql", &other, "-c", "CREATE TABLE t (a INT PRIMARY KEY, b TEXT, d TIMESTAMP)"]);
    let out = with_input(["sql", &other, "-c", "COPY t FROM STDIN"], rows);
    assert_eq!(String::from_utf8_lossy(&out.stdout), "COPY 5\n");
    assert_eq!(succeed(["sql", &other, "-c", query]), rows);
    // Rows behind the statement of -c.
    succeed(["sql", &other, "-c", "COPY t (a) FROM STDIN;\n6\n7\n\\.\nINSERT INTO t VALUES (8)"]);
    assert_eq!(succeed(["sql", &other, "-c", "COPY (SELECT count(*) FROM t) TO STDOUT"]), "8\n");
}

#[test]
fn a_malformed_row_is_named_and_nothing_is_loaded() {
    let dir = Dir::new();
    let (file, script) = (dir.file("a.lode"), dir.file("a.sql"));
    succeed(["sql", &file, "-c", "CREATE TABLE t (a INT PRIMARY KEY, b TEXT)"]);
    let check = |rows: &str, words: &[&str]| {
        let text = format!("-- a script\nCOPY t FROM STDIN;\n{rows}\\.\nSELECT 1;\n");
        fs::write(&script, text).unwrap();
        fail(["sql", &file, "-f", &script], 1, words);
        assert_eq!(succeed(["sql", &file, "-c", "COPY (SELECT count(*) FROM t) TO STDOUT"]), "0\n");
    };
    check("1\tx\ny\tz\n", &["statement at line 1: ERROR 22P02: ", "line 2, column a"]);
    check("1\n", &["ERROR 22P04: ", "line 1, column b"]);
    check("1\tx\ty\n", &["ERROR 22P04: ", "line 1"]);
    check("1\tx\n1\ty\n", &["ERROR 23505: "]);
    check("\\N\tx\n", &["ERROR 23502: ", "line 1, column a"]);
}

#[test]
fn errors_show_their_sqlstate() {
    let dir = Dir::new();
    let (file, script) = (dir.file("a.lode"), dir.file("a.sql"));
    succeed(["sql", &file, "-c", "CREATE TABLE t (a INT PRIMARY KEY)"]);
    let line = fail(["sql", &file, "-c", "SELECT z FROM t"], 1, &[]);
    assert!(line.starts_with("lode: ERROR 42703: line 1, column 8: "), "{line}");
    fail(["sql", &file, "-c", "SELEC 1"], 1, &["lode: ERROR 42601: syntax error at line 1, column 1: "]);
    fs::write(&script, "INSERT INTO t VALUES (1);\n\nINSERT INTO t\nVALUES (1);\n").unwrap();
    fail(["sql", &file, "-f", &script], 1, &["a.sql: statement at line 3: ERROR 23505: "]);
    let out = with_input(["sql", &file], "SELECT 1;\nSELECT nofunc(1);\n");
    assert!(one_line(&out, 1).contains("standard input: ERROR 42883: line 2, column 8"));
}
