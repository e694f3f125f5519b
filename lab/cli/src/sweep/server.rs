//! The own server of a run, if it has one.

use std::path::Path;

use super::expand::{OWN_SCHEME, option, replace_option};
use super::own::{OwnServer, OwnSpec};
use crate::errors::LabError;
use crate::run::RunArguments;

/// The name of a run's own server, if it has one.
pub(super) fn own_name(words: &[String]) -> Option<&str> {
    option(words, "--target")?.strip_prefix(OWN_SCHEME)
}

/// Starts the own server of a run, if it has one, and returns the words of the run with the
/// server's address. The server runs until the returned value is dropped.
pub(super) fn with_server(
    folder: &Path,
    words: &[String],
    keep: bool,
) -> Result<(Vec<String>, Option<OwnServer>), LabError> {
    let Some(name) = own_name(words) else {
        return Ok((words.to_vec(), None));
    };
    let parsed = RunArguments::parse_words(words.get(1..).unwrap_or_default());
    let arguments = parsed.unwrap_or_else(|error| error.exit());
    let spec = OwnSpec::parse(name).map_err(LabError::Words)?;
    let server = spec.start(&arguments, folder, keep)?;
    let mut out = replace_option(words, "--target", &server.address);
    out.extend(["--label".to_owned(), format!("own={}", server.label)]);
    if let (Some(command), None) = (&server.restart_command, &arguments.restart_command) {
        out.extend(["--restart-command".to_owned(), command.clone()]);
    }
    Ok((out, Some(server)))
}
