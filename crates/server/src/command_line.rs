//! The command line as it is meant: the program may be called as mongod, and options of mongod that
//! Quarry does not have are sorted out. Must not know: what the options do.

use std::ffi::OsString;
use std::path::Path;

use crate::config::leave_out;

/// Options that are allowed without a subcommand.
const ALONE: &[&str] = &["--help", "-h", "--version", "-V"];

/// A command line.
#[derive(Debug, PartialEq, Eq)]
pub struct CommandLine {
    /// The words for the parser, the program's name first.
    pub words: Vec<OsString>,
    /// The program was called as mongod, by a link or a package. Programs that call it so read the
    /// lines that mongod prints to standard output.
    pub as_mongod: bool,
    /// Options of mongod that have no effect here.
    pub without_effect: Vec<String>,
}

impl CommandLine {
    /// Parses the words of the process.
    ///
    /// # Errors
    /// One line: an option of mongod that is refused.
    pub fn of(words: impl Iterator<Item = OsString>) -> Result<CommandLine, String> {
        let mut words: Vec<OsString> = words.collect();
        let program = words.first().map(Path::new).and_then(Path::file_name);
        let program = program.map(|name| name.to_string_lossy().into_owned());
        let as_mongod = program.is_some_and(|name| name == "mongod");
        let first = words.get(1).map(|word| word.to_string_lossy().into_owned());
        let is_option = first.as_deref().is_some_and(|word| word.starts_with('-'));
        let is_whole = first.is_some_and(|word| ALONE.contains(&word.as_str()));
        if !is_whole && (is_option || (as_mongod && words.len() < 2)) {
            words.insert(1.min(words.len()), OsString::from("serve"));
        }
        let serves = words.get(1).is_some_and(|word| word == "serve");
        let without_effect = match serves {
            true => leave_out(&mut words)?,
            false => Vec::new(),
        };
        Ok(CommandLine {
            words,
            as_mongod,
            without_effect,
        })
    }

    /// Whether the command line asks mongod for its version.
    pub fn asks_version_of_mongod(&self) -> bool {
        let asks = |word: &OsString| word == "--version" || word == "-version";
        self.as_mongod && self.words.iter().skip(1).any(asks)
    }
}

/// The version as mongod prints it.
pub fn version_of_mongod() -> String {
    format!(
        "db version v{version}\nBuild Info: {{\n    \"version\": \"{version}\",\n    \
         \"gitVersion\": \"{revision}\",\n    \
         \"quarryVersion\": \"{own}\",\n    \"modules\": [],\n    \"environment\": {{\n        \
         \"distarch\": \"{machine}\",\n        \"target_arch\": \"{machine}\"\n    }}\n}}",
        version = commands::Release::of(commands::Profile::default()).version,
        revision = env!("QUARRY_REVISION"),
        own = env!("CARGO_PKG_VERSION"),
        machine = std::env::consts::ARCH,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> (String, bool) {
        let line = CommandLine::of(line.split(' ').map(OsString::from)).unwrap();
        let words: Vec<_> = line.words.iter().map(|w| w.to_string_lossy()).collect();
        (words.join(" "), line.as_mongod)
    }

    #[test]
    fn a_command_line_of_mongods_serves() {
        for (line, meant) in [
            ("mongod", "mongod serve"),
            ("/usr/bin/mongod --port 1", "/usr/bin/mongod serve --port 1"),
            ("quarry --port 1", "quarry serve --port 1"),
            ("quarry -f x", "quarry serve -f x"),
            ("mongod serve --port 1", "mongod serve --port 1"),
            ("mongod --version", "mongod --version"),
            ("quarry", "quarry"),
            ("quarry --help", "quarry --help"),
            ("quarry convert --from a", "quarry convert --from a"),
            ("quarry sevre", "quarry sevre"),
        ] {
            let as_mongod = line.contains("mongod");
            assert_eq!(parse_line(line), (meant.to_owned(), as_mongod), "{line}");
        }
    }
}
