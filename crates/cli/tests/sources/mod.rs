//! Reads the sources of a crate, for the rules that tests hold over them.
//!
//! ```text
//!   files ─ syn ─► modules: their items, the paths in their code ─► what a path names, re-exports followed
//! ```
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

/// A module's path from the root of its crate: empty for the root.
pub(crate) type ModulePath = Vec<String>;

/// The module that something lies in, and its name there.
type Found = (ModulePath, Option<String>);

/// A path as it is written, by its segments.
pub(crate) type Written = Vec<String>;

/// What a name is in a module.
pub(crate) enum Def {
    /// An item that the module defines.
    Item,
    /// A module within it.
    Module,
    /// An import.
    Import(Written),
}

/// A module, in a file of its own or within one.
#[derive(Default)]
pub(crate) struct Module {
    /// The module that is the file it lies in.
    pub(crate) file: ModulePath,
    /// Whether that file is one of its folder as a whole: `mod.rs`, or the root of the crate.
    pub(crate) is_folder: bool,
    names: HashMap<String, Def>,
    globs: Vec<Written>,
    /// Paths in its code.
    pub(crate) paths: Vec<Written>,
    /// Its items but for modules and imports.
    pub(crate) items: Vec<Item>,
}

/// All modules of a crate, tests left out.
#[derive(Default)]
pub(crate) struct Crate {
    pub(crate) modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    /// Reads a crate by the folder of its sources.
    pub(crate) fn read(src: &Path) -> Self {
        let mut it = Self::default();
        for root in ["lib.rs", "main.rs"] {
            if src.join(root).is_file() {
                it.file(&src.join(root), src, Vec::new());
                break;
            }
        }
        it
    }

    /// Reads a module's file; those of its children lie in `folder`.
    fn file(&mut self, file: &Path, folder: &Path, path: ModulePath) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let is_folder = path.is_empty() || file.ends_with("mod.rs");
        self.items(parsed.items, folder, path.clone(), (path, is_folder));
    }

    fn items(&mut self, items: Vec<Item>, folder: &Path, path: ModulePath, file: (ModulePath, bool)) {
        let mut module = Module { file: file.0.clone(), is_folder: file.1, ..Module::default() };
        for item in items {
            if is_test(attributes(&item)) {
                continue;
            }
            if let Item::Mod(m) = item {
                let name = m.ident.to_string();
                module.names.insert(name.clone(), Def::Module);
                let (mut child, below) = (path.clone(), folder.join(&name));
                child.push(name.clone());
                match m.content {
                    Some((_, items)) => self.items(items, &below, child, file.clone()),
                    None => {
                        let flat = folder.join(format!("{name}.rs"));
                        let at = if flat.is_file() { flat } else { below.join("mod.rs") };
                        self.file(&at, &below, child);
                    }
                }
            } else {
                if let Some(name) = defined(&item) {
                    module.names.insert(name, Def::Item);
                }
                Paths { module: &mut module }.visit_item(&item);
                module.items.push(item);
            }
        }
        self.modules.insert(path, module);
    }

    /// The module that defines what a path in a module names, and its name there, if it is one of this crate. The name of a
    /// module is none.
    pub(crate) fn find(&self, from: &ModulePath, path: &[String]) -> Option<(ModulePath, Option<String>)> {
        self.lookup(from, path, &mut HashSet::new())
    }

    fn lookup(
        &self,
        from: &ModulePath,
        path: &[String],
        seen: &mut HashSet<(ModulePath, Written)>,
    ) -> Option<Found> {
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
        if rest.is_empty() { Some((at, None)) } else { self.descend(&at, rest, seen) }
    }

    fn descend(
        &self,
        at: &ModulePath,
        path: &[String],
        seen: &mut HashSet<(ModulePath, Written)>,
    ) -> Option<Found> {
        let (first, rest) = path.split_first()?;
        if first == "super" || first == "self" {
            return self.lookup(at, path, seen);
        }
        let module = self.modules.get(at)?;
        match module.names.get(first) {
            Some(Def::Item) => Some((at.clone(), Some(first.clone()))),
            Some(Def::Module) => {
                let mut child = at.clone();
                child.push(first.clone());
                if rest.is_empty() { Some((child, None)) } else { self.descend(&child, rest, seen) }
            }
            Some(Def::Import(import)) => {
                let mut whole = import.clone();
                whole.extend_from_slice(rest);
                self.lookup(at, &whole, seen)
            }
            None => module.globs.iter().find_map(|glob| {
                let (target, _) = self.lookup(at, glob, seen)?;
                self.descend(&target, path, seen)
            }),
        }
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
        // What is only exported again is used by those who name it.
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

    /// Who may see an item is no use of what is named.
    fn visit_vis_restricted(&mut self, _: &syn::VisRestricted) {}

    fn visit_macro(&mut self, mac: &syn::Macro) {
        self.visit_path(&mac.path);
        in_tokens(mac.tokens.clone(), &mut self.module.paths);
    }

    fn visit_item_mod(&mut self, _: &syn::ItemMod) {}
}

/// The paths within what a macro is given.
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

/// The names that a `use` brings in, each with its path; none for all of a module.
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

/// A crate in a folder of its own, of files with these contents.
pub(crate) fn sample(files: &[(&str, &str)]) -> Crate {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Crate::read(dir.path())
}
