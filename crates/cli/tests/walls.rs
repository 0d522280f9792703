//! Holds the walls between the subsystems of a crate: a subsystem owns its state, and nobody else sees into it.
//!
//! ```text
//!   composition root ─ fields ─► structs ─ fields ─► structs ...      each is state, unless it derives Clone or Copy
//!   state: no field is visible beyond the folder that it lies in      the root: implemented in its own file alone
//! ```
//!
//! A type that can be cloned is data: options, records, reports. What holds locks, counters and caches cannot be.

mod sources;

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::TokenTree;
use syn::visit::{self, Visit};
use syn::{Attribute, Fields, Item, Type, Visibility};

use sources::{Crate, Module, ModulePath, sample};

/// The crates with walls, each with the path of its composition root.
const CRATES: &[(&str, &[&str])] = &[("firmware", &["core", "Core"]), ("engine", &["database", "Parts"])];

/// A type, by its module and its name.
type Name = (ModulePath, String);

/// What is wrong with the walls of a crate.
fn breaches(krate: &Crate, root: &[&str]) -> Vec<String> {
    let (name, module) = root.split_last().expect("a root has a name");
    let root = (module.iter().map(|s| (*s).to_owned()).collect(), (*name).to_owned());
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open = vec![root.clone()];
    while let Some(name) = open.pop() {
        let Some(item) = item_of(krate, &name).filter(|_| seen.insert(name.clone())) else { continue };
        let module = &krate.modules[&name.0];
        match item {
            Item::Struct(s) if name == root || !is_data(&s.attrs) => {
                let folder = if name == root { name.0.clone() } else { folder_of(&name.0, module) };
                found.extend(visible_beyond(&s.fields, &name.0, &folder).map(|field| {
                    let path = [name.0.join("::"), name.1.clone(), field].join("::");
                    format!("{path} is visible beyond {}", folder.join("::"))
                }));
                s.fields.iter().for_each(|f| open.extend(types_in(krate, &name.0, &f.ty)));
            }
            Item::Enum(e) if !is_data(&e.attrs) => {
                let fields = e.variants.iter().flat_map(|v| &v.fields);
                fields.for_each(|f| open.extend(types_in(krate, &name.0, &f.ty)));
            }
            Item::Type(t) => open.extend(types_in(krate, &name.0, &t.ty)),
            _ => {}
        }
    }
    assert!(seen.contains(&root), "there is no {root:?}");
    found.extend(krate.modules.iter().filter(|(_, m)| m.file != root.0).flat_map(|(path, m)| {
        let of_root =
            |i: &&Item| matches!(i, Item::Impl(i) if types_in(krate, path, &i.self_ty).contains(&root));
        m.items.iter().filter(of_root).map(|_| format!("{} is implemented in {}", root.1, path.join("::")))
    }));
    found.sort();
    found
}

/// The folder that a type lies in. At the top of a crate each file is one of its own.
fn folder_of(path: &ModulePath, module: &Module) -> ModulePath {
    let file = &module.file;
    assert!(path.starts_with(file), "a module lies in its file");
    match module.is_folder || file.len() < 2 {
        true => file.clone(),
        false => file[..file.len() - 1].to_vec(),
    }
}

fn item_of<'a>(krate: &'a Crate, (module, name): &Name) -> Option<&'a Item> {
    krate.modules.get(module)?.items.iter().find(|i| match i {
        Item::Struct(i) => i.ident == name,
        Item::Enum(i) => i.ident == name,
        Item::Type(i) => i.ident == name,
        _ => false,
    })
}

/// Whether a type derives `Clone` or `Copy`.
fn is_data(attributes: &[Attribute]) -> bool {
    let derives = attributes.iter().filter(|a| a.path().is_ident("derive"));
    let mut tokens = derives.filter_map(|a| a.meta.require_list().ok()).flat_map(|l| l.tokens.clone());
    tokens.any(|t| matches!(t, TokenTree::Ident(name) if name == "Clone" || name == "Copy"))
}

/// The fields that are visible beyond a folder, of a struct that lies in `module`.
fn visible_beyond<'a>(
    fields: &'a Fields,
    module: &'a ModulePath,
    folder: &'a ModulePath,
) -> impl Iterator<Item = String> + 'a {
    let beyond = move |v: &Visibility| match v {
        Visibility::Inherited => false,
        Visibility::Public(_) => true,
        Visibility::Restricted(r) => !region(module, &r.path).starts_with(folder),
    };
    let named = |(i, f): (usize, &syn::Field)| f.ident.as_ref().map_or(i.to_string(), ToString::to_string);
    fields.iter().enumerate().filter(move |(_, f)| beyond(&f.vis)).map(named)
}

/// The module in which something is visible that is restricted to this path.
fn region(module: &ModulePath, path: &syn::Path) -> ModulePath {
    let mut at = module.clone();
    for segment in &path.segments {
        match segment.ident.to_string().as_str() {
            "crate" => at.clear(),
            "self" => {}
            "super" => drop(at.pop()),
            name => at.push(name.to_owned()),
        }
    }
    at
}

/// The types of the crate that a type names, in its parameters too.
fn types_in(krate: &Crate, module: &ModulePath, of: &Type) -> Vec<Name> {
    struct Types<'a>(&'a Crate, &'a ModulePath, Vec<Name>);
    impl Visit<'_> for Types<'_> {
        fn visit_path(&mut self, path: &syn::Path) {
            let written: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
            if let Some((module, Some(name))) = self.0.find(self.1, &written) {
                self.2.push((module, name));
            }
            visit::visit_path(self, path);
        }
    }
    let mut types = Types(krate, module, Vec::new());
    types.visit_type(of);
    types.2
}

#[test]
fn no_subsystem_sees_into_another() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the folder of all crates");
    let mut wrong = Vec::new();
    for (name, root) in CRATES {
        let found = breaches(&Crate::read(&crates.join(name).join("src")), root);
        wrong.extend(found.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check(files: &[(&str, &str)], expected: &[&str]) {
    assert_eq!(breaches(&sample(files), &["core", "Core"]), expected);
}

const CORE: (&str, &str) = (
    "core.rs",
    "use crate::a::A; use std::sync::Mutex; pub(crate) struct Core { a: Mutex<Vec<A>> } impl Core {}",
);

#[test]
fn state_is_private_to_its_folder() {
    let check = |a: &str, x: &str, expected: &[&str]| {
        check(&[("lib.rs", "mod a; mod core;"), CORE, ("a/mod.rs", a), ("a/x.rs", x)], expected);
    };
    let folder = "mod x; pub(crate) use x::A;";
    check(folder, "pub(crate) struct A { n: u32 }", &[]);
    check(
        folder,
        "pub(crate) struct A { pub(super) n: u32, pub(in crate::a) m: u32, pub(self) l: u32 }",
        &[],
    );
    check(folder, "pub(crate) struct A { pub(crate) n: u32 }", &["a::x::A::n is visible beyond a"]);
    check(folder, "pub(crate) struct A(u8, pub u32);", &["a::x::A::1 is visible beyond a"]);
    check("mod x; pub(crate) struct A { pub(super) n: u32 }", "", &["a::A::n is visible beyond a"]);
    check(folder, "#[derive(Debug, Clone)] pub(crate) struct A { pub n: u32 }", &[]);
    // What state holds is state, by way of enums and aliases too.
    let held = "pub(crate) struct A { b: Option<B> } type B = Box<C>; enum C { D(D) } struct D { pub(crate) n: u32 }";
    check(folder, held, &["a::x::D::n is visible beyond a"]);
}

#[test]
fn at_the_top_each_file_has_a_wall_and_the_root_has_one() {
    let lib = ("lib.rs", "mod a; mod core;");
    check(&[lib, CORE, ("a.rs", "pub(crate) struct A { n: u32 }")], &[]);
    check(
        &[lib, CORE, ("a.rs", "pub(crate) struct A { pub(super) n: u32 }")],
        &["a::A::n is visible beyond a"],
    );
    let seen = ("core.rs", "#[derive(Clone)] pub(crate) struct Core { pub(super) n: u32 }");
    check(&[lib, seen, ("a.rs", "")], &["core::Core::n is visible beyond core"]);
    let extended =
        ("a.rs", "pub(crate) struct A; use crate::core::Core; impl Core { fn f() {} } impl Drop for Core {}");
    check(&[lib, CORE, extended], &["Core is implemented in a", "Core is implemented in a"]);
}
