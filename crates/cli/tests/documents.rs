//! The documents name only existing files, links and options of commands, and the architecture can be read in a
//! quarter of an hour.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The length of a text that a reader can read in a quarter of an hour.
const ARCHITECTURE_BYTES_MAX: usize = 25_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// ARCHITECTURE.md and all of `docs`, with their paths from the root and their texts.
fn documents() -> Vec<(String, String)> {
    let root = root();
    let mut paths = vec!["ARCHITECTURE.md".to_string()];
    for entry in fs::read_dir(root.join("docs")).unwrap() {
        paths.push(format!("docs/{}", entry.unwrap().file_name().into_string().unwrap()));
    }
    paths.sort();
    read(paths)
}

/// As [`documents`], with README.md, the README of the profiles, and CHANGELOG.md in addition.
fn all_documents() -> Vec<(String, String)> {
    let mut all = documents();
    all.extend(read(vec!["README.md".into(), "CHANGELOG.md".into(), "profiles/README.md".into()]));
    all
}

fn read(paths: Vec<String>) -> Vec<(String, String)> {
    let text = |path: &String| fs::read_to_string(root().join(path)).unwrap();
    paths.into_iter().map(|path| (path.clone(), text(&path))).collect()
}

/// The words between backticks, each with the nearest heading above it that is a path.
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
    plain
        && ([".rs", ".py", ".sh", ".toml", ".md"].iter().any(|end| word.ends_with(end))
            || word.ends_with('/'))
}

/// The targets of the links in a text, as written.
fn links(text: &str) -> Vec<&str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn architecture_is_read_in_a_quarter_of_an_hour() {
    let bytes = fs::read(root().join("ARCHITECTURE.md")).unwrap().len();
    assert!(
        bytes <= ARCHITECTURE_BYTES_MAX,
        "ARCHITECTURE.md has {bytes} bytes: mechanisms are told in docs/"
    );
}

#[test]
fn every_file_that_the_documents_name_exists() {
    let root = root();
    let crates: Vec<PathBuf> =
        fs::read_dir(root.join("crates")).unwrap().map(|e| e.unwrap().path().join("src")).collect();
    let mut named = 0;
    for (document, text) in documents() {
        for (heading, word) in quoted(&text).into_iter().filter(|(_, word)| is_path(word)) {
            let below_a_heading = heading.contains('/') && root.join(&heading).join(&word).exists();
            let in_a_crate = !heading.contains('/') && crates.iter().any(|c| c.join(&word).exists());
            let from_the_root = root.join(&word).exists() || root.join("crates").join(&word).exists();
            assert!(
                below_a_heading || in_a_crate || from_the_root,
                "{document}: {word} is named below '{heading}'"
            );
            named += 1;
        }
    }
    assert!(named > 100, "only {named} paths are named");
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    let root = root();
    let mut followed = 0;
    for (document, text) in all_documents() {
        for target in links(&text).into_iter().filter(|t| !t.contains("://")) {
            let (path, to) = target.split_once('#').unwrap_or((target, ""));
            let here = root.join(&document);
            let file = if path.is_empty() { here } else { here.parent().unwrap().join(path) };
            assert!(file.exists(), "{document}: {target} leads nowhere");
            if !to.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                let mut headings = text.lines().filter(|l| l.starts_with('#')).map(anchor);
                assert!(headings.any(|a| a == to), "{document}: {target} leads to no heading");
            }
            followed += 1;
        }
    }
    assert!(followed > 20, "only {followed} links");
}

#[test]
fn every_document_is_linked_from_the_first_two() {
    let first = read(vec!["ARCHITECTURE.md".into(), "README.md".into()]);
    let linked: BTreeSet<&str> =
        first.iter().flat_map(|(_, text)| links(text)).map(|t| t.split('#').next().unwrap()).collect();
    for (document, _) in documents() {
        assert!(linked.contains(&*document), "neither README.md nor ARCHITECTURE.md links to {document}");
    }
}

#[test]
fn every_crate_is_in_the_map() {
    let root = root();
    let (_, text) = read(vec!["ARCHITECTURE.md".into()]).remove(0);
    for entry in fs::read_dir(root.join("crates")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let row = format!("| `{name}` |");
        assert!(text.lines().any(|l| l.starts_with(&row)), "crates/{name} is not in the map");
    }
}

#[test]
fn every_part_of_the_drive_and_of_the_engine_is_in_the_map() {
    let root = root();
    let words: Vec<(String, String)> = documents().iter().flat_map(|(_, text)| quoted(text)).collect();
    let engine = ["storage", "trees", "tables"].map(|part| format!("crates/engine/src/{part}"));
    let others = ["crates/firmware/src", "crates/flash/src", "crates/sim/src"].map(String::from);
    for part in others.iter().chain(&engine) {
        for entry in fs::read_dir(root.join(part)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let named = |(heading, word): &(String, String)| {
                heading == part && (*word == name || word.starts_with(&format!("{name}/")))
            };
            let is_root = name == "lib.rs" || name == "mod.rs";
            assert!(is_root || words.iter().any(named), "{part}/{name} is not in the map");
        }
    }
}

/// `-p CRATE`, perhaps options, then `--example NAME`: the file is there, and a test of its crate names it.
#[test]
fn every_example_that_the_documents_run_exists_and_is_tested_where_the_readme_lists_it() {
    let root = root();
    let (mut named, mut listed) = (0, 0);
    for (document, text) in all_documents() {
        for line in text.lines().filter(|l| l.contains("--example ")) {
            let after = |word: &str| {
                let mut words =
                    line.split(|c: char| c.is_whitespace() || c == '`').skip_while(|w| *w != word);
                words.nth(1).unwrap_or_else(|| panic!("{document}: {line}")).to_string()
            };
            let (package, name) = (after("-p"), after("--example"));
            let folder = root.join("crates").join(package.strip_prefix("lode-").unwrap_or(&package));
            assert!(folder.join(format!("examples/{name}.rs")).is_file(), "{document}: {line}");
            named += 1;
            if document == "README.md" && line.starts_with('|') {
                let path = format!("../examples/{name}.rs");
                let mut tests = fs::read_dir(folder.join("tests")).unwrap().map(|e| e.unwrap().path());
                let is_in = |t: PathBuf| t.is_file() && fs::read_to_string(t).unwrap().contains(&path);
                assert!(tests.any(is_in), "no test of {package} runs {name}");
                listed += 1;
            }
        }
    }
    assert!(named > 12 && listed >= 8, "{named} examples are run, {listed} are listed");
}

#[test]
fn every_option_that_the_documents_show_exists() {
    let mut shown = 0;
    for (document, text) in all_documents() {
        let mut in_code = false;
        for line in text.lines() {
            in_code ^= line.trim_start().starts_with("```");
            let Some(line) = line.trim().trim_start_matches("$ ").strip_prefix("lode ").filter(|_| in_code)
            else {
                continue;
            };
            let line = line.split(" #").next().unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            let commands: Vec<&str> =
                words.iter().copied().take_while(|w| w.bytes().all(|b| b.is_ascii_lowercase())).collect();
            let out = common::lode().args(&commands).arg("--help").output().unwrap();
            assert!(out.status.success(), "{document}: lode {line}");
            let help = String::from_utf8(out.stdout).unwrap();
            for option in words.iter().filter(|w| w.starts_with("--")) {
                assert!(help.contains(option), "{document}: lode {line}: {option}");
                shown += 1;
            }
        }
    }
    assert!(shown > 5, "only {shown} options are shown");
}
