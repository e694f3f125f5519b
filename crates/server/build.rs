//! Gives the release build its commit, for `buildInfo`. Other builds do not read it, so that a
//! commit does not recompile them. Without a checkout `QUARRY_GIT_VERSION` sets it.

use std::env::var;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=QUARRY_GIT_VERSION");
    let is_release = var("PROFILE").is_ok_and(|profile| profile == "release");
    let revision = match var("QUARRY_GIT_VERSION") {
        Ok(given) => Some(given),
        Err(_) if is_release => revision_of_checkout(),
        Err(_) => None,
    };
    let revision = revision.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env=QUARRY_REVISION={revision}");
}

/// The checked-out commit; cargo runs this again when it changes.
fn revision_of_checkout() -> Option<String> {
    for file in ["HEAD", "logs/HEAD"] {
        println!(
            "cargo:rerun-if-changed={}",
            git(&["rev-parse", "--git-path", file])?
        );
    }
    git(&["rev-parse", "HEAD"])
}

/// The output of git, if it is one line; `None` without git or a checkout.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !line.trim().is_empty()).then(|| line.trim().to_owned())
}
