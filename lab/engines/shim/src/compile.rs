//! From an adapter's text to functions that can be called: the C compiler of the user's machine,
//! then the loader.

use std::path::Path;
use std::process::Command;

use lab_kit::engine::EngineError;
use libloading::Library;

use crate::spec::AdapterSpec;

const HEADER: &str = include_str!("adapter.h");
const SOURCE: &str = "adapter.c";

impl AdapterSpec {
    /// Why it cannot be made, in one line.
    pub(crate) fn failed(&self, reason: &str) -> EngineError {
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        EngineError(format!(
            "{}'s header or library cannot be used ({reason}); {}",
            self.engine, self.advice
        ))
    }
}

/// Compiles an adapter and loads it. Its files are gone afterwards: what is loaded stays loaded.
///
/// # Errors
/// There is no compiler, header or library.
pub fn load(adapter_spec: &AdapterSpec) -> Result<Library, EngineError> {
    let failed = |reason: &str| adapter_spec.failed(reason);
    let directory = tempfile::tempdir().map_err(|error| failed(&error.to_string()))?;
    let write = |name: &str, text: &str| {
        std::fs::write(directory.path().join(name), text)
            .map_err(|error| failed(&error.to_string()))
    };
    write("adapter.h", HEADER)?;
    write(SOURCE, adapter_spec.source)?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let out = directory.path().join("adapter.so");
    let ran = command(&compiler, directory.path(), adapter_spec)
        .arg("-o")
        .arg(&out)
        .output();
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

fn command(compiler: &str, directory: &Path, adapter_spec: &AdapterSpec) -> Command {
    let mut words = compiler.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("cc"));
    command
        .args(words)
        .args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-Wl,-z,defs"]);
    command.arg("-I").arg(directory);
    if let Some(include) = &adapter_spec.include {
        command.arg("-I").arg(include);
    }
    command.arg(directory.join(SOURCE));
    let library = Path::new(&adapter_spec.library);
    match library
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        None => command.arg(format!("-l:{}", adapter_spec.library)),
        Some(parent) => {
            let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
            command
                .arg(
                    library
                        .canonicalize()
                        .unwrap_or_else(|_| library.to_owned()),
                )
                .arg(format!("-Wl,-rpath,{}", parent.display()))
        }
    };
    command
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
