//! Bad input: each case gives one line on standard error that names the problem and the place, the right exit status,
//! and leaves nothing half-done.

mod common;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Dir, fail, lode, one_line, run, succeed};

/// The size of the superblock, which comes first and has a copy.
const SUPERBLOCK_BYTES: usize = 4096;

/// Makes a small image with a table and closes it.
fn image(dir: &Dir) -> String {
    let file = dir.file("good.lode");
    succeed([
        "sql",
        &file,
        "-c",
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, 'x')",
    ]);
    file
}

/// Checks that each command that opens an image refuses this one and leaves it unchanged.
#[track_caller]
fn refused(file: &str, words: &[&str]) {
    let before = fs::read(file).ok();
    for args in [["sql", file, "-c", "SELECT 1"], ["load", "tpch", "--drive", file]] {
        fail(args, 1, words);
    }
    fail(["drive", "info", file], 1, words);
    fail(["drive", "check", file], 1, words);
    assert!(fs::read(file).ok() == before, "{file} was changed");
}

#[test]
fn foreign_empty_and_missing_files_are_refused() {
    let dir = Dir::new();
    let foreign = dir.file("notes.txt");
    fs::write(&foreign, "Dear diary, today I wrote far more than four kilobytes. ".repeat(1000)).unwrap();
    refused(&foreign, &["notes.txt", "not a Lode image"]);
    let short = dir.file("short.txt");
    fs::write(&short, "hello").unwrap();
    refused(&short, &["short.txt"]);
    let empty = dir.file("empty.lode");
    File::create(&empty).unwrap();
    refused(&empty, &["empty.lode", "empty"]);
    let sub = dir.file("sub");
    fs::create_dir(&sub).unwrap();
    refused(&sub, &["sub"]);
    let missing = dir.file("missing.lode");
    fail(["drive", "info", &missing], 1, &["missing.lode"]);
    fail(["drive", "check", &missing], 1, &["missing.lode"]);
    assert!(!Path::new(&missing).exists());
    let nowhere = dir.file("no/such/dir/x.lode");
    fail(["sql", &nowhere, "-c", "SELECT 1"], 1, &["no/such/dir"]);
}

#[test]
fn an_image_is_never_overwritten() {
    let dir = Dir::new();
    let file = image(&dir);
    let before = fs::read(&file).unwrap();
    fail(["drive", "format", &file], 1, &["good.lode", "exists"]);
    fail(["demo", "--scale", "0.01", "--drive", &file], 1, &["good.lode", "exists"]);
    assert!(fs::read(&file).unwrap() == before);
}

#[test]
fn truncated_images_are_refused_at_every_length() {
    let dir = Dir::new();
    let good = fs::read(image(&dir)).unwrap();
    let cut = dir.file("cut.lode");
    for length in [1, 100, 4095, 4096, 8192, 10_000, good.len() / 2, good.len() - 1] {
        fs::write(&cut, &good[..length]).unwrap();
        let line = fail(["sql", &cut, "-c", "SELECT * FROM t"], 1, &["cut.lode"]);
        assert!(!line.contains("internal"), "{length}: {line}");
    }
}

#[test]
fn a_damaged_superblock_is_repaired_from_its_copy_and_refused_without_it() {
    let dir = Dir::new();
    let file = image(&dir);
    let mut image = OpenOptions::new().read(true).write(true).open(&file).unwrap();
    let mut superblock = vec![0; 2 * SUPERBLOCK_BYTES];
    image.read_exact(&mut superblock).unwrap();
    // Every byte of the fields, then one in each region of the rest. The tests of the crate `flash` flip all bytes.
    let places =
        (0..160).step_by(7).chain((160..SUPERBLOCK_BYTES).step_by(509)).chain([SUPERBLOCK_BYTES - 1]);
    for place in places {
        let mut flip = |place: usize| {
            image.seek(SeekFrom::Start(place as u64)).unwrap();
            image.write_all(&[superblock[place] ^ 0x40]).unwrap();
        };
        let copy = place + SUPERBLOCK_BYTES;
        flip(place);
        flip(copy);
        fail(["drive", "check", &file], 1, &["good.lode"]);
        let mut whole = |from: usize| {
            image.seek(SeekFrom::Start(from as u64)).unwrap();
            image.write_all(&superblock[from..from + SUPERBLOCK_BYTES]).unwrap();
        };
        // One of the two copies is intact again, and repairs the other.
        whole(if place % 2 == 0 { 0 } else { SUPERBLOCK_BYTES });
        succeed(["drive", "check", &file]);
        assert!(fs::read(&file).unwrap().starts_with(&superblock), "byte {place} is not repaired");
    }
}

#[test]
fn a_damaged_checkpoint_record_is_repaired_from_its_copy() {
    let dir = Dir::new();
    let file = image(&dir);
    let good = fs::read(&file).unwrap();
    // The two slots and their copies: a byte of each record's payload.
    for copy in [[64 << 10, 192 << 10], [320 << 10, 416 << 10]] {
        let mut bytes = good.clone();
        copy.iter().for_each(|at| bytes[at + 40] ^= 1);
        fs::write(&file, &bytes).unwrap();
        assert_still_good(&file);
    }
}

#[test]
fn an_image_of_another_format_is_refused() {
    let dir = Dir::new();
    let good = fs::read(image(&dir)).unwrap();
    let other = dir.file("other.lode");
    for (version, words) in
        [(1u32, ["format version 1;", "export its data"]), (3, ["format version 3;", "up to 2"])]
    {
        let mut bytes = good.clone();
        // The superblock is at 0 and its copy follows. The version is in bytes 8 to 11, the checksum in the last
        // four.
        for at in [0, SUPERBLOCK_BYTES] {
            let block = &mut bytes[at..at + SUPERBLOCK_BYTES];
            block[8..12].copy_from_slice(&version.to_le_bytes());
            let crc = lode_base::checksum::crc32c(&block[..SUPERBLOCK_BYTES - 4]);
            block[SUPERBLOCK_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        }
        fs::write(&other, &bytes).unwrap();
        refused(&other, &["other.lode", words[0], words[1]]);
    }
}

#[test]
fn damaged_data_is_found_and_never_answered() {
    let dir = Dir::new();
    let file = dir.file("hurt.lode");
    // A needle in a row page and one in a column page.
    let (csv, needles) = (dir.file("rows.csv"), ["needle-in-the-row-page", "needle-in-the-column-page"]);
    let rows: Vec<String> = (0..20_000).map(|i| format!("{i},straw-{i}")).collect();
    fs::write(&csv, format!("a,b\n{}\n20000,{}\n", rows.join("\n"), needles[1])).unwrap();
    succeed(["sql", &file, "-c", "CREATE TABLE r (a INTEGER PRIMARY KEY, b TEXT)"]);
    succeed(["sql", &file, "-c", &format!("INSERT INTO r VALUES (1, '{}')", needles[0])]);
    succeed(["sql", &file, "-c", "CREATE TABLE c (a INTEGER, b TEXT) WITH (encoding = 'plain')"]);
    succeed(["load", "csv", "--drive", &file, "--table", "c", &csv]);
    succeed(["drive", "check", &file]);
    let good = fs::read(&file).unwrap();
    for (needle, table) in needles.iter().zip(["r", "c"]) {
        let mut bytes = good.clone();
        let places: Vec<usize> = (0..good.len() - needle.len())
            .filter(|&i| good[i] == needle.as_bytes()[0] && good[i..].starts_with(needle.as_bytes()))
            .collect();
        assert!(!places.is_empty(), "{needle} is not on the image as it is");
        places.iter().for_each(|&i| bytes[i + 3] ^= 1);
        fs::write(&file, &bytes).unwrap();
        let out = run(["drive", "check", &file]);
        let line = one_line(&out, 1);
        assert!(line.contains("hurt.lode") && line.contains("problem"), "{line}");
        assert!(out.stdout.iter().filter(|b| **b == b'\n').count() >= 1, "no problem is described");
        for level in ["off", "auto"] {
            let sql = format!("SELECT max(b) FROM {table} WHERE b >= 'a'");
            one_line(&run(["sql", &file, "--offload", level, "-c", &sql]), 1);
        }
        fs::write(&file, &good).unwrap();
    }
    succeed(["drive", "check", &file]);
}

#[test]
fn an_image_that_is_open_elsewhere_is_refused() {
    let dir = Dir::new();
    let file = image(&dir);
    let mut holder = lode().args(["sql", &file]).stdin(Stdio::piped()).spawn().unwrap();
    holder.stdin.as_mut().unwrap().write_all(b"SELECT 1;\n").unwrap();
    let mut first = [0; 1];
    holder.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    fail(["sql", &file, "-c", "SELECT 1"], 1, &["good.lode", "open elsewhere"]);
    fail(["drive", "info", &file], 1, &["good.lode", "open elsewhere"]);
    drop(holder.stdin.take());
    assert!(holder.wait_with_output().unwrap().status.success());
    succeed(["drive", "check", &file]);
}

#[test]
fn an_image_without_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = Dir::new();
    let file = image(&dir);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if File::open(&file).is_ok() {
        // The superuser ignores permissions, so the test uses a directory in which no one can make a file.
        if Path::new("/proc").is_dir() {
            let out = run(["sql", "/proc/lode-test.lode", "-c", "SELECT 1"]);
            assert!(one_line(&out, 1).contains("/proc/lode-test.lode"));
        }
        return;
    }
    refused(&file, &["good.lode", "permission denied"]);
}

/// Runs the binary with a limit on the size of files, in blocks of 1,024 bytes. The error is the same as on a full
/// disk.
fn with_file_limit(blocks: u32, args: &[&str]) -> std::process::Output {
    Command::new("bash")
        .args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_lode")])
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn a_file_that_can_not_grow_fails_the_load_and_nothing_else() {
    let dir = Dir::new();
    let new = dir.file("new.lode");
    let out = with_file_limit(64, &["load", "tpch", "--scale", "0.01", "--drive", &new]);
    one_line(&out, 1);
    assert!(!Path::new(&new).exists(), "a drive that was made for a failed load stays");
    let file = image(&dir);
    let blocks = fs::metadata(&file).unwrap().len() / 1024 + 512;
    let out = with_file_limit(blocks as u32, &["load", "tpch", "--scale", "0.1", "--drive", &file]);
    one_line(&out, 1);
    assert_still_good(&file);
}

#[test]
fn a_full_file_system_fails_the_load_and_nothing_else() {
    let dir = Dir::new();
    let mount = dir.file("small");
    fs::create_dir(&mount).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "tmpfs", &mount]).output();
    if !mounted.is_ok_and(|o| o.status.success()) {
        return; // Only the superuser may mount; the limit on file sizes has tested the same.
    }
    let result = std::panic::catch_unwind(|| {
        let file = format!("{mount}/full.lode");
        succeed([
            "sql",
            &file,
            "-c",
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, 'x')",
        ]);
        let out = run(["load", "tpch", "--scale", "0.3", "--drive", &file]);
        let line = one_line(&out, 1);
        assert!(line.contains("space") || line.contains("full"), "{line}");
        assert_still_good(&file);
        succeed(["sql", &file, "-c", "DROP TABLE t"]);
    });
    assert!(Command::new("umount").arg(&mount).status().unwrap().success());
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

/// Checks that the image of [`image`] holds its table.
#[track_caller]
fn assert_still_good(file: &str) {
    assert_eq!(succeed(["sql", file, "--format", "csv", "-c", "SELECT * FROM t"]), "a,b\n1,x\n");
    assert!(!succeed(["sql", file, "-c", "SHOW TABLES"]).contains("lineitem"));
    succeed(["drive", "check", file]);
}

#[test]
fn a_full_drive_says_so_and_still_works() {
    let dir = Dir::new();
    let file = dir.file("tiny.lode");
    succeed(["drive", "format", &file, "--capacity", "150MB"]);
    succeed([
        "sql",
        &file,
        "-c",
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT); INSERT INTO t VALUES (1, 'x')",
    ]);
    let line = fail(["load", "tpch", "--scale", "1", "--drive", &file], 1, &["tiny.lode", "full"]);
    assert!(line.len() < 300, "{line}");
    assert_still_good(&file);
    succeed(["sql", &file, "-c", "INSERT INTO t VALUES (2, 'y'); DELETE FROM t WHERE a = 2"]);
    succeed(["load", "tpch", "--scale", "0.01", "--drive", &file]);
}

#[test]
fn malformed_csv_is_refused_by_line_and_column() {
    let dir = Dir::new();
    let file = image(&dir);
    let check = |text: &str, words: &[&str]| {
        let csv = dir.file("bad.csv");
        fs::write(&csv, text).unwrap();
        let copy = format!("COPY t FROM '{csv}' (FORMAT csv, HEADER true)");
        let line = fail(["sql", &file, "-c", &copy], 1, words);
        assert!(line.contains("bad.csv"), "{line}");
        fail(["load", "csv", "--drive", &file, "--table", "t", &csv], 1, words);
        assert_still_good(&file);
    };
    check("a,b\n2,y\n3x,z\n", &["line 3", "a"]);
    check("a,b\n2,y\n3\n", &["line 3"]);
    check("a,b\n2,y\n3,z,more\n", &["line 3"]);
    check("a,b\n2,\"open\n", &["line 2"]);
    check("a,b\n2,y\n,z\n", &["line 3", "a"]);
    check("a,b\n99999999999,y\n", &["line 2", "a"]);
    fail(["load", "csv", "--drive", &file, "--table", "t", &dir.file("none.csv")], 1, &["none.csv"]);
    let not_parquet = dir.file("bad.csv");
    fail(["load", "parquet", "--drive", &file, "--table", "t", &not_parquet], 1, &["bad.csv"]);
    assert_still_good(&file);
}

#[test]
fn a_failed_load_into_a_new_table_leaves_no_table() {
    let dir = Dir::new();
    let file = image(&dir);
    let (one, two) = (dir.file("one.csv"), dir.file("two.csv"));
    fs::write(&one, "x,y\n1,2\n").unwrap();
    fs::write(&two, "x,y\n1,two\n").unwrap();
    fail(["load", "csv", "--drive", &file, "--table", "u", &one, &two], 1, &["two.csv", "line 2", "y"]);
    fail(["sql", &file, "-c", "SELECT * FROM u"], 1, &["u"]);
    let fresh = dir.file("fresh.lode");
    fail(["load", "csv", "--drive", &fresh, "--table", "u", &one, &two], 1, &["two.csv"]);
    assert!(!Path::new(&fresh).exists());
    succeed(["load", "csv", "--drive", &fresh, "--table", "u", &one]);
    assert_eq!(succeed(["sql", &fresh, "--format", "csv", "-c", "SELECT x + y AS s FROM u"]), "s\n3\n");
}

#[test]
fn sql_errors_are_one_line_with_their_place() {
    let dir = Dir::new();
    let file = image(&dir);
    let check = |sql: &str, words: &[&str]| fail(["sql", &file, "-c", sql], 1, words);
    check("SELEC 1", &["line 1", "column 1"]);
    check("SELECT *\nFROM t\nWHERE", &["line 3"]);
    check("SELECT * FROM nothing", &["nothing"]);
    check("SELECT c FROM t", &["c"]);
    check("INSERT INTO t VALUES (1, 'again')", &["t"]);
    check("INSERT INTO t VALUES (NULL, 'x')", &["a"]);
    check("INSERT INTO t VALUES (7000000000, 'x')", &["7000000000"]);
    check("CREATE TABLE t (a INTEGER)", &["t"]);
    check("CREATE TABLE u (a BANANA)", &["banana"]);
    check("SET lode.offload = most", &["off, index, matches, hints, pages, rows"]);
    check("VACUUM SORT ONLY", &["not supported"]);
    assert_still_good(&file);
    let script = dir.file("script.sql");
    fs::write(&script, "-- two statements\nSELECT 1;\n\nSELECT * FROM\n  nothing;\nSELECT 2;\n").unwrap();
    let out = run(["sql", &file, "-f", &script, "--format", "csv"]);
    let line = one_line(&out, 1);
    assert!(line.contains("script.sql") && (line.contains("line 4") || line.contains("line 5")), "{line}");
    assert!(!String::from_utf8_lossy(&out.stdout).contains("\n2\n"), "the script went on");
}

#[test]
fn a_drive_that_a_failed_statement_made_does_not_stay() {
    let dir = Dir::new();
    let file = dir.file("new.lode");
    fail(["sql", &file, "-c", "SELECT * FROM nothing"], 1, &["nothing"]);
    assert!(!Path::new(&file).exists());
    // The statements acknowledged before the failure are kept.
    fail(["sql", &file, "-c", "CREATE TABLE t (a INTEGER); SELECT * FROM nothing"], 1, &["nothing"]);
    succeed(["sql", &file, "-c", "SELECT * FROM t"]);
    fail(["drive", "format", &dir.file("s.lode"), "--capacity", "1KB"], 2, &["capacity"]);
    assert!(!dir.join("s.lode").exists());
}

#[test]
fn ctrl_c_during_a_load_leaves_a_usable_drive() {
    let dir = Dir::new();
    for (name, existed) in [("old.lode", true), ("new.lode", false)] {
        let file = dir.file(name);
        if existed {
            fs::rename(image(&dir), &file).unwrap();
        }
        let mut child = lode().args(["load", "tpch", "--scale", "0.5", "--drive", &file]).spawn().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        wait_for(&mut stdout, "loading partsupp");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let start = Instant::now();
        let out = child.wait_with_output().unwrap();
        assert_eq!(one_line(&out, 130), "lode: interrupted");
        assert!(start.elapsed() < Duration::from_secs(60));
        succeed(["drive", "check", &file]);
        assert!(!succeed(["sql", &file, "-c", "SHOW TABLES"]).contains("partsupp"));
        if existed {
            assert_still_good(&file);
        }
        succeed(["load", "tpch", "--scale", "0.01", "--drive", &file]);
    }
}

#[test]
fn ctrl_c_cancels_a_statement() {
    let dir = Dir::new();
    let file = image(&dir);
    let endless = "SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 100000000) b(y) WHERE x + y = 7";
    let mut child = lode().args(["sql", &file]).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("SELECT 'started' AS s;\n{endless};\n").as_bytes()).unwrap();
    wait_for(child.stdout.as_mut().unwrap(), "(1 row)");
    std::thread::sleep(Duration::from_millis(300));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let out = child.wait_with_output().unwrap();
    assert_eq!(one_line(&out, 130), "lode: interrupted");
    drop(stdin);
    assert_still_good(&file);
}

fn wait_for(from: &mut impl Read, words: &str) {
    let (mut seen, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&seen).contains(words) {
        assert_eq!(from.read(&mut byte).unwrap(), 1, "it ended: {}", String::from_utf8_lossy(&seen));
        seen.push(byte[0]);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = Dir::new();
    let file = image(&dir);
    let sql = "SELECT * FROM generate_series(1, 400000) AS value";
    for format in ["csv", "table", "json"] {
        let mut child = lode().args(["sql", &file, "--format", format, "-c", sql]).spawn().unwrap();
        let mut first = [0; 16];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert!(
            out.status.success() && out.stderr.is_empty(),
            "{format}: {:?}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}
