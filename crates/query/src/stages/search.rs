//! Stages of a search server that is not there: known by name and refused. Errors: 31082
//! SearchNotEnabled.

use crate::stage::{ApiClass, Placement, Stage, StageContext, StageNeeds, StageOp, Subject};
use model::{Result, Value, bail};
use std::sync::Arc;

const fn refused(name: &'static str, needs: StageNeeds) -> StageOp {
    StageOp {
        name,
        needs,
        api: ApiClass::Outside,
        placement: Placement {
            first: true,
            in_facet: false,
            ..Placement::ANYWHERE
        },
        parse,
    }
}

pub(super) static STAGES: &[StageOp] = &[
    refused("$search", StageNeeds::Nothing),
    refused("$searchBeta", StageNeeds::Nothing),
    refused("$searchMeta", StageNeeds::Nothing),
    refused("$vectorSearch", StageNeeds::Nothing),
    refused(
        "$listSearchIndexes",
        StageNeeds::OfSource(|cx, _, _| {
            cx.told(Subject::SearchIndexes);
            Ok(())
        }),
    ),
];

fn parse(
    _: &mut StageContext<'_, '_>,
    name: &'static str,
    _: Value<'_>,
) -> Result<Vec<Arc<dyn Stage>>> {
    bail!(
        31082,
        "{name} needs a search server, and none is configured. Full-text search is available as \
            $text"
    )
}
