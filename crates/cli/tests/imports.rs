//! Checks how the files of a crate import each other, by the paths in their code.
//!
//! ```text
//!   file ─ syn ─► paths (`use` lines, paths in code and in macros) ─► module that defines what is named ─► edge
//! ```
//!
//! Each folder and the root of a crate is a graph whose nodes are the files and folders in it. So a folder counts as
//! one file for everything outside of it. A re-exported name is resolved to the module that defines it.

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use sources::{Crate, ModulePath, sample};

/// For each folder, its files and folders that import one another in circles.
fn circles_of(krate: &Crate) -> Vec<(ModulePath, Vec<String>)> {
    let edges = edges_of(krate);
    let files = krate.modules.values().map(|m| &m.file);
    let folders: BTreeSet<&[String]> = files.map(|f| &f[..f.len().saturating_sub(1)]).collect();
    let of = |folder: &[String]| {
        circles(folder, &edges).into_iter().map(|c| (folder.to_vec(), c)).collect::<Vec<_>>()
    };
    folders.into_iter().flat_map(of).collect()
}

/// Which file names something of which, each with one path that does.
fn edges_of(krate: &Crate) -> BTreeMap<(ModulePath, ModulePath), String> {
    let mut edges = BTreeMap::new();
    for (path, module) in &krate.modules {
        for written in &module.paths {
            let Some((target, _)) = krate.find(path, written) else { continue };
            let Some(target) = krate.modules.get(&target) else { continue };
            if target.file != module.file {
                edges.entry((module.file.clone(), target.file.clone())).or_insert_with(|| written.join("::"));
            }
        }
    }
    edges
}

/// The cycles of a folder: the children that reach each other, with the paths between them.
fn circles(folder: &[String], edges: &BTreeMap<(ModulePath, ModulePath), String>) -> Vec<Vec<String>> {
    let node = |file: &ModulePath| -> Option<String> {
        file.starts_with(folder).then(|| file.get(folder.len()).cloned().unwrap_or_else(|| "mod.rs".into()))
    };
    let mut next: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in edges.keys() {
        if let (Some(a), Some(b)) = (node(from), node(to))
            && a != b
        {
            next.entry(a).or_default().insert(b);
        }
    }
    let reach = |start: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(at) = open.pop() {
            for to in next.get(at).into_iter().flatten() {
                if seen.insert(to.clone()) {
                    open.push(to);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = next.keys().map(|n| (n, reach(n))).collect();
    let mut done = BTreeSet::new();
    let mut found = Vec::new();
    for (n, to) in &reached {
        if done.contains(*n) || !to.contains(*n) {
            continue;
        }
        let circle: Vec<String> =
            to.iter().filter(|m| reached.get(m).is_some_and(|back| back.contains(*n))).cloned().collect();
        done.extend(circle.iter().cloned());
        found.push(circle);
    }
    found
}

/// The most files that may import each other in a cycle.
const CIRCLE_MAX: usize = 3;

#[test]
fn no_circle_of_imports_has_more_than_three_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let mut wrong = Vec::new();
    for entry in fs::read_dir(crates).expect("crates") {
        let path = entry.expect("a crate").path();
        let read = Crate::read(&path.join("src"));
        assert!(!read.modules.is_empty(), "{}: no modules", path.display());
        for (folder, circle) in circles_of(&read) {
            if circle.len() > CIRCLE_MAX {
                let place = format!("{} {}", path.file_name().unwrap().display(), folder.join("::"));
                wrong.push(format!("{}: {}", place.trim_end(), circle.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "files that import one another in circles:\n{}", wrong.join("\n"));
}

/// Folders of a crate that lie above one another: each may name those before it, and none after it.
const LAYERS: [(&str, &[&str]); 1] = [("engine", &["storage", "trees", "tables"])];

#[test]
fn a_layer_names_only_those_below_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    for (name, layers) in LAYERS {
        let read = Crate::read(&crates.join(name).join("src"));
        let layer = |file: &ModulePath| layers.iter().position(|l| file.first().is_some_and(|f| f == l));
        let edges = edges_of(&read);
        let between =
            edges.iter().filter_map(|((from, to), path)| Some((layer(from)?, layer(to)?, from, path)));
        let between: Vec<_> = between.filter(|(from, to, ..)| from != to).collect();
        let wrong: Vec<String> = between
            .iter()
            .filter(|(from, to, ..)| to > from)
            .map(|(.., file, path)| format!("{name} {}: {path}", file.join("::")))
            .collect();
        assert!(wrong.is_empty(), "files that name a layer above theirs:\n{}", wrong.join("\n"));
        assert!(between.len() > 50, "only {} imports between the layers of {name}", between.len());
    }
}

#[test]
fn circles_are_found_through_reexports_macros_and_paths_in_code() {
    let circles = circles_of(&sample(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; pub use d::Far;"),
        ("a.rs", "pub struct A; fn f() { crate::b::g(); }"),
        ("b.rs", "use crate::c::C; pub fn g() -> C { todo!() }"),
        ("c.rs", "pub struct C; fn h() { assert!(crate::Far::new()); }"),
        ("d.rs", "pub struct Far; impl Far { fn of(_: &super::a::A) {} }"),
    ]));
    assert_eq!(circles, [(vec![], ["a", "b", "c", "d"].map(String::from).to_vec())]);
}

#[test]
fn a_folder_is_one_node_and_tests_do_not_count() {
    let circles = circles_of(&sample(&[
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod x; mod y; pub use x::X;"),
        ("a/x.rs", "pub struct X; use super::y::Y;"),
        ("a/y.rs", "pub struct Y; use super::X; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("b.rs", "pub struct B; use crate::a::X;"),
    ]));
    assert_eq!(circles, [(vec!["a".to_owned()], vec!["x".to_owned(), "y".to_owned()])]);
}
