//! Images that earlier versions made open, answer, and take changes of today.
//!
//! ```text
//!   data/older/COMMIT.sql      what the version of that commit was told
//!   data/older/COMMIT.lode.gz  the image that it left
//!   data/older/COMMIT.txt      statements of today, each behind `>> `, and their answers
//! ```

mod common;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::Stdio;

use common::{Dir, lode, succeed};
use flate2::read::GzDecoder;

/// What `lode sql` answers to a statement: rows or a tag, or the line of an error.
fn answer(image: &str, statement: &str) -> String {
    let mut child = lode().args(["sql", image]).stdin(Stdio::piped()).spawn().expect("lode runs");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    writeln!(stdin, "{statement};").unwrap();
    drop(stdin);
    let out = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(out.stderr).unwrap();
    let text = String::from_utf8(out.stdout).unwrap() + &stderr;
    text.trim().replace("lode: standard input: statement at line 1: ", "lode: ")
}

fn check(commit: &str) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/older");
    let dir = Dir::new();
    let image = dir.file("older.lode");
    let packed = File::open(data.join(format!("{commit}.lode.gz"))).unwrap();
    io::copy(&mut GzDecoder::new(packed), &mut File::create(&image).unwrap()).unwrap();
    let told = fs::read_to_string(data.join(format!("{commit}.txt"))).unwrap();
    let mut asked = 0;
    for part in told.split(">> ").skip(1) {
        let (statement, expected) = part.split_once('\n').unwrap();
        assert_eq!(answer(&image, statement), expected.trim(), "{commit}: {statement}");
        asked += 1;
    }
    assert!(asked > 10, "{commit}: {asked} statements");
    assert!(succeed(["drive", "check", &image]).contains("no problem"));
}

/// Keys, constraints, indexes, deltas and pages, from before there was a DEFAULT.
#[test]
fn an_image_from_before_defaults_and_sequences_opens() {
    check("37745da");
}

/// Schemas, views, sequences, IDENTITY, generated columns, added, dropped and retyped columns, actions of foreign keys, deferred keys.
#[test]
fn an_image_from_before_indexes_on_expressions_opens() {
    check("19db92a");
}
