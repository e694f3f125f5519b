//! The settings of a run's connections.
//!
//! Must not know: the options of the command line.

use std::path::PathBuf;

use lab_kit::target::{Table, TargetError};
use mongodb::options::{Acknowledgment, WriteConcern};

/// The settings of a run's connections.
pub(crate) struct MongoSettings<'a> {
    /// The server's address.
    pub(crate) target: &'a str,
    /// The database of the tables, or the first of several.
    pub(crate) database: &'a str,
    /// Number of databases; the tables are assigned to them in turn.
    pub(crate) databases: u32,
    pub(crate) tables: Vec<Table>,
    /// The number of connections in use at the same time.
    pub(crate) clients: u32,
    /// Whether existing tables may be dropped.
    pub(crate) may_drop: bool,
    pub(crate) write_concern: Option<&'a str>,
    pub(crate) journal: Option<bool>,
    /// The address of the server that the user's program copies to.
    pub(crate) copy: Option<&'a str>,
    pub(crate) data_dir: Option<PathBuf>,
}

impl MongoSettings<'_> {
    /// The requested write concern, in the driver's form.
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
                "writes with write concern 0 are not acknowledged, so they cannot be counted"
                    .to_owned();
            return Err(TargetError::Refused {
                what: "--write-concern 0".to_owned(),
                reason,
            });
        }
        Ok(Some(out))
    }
}
