//! Tells cargo where the archive of RocksDB is, and has `scripts/natives.sh` build it when the
//! cache has none. It compiles nothing itself and must not know what the archive is made of.

use std::path::Path;
use std::process::{Command, Stdio, exit};

/// What the script reads to name and build the archive.
const INPUTS: [&str; 7] = [
    ".cargo/config.toml",
    "natives/rocksdb/Cargo.lock",
    "natives/rocksdb/Cargo.toml",
    "natives/rocksdb/rocksdb.mk",
    "natives/rocksdb-sys/headers.sha256",
    "scripts/cache.sh",
    "scripts/natives.sh",
];

fn main() {
    // Two levels up: this crate exists only inside the repository.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let script = root.join("scripts/natives.sh");
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    for variable in ["QUARRY_CACHE", "XDG_CACHE_HOME", "HOME"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let ran = Command::new(&script)
        .arg("folder")
        .stderr(Stdio::inherit())
        .output();
    let output = match ran {
        Ok(output) if output.status.success() => output,
        Ok(_) => fail(
            "scripts/natives.sh could not build it, its last line above says why; run it \
            by hand to see all",
        ),
        Err(error) => fail(&format!("{} does not start: {error}", script.display())),
    };
    let folder = String::from_utf8(output.stdout).unwrap_or_else(|_| {
        fail(
            "the path of the cache \
        is not UTF-8",
        )
    });
    let folder = Path::new(folder.trim_end());
    // Built anew when somebody empties the cache.
    println!(
        "cargo::rerun-if-changed={}",
        folder.join("librocksdb.a").display()
    );
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=static=rocksdb");
    println!("cargo::rustc-link-lib=dylib=stdc++");
}

fn fail(why: &str) -> ! {
    eprintln!("error: no archive of RocksDB: {why}");
    exit(1)
}
