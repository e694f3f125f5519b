//! `$backupCursor: {}`: the files of a snapshot of all data, which do not change while the cursor
//! is open; only on the admin database. The first document describes the snapshot, then comes one
//! per file. The cursor stays open at its end. Errors: 14 no object, 40415 an option, 73 elsewhere,
//! those of [`Host::open_backup`](crate::exec::Host::open_backup).

use super::listed::require_admin;
use crate::exec::{BatchStream, ExecContext};
use crate::stage::{
    ApiClass, Placement, Report, RequiredPrivilege, Stage, StageNeeds, StageOp, one,
};
use model::{Doc, DocBuf, Result, Value, bail, code};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$backupCursor",
    api: ApiClass::Outside,
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.add(RequiredPrivilege::Server(Report::Files));
        Ok(())
    }),
    placement: Placement {
        in_lookup: false,
        in_union: false,
        ..Placement::DATABASE
    },
    parse: |scx, name, arg| {
        let Value::Document(spec) = arg else {
            bail!(
                code::TYPE_MISMATCH,
                "{name} takes an object, found: {}",
                arg.type_name()
            );
        };
        require_admin(scx, name)?;
        check(name, spec)?;
        one(BackupCursor)
    },
}];

/// Other servers have options for parts of files; here the tool that copies the files finds those
/// that did not change.
fn check(name: &str, spec: Doc<'_>) -> Result<()> {
    match spec.first() {
        None => Ok(()),
        Some((option, _)) => bail!(
            40415,
            "BSON field '{name}.{option}' is not supported: {name} takes no options"
        ),
    }
}

struct BackupCursor;

impl Stage for BackupCursor {
    fn open(
        self: Arc<Self>,
        _: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        exec.host.open_backup()
    }

    fn describe(&self) -> DocBuf {
        model::doc! { "$backupCursor": {} }
    }

    fn makes_documents(&self) -> bool {
        true
    }

    fn holds_open(&self) -> bool {
        true
    }
}
