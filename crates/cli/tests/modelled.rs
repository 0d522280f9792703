//! `lode sql --profile`: SQL on a modelled device, from the command line.

mod common;

use common::{Dir, fail, succeed};

/// A profile like `isp-adms11`, on a drive of 256 MB.
fn small(dir: &Dir) -> String {
    let shipped = include_str!("../../../profiles/isp-adms11.toml");
    let file = dir.file("small.toml");
    let text = shipped
        .replace("eblock_bytes = 8388608 ", "eblock_bytes = 1048576 ")
        .replace("eblock_count = 1024 ", "eblock_count = 256 ")
        .replace("name = \"isp-adms11\"", "name = \"small\"");
    std::fs::write(&file, text).unwrap();
    file
}

const SCRIPT: &str = "CREATE TABLE t (k BIGINT PRIMARY KEY, a INT); \
                      INSERT INTO t SELECT value, value % 100 FROM generate_series(1, 20000) AS value";
const ANALYZE: &str = "EXPLAIN ANALYZE SELECT count(*) FROM t WHERE a < 3";

/// The line of EXPLAIN ANALYZE about modelled time.
fn modelled(output: &str) -> String {
    let at = output.find("Modelled time").unwrap_or_else(|| panic!("no modelled time: {output}"));
    output[at..].to_string()
}

#[test]
fn a_profile_makes_its_image_and_tells_the_same_time_in_every_run() {
    let dir = Dir::new();
    let profile = small(&dir);
    let mut told = Vec::new();
    for name in ["a.lode", "b.lode"] {
        let file = dir.file(name);
        succeed(["drive", "format", &file, "--profile", &profile]);
        // Without the profile, several threads would fill the drive, differently each time.
        succeed(["sql", &file, "--profile", &profile, "-c", SCRIPT]);
        let shown = succeed(["sql", &file, "--profile", &profile, "-c", "SHOW lode.profile"]);
        assert!(shown.contains("small"), "{shown}");
        for offload in ["off", "auto"] {
            let args = ["sql", &file, "--profile", &profile, "--offload", offload, "-c", ANALYZE];
            let once = modelled(&succeed(args));
            assert!(once.contains("small: ") && once.contains(" ms = media "), "{once}");
            told.push(once);
        }
        let plain = succeed(["sql", &file, "-c", ANALYZE]);
        assert!(!plain.contains("Modelled"), "{plain}");
    }
    assert_eq!((&told[0], &told[1]), (&told[2], &told[3]));
    assert_ne!(told[0], told[1]);
}

#[test]
fn statements_on_a_modelled_device_stay() {
    let dir = Dir::new();
    let (profile, file) = (small(&dir), dir.file("a.lode"));
    succeed(["sql", &file, "--profile", &profile, "-c", SCRIPT]);
    let json = succeed(["sql", &file, "--format", "json", "-c", "SELECT count(*) AS n FROM t"]);
    let same = ["sql", &file, "--profile", &profile, "--format", "json", "-c", "SELECT count(*) AS n FROM t"];
    assert_eq!(succeed(same), json);
    assert!(json.contains("20000"), "{json}");
    let checked = succeed(["drive", "check", &file]);
    assert!(checked.contains("no problem"), "{checked}");
}

#[test]
fn an_image_of_other_units_and_an_unknown_profile_are_refused() {
    let dir = Dir::new();
    let (profile, file) = (small(&dir), dir.file("a.lode"));
    succeed(["drive", "format", &file, "--capacity", "512MB"]);
    let words = ["a.lode", "1 channels x 1 ways", "8 channels x 8 ways", "lode drive format --profile small"];
    fail(["sql", &file, "--profile", &profile, "-c", "SELECT 1"], 1, &words);
    fail(
        ["sql", &file, "--profile", "fast", "-c", "SELECT 1"],
        1,
        &["no profile is called fast", "isp-adms11"],
    );
    let new = dir.file("b.lode");
    fail(["drive", "format", &new, "--profile", "fast"], 1, &["no profile is called fast"]);
    assert!(!std::path::Path::new(&new).exists());
    let both = ["drive", "format", &new, "--profile", &profile, "--capacity", "1GB"];
    fail(both, 2, &["--capacity"]);
}
