//! Compiles the file system that encrypts, with the headers and options of the archive of RocksDB.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};

const SOURCE: &str = "shim/encrypted_fs.cc";

fn main() {
    // Asked at run time: a folder of build output may be shared by clones at other places.
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo::rerun-if-changed={}", here.join(SOURCE).display());
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
    let object = out.join("encrypted_fs.o");
    // As natives/rocksdb/rocksdb.mk compiles the archive, which has no run-time type information.
    run(Command::new("c++")
        .args(["-O2", "-std=c++20", "-fPIC", "-fno-rtti", "-w"])
        .args(["-include", "cstdint", "-DNDEBUG", "-DOS_LINUX"])
        .args(["-DROCKSDB_PLATFORM_POSIX", "-DROCKSDB_LIB_IO_POSIX"])
        .arg("-I")
        .arg(include)
        .arg("-c")
        .arg(here.join(SOURCE))
        .arg("-o")
        .arg(&object));
    let archive = out.join("libquarry_encrypted_fs.a");
    // `ar` adds to an archive that is there.
    let _ = std::fs::remove_file(&archive);
    run(Command::new("ar").arg("crsD").arg(&archive).arg(&object));
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=quarry_encrypted_fs");
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        _ => fail("the compiler failed, see above"),
    }
}

fn fail(why: &str) -> ! {
    eprintln!("error: the encrypting file system of RocksDB: {why}");
    exit(1)
}
