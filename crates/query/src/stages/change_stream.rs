//! `$changeStream` and `$changeStreamSplitLargeEvent`: known, checked, and refused where there is
//! no change log. Errors: 50808 no object, 40415 unknown field, 40573 on a standalone server,
//! 7182800 a split that follows no change stream.

use super::fields::Fields;
use crate::stage::{Placement, Stage, StageContext, StageOp};
use model::{Result, Value, bail};
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[
    StageOp {
        name: "$changeStream",
        placement: Placement {
            first: true,
            in_facet: false,
            ..Placement::ANYWHERE
        },
        parse,
    },
    StageOp {
        name: "$changeStreamSplitLargeEvent",
        placement: Placement {
            in_facet: false,
            in_lookup: false,
            in_union: false,
            ..Placement::ANYWHERE
        },
        parse: |_, name, _| {
            bail!(
                7182800,
                "{name} can only be used in a $changeStream pipeline"
            )
        },
    },
];

fn parse(
    _: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Vec<Arc<dyn Stage>>> {
    let Value::Document(spec) = arg else {
        bail!(
            50808,
            "{name} stage expects a document as argument, found: {}",
            arg.type_name()
        );
    };
    const KNOWN: &[&str] = &[
        "fullDocument",
        "fullDocumentBeforeChange",
        "resumeAfter",
        "startAfter",
        "startAtOperationTime",
        "allChangesForCluster",
        "showExpandedEvents",
        "showMigrationEvents",
        "showSystemEvents",
        "allowToRunOnConfigDB",
        "allowToRunOnSystemNS",
        "showRawUpdateDescription",
        "ignoreRemovedShards",
        "version",
    ];
    Fields::new(name, spec, KNOWN)?;
    bail!(40573, "The {name} stage is only supported on replica sets")
}
