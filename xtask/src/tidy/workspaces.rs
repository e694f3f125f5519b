//! The server's workspace and the lab's use the same libraries with the same versions and features,
//! so that shared libraries are compiled once into one folder of build output.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;

/// The manifest of the server's workspace.
pub(super) const MANIFEST: &str = "Cargo.toml";
/// The lab's.
pub(super) const LAB_MANIFEST: &str = "lab/Cargo.toml";
/// The lock file of the lab's workspace.
pub(super) const LAB_LOCK: &str = "lab/Cargo.lock";

/// Sections that must be equal in both manifests, for entries that both have.
const SHARED: [&str; 5] = [
    "workspace.package",
    "workspace.dependencies",
    "workspace.lints.rust",
    "profile.dev",
    "profile.release",
];

/// Compares the manifests and the lock files of both workspaces, the server's first.
pub(super) fn check(
    [manifest, lab_manifest]: [&str; 2],
    [lock, lab_lock]: [&str; 2],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for section in SHARED {
        let (own, labs) = (entries(manifest, section), entries(lab_manifest, section));
        for (name, value) in &labs {
            // Paths of members differ between the workspaces.
            let is_path = |text: &str| text.contains("path = ");
            match own.get(name) {
                Some(other) if other != value && !(is_path(value) && is_path(other)) => {
                    let message =
                        format!("[{section}] has `{name} = {value}`, {MANIFEST} has `{other}`");
                    findings.push(Finding::new(LAB_MANIFEST, 0, message));
                }
                _ => {}
            }
        }
    }
    let own = versions(lock);
    for (package, version) in versions(lab_lock) {
        let others = own.get(&package);
        if let Some(other) = others.filter(|other| **other != version) {
            let (name, _) = &package;
            let (of_lab, of_server) = (list(&version), list(other));
            let message = format!(
                "takes `{name}` {of_lab}, Cargo.lock has {of_server}: `cargo update -p {name} \
                 --precise` in lab brings them together"
            );
            findings.push(Finding::new(LAB_LOCK, 0, message));
        }
    }
    findings
}

fn list(versions: &BTreeSet<String>) -> String {
    versions.iter().cloned().collect::<Vec<_>>().join(", ")
}

/// Names and values of a section of a manifest.
fn entries(manifest: &str, section: &str) -> BTreeMap<String, String> {
    let head = format!("[{section}]");
    let lines = manifest.lines().skip_while(|line| line.trim() != head);
    let lines = lines.skip(1).take_while(|line| !line.starts_with('['));
    let pairs = lines.filter(|line| !line.trim_start().starts_with('#'));
    pairs
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

/// The versions of each package of a lock file; incompatible versions are separate.
fn versions(lock: &str) -> BTreeMap<(String, String), BTreeSet<String>> {
    let mut out: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let mut lines = package.lines();
            lines.find_map(|line| {
                line.strip_prefix(key)?
                    .strip_prefix(" = \"")?
                    .strip_suffix('"')
            })
        };
        let (Some(name), Some(version)) = (value("name"), value("version")) else {
            continue;
        };
        let key = (name.to_owned(), series(version));
        out.entry(key).or_default().insert(version.to_owned());
    }
    out
}

/// The part of a version that compatible versions share: up to the first number that is not zero.
fn series(version: &str) -> String {
    let mut parts = version.split('.');
    let mut out = parts.next().unwrap_or_default().to_owned();
    if out == "0" {
        out = format!("0.{}", parts.next().unwrap_or_default());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(packages: &[(&str, &str)]) -> String {
        let one = |(name, version): &(&str, &str)| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n")
        };
        packages.iter().map(one).collect()
    }

    #[test]
    fn versions_and_features_that_drift_apart_are_found() {
        let own = "[workspace.dependencies]\nserde = \"1\"\n\
            metrics = { path = \"crates/metrics\" }\n\
            [profile.dev]\nopt-level = 0\n";
        let right = "[workspace.dependencies]\n# more\nredb = \"4\"\nserde = \"1\"\n\
            metrics = { path = \"../crates/metrics\" }\n[profile.dev]\nopt-level = 0\n";
        let locks = (
            lock(&[("serde", "1.0.1"), ("sha2", "0.11.1")]),
            lock(&[
                ("serde", "1.0.1"),
                ("sha2", "0.11.1"),
                ("sha2", "0.10.9"),
                ("redb", "4.1.0"),
            ]),
        );
        let both = |lab: &str, lab_lock: &str| check([own, lab], [&locks.0, lab_lock]);
        assert!(both(right, &locks.1).is_empty());
        let features = right.replace(
            "serde = \"1\"",
            "serde = { version = \"1\", features = [] }",
        );
        let found = both(&features, &locks.1);
        assert!(
            found.len() == 1 && format!("{found:?}").contains("`serde"),
            "{found:?}"
        );
        let profile = right.replace("opt-level = 0", "opt-level = 1");
        assert_eq!(both(&profile, &locks.1).len(), 1);
        let newer = lock(&[("serde", "1.0.2"), ("sha2", "0.11.1")]);
        let found = both(right, &newer);
        assert!(
            found.len() == 1 && format!("{found:?}").contains("1.0.2"),
            "{found:?}"
        );
    }
}
