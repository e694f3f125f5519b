//! A summary of the whole recording before it is replayed.

use lab_kit::result::RecordingFacts;

use super::arguments::ReplayArguments;
use super::source::Selection;
use crate::credentials::hide_password;
use crate::errors::LabError;
use crate::record::file::{Reader, Record};

/// A summary of the whole recording.
pub(super) struct RecordingSummary {
    pub(super) facts: RecordingFacts,
    /// Operations that will be replayed, in one pass.
    pub(super) wanted: u64,
}

pub(super) fn summary(arguments: &ReplayArguments) -> Result<RecordingSummary, LabError> {
    let mut reader = Reader::open(&arguments.file)?;
    let (mut ops, mut last_ns, mut first_ns) = (0, 0, None);
    let mut selection = Selection::of(arguments);
    while let Some(record) = reader.next()? {
        if let Record::Command(command_record) = record {
            ops += 1;
            last_ns = command_record.at_ns;
            first_ns.get_or_insert(command_record.at_ns);
            let _ = selection.take(&command_record);
        }
    }
    if selection.taken == 0 {
        return Err(LabError::Replay(format!(
            "{} holds {ops} operations, and --ops, --skip, --start and --max-ops leave none of \
             them",
            arguments.file.display()
        )));
    }
    let facts = RecordingFacts {
        file: arguments
            .file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        fingerprint: format!("{:08x}", reader.fingerprint),
        started_at: reader.header.started_at.clone(),
        upstream: hide_password(&reader.header.upstream),
        anonymised: reader.header.anonymised,
        ops,
        seconds: (last_ns - first_ns.unwrap_or(last_ns)) as f64 / 1e9,
        cut: reader.cut,
    };
    Ok(RecordingSummary {
        facts,
        wanted: selection.taken,
    })
}
