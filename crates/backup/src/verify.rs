//! Reads and checks everything that is stored: every piece of every backup, once.

use crate::error::Result;
use crate::pace::Pace;
use crate::repository::Repository;
use crate::{ProgressCallback, ProgressEvent};
use std::collections::HashSet;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyResult {
    /// Number of backups checked.
    pub backups: u64,
    /// Number of different pieces.
    pub pieces: u64,
    /// Number of segments of the log; checked only together with all backups.
    pub segments: u64,
    /// Number of bytes read.
    pub bytes: u64,
    /// One line per file that is missing, truncated or altered; empty when everything is intact.
    pub findings: Vec<String>,
}

/// Reads one backup, or all of them (`None`), and checks every digest.
///
/// # Errors
/// There is no such backup. Damage in a backup is a finding, not an error.
pub fn verify(
    repository: &Repository,
    id: Option<&str>,
    pace: &mut Pace,
    watch: &mut ProgressCallback<'_>,
) -> Result<VerifyResult> {
    let ids = match id {
        Some(id) => vec![id.to_owned()],
        None => repository.ids()?,
    };
    let known = repository.ids()?;
    let mut found = VerifyResult::default();
    let mut seen = HashSet::new();
    for id in ids {
        let manifest = match repository.manifest(Some(&id)) {
            Ok(manifest) => manifest,
            Err(e) if known.contains(&id) => {
                found.findings.push(e.to_string());
                continue;
            }
            Err(e) => return Err(e),
        };
        found.backups += 1;
        for file in &manifest.files {
            for piece in file.pieces.iter().filter(|p| seen.insert(p.sha256)) {
                let mut stopped = Ok(());
                let read = repository.read_piece(piece, &file.path, &mut |part| {
                    pace.spend(part.len() as u64);
                    stopped = watch(ProgressEvent::Moved(part.len() as u64));
                    stopped.clone()
                });
                stopped?;
                match read {
                    Ok(()) => found.bytes += piece.bytes,
                    Err(e) => found.findings.push(format!("backup {id}: {e}")),
                }
                found.pieces += 1;
            }
        }
    }
    if id.is_none() {
        verify_log(repository, pace, watch, &mut found)?;
    }
    Ok(found)
}

fn verify_log(
    repository: &Repository,
    pace: &mut Pace,
    watch: &mut ProgressCallback<'_>,
    found: &mut VerifyResult,
) -> Result<()> {
    for segment in repository.segments()? {
        match repository.read_segment(&segment) {
            Ok(None) => continue,
            Ok(Some(bytes)) => {
                let bytes = bytes.len() as u64;
                pace.spend(bytes);
                watch(ProgressEvent::Moved(bytes))?;
                found.bytes += bytes;
            }
            Err(e) => found.findings.push(e.to_string()),
        }
        found.segments += 1;
    }
    Ok(())
}
