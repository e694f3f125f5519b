//! RocksDB has three sources that must have the same version: the bindings in the repository, the
//! package whose sources are compiled, and the crate that the workspace links.

use super::finding::Finding;

const PACKAGE: &str = "rust-librocksdb-sys";
/// The lock file of the workspace.
pub(super) const WORKSPACE_LOCK: &str = "Cargo.lock";
/// Fixes the version of the package whose sources are compiled.
pub(super) const SOURCES_LOCK: &str = "natives/rocksdb/Cargo.lock";
/// The bindings in the repository.
pub(super) const BINDINGS: &str = "natives/rocksdb-sys/src/bindings.rs";

/// Compares the two lock files and the first line of the bindings, which names the version they
/// were generated from.
pub(super) fn check(workspace_lock: &str, sources_lock: &str, bindings: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some((pinned, _)) = package(sources_lock) else {
        findings.push(Finding::new(
            SOURCES_LOCK,
            0,
            format!("does not pin `{PACKAGE}`, whose sources are compiled"),
        ));
        return findings;
    };
    match package(workspace_lock) {
        None => findings.push(Finding::new(
            WORKSPACE_LOCK,
            0,
            format!("has no `{PACKAGE}`"),
        )),
        Some((_, from_registry)) if from_registry => {
            let message = format!(
                "takes `{PACKAGE}` from the registry: the patch by natives/rocksdb-sys is not used"
            );
            findings.push(Finding::new(WORKSPACE_LOCK, 0, message));
        }
        Some((linked, _)) if linked != pinned => {
            let message = format!("has `{PACKAGE}` {linked}, {SOURCES_LOCK} pins {pinned}");
            findings.push(Finding::new(WORKSPACE_LOCK, 0, message));
        }
        Some(_) => {}
    }
    let head = bindings.lines().next().unwrap_or("");
    if !head.ends_with(&format!("from {PACKAGE} {pinned}.")) {
        let message =
            format!("is not generated from {PACKAGE} {pinned}; run scripts/rocksdb-bindings.sh");
        findings.push(Finding::new(BINDINGS, 1, message));
    }
    findings
}

/// The version in a lock file, and whether it comes from the registry.
fn package(lock: &str) -> Option<(&str, bool)> {
    let entry = lock
        .split("[[package]]")
        .find(|entry| entry.contains(&format!("name = \"{PACKAGE}\"")))?;
    let version = entry
        .lines()
        .find_map(|line| line.strip_prefix("version = "))?;
    Some((version.trim_matches('"'), entry.contains("\nsource = ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(version: &str, source: &str) -> String {
        format!(
            "[[package]]\nname = \"libc\"\nversion = \"0.2\"\nsource = \"r\"\n\n\
             [[package]]\nname = \"{PACKAGE}\"\nversion = \"{version}\"\n{source}"
        )
    }

    fn complaints(workspace: &str, sources: &str, bindings: &str) -> Vec<String> {
        check(workspace, sources, bindings)
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    const REGISTRY: &str = "source = \"registry\"\n";
    const HEAD: &str = "//! Generated from rust-librocksdb-sys 1.2.\nfn f() {}\n";

    #[test]
    fn one_version_passes() {
        assert_eq!(
            complaints(&lock("1.2", ""), &lock("1.2", REGISTRY), HEAD),
            Vec::<String>::new()
        );
    }

    #[test]
    fn each_difference_is_found() {
        let cases = [
            (
                lock("1.1", ""),
                lock("1.2", REGISTRY),
                HEAD,
                "Cargo.lock: has `rust-librocksdb-sys` 1.1, ",
            ),
            (
                lock("1.2", REGISTRY),
                lock("1.2", REGISTRY),
                HEAD,
                "Cargo.lock: takes `rust-librocksdb-sys` from the registry",
            ),
            (
                String::new(),
                lock("1.2", REGISTRY),
                HEAD,
                "Cargo.lock: has no `rust-librocksdb-sys`",
            ),
            (
                lock("1.2", ""),
                String::new(),
                HEAD,
                "natives/rocksdb/Cargo.lock: does not pin",
            ),
            (
                lock("1.2", ""),
                lock("1.2", REGISTRY),
                "//! Generated from rust-librocksdb-sys 1.1.\n",
                "is not generated from",
            ),
        ];
        for (workspace, sources, bindings, expected) in cases {
            let complaints = complaints(&workspace, &sources, bindings);
            assert!(
                complaints.len() == 1 && complaints[0].contains(expected),
                "{expected}: {complaints:?}"
            );
        }
    }
}
