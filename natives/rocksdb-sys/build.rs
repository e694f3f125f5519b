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
    // Asked at run time: a folder of build output may be shared by clones at other places.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default();
    let root = Path::new(&here).join("../..");
    let script = root.join("scripts/natives.sh");
    for input in INPUTS {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    for variable in [
        "QUARRY_CACHE",
        "QUARRY_NATIVES_PROFILE",
        "XDG_CACHE_HOME",
        "HOME",
    ] {
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
    link_cxx_runtime();
}

/// The C++ runtime: shared as everywhere, or in the binary when it is to need no library at all.
fn link_cxx_runtime() {
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if !features.split(',').any(|f| f == "crt-static") {
        println!("cargo::rustc-link-lib=dylib=stdc++");
        return;
    }
    let asked = Command::new("c++")
        .arg("-print-file-name=libstdc++.a")
        .output();
    let path = asked.ok().and_then(|o| String::from_utf8(o.stdout).ok());
    match path.as_deref().map(|p| Path::new(p.trim_end()).parent()) {
        Some(Some(folder)) if folder.is_absolute() => {
            println!("cargo::rustc-link-search=native={}", folder.display());
            println!("cargo::rustc-link-lib=static:-bundle=stdc++");
        }
        _ => fail("the C++ compiler has no libstdc++.a, which a static binary needs"),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("error: no archive of RocksDB: {why}");
    exit(1)
}
