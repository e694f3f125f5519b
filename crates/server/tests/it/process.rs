//! Starts the real binary. Must not know: what it is used for.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command};

/// Starts a server whose standard output is a pipe; returns the address it listens on.
pub(crate) fn start_listening(command: &mut Command) -> (Child, String) {
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let Some(address) = address(&line) else {
        let errors = child.stderr.take().map(std::io::read_to_string);
        panic!(
            "{line}{}",
            errors.map_or(String::new(), |text| text.unwrap())
        );
    };
    // Keeps the pipe open to the end.
    child.stdout = Some(out.into_inner());
    (child, address)
}

/// The address in the line that a server prints when it listens.
pub(crate) fn address(line: &str) -> Option<String> {
    let rest = line.split_once("listening on mongodb://")?.1;
    Some(rest.split([',', ' ']).next()?.to_owned())
}
