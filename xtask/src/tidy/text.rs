//! Rules on the text of single files.

use super::finding::Finding;

/// The width that rustfmt enforces for code, but not for strings and comments.
const COLUMNS_MAX: usize = 100;

/// In the first lines of generated files.
const GENERATED: &str = "//! Not edited by hand.";

/// Written in two halves, so that this file does not complain about itself.
const MACROS: [(&str, &str); 4] = [
    (concat!("to", "do!("), "finish it or return an error"),
    (
        concat!("unimple", "mented!("),
        "finish it or return an error",
    ),
    (concat!("db", "g!("), "remove it"),
    (
        concat!("en", "v!(\"CARGO_MANIFEST_DIR\")"),
        "it is the clone that compiled, and build output may be shared: a test runs in its package",
    ),
];

/// Folders that exist on one machine only.
const MACHINE_PATHS: [&str; 3] = [
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
];

/// Each client is configured with its registry, and it must be possible to use a mirror.
const HOSTS: [&str; 10] = [
    concat!("registry.npm", "js.org"),
    concat!("registry.yarn", "pkg.com"),
    concat!("py", "pi.org"),
    concat!("files.python", "hosted.org"),
    concat!("proxy.go", "lang.org"),
    concat!("sum.go", "lang.org"),
    concat!("static.cra", "tes.io"),
    concat!("index.cra", "tes.io"),
    concat!("repo.maven.apa", "che.org"),
    concat!("deb.deb", "ian.org"),
];

/// Checks one file.
pub(super) fn check(name: &str, content: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if name.ends_with(".rs") {
        rust(name, content, &mut findings);
    }
    if !is_lock(name) {
        for (index, line) in content.lines().enumerate() {
            places(name, index + 1, line, &mut findings);
        }
    }
    findings
}

fn rust(name: &str, content: &str, findings: &mut Vec<Finding>) {
    let head = content
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("");
    if head
        .strip_prefix("//!")
        .is_none_or(|rest| rest.trim().is_empty())
    {
        findings.push(Finding::new(
            name,
            1,
            "opens without a `//!` comment saying what the file promises",
        ));
    }
    let generated = content.lines().take(3).any(|line| line == GENERATED);
    for (index, line) in content.lines().enumerate().filter(|_| !generated) {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            let message = format!("has {columns} columns, at most {COLUMNS_MAX}");
            findings.push(Finding::new(name, index + 1, message));
        }
    }
    for (index, line) in content.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        for (word, advice) in MACROS.iter().filter(|(word, _)| code.contains(word)) {
            findings.push(Finding::new(
                name,
                index + 1,
                format!("`{word}` is not allowed: {advice}"),
            ));
        }
    }
}

fn places(name: &str, line_number: usize, line: &str, findings: &mut Vec<Finding>) {
    for path in MACHINE_PATHS {
        // `$PREFIX/xyz/` and `crates/xyz/` are not absolute.
        let absolute = |(at, _): (usize, &str)| {
            !line[..at].ends_with(|before: char| {
                before.is_alphanumeric() || matches!(before, '_' | '-' | '.' | '}' | ')' | '*')
            })
        };
        if line.match_indices(path).any(absolute) {
            findings.push(Finding::new(
                name,
                line_number,
                format!("names the machine path `{path}`; take it from a variable or an argument"),
            ));
        }
    }
    for host in HOSTS.iter().filter(|host| line.contains(*host)) {
        findings.push(Finding::new(
            name,
            line_number,
            format!("names the registry host `{host}`; leave it to the client's configuration"),
        ));
    }
}

fn is_lock(name: &str) -> bool {
    matches!(
        name.rsplit('/').next(),
        Some("Cargo.lock" | "package-lock.json" | "go.sum")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(name: &str, content: &str) -> Vec<String> {
        check(name, content)
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    fn one(name: &str, content: &str, part: &str) {
        let complaints = complaints(name, content);
        assert!(
            complaints.len() == 1 && complaints[0].contains(part),
            "{part}: {complaints:?}"
        );
    }

    #[test]
    fn a_good_file_passes() {
        assert_eq!(
            complaints(
                "a.rs",
                "//! Adds numbers.\n\nfn add() {} // the old todo!() is gone\n"
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_head_is_demanded() {
        one("a.rs", "fn main() {}\n", "a.rs:1: opens without");
        one("a.rs", "//!\nfn main() {}\n", "opens without");
        one("a.rs", "", "opens without");
        assert_eq!(complaints("a.py", "print()\n"), Vec::<String>::new());
    }

    #[test]
    fn long_lines_fail_in_rust_only() {
        let long = format!("//! {}\n", "x".repeat(97));
        one("a.rs", &long, "a.rs:1: has 101 columns, at most 100");
        assert_eq!(
            complaints("a.rs", &long.replacen('x', "", 1)),
            Vec::<String>::new()
        );
        assert_eq!(complaints("a.md", &long), Vec::<String>::new());
        let generated = format!("//! A.\n{GENERATED}\n{long}");
        assert_eq!(complaints("a.rs", &generated), Vec::<String>::new());
    }

    #[test]
    fn unfinished_macros_fail() {
        for (word, _) in MACROS {
            one(
                "a.rs",
                &format!("//! A.\nfn f() {{ {word}) }}\n"),
                "a.rs:2: ",
            );
        }
    }

    #[test]
    fn machine_paths_fail() {
        for path in MACHINE_PATHS {
            one("a.sh", &format!("cd {path}x\n"), "machine path");
            one("a.sh", &format!("see file://{path}x\n"), "machine path");
            assert_eq!(
                complaints(
                    "a.sh",
                    &format!("cd net{path}x \"$A{path}\" ${{B}}{path}\n")
                ),
                Vec::<String>::new()
            );
        }
    }

    #[test]
    fn registry_hosts_fail_outside_lock_files() {
        for host in HOSTS {
            one("a.md", &format!("https://{host}/x\n"), "registry host");
            assert_eq!(
                complaints("fuzz/Cargo.lock", &format!("https://{host}/x\n")),
                Vec::<String>::new()
            );
        }
    }
}
