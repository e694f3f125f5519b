//! The settings of a run's connections.
//!
//! Must not know: which options of a command line say so.

use std::path::PathBuf;

use lab_kit::target::{Table, TargetError};
use mongodb::options::{Acknowledgment, WriteConcern};

/// The settings of a run's connections.
pub(crate) struct MongoSettings<'a> {
    /// The server's address.
    pub(crate) target: &'a str,
    /// Where the tables lie, or the first of such databases.
    pub(crate) database: &'a str,
    /// How many databases the tables lie in, in turn.
    pub(crate) databases: u32,
    pub(crate) tables: Vec<Table>,
    /// How many connections are in use at once.
    pub(crate) clients: u32,
    /// Whether tables that are there may be dropped.
    pub(crate) may_drop: bool,
    pub(crate) write_concern: Option<&'a str>,
    pub(crate) journal: Option<bool>,
    /// Where the user's program copies to.
    pub(crate) copy: Option<&'a str>,
    pub(crate) data_dir: Option<PathBuf>,
}

impl MongoSettings<'_> {
    /// The write concern asked for, in the driver's form.
    pub(super) fn write_concern(&self) -> Result<Option<WriteConcern>, TargetError> {
        if self.write_concern.is_none() && self.journal.is_none() {
            return Ok(None);
        }
        let mut out = WriteConcern::default();
        out.journal = self.journal;
        out.w = self.write_concern.map(|text| match text.parse::<u32>() {
            Ok(nodes) => Acknowledgment::Nodes(nodes),
            Err(_) if text == "majority" => Acknowledgment::Majority,
            Err(_) => Acknowledgment::Custom(text.to_owned()),
        });
        if out.w == Some(Acknowledgment::Nodes(0)) {
            let reason =
                "write concern 0 is not acknowledged, so nothing could be counted".to_owned();
            return Err(TargetError::Refused {
                what: "--write-concern 0".to_owned(),
                reason,
            });
        }
        Ok(Some(out))
    }
}
