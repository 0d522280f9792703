//! Checks the dependency rules of the design on the normal dependencies of `cargo metadata`.
//!
//! ```text
//!   base <- page <- program <- command <- { firmware, engine, remote }      base <- flash <- firmware
//!   engine <- { sql, workload } <- { bench, cli }      { firmware, engine } <- sim <- cli     sim, bench, lode, cli: see both
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// For each crate of the workspace, the crates that it may depend on. The tests of a crate may depend on more.
const ALLOWED: [(&str, &[&str]); 15] = [
    ("lode-base", &[]),
    ("lode-page", &["lode-base"]),
    ("lode-program", &["lode-base", "lode-page"]),
    ("lode-command", &["lode-base", "lode-page", "lode-program"]),
    ("lode-flash", &["lode-base"]),
    ("lode-firmware", &["lode-base", "lode-page", "lode-program", "lode-command", "lode-flash"]),
    ("lode-lss", &["lode-base", "lode-program", "lode-command"]),
    ("lode-remote", &["lode-base", "lode-page", "lode-program", "lode-command"]),
    ("lode-engine", &["lode-base", "lode-page", "lode-program", "lode-command"]),
    (
        "lode",
        &[
            "lode-base",
            "lode-page",
            "lode-program",
            "lode-command",
            "lode-flash",
            "lode-firmware",
            "lode-engine",
            "lode-remote",
            "lode-sql",
        ],
    ),
    ("lode-sql", &["lode-base", "lode-page", "lode-program", "lode-command", "lode-engine"]),
    ("lode-workload", &["lode-base", "lode-page", "lode-program", "lode-command", "lode-engine"]),
    (
        "lode-bench",
        &[
            "lode-workload",
            "lode-base",
            "lode-page",
            "lode-program",
            "lode-command",
            "lode-flash",
            "lode-firmware",
            "lode-lss",
            "lode-engine",
            "lode-remote",
            "lode-sql",
        ],
    ),
    (
        "lode-cli",
        &[
            "lode-base",
            "lode-page",
            "lode-program",
            "lode-command",
            "lode-flash",
            "lode-firmware",
            "lode-engine",
            "lode-sql",
            "lode-bench",
            "lode-workload",
            "lode-sim",
            "lode",
            "lode-remote",
        ],
    ),
    (
        "lode-sim",
        &[
            "lode-base",
            "lode-page",
            "lode-program",
            "lode-command",
            "lode-flash",
            "lode-firmware",
            "lode-engine",
        ],
    ),
];

/// The crates that may depend on DataFusion and tokio, directly or indirectly.
const ABOVE_THE_ENGINE: [&str; 4] = ["lode", "lode-sql", "lode-bench", "lode-cli"];

struct Graph {
    /// Packages by id.
    names: BTreeMap<String, String>,
    /// Normal dependencies by id.
    edges: BTreeMap<String, Vec<String>>,
    /// Ids of the workspace's own packages, by name.
    own: BTreeMap<String, String>,
    /// The names of targets (libraries, tests, examples, ...) by the id of their package.
    targets: BTreeMap<String, Vec<String>>,
}

fn graph() -> Graph {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| env!("CARGO").into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform"])
        .arg(host())
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    let text = |v: &Value| v.as_str().expect("a string").to_string();
    let list = |v: &Value| v.as_array().expect("an array").clone();
    let names: BTreeMap<_, _> =
        list(&all["packages"]).iter().map(|p| (text(&p["id"]), text(&p["name"]))).collect();
    let targets = |p: &Value| list(&p["targets"]).iter().map(|t| text(&t["name"])).collect();
    let targets = list(&all["packages"]).iter().map(|p| (text(&p["id"]), targets(p))).collect();
    let own = list(&all["workspace_members"]).iter().map(|id| (names[&text(id)].clone(), text(id))).collect();
    let normal = |dep: &Value| list(&dep["dep_kinds"]).iter().any(|k| k["kind"].is_null());
    let edges = list(&all["resolve"]["nodes"])
        .iter()
        .map(|n| {
            let to = list(&n["deps"]).iter().filter(|d| normal(d)).map(|d| text(&d["pkg"])).collect();
            (text(&n["id"]), to)
        })
        .collect();
    Graph { names, edges, own, targets }
}

fn host() -> String {
    let output = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into())).arg("-vV").output();
    let text = String::from_utf8(output.expect("rustc runs").stdout).expect("rustc writes UTF-8");
    text.lines().find_map(|l| l.strip_prefix("host: ")).expect("rustc names its host").to_string()
}

impl Graph {
    /// The names of all packages that `name` reaches by normal dependencies.
    fn reached(&self, name: &str) -> BTreeSet<String> {
        let (mut seen, mut todo) = (BTreeSet::new(), vec![self.own[name].clone()]);
        while let Some(id) = todo.pop() {
            for to in &self.edges[&id] {
                if seen.insert(to.clone()) {
                    todo.push(to.clone());
                }
            }
        }
        seen.into_iter().map(|id| self.names[&id].clone()).collect()
    }
}

#[test]
fn crates_name_only_what_the_design_allows() {
    let graph = graph();
    let rules: BTreeMap<_, _> = ALLOWED.into_iter().collect();
    for (name, id) in &graph.own {
        let allowed = rules.get(name.as_str()).unwrap_or_else(|| panic!("{name} has no rule in this test"));
        for to in graph.edges[id].iter().map(|to| &graph.names[to]).filter(|n| n.starts_with("lode-")) {
            assert!(allowed.contains(&to.as_str()), "{name} must not depend on {to}");
        }
    }
    assert_eq!(graph.own.len(), rules.len(), "a rule names a crate that is not there");
}

#[test]
fn the_drive_and_the_engine_are_free_of_datafusion_and_threads() {
    let graph = graph();
    for name in graph.own.keys().filter(|n| !ABOVE_THE_ENGINE.contains(&n.as_str())) {
        for other in graph.reached(name) {
            let heavy = other.starts_with("datafusion") || other.starts_with("arrow") || other == "parquet";
            assert!(!heavy && other != "tokio", "{name} reaches {other}");
        }
    }
}

#[test]
fn engine_and_firmware_never_meet_below_the_roots() {
    let graph = graph();
    assert!(!graph.reached("lode-engine").contains("lode-firmware"));
    assert!(!graph.reached("lode-firmware").contains("lode-engine"));
    assert!(!graph.reached("lode-sql").contains("lode-firmware"));
    assert!(!graph.reached("lode-remote").contains("lode-firmware"));
    assert!(!graph.reached("lode-remote").contains("lode-engine"));
}

#[test]
fn no_target_has_the_name_of_another_ones_package() {
    // Regression: `cargo clean -p lode-cli`, with which CI ends, also removed the package `log`, because a test was called `log`. So
    // the next run built DataFusion again.
    let graph = graph();
    let own: BTreeSet<&String> = graph.own.values().collect();
    let others: BTreeSet<&String> =
        graph.names.iter().filter(|(id, _)| !own.contains(id)).map(|(_, name)| name).collect();
    for (package, id) in &graph.own {
        for target in &graph.targets[id] {
            assert!(!others.contains(target), "{package} has a target with the name of the package {target}");
        }
    }
}

#[test]
fn lock_files_of_the_workspaces_beside_this_one_know_what_our_crates_name() {
    // Regression: the peers could not be built because their lock file lacked a new dependency of Lode.
    let graph = graph();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for lock in ["peers/Cargo.lock", "fuzz/Cargo.lock"] {
        let text = std::fs::read_to_string(root.join(lock)).unwrap();
        let mut known = 0;
        for package in text.split("[[package]]\n").skip(1) {
            let name = package.lines().find_map(|l| l.strip_prefix("name = \"")?.strip_suffix('"'));
            let Some(id) = name.and_then(|n| graph.own.get(n)) else { continue };
            known += 1;
            for to in graph.edges[id].iter().map(|to| &graph.names[to]) {
                // A lock file has the name alone, or with a version if there are two versions.
                let is_named =
                    package.contains(&format!(" \"{to}\"")) || package.contains(&format!(" \"{to} "));
                assert!(is_named, "{lock}: {} needs {to}: run cargo metadata there", graph.names[id]);
            }
        }
        assert!(known > 3, "{lock} names none of our crates");
    }
}
