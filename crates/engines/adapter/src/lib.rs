//! From an adapter's text in C to functions that can be called: the C compiler of the user's
//! machine against the header of the user's own library, then the loader. So the offsets of every
//! version are the compiler's business, and no licence of a library reaches this program.
//!
//! Promises: one clear line when compiler, header or library is absent, or when this program is a
//! static file, which cannot load one. Must not know: which library it is, what the functions do.

use std::path::Path;
use std::process::Command;

use libloading::Library;

const SOURCE: &str = "adapter.c";

/// A static program that loads a library gets a second C library, which nobody has prepared: the
/// first thread that it starts ends the process.
const STATIC: bool = cfg!(target_feature = "crt-static");

/// What an adapter is made of.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    /// The library in words, for messages.
    pub engine: &'a str,
    /// The adapter's text in C.
    pub source: &'a str,
    /// The text it includes as `adapter.h`.
    pub header: &'a str,
    /// The directory of the library's header; the compiler's own places without it.
    pub include: Option<&'a str>,
    /// The shared library: a path, or a name that the linker finds.
    pub library: &'a str,
    /// What to do when it cannot be made.
    pub advice: &'a str,
}

impl Spec<'_> {
    /// Why it cannot be made, in one line.
    pub fn failed(&self, reason: &str) -> String {
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        format!(
            "{}'s header or library {} cannot be used ({reason}); {}",
            self.engine, self.library, self.advice
        )
    }

    /// Compiles the adapter and loads it. Its files are gone afterwards: what is loaded stays
    /// loaded.
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
        let failed = |reason: &str| self.failed(reason);
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

/// The line of the compiler's complaint that says why.
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
