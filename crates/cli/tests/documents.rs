//! The documents name only what exists: files, and options of commands.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Words between backticks, each with the path of the nearest heading that is one.
fn quoted(text: &str) -> Vec<(String, String)> {
    let mut heading = String::new();
    let mut all = Vec::new();
    for line in text.lines() {
        if line.starts_with('#') {
            heading = line.split('`').nth(1).unwrap_or("crates").to_string();
        } else {
            all.extend(line.split('`').skip(1).step_by(2).map(|w| (heading.clone(), w.to_string())));
        }
    }
    all
}

fn is_path(word: &str) -> bool {
    let plain = word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./".contains(&b));
    plain && ([".rs", ".py", ".toml", ".md"].iter().any(|end| word.ends_with(end)) || word.ends_with('/'))
}

#[test]
fn every_file_that_architecture_names_exists() {
    let root = root();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let crates: Vec<PathBuf> =
        fs::read_dir(root.join("crates")).unwrap().map(|e| e.unwrap().path().join("src")).collect();
    let paths: Vec<_> = quoted(&text).into_iter().filter(|(_, word)| is_path(word)).collect();
    assert!(paths.len() > 100, "only {} paths are named", paths.len());
    for (heading, word) in paths {
        let below_a_heading = heading.contains('/') && root.join(&heading).join(&word).exists();
        let in_a_crate = !heading.contains('/') && crates.iter().any(|c| c.join(&word).exists());
        let from_the_root = root.join(&word).exists() || root.join("crates").join(&word).exists();
        assert!(below_a_heading || in_a_crate || from_the_root, "{word} is named below '{heading}'");
    }
}

#[test]
fn every_part_of_the_drive_is_in_the_map() {
    let root = root();
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    for part in ["crates/firmware/src", "crates/flash/src", "crates/sim/src"] {
        for entry in fs::read_dir(root.join(part)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let named = |(heading, word): &(String, String)| {
                heading == part && (*word == name || word.starts_with(&format!("{name}/")))
            };
            assert!(name == "lib.rs" || quoted(&text).iter().any(named), "{part}/{name} is not in the map");
        }
    }
}

#[test]
fn every_option_that_readme_shows_exists() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let mut shown = 0;
    for line in text.lines().filter_map(|l| l.trim().trim_start_matches("$ ").strip_prefix("lode ")) {
        let line = line.split(" #").next().unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let commands: Vec<&str> =
            words.iter().copied().take_while(|w| w.bytes().all(|b| b.is_ascii_lowercase())).collect();
        let out = common::lode().args(&commands).arg("--help").output().unwrap();
        assert!(out.status.success(), "lode {line}");
        let help = String::from_utf8(out.stdout).unwrap();
        for option in words.iter().filter(|w| w.starts_with("--")) {
            assert!(help.contains(option), "lode {line}: {option}");
            shown += 1;
        }
    }
    assert!(shown > 5, "only {shown} options are shown");
}
