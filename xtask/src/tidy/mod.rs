//! Reads the repository and applies the rules. The rules themselves are pure functions over text.

mod adr;
mod edges;
mod finding;
mod limits;
mod links;
mod modules;
mod natives;
mod source;
mod tables;
mod text;
mod workspaces;

use std::path::Path;
use std::process::Command;

use finding::Finding;
pub(crate) use limits::Measured;

/// Copies of libraries, whose sources follow the rules of others.
const FOREIGN: &str = "third_party/";

/// Patches that must apply to the code as it is; `scripts/mutants.sh` applies them.
const MUTANTS: &str = "crates/proof/mutants/";

/// The result of one pass.
pub(crate) struct Summary {
    pub(crate) crates: usize,
    pub(crate) files: usize,
    pub(crate) measured: Measured,
    pub(crate) findings: Vec<Finding>,
}

/// Checks the repository at `root`.
///
/// # Errors
/// A sentence if git, cargo or ARCHITECTURE.md cannot be read.
pub(crate) fn check(root: &Path) -> Result<Summary, String> {
    let mut findings = Vec::new();
    let architecture = std::fs::read_to_string(root.join(edges::TABLE_FILE))
        .map_err(|e| format!("{}: {e}", edges::TABLE_FILE))?;
    let mut packages = Vec::new();
    for manifest in [workspaces::MANIFEST, workspaces::LAB_MANIFEST] {
        packages.extend(members(root, manifest)?);
    }
    findings.extend(edges::check(&architecture, &packages));

    let read =
        |name: &str| std::fs::read_to_string(root.join(name)).map_err(|e| format!("{name}: {e}"));
    let locks = (read(natives::WORKSPACE_LOCK)?, read(natives::SOURCES_LOCK)?);
    let lab_lock = read(workspaces::LAB_LOCK)?;
    let bindings = read(natives::BINDINGS)?;
    for workspace_lock in [&locks.0, &lab_lock] {
        findings.extend(natives::check(workspace_lock, &locks.1, &bindings));
    }
    let manifests = [read(workspaces::MANIFEST)?, read(workspaces::LAB_MANIFEST)?];
    findings.extend(workspaces::check(
        [&manifests[0], &manifests[1]],
        [&locks.0, &lab_lock],
    ));

    let listing = output(
        root,
        "git",
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    )?;
    let listing = String::from_utf8(listing).map_err(|e| e.to_string())?;
    let names: Vec<&str> = listing
        .split('\0')
        .filter(|name| !name.is_empty())
        .collect();
    findings.extend(adr::check(&read(adr::INDEX)?, &names));
    let mut files = 0;
    let mut measured = Measured::default();
    for name in names {
        if name.starts_with(FOREIGN) {
            continue;
        }
        // A file that was deleted but is still in the index cannot be read.
        let Ok(bytes) = std::fs::read(root.join(name)) else {
            continue;
        };
        files += 1;
        match String::from_utf8(bytes) {
            Ok(content) => {
                findings.extend(text::check(name, &content));
                findings.extend(tables::check(name, &content));
                if let Err(reason) = measured.add(name, &content, &packages) {
                    findings.push(Finding::new(name, 0, reason));
                }
                findings.extend(links::check(name, &content, |path| {
                    root.join(path).exists()
                }));
                if name.starts_with(MUTANTS)
                    && let Err(reason) = output(root, "git", &["apply", "--check", name])
                {
                    findings.push(Finding::new(name, 0, reason));
                }
            }
            Err(_) if name.ends_with(".rs") => findings.push(Finding::new(name, 0, "is not UTF-8")),
            Err(_) => {}
        }
    }
    findings.extend(limits::check(&measured, &read(limits::FILE)?));
    Ok(Summary {
        measured,
        crates: packages.len(),
        files,
        findings,
    })
}

/// The members of a workspace.
fn members(root: &Path, manifest: &str) -> Result<Vec<edges::Package>, String> {
    let words = ["metadata", "--no-deps", "--format-version", "1"];
    let words = [&words[..], &["--manifest-path", manifest]].concat();
    let metadata = output(root, env!("CARGO"), &words)?;
    let metadata = String::from_utf8(metadata).map_err(|e| e.to_string())?;
    let root_text = root
        .to_str()
        .ok_or("the path of the repository is not UTF-8")?;
    edges::packages(&metadata, root_text)
}

fn output(root: &Path, program: &str, words: &[&str]) -> Result<Vec<u8>, String> {
    let ended = Command::new(program)
        .args(words)
        .current_dir(root)
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    if ended.status.success() {
        return Ok(ended.stdout);
    }
    Err(format!(
        "{program} {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&ended.stderr).trim()
    ))
}
