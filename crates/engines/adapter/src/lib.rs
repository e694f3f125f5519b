//! Compiles and loads an adapter written in C: the C compiler of the user's machine compiles it
//! against the header of the user's own library. So the compiler handles the layouts of every
//! version of the library, and no part of the library is distributed with this program.
//!
//! Promises: one clear line when compiler, header or library is missing, or when this program is
//! statically linked and cannot load a library. Must not know: which library it is, what the
//! functions do.

use std::path::Path;
use std::process::Command;

use libloading::Library;

const SOURCE: &str = "adapter.c";

/// A statically linked program that loads a library gets a second, uninitialised C library: the
/// first thread that it starts ends the process.
const STATIC: bool = cfg!(target_feature = "crt-static");

/// The parts of an adapter.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// The name of the library for messages.
    pub engine: &'a str,
    /// The C source of the adapter.
    pub source: &'a str,
    /// The text that it includes as `adapter.h`.
    pub header: &'a str,
    /// The directory of the library's header; without it the compiler searches its default
    /// directories.
    pub include: Option<&'a str>,
    /// The shared library: a path, or a name that the linker finds.
    pub library: &'a str,
    /// What the user can do when the adapter cannot be made.
    pub advice: &'a str,
}

impl Spec<'_> {
    /// The message that the adapter cannot be made, in one line.
    pub fn failure_message(&self, reason: &str) -> String {
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        format!(
            "{}'s header or library {} cannot be used ({reason}); {}",
            self.engine, self.library, self.advice
        )
    }

    /// Compiles the adapter and loads it. Its files are deleted afterwards; the loaded code remains
    /// in memory.
    ///
    /// # Errors
    /// There is no compiler, header or library, or this program is a static file.
    pub fn load(&self) -> Result<Library, String> {
        if STATIC {
            return Err(format!(
                "{} is not available in this program, a static file that loads no libraries; \
                 build Quarry from source (make build) to use it",
                self.engine
            ));
        }
        let failed = |reason: &str| self.failure_message(reason);
        let directory = tempfile::tempdir().map_err(|error| failed(&error.to_string()))?;
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text)
                .map_err(|error| failed(&error.to_string()))
        };
        write("adapter.h", self.header)?;
        write(SOURCE, self.source)?;
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let out = directory.path().join("adapter.so");
        let mut command = self.command(&compiler, directory.path());
        let ran = command.arg("-o").arg(&out).output();
        let ran = ran.map_err(|error| {
            failed(&format!(
                "no C compiler: {compiler}: {error}; CC names another"
            ))
        })?;
        if !ran.status.success() {
            return Err(failed(&reason(&String::from_utf8_lossy(&ran.stderr))));
        }
        // SAFETY: opening runs start-up code of the adapter (none) and of the library that the user
        // named.
        unsafe { Library::new(&out) }.map_err(|error| failed(&error.to_string()))
    }

    fn command(&self, compiler: &str, directory: &Path) -> Command {
        let mut words = compiler.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or("cc"));
        command
            .args(words)
            .args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-Wl,-z,defs"]);
        command.arg("-I").arg(directory);
        if let Some(include) = self.include {
            command.arg("-I").arg(include);
        }
        command.arg(directory.join(SOURCE));
        let library = Path::new(self.library);
        let parent = library.parent().filter(|p| !p.as_os_str().is_empty());
        match parent {
            None => command.arg(format!("-l:{}", self.library)),
            Some(parent) => {
                let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
                let library = library.canonicalize();
                command
                    .arg(library.unwrap_or_else(|_| self.library.into()))
                    .arg(format!("-Wl,-rpath,{}", parent.display()))
            }
        };
        command
    }
}

/// The line of the compiler's output that gives the reason.
fn reason(complaint: &str) -> String {
    let tells = |line: &&str| {
        [
            "error:",
            "cannot find",
            "undefined reference",
            "No such file",
        ]
        .iter()
        .any(|word| line.contains(word))
    };
    let line = complaint
        .lines()
        .find(tells)
        .or_else(|| complaint.lines().next())
        .unwrap_or("the compiler failed");
    line.rsplit_once(SOURCE)
        .map_or(line, |(_, rest)| rest)
        .trim_start_matches(':')
        .to_owned()
}
