//! Documents may only point at files that exist: relative links in every Markdown file, paths in
//! backticks in ARCHITECTURE.md.

use super::edges::TABLE_FILE;
use super::finding::Finding;

/// Checks one document; `exists` tests a path below the root of the repository.
pub(super) fn check(name: &str, content: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !name.ends_with(".md") {
        return findings;
    }
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (index, line) in content.lines().enumerate() {
        for target in links(line) {
            let path = join(folder, target);
            if path.as_deref().is_none_or(|path| !exists(path)) {
                findings.push(Finding::new(
                    name,
                    index + 1,
                    format!("links to `{target}`, which does not exist"),
                ));
            }
        }
        if name == TABLE_FILE {
            for path in paths(line).filter(|path| !exists(path)) {
                findings.push(Finding::new(
                    name,
                    index + 1,
                    format!("names `{path}`, which does not exist"),
                ));
            }
        }
    }
    findings
}

/// The relative targets of `[text](target)`, without their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .map(|target| target.split('#').next().unwrap_or(""))
        .filter(|target| {
            !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:")
        })
}

/// Words in backticks that must be files of the repository.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    const ENDINGS: [&str; 5] = [".rs", ".md", ".sh", ".toml", ".yml"];
    line.split('`').skip(1).step_by(2).filter(|word| {
        let plain = word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'));
        plain
            && !word.starts_with('/')
            && word.contains('/')
            && (word.ends_with('/') || ENDINGS.iter().any(|end| word.ends_with(end)))
    })
}

/// Resolves `..`; `None` when the target leaves the repository.
fn join(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(name: &str, content: &str) -> Vec<String> {
        let there = [
            "docs/a.md",
            "README.md",
            "crates/model/src/lib.rs",
            "crates/model/",
        ];
        check(name, content, |path| there.contains(&path))
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn existing_targets_pass() {
        let text = "[a](docs/a.md#head) [b](https://example.com/x) [c](#here) [d](./README.md)\n";
        assert_eq!(complaints("README.md", text), Vec::<String>::new());
        assert_eq!(
            complaints("docs/b.md", "[a](a.md) [r](../README.md)\n"),
            Vec::<String>::new()
        );
        assert_eq!(
            complaints("a.txt", "[a](missing.md)\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn missing_targets_fail() {
        assert_eq!(
            complaints("docs/b.md", "x\n[a](README.md)\n"),
            ["docs/b.md:2: links to `README.md`, which does not exist"]
        );
        assert_eq!(
            complaints("b.md", "[a](../../secret.md)\n"),
            ["b.md:1: links to `../../secret.md`, which does not exist"]
        );
    }

    #[test]
    fn the_architecture_names_only_files_that_exist() {
        let text = "`crates/model/src/lib.rs` `crates/model/` `cargo run -p xtask` `a/b` and \
            `crates/gone.rs`\n";
        assert_eq!(
            complaints("ARCHITECTURE.md", text),
            ["ARCHITECTURE.md:1: names `crates/gone.rs`, which does not exist"]
        );
        assert_eq!(complaints("README.md", text), Vec::<String>::new());
    }
}
