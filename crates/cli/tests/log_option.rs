//! `--log` and LODE_LOG: what they print, and what is printed without them.

mod common;

use common::{Dir, lode, one_line, succeed};

#[test]
fn nothing_is_told_unless_it_is_asked_for() {
    let dir = Dir::new();
    // `succeed` checks that standard error is empty.
    assert_eq!(succeed(["sql", &dir.file("a.lode"), "-c", "CREATE TABLE t (a INT)"]).trim(), "CREATE TABLE");
}

#[test]
fn openings_statements_and_groups_are_told_with_their_times() {
    let dir = Dir::new();
    let file = dir.file("a.lode");
    let out = lode().args(["--log", "debug", "sql", &file, "-c", "CREATE TABLE t (a INT)"]).output().unwrap();
    let told = String::from_utf8(out.stderr).unwrap();
    for words in
        ["open: lode_engine", "statement{sql=CREATE TABLE t (a INT)}", "group{actions=", "time.busy="]
    {
        assert!(told.contains(words), "{words} in {told}");
    }
    let out =
        lode().env("LODE_LOG", "lode_firmware=info").args(["sql", &file, "-c", "SELECT 1"]).output().unwrap();
    let told = String::from_utf8(out.stderr).unwrap();
    assert!(told.contains("recovery{image=") && !told.contains("statement{"), "{told}");
}

#[test]
fn a_filter_that_is_none_is_refused_in_one_line() {
    let dir = Dir::new();
    let file = dir.file("a.lode");
    let out = lode().args(["--log", "lode=loud", "sql", &file, "-c", "SELECT 1"]).output().unwrap();
    assert!(one_line(&out, 2).contains("--log 'lode=loud'"));
    let out = lode().args(["--log", "debg", "sql", &file, "-c", "SELECT 1"]).output().unwrap();
    assert!(one_line(&out, 2).contains("'debg' is no level"));
    assert!(!std::path::Path::new(&file).exists());
}
