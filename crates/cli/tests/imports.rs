//! Checks how the files of a crate import each other, by the paths in their code.
//!
//! ```text
//!   file ─ syn ─► paths (`use` lines, paths in code and in macros) ─► module that defines what is named ─► edge
//! ```
//!
//! Each folder and the root of a crate is a graph whose nodes are the files and folders in it. So a folder counts as
//! one file for everything outside of it. A re-exported name is resolved to the module that defines it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// A module's path from the root of its crate: empty for the root.
type ModulePath = Vec<String>;

/// A path as written, as its segments.
type Written = Vec<String>;

/// The meaning of a name in a module.
enum Def {
    /// An item that the module defines.
    Item,
    /// A module within it.
    Module,
    /// An import.
    Import(Written),
}

/// A module, in its own file or inside another.
#[derive(Default)]
struct Module {
    /// The module of the file that contains it.
    file: ModulePath,
    names: HashMap<String, Def>,
    globs: Vec<Written>,
    /// The paths in its code.
    paths: Vec<Written>,
}

/// All modules of a crate, without tests.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    fn read(src: &Path) -> Self {
        let mut it = Self::default();
        for root in ["lib.rs", "main.rs"] {
            if src.join(root).is_file() {
                it.file(&src.join(root), src, Vec::new());
                break;
            }
        }
        it
    }

    /// Reads a module's file. The files of its children are in `folder`.
    fn file(&mut self, file: &Path, folder: &Path, path: ModulePath) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        self.items(&parsed.items, folder, path.clone(), path);
    }

    fn items(&mut self, items: &[Item], folder: &Path, path: ModulePath, file: ModulePath) {
        let mut module = Module { file: file.clone(), ..Module::default() };
        for item in items {
            if is_test(attributes(item)) {
                continue;
            }
            if let Item::Mod(m) = item {
                let name = m.ident.to_string();
                module.names.insert(name.clone(), Def::Module);
                let (mut child, below) = (path.clone(), folder.join(&name));
                child.push(name.clone());
                match &m.content {
                    Some((_, items)) => self.items(items, &below, child, file.clone()),
                    None => {
                        let flat = folder.join(format!("{name}.rs"));
                        let at = if flat.is_file() { flat } else { below.join("mod.rs") };
                        self.file(&at, &below, child);
                    }
                }
            } else {
                if let Some(name) = defined(item) {
                    module.names.insert(name, Def::Item);
                }
                Paths { module: &mut module }.visit_item(item);
            }
        }
        self.modules.insert(path, module);
    }

    /// Resolves a path in a module to the module that defines the name, if it is in this crate.
    fn lookup(
        &self,
        from: &ModulePath,
        path: &[String],
        seen: &mut HashSet<(ModulePath, Written)>,
    ) -> Option<ModulePath> {
        if path.len() > 12 || !seen.insert((from.clone(), path.to_vec())) {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let at = match first.as_str() {
            "crate" => Vec::new(),
            "self" | "Self" => from.clone(),
            "super" => from[..from.len().checked_sub(1)?].to_vec(),
            _ => return self.descend(from, path, seen),
        };
        if rest.is_empty() { Some(at) } else { self.descend(&at, rest, seen) }
    }

    fn descend(
        &self,
        at: &ModulePath,
        path: &[String],
        seen: &mut HashSet<(ModulePath, Written)>,
    ) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        if first == "super" || first == "self" {
            return self.lookup(at, path, seen);
        }
        let module = self.modules.get(at)?;
        match module.names.get(first) {
            Some(Def::Item) => Some(at.clone()),
            Some(Def::Module) => {
                let mut child = at.clone();
                child.push(first.clone());
                if rest.is_empty() { Some(child) } else { self.descend(&child, rest, seen) }
            }
            Some(Def::Import(import)) => {
                let mut whole = import.clone();
                whole.extend_from_slice(rest);
                self.lookup(at, &whole, seen)
            }
            None => module.globs.iter().find_map(|glob| {
                let target = self.lookup(at, glob, seen)?;
                self.descend(&target, path, seen)
            }),
        }
    }

    /// For each folder, the files and folders in it that import each other in cycles.
    fn circles(&self) -> Vec<(ModulePath, Vec<String>)> {
        let edges = self.edges();
        let files = self.modules.values().map(|m| &m.file);
        let folders: BTreeSet<&[String]> = files.map(|f| &f[..f.len().saturating_sub(1)]).collect();
        let of = |folder: &[String]| {
            circles(folder, &edges).into_iter().map(|c| (folder.to_vec(), c)).collect::<Vec<_>>()
        };
        folders.into_iter().flat_map(of).collect()
    }

    /// The imports between files, each with one of the paths.
    fn edges(&self) -> BTreeMap<(ModulePath, ModulePath), String> {
        let mut edges = BTreeMap::new();
        for (path, module) in &self.modules {
            for written in &module.paths {
                let Some(target) = self.lookup(path, written, &mut HashSet::new()) else { continue };
                let Some(target) = self.modules.get(&target) else { continue };
                if target.file != module.file {
                    edges
                        .entry((module.file.clone(), target.file.clone()))
                        .or_insert_with(|| written.join("::"));
                }
            }
        }
        edges
    }
}

/// Collects the paths of an item.
struct Paths<'a> {
    module: &'a mut Module,
}

impl Visit<'_> for Paths<'_> {
    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        let mut leaves = Vec::new();
        leaves_of(&item.tree, &mut Vec::new(), &mut leaves);
        // A re-export is not a use. The modules that name it use it.
        let is_import = matches!(item.vis, Visibility::Inherited);
        for (name, written) in leaves {
            if is_import {
                self.module.paths.push(written.clone());
            }
            match name {
                Some(name) => {
                    self.module.names.entry(name).or_insert(Def::Import(written));
                }
                None => self.module.globs.push(written),
            }
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.module.paths.push(path.segments.iter().map(|s| s.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, mac: &syn::Macro) {
        self.visit_path(&mac.path);
        in_tokens(mac.tokens.clone(), &mut self.module.paths);
    }

    fn visit_item_mod(&mut self, _: &syn::ItemMod) {}
}

/// Collects the paths in the tokens of a macro.
fn in_tokens(tokens: TokenStream, paths: &mut Vec<Written>) {
    let (mut path, mut colons): (Written, u8) = (Vec::new(), 0);
    let mut end = |path: &mut Written| {
        let path = std::mem::take(path);
        if path.len() > 1 {
            paths.push(path);
        }
    };
    let mut inner = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Ident(name) if colons == 2 && !path.is_empty() => path.push(name.to_string()),
            TokenTree::Ident(name) => {
                end(&mut path);
                path.push(name.to_string());
            }
            TokenTree::Punct(p) if p.as_char() == ':' => {
                colons += 1;
                continue;
            }
            TokenTree::Group(group) => {
                end(&mut path);
                inner.push(group.stream());
            }
            _ => end(&mut path),
        }
        colons = 0;
    }
    end(&mut path);
    for tokens in inner {
        in_tokens(tokens, paths);
    }
}

/// The names that a `use` imports, each with its path. The name is `None` for a glob import.
fn leaves_of(tree: &UseTree, above: &mut Written, leaves: &mut Vec<(Option<String>, Written)>) {
    let with = |name: &str, above: &Written| {
        let mut path = above.clone();
        if name != "self" || path.is_empty() {
            path.push(name.to_string());
        }
        path
    };
    match tree {
        UseTree::Path(p) => {
            above.push(p.ident.to_string());
            leaves_of(&p.tree, above, leaves);
            above.pop();
        }
        UseTree::Name(n) => {
            let path = with(&n.ident.to_string(), above);
            leaves.push((path.last().cloned(), path));
        }
        UseTree::Rename(r) => leaves.push((Some(r.rename.to_string()), with(&r.ident.to_string(), above))),
        UseTree::Glob(_) => leaves.push((None, above.clone())),
        UseTree::Group(g) => g.items.iter().for_each(|t| leaves_of(t, above, leaves)),
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        Item::Const(i) => &i.attrs,
        _ => &[],
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|a| {
        a.path().is_ident("cfg")
            && a.meta.require_list().is_ok_and(|l| {
                let t = l.tokens.to_string();
                t == "test" || t.starts_with("all (test") || t.starts_with("all(test")
            })
    })
}

fn defined(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(i) => i.ident.to_string(),
        Item::Enum(i) => i.ident.to_string(),
        Item::Fn(i) => i.sig.ident.to_string(),
        Item::Macro(i) => i.ident.as_ref()?.to_string(),
        Item::Static(i) => i.ident.to_string(),
        Item::Struct(i) => i.ident.to_string(),
        Item::Trait(i) => i.ident.to_string(),
        Item::Type(i) => i.ident.to_string(),
        Item::Union(i) => i.ident.to_string(),
        _ => return None,
    })
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
        for (folder, circle) in read.circles() {
            if circle.len() > CIRCLE_MAX {
                let place = format!("{} {}", path.file_name().unwrap().display(), folder.join("::"));
                wrong.push(format!("{}: {}", place.trim_end(), circle.join(", ")));
            }
        }
    }
    assert!(wrong.is_empty(), "files that import one another in circles:\n{}", wrong.join("\n"));
}

/// Makes a crate of files with these contents in a temporary folder.
fn sample(files: &[(&str, &str)]) -> Vec<(ModulePath, Vec<String>)> {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Crate::read(dir.path()).circles()
}

#[test]
fn circles_are_found_through_reexports_macros_and_paths_in_code() {
    let circles = sample(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; pub use d::Far;"),
        ("a.rs", "pub struct A; fn f() { crate::b::g(); }"),
        ("b.rs", "use crate::c::C; pub fn g() -> C { todo!() }"),
        ("c.rs", "pub struct C; fn h() { assert!(crate::Far::new()); }"),
        ("d.rs", "pub struct Far; impl Far { fn of(_: &super::a::A) {} }"),
    ]);
    assert_eq!(circles, [(vec![], ["a", "b", "c", "d"].map(String::from).to_vec())]);
}

#[test]
fn a_folder_is_one_node_and_tests_do_not_count() {
    let circles = sample(&[
        ("lib.rs", "mod a; mod b;"),
        ("a/mod.rs", "mod x; mod y; pub use x::X;"),
        ("a/x.rs", "pub struct X; use super::y::Y;"),
        ("a/y.rs", "pub struct Y; use super::X; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("b.rs", "pub struct B; use crate::a::X;"),
    ]);
    assert_eq!(circles, [(vec!["a".to_owned()], vec!["x".to_owned(), "y".to_owned()])]);
}
