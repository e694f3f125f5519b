//! `quarry-lab agent`: reports to a lab on another machine which resources a process here uses, and
//! with `--load` also generates load for the lab (`load`).
//!
//! Promises: only a lab that knows the token gets an answer. The token is never sent: the lab
//! proves its knowledge with a fresh number, and the proof is compared in constant time. Requests
//! are one short line each, connections are few, and a silent client is disconnected. Figures are
//! not encrypted: do not send them over networks that others can read. Messages about load are
//! encrypted.

mod client;
mod server;

use std::path::{Path, PathBuf};

pub(crate) use client::{Agent, AgentProcess};
pub(crate) use server::run;

use crate::errors::LabError;

/// The smallest length of a token in bytes, so that it cannot be guessed.
const TOKEN_MIN: usize = 16;
/// The largest length of a token file; a larger file is not a token file.
const TOKEN_MAX: u64 = 4_096;

/// Options of the agent.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AgentArguments {
    /// Address to listen on; port 0 takes any free port
    #[arg(long, value_name = "HOST:PORT")]
    listen: String,
    /// File with a secret of at least 16 bytes, the same as that of --agent-token-file where the
    /// lab runs
    #[arg(long, value_name = "FILE")]
    token_file: PathBuf,
    /// Also generate load against the targets of a lab that runs with --load-agent
    #[arg(long)]
    load: bool,
}

/// Reads the secret from a file, without the end of line.
pub(crate) fn token(path: &Path) -> Result<Vec<u8>, LabError> {
    let failed = |reason: String| LabError::Agent(format!("{}: {reason}", path.display()));
    let length = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
    if length.len() > TOKEN_MAX {
        return Err(failed(format!(
            "a token must have at most {TOKEN_MAX} bytes"
        )));
    }
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let token = bytes.trim_ascii();
    if token.len() < TOKEN_MIN {
        return Err(failed(format!(
            "a token must have at least {TOKEN_MIN} bytes"
        )));
    }
    Ok(token.to_vec())
}
