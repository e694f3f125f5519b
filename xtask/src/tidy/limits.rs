//! Forbidden structures: files and folders that import each other in a cycle, functions that take
//! tuples. And sizes that may only shrink: long functions, long files. Everything above a limit is
//! listed in `xtask/limits.txt` with its size and, if it is to stay, a reason; a size above its
//! entry is an error, and so is an entry above the size.

use std::collections::BTreeMap;
use std::fmt;

use super::edges::Package;
use super::finding::Finding;
use super::modules::{self, Modules};
use super::source;

/// The list of sizes above the limits.
pub(super) const FILE: &str = "xtask/limits.txt";

/// Kinds that the list cannot allow, each with the command that prints all of them.
const FORBIDDEN: [(&str, &str); 3] = [
    ("cycle", "cycles"),
    ("folders", "cycles"),
    ("tuples", "tuples"),
];
const FUNCTION_LINES_MAX: usize = 80;
const FILE_LINES_MAX: usize = 600;
/// The crates whose errors clients read.
const FOLDERS_OF_ERRORS: [&str; 13] = [
    "crates/access",
    "crates/auth",
    "crates/commands",
    "crates/context",
    "crates/dispatch",
    "crates/operators",
    "crates/query",
    "crates/request",
    "crates/script",
    "crates/search",
    "crates/state",
    "crates/store",
    "crates/wire",
];
/// The folder of the server's crates.
const SERVER_FOLDER: &str = "crates/";

/// Measurements of the sources. Tests, benchmarks and examples are not counted.
#[derive(Default)]
pub(crate) struct Measured {
    /// By crate folder.
    crates: BTreeMap<String, Modules>,
    files: Vec<(String, usize)>,
    functions: Vec<(String, usize)>,
    /// Number of functions that take a tuple, by crate folder.
    tuple_takers: BTreeMap<String, usize>,
    /// Uses of printing macros that may panic, in crates of the server: file, line, macro.
    prints: Vec<(String, usize, String)>,
    /// Uses of `Debug` forms in crates whose texts clients read: file, line.
    debug_forms: Vec<(String, usize)>,
}

impl Measured {
    /// Adds a file, if it belongs to the product.
    ///
    /// # Errors
    /// A sentence if it is not Rust.
    pub(super) fn add(
        &mut self,
        name: &str,
        content: &str,
        packages: &[Package],
    ) -> Result<(), String> {
        let Some(folder) = packages
            .iter()
            .map(|package| package.folder.as_str())
            .find(|folder| {
                name.strip_prefix(folder)
                    .is_some_and(|at| at.starts_with("/src/"))
            })
        else {
            return Ok(());
        };
        let inside = &name[folder.len() + "/src/".len()..];
        let (Some(module), false) = (modules::module_of(inside), is_test(inside)) else {
            return Ok(());
        };
        let source = source::read(content)?;
        let lines = content.lines().count();
        if lines > FILE_LINES_MAX {
            self.files.push((name.to_owned(), lines));
        }
        for (function, _, lines) in &source.functions {
            if *lines > FUNCTION_LINES_MAX {
                self.functions.push((format!("{name}::{function}"), *lines));
            }
        }
        if !source.tuple_takers.is_empty() {
            let count = self.tuple_takers.entry(folder.to_owned()).or_default();
            *count += source.tuple_takers.len();
        }
        if folder.starts_with(SERVER_FOLDER) {
            let prints = source.prints.iter();
            self.prints
                .extend(prints.map(|(word, line)| (name.to_owned(), *line, word.clone())));
        }
        if FOLDERS_OF_ERRORS.contains(&folder) {
            let lines = source.debug_forms.iter();
            self.debug_forms
                .extend(lines.map(|line| (name.to_owned(), *line)));
        }
        let modules = self.crates.entry(folder.to_owned()).or_default();
        modules.insert(module, (name.to_owned(), source));
        Ok(())
    }

    /// Kind, name, size: everything above a limit, in the order of the list.
    fn above(&self) -> Vec<(&'static str, String, usize)> {
        let mut all = Vec::new();
        for (folder, modules) in &self.crates {
            let in_cycles: usize = modules::cycles(modules).iter().map(Vec::len).sum();
            if in_cycles > 0 {
                all.push(("cycle", folder.clone(), in_cycles));
            }
            let mut folders: BTreeMap<String, usize> = BTreeMap::new();
            for cycle in modules::folder_cycles(modules) {
                let parent = [&[folder.clone(), "src".to_owned()], &cycle.parent[..]].concat();
                *folders.entry(parent.join("/")).or_default() += cycle.members.len();
            }
            all.extend(folders.into_iter().map(|(at, size)| ("folders", at, size)));
        }
        all.extend(
            self.tuple_takers
                .iter()
                .map(|(folder, count)| ("tuples", folder.clone(), *count)),
        );
        all.extend(
            self.files
                .iter()
                .map(|(name, lines)| ("file", name.clone(), *lines)),
        );
        all.extend(
            self.functions
                .iter()
                .map(|(name, lines)| ("function", name.clone(), *lines)),
        );
        all.sort();
        all.dedup_by(|a, b| (a.0, &a.1) == (b.0, &b.1));
        all
    }

    /// The files in cycles, each with its imports of the others; then the folders.
    pub(crate) fn cycles(&self) -> String {
        let mut out = String::new();
        for (folder, modules) in &self.crates {
            for group in modules::cycles(modules) {
                out.push_str(&format!("{folder}: {} files\n", group.len()));
                for (from, to) in modules::edges_among(modules, &group) {
                    out.push_str(&format!("  {from} -> {}\n", to.join(" ")));
                }
            }
            for cycle in modules::folder_cycles(modules) {
                let parent = cycle.parent.join("/");
                let members = cycle.members.join(" ");
                out.push_str(&format!("{folder}/src/{parent}: folders {members}\n"));
                for (from, to) in &cycle.imports {
                    out.push_str(&format!("  {from} -> {to}\n"));
                }
            }
        }
        out
    }

    /// The functions that take tuples, with their files.
    pub(crate) fn tuple_takers(&self) -> String {
        let mut out = String::new();
        for (file, source) in self.crates.values().flat_map(BTreeMap::values) {
            for (function, line) in &source.tuple_takers {
                out.push_str(&format!("{file}:{line}: {function}\n"));
            }
        }
        out
    }

    /// The list with the present sizes.
    pub(crate) fn as_limits(&self) -> String {
        let line = |(kind, what, size)| format!("{kind} {what} {size}\n");
        self.above().into_iter().map(line).collect()
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let above = self.above();
        let sum = |wanted: &str| -> usize {
            let of_kind = above.iter().filter(|(kind, _, _)| *kind == wanted);
            of_kind.map(|(_, _, size)| size).sum()
        };
        write!(
            out,
            "{} files and {} folders in cycles, {} functions that take tuples, {} functions above \
             {FUNCTION_LINES_MAX} lines, {} files above {FILE_LINES_MAX}",
            sum("cycle"),
            sum("folders"),
            sum("tuples"),
            self.functions.len(),
            self.files.len()
        )
    }
}

fn is_test(file: &str) -> bool {
    file.split('/')
        .any(|part| matches!(part, "tests" | "tests.rs" | "test.rs"))
}

fn printer_of(kind: &str) -> Option<&'static str> {
    let row = FORBIDDEN.iter().find(|(forbidden, _)| *forbidden == kind);
    row.map(|(_, word)| *word)
}

/// Compares with the list, whose lines have kind, name, size, and optionally a reason.
pub(super) fn check(measured: &Measured, list: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut allowed = BTreeMap::new();
    for (index, line) in list.lines().enumerate() {
        let mut words = line.split_ascii_whitespace();
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match (
            words.next(),
            words.next(),
            words.next().and_then(|size| size.parse().ok()),
        ) {
            (Some(kind), _, _) if printer_of(kind).is_some() => {
                let message = format!("no line allows {kind}: there may be none");
                findings.push(Finding::new(FILE, index + 1, message));
            }
            (Some(kind), Some(what), Some(size)) => {
                allowed.insert((kind.to_owned(), what.to_owned()), (index + 1, size));
            }
            _ => findings.push(Finding::new(
                FILE,
                index + 1,
                "is not: kind what size [reason]",
            )),
        }
    }
    for (kind, what, size) in measured.above() {
        match allowed.remove(&(kind.to_owned(), what.clone())) {
            Some((_, most)) if size > most => {
                let message = format!("{kind} {what}: {size}, it may not grow above {most}");
                findings.push(Finding::new(FILE, 0, message));
            }
            Some((line, most)) if size < most => {
                let message = format!("{kind} {what} is {size} now: lower its line from {most}");
                findings.push(Finding::new(FILE, line, message));
            }
            Some(_) => {}
            None => {
                let message = match printer_of(kind) {
                    Some(word) => format!(
                        "{kind} {what}: {size}, there may be none; `cargo run -p xtask -- {word}` \
                         prints them"
                    ),
                    None => format!("{kind} {what}: {size}, above the limit and not in the list"),
                };
                findings.push(Finding::new(FILE, 0, message));
            }
        }
    }
    for (file, line, word) in &measured.prints {
        let message = format!(
            "{word}! panics when its stream is closed: use server's output.rs, or write and \
             ignore the error"
        );
        findings.push(Finding::new(file, *line, message));
    }
    for (file, line) in &measured.debug_forms {
        let message = "a text shows a value by its Debug: clients read this crate's texts, show \
                       it by its Display";
        findings.push(Finding::new(file, *line, message));
    }
    for ((kind, what), (line, _)) in allowed {
        let message = format!("{kind} {what} is below the limit now: take its line away");
        findings.push(Finding::new(FILE, line, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(list: &str) -> Vec<String> {
        let long = format!("fn long() {{\n{}}}\n", "1;\n".repeat(90));
        complaints_of(&[("src/lib.rs", long.as_str()), ("tests/x.rs", "{")], list)
    }

    fn complaints_of(files: &[(&str, &str)], list: &str) -> Vec<String> {
        let package = Package {
            name: "a".to_owned(),
            folder: "crates/a".to_owned(),
            edges: Vec::new(),
        };
        let mut measured = Measured::default();
        let packages = [package];
        for (name, content) in files {
            measured
                .add(&format!("crates/a/{name}"), content, &packages)
                .unwrap();
        }
        check(&measured, list)
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn no_line_allows_circles_and_tuples() {
        let circle = [
            ("src/lib.rs", "use crate::b::B;\n"),
            ("src/b.rs", "use crate::long;"),
        ];
        let tuple = [("src/lib.rs", "fn f(x: (u8, u8)) {}")];
        for (files, line, word) in [
            (&circle[..], "cycle crates/a 2\n", "xtask -- cycles"),
            (&tuple[..], "tuples crates/a 1\n", "xtask -- tuples"),
        ] {
            let found = complaints_of(files, "");
            assert!(found.len() == 1 && found[0].contains(word), "{found:?}");
            let found = complaints_of(files, line);
            assert!(
                found.len() == 2 && found[0].contains("no line allows"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_crate_of_the_server_does_not_print_by_macros() {
        let package = Package {
            name: "a".to_owned(),
            folder: "crates/a".to_owned(),
            edges: Vec::new(),
        };
        let mut measured = Measured::default();
        let content = "fn f() {\n    println!();\n}\n";
        measured
            .add("crates/a/src/lib.rs", content, &[package])
            .unwrap();
        let found = check(&measured, "");
        assert!(
            found[0].to_string().contains("println! panics"),
            "{found:?}"
        );
    }

    #[test]
    fn texts_of_clients_show_values_by_their_display() {
        let packages = ["crates/query", "crates/engines/x"].map(|folder| Package {
            name: "a".to_owned(),
            folder: folder.to_owned(),
            edges: Vec::new(),
        });
        let mut measured = Measured::default();
        let content = "fn f() {\n    bail!(2, \"not {v:?}\");\n}\n";
        for package in &packages {
            let name = format!("{}/src/lib.rs", package.folder);
            measured.add(&name, content, &packages).unwrap();
        }
        let found: Vec<String> = check(&measured, "")
            .iter()
            .map(Finding::to_string)
            .collect();
        assert!(
            found.len() == 1 && found[0].starts_with("crates/query/src/lib.rs:2: a text shows"),
            "{found:?}"
        );
    }

    #[test]
    fn sizes_may_shrink_and_not_grow() {
        let exact = "function crates/a/src/lib.rs::long 92 a table\n";
        assert_eq!(complaints(exact), Vec::<String>::new());
        let new = complaints("");
        assert!(
            new.len() == 1 && new[0].contains("not in the list"),
            "{new:?}"
        );
        let grown = complaints(&exact.replace("92", "91"));
        assert!(grown[0].contains("may not grow above 91"), "{grown:?}");
        let shrunk = complaints(&exact.replace("92", "93"));
        assert!(shrunk[0].contains("lower its line"), "{shrunk:?}");
        let gone = complaints(&format!("{exact}file crates/a/src/c.rs 700\n"));
        assert!(gone[0].contains("take its line away"), "{gone:?}");
    }
}
