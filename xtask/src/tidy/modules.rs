//! Imports between the files of one crate, and between its folders: cycles are not allowed. A
//! re-export counts as a name for its target, not as an import; declaring a module is no import
//! either. A module and everything below it are one folder; imports between them do not count.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

/// The files of one crate, by module path: empty for `lib.rs` or `main.rs`.
pub(super) type Modules = BTreeMap<Vec<String>, (String, Source)>;

/// The module path of a file below `src/`; `None` for a separate binary in `src/bin`.
pub(super) fn module_of(file: &str) -> Option<Vec<String>> {
    let mut path: Vec<String> = file
        .strip_suffix(".rs")?
        .split('/')
        .map(str::to_owned)
        .collect();
    match path.last().map(String::as_str) {
        Some("mod") => _ = path.pop(),
        Some("lib" | "main") if path.len() == 1 => path.clear(),
        _ => {}
    }
    (path.first().is_none_or(|first| first != "bin")).then_some(path)
}

/// Groups of files that import each other, directly or indirectly; the largest first.
pub(super) fn cycles(modules: &Modules) -> Vec<Vec<String>> {
    let name = |group: Vec<&Vec<String>>| group.into_iter().map(|m| modules[m].0.clone()).collect();
    groups(&edges(modules)).into_iter().map(name).collect()
}

/// A folder with modules directly in it that import each other, at least one of which is a folder
/// itself.
pub(super) struct FolderCycle {
    /// The module path of this folder; empty for the crate's own folder.
    pub(super) parent: Vec<String>,
    pub(super) members: Vec<String>,
    /// Imports between files of different members.
    pub(super) imports: Vec<(String, String)>,
}

/// The imports between neighboring folders and files.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Neighboring folders (and files) that import each other, by their parent folder.
pub(super) fn folder_cycles(modules: &Modules) -> Vec<FolderCycle> {
    let mut levels: BTreeMap<Vec<String>, Imports> = BTreeMap::new();
    for (from, targets) in edges(modules) {
        for to in targets {
            let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if shared == from.len() || shared == to.len() {
                continue;
            }
            let level = levels.entry(from[..shared].to_vec()).or_default();
            let neighbour = to[..=shared].to_vec();
            level.entry(neighbour.clone()).or_default();
            let imports = level.entry(from[..=shared].to_vec()).or_default();
            imports.insert(neighbour);
        }
    }
    let is_folder = |path: &Vec<String>| {
        let below = |m: &Vec<String>| m.len() > path.len() && m.starts_with(path);
        modules.keys().any(below)
    };
    let mut found = Vec::new();
    for (parent, level) in &levels {
        let edges = level.iter().map(|(from, to)| (from, to.iter().collect()));
        for group in groups(&edges.collect()) {
            if group.iter().any(|path| is_folder(path)) {
                found.push(FolderCycle {
                    parent: parent.clone(),
                    members: group
                        .iter()
                        .filter_map(|path| path.last().cloned())
                        .collect(),
                    imports: imports_between(modules, &group),
                });
            }
        }
    }
    found
}

/// Imports of files between different folders of the group.
fn imports_between(modules: &Modules, group: &[&Vec<String>]) -> Vec<(String, String)> {
    let member = |module: &[String]| group.iter().position(|path| module.starts_with(path));
    let mut found = Vec::new();
    for (from, targets) in edges(modules) {
        for to in targets {
            if let (Some(a), Some(b)) = (member(from), member(to))
                && a != b
            {
                found.push((modules[from].0.clone(), modules[to].0.clone()));
            }
        }
    }
    found
}

/// Nodes that import each other, directly or indirectly; the largest group first.
fn groups<'a>(edges: &Edges<'a>) -> Vec<Vec<&'a Vec<String>>> {
    let reach: BTreeMap<&'a Vec<String>, BTreeSet<&'a Vec<String>>> = edges
        .keys()
        .map(|from| (*from, reachable(edges, from)))
        .collect();
    let mut groups: Vec<Vec<&'a Vec<String>>> = Vec::new();
    let mut seen = BTreeSet::new();
    for (from, to) in &reach {
        if !to.contains(from) || !seen.insert(*from) {
            continue;
        }
        let mut group = vec![*from];
        for other in to.iter().filter(|other| reach[*other].contains(from)) {
            if seen.insert(other) {
                group.push(other);
            }
        }
        groups.push(group);
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    groups
}

type Edges<'a> = BTreeMap<&'a Vec<String>, BTreeSet<&'a Vec<String>>>;

fn edges(modules: &Modules) -> Edges<'_> {
    let of = |(module, (_, source)): (&'_ Vec<String>, &'_ (String, Source))| {
        let uses = source.uses.iter();
        let to = uses.filter_map(|(path, inside)| resolve(modules, module, inside, path, 0));
        to.filter(|to| *to != module).collect()
    };
    modules.iter().map(|entry| (entry.0, of(entry))).collect()
}

/// For each file of a group: its imports within the group.
pub(super) fn edges_among(modules: &Modules, group: &[String]) -> Vec<(String, Vec<String>)> {
    let name = |module: &Vec<String>| modules[module].0.clone();
    let within = |to: &BTreeSet<&Vec<String>>| -> Vec<String> {
        to.iter()
            .map(|m| name(m))
            .filter(|file| group.contains(file))
            .collect()
    };
    let all = edges(modules);
    let inside = all.iter().filter(|(from, _)| group.contains(&name(from)));
    inside.map(|(from, to)| (name(from), within(to))).collect()
}

fn reachable<'a>(
    edges: &BTreeMap<&'a Vec<String>, BTreeSet<&'a Vec<String>>>,
    from: &Vec<String>,
) -> BTreeSet<&'a Vec<String>> {
    let mut found = BTreeSet::new();
    let mut left: Vec<&Vec<String>> = edges[from].iter().copied().collect();
    while let Some(next) = left.pop() {
        if found.insert(next) {
            left.extend(edges[next].iter().copied());
        }
    }
    found
}

/// The file that defines the item of `path` in `module`; `None` for other crates.
fn resolve<'a>(
    modules: &'a Modules,
    module: &[String],
    inside: &[String],
    path: &[String],
    depth: usize,
) -> Option<&'a Vec<String>> {
    let here = [module, inside].concat();
    let mut rest = path;
    let mut base = match rest.first()?.as_str() {
        "crate" => Vec::new(),
        "self" => here,
        "super" => here,
        child if modules.contains_key(&[module, &[child.to_owned()]].concat()) => {
            rest = path;
            return follow(modules, module.to_vec(), rest, depth);
        }
        _ => return None,
    };
    while let Some(first) = rest.first() {
        match first.as_str() {
            "crate" | "self" => {}
            "super" => _ = base.pop(),
            _ => break,
        }
        rest = &rest[1..];
    }
    // An inline module is part of its file.
    while !modules.contains_key(&base) {
        base.pop()?;
    }
    follow(modules, base, rest, depth)
}

fn follow<'a>(
    modules: &'a Modules,
    mut base: Vec<String>,
    mut rest: &[String],
    depth: usize,
) -> Option<&'a Vec<String>> {
    while let Some(first) = rest.first() {
        let child = [&base[..], std::slice::from_ref(first)].concat();
        if !modules.contains_key(&child) {
            break;
        }
        base = child;
        rest = &rest[1..];
    }
    let (found, (_, source)) = modules.get_key_value(&base)?;
    let exported = rest
        .first()
        .and_then(|name| source.exports.iter().find(|(n, _)| n == name));
    if let Some((_, target)) = exported
        && depth < 8
    {
        // An item re-exported from another crate belongs to no file here.
        return resolve(modules, &base, &[], target, depth + 1);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let modules = files.iter().map(|(file, content)| {
            let source = source::read(content).unwrap();
            (module_of(file).unwrap(), ((*file).to_owned(), source))
        });
        cycles(&modules.collect())
    }

    #[test]
    fn a_cycle_by_way_of_a_third_file_is_found() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; pub use a::A;"),
            ("a.rs", "use crate::b::B;"),
            ("b/mod.rs", "fn f() { super::c::g() }"),
            ("c.rs", "use crate::A;"),
        ];
        assert_eq!(
            found(&files),
            [["a.rs", "b/mod.rs", "c.rs"].map(str::to_owned).to_vec()]
        );
    }

    fn found_folders(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let modules = files.iter().map(|(file, content)| {
            let source = source::read(content).unwrap();
            (module_of(file).unwrap(), ((*file).to_owned(), source))
        });
        let cycles = folder_cycles(&modules.collect());
        let words = |c: &FolderCycle| (c.parent.join("/"), c.members.join(" "));
        cycles.iter().map(words).collect()
    }

    #[test]
    fn folders_that_import_each_other_by_different_files_are_found() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a/mod.rs", "mod one; mod two;"),
            (
                "a/one.rs",
                "use crate::b::three::Three; use super::two::Two;",
            ),
            ("a/two.rs", "pub struct Two;"),
            ("b.rs", "mod three; mod four;"),
            ("b/three.rs", "pub struct Three;"),
            ("b/four.rs", "use crate::a::two::Two; use crate::c::C;"),
            ("c.rs", "use crate::b::four::Four;"),
        ];
        assert_eq!(found_folders(&files), [(String::new(), "a b c".to_owned())]);
        // Imports in one direction are no cycle; a folder that uses items of its own module file is
        // none either.
        let one_way = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "mod one; use one::One; pub struct A;"),
            ("a/one.rs", "use super::A; use crate::b::three::Three;"),
            ("b/mod.rs", "mod three;"),
            ("b/three.rs", "pub struct Three;"),
        ];
        assert_eq!(found_folders(&one_way), []);
    }

    #[test]
    fn declaring_re_exporting_and_using_what_lies_below_is_none() {
        let files = [
            ("lib.rs", "mod a; pub use a::A; use a::f; fn g() { f() }"),
            ("a/mod.rs", "mod deep; pub use deep::Deep; pub struct A;"),
            (
                "a/deep.rs",
                "use super::A; use std::fmt; mod inner { use super::x; }",
            ),
        ];
        assert_eq!(found(&files), Vec::<Vec<String>>::new());
    }
}
