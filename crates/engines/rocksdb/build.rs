//! Compiles the file systems below RocksDB, with the headers and options of its archive.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};

const SOURCES: [&str; 2] = ["encrypted_fs", "watched_fs"];

fn main() {
    // Read at run time: clones at different paths may share a folder of build output.
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let source = |name: &str| here.join("shim").join(name).with_extension("cc");
    for name in SOURCES {
        println!("cargo::rerun-if-changed={}", source(name).display());
    }
    let script = here.join("../../../scripts/natives.sh");
    println!("cargo::rerun-if-changed={}", script.display());
    let sources = Command::new(&script)
        .arg("sources")
        .stderr(Stdio::inherit())
        .output();
    let folder = match sources {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).ok(),
        _ => None,
    };
    let Some(folder) = folder else {
        fail("scripts/natives.sh does not find the headers of RocksDB")
    };
    let include = Path::new(folder.trim()).join("rocksdb/include");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let object = |name: &str| out.join(name).with_extension("o");
    for name in SOURCES {
        // The same options as for the archive in natives/rocksdb/rocksdb.mk, which has no run-time
        // type information.
        run(Command::new("c++")
            .args(["-O2", "-std=c++20", "-fPIC", "-fno-rtti", "-w"])
            .args(["-include", "cstdint", "-DNDEBUG", "-DOS_LINUX"])
            .args(["-DROCKSDB_PLATFORM_POSIX", "-DROCKSDB_LIB_IO_POSIX"])
            .arg("-I")
            .arg(&include)
            .arg("-c")
            .arg(source(name))
            .arg("-o")
            .arg(object(name)));
    }
    let archive = out.join("libquarry_file_systems.a");
    // `ar` would add to an existing archive.
    let _ = std::fs::remove_file(&archive);
    run(Command::new("ar")
        .arg("crsD")
        .arg(&archive)
        .args(SOURCES.map(object)));
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=quarry_file_systems");
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        _ => fail("the compiler failed, see above"),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("error: the file systems of RocksDB: {why}");
    exit(1)
}
