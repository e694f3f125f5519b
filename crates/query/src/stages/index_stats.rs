//! `$indexStats: {}`: one document per index. Errors: 28803 for any other argument.

use super::listed::{ListingStage, resolve_view};
use crate::stage::{ApiClass, PipelineSource, Placement, StageNeeds, StageOp, Subject, one};
use model::{bail, code};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$indexStats",
    api: ApiClass::Outside,
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.add_server_facts(Subject::IndexStatistics);
        Ok(())
    }),
    placement: Placement::FIRST,
    parse: |scx, name, arg| {
        if !arg.as_doc().is_some_and(|d| d.is_empty()) {
            bail!(
                28803,
                "The {name} stage specification must be an empty object, not {arg}"
            );
        }
        let PipelineSource::Collection(ns) = scx.options.target.clone() else {
            bail!(
                code::INVALID_NAMESPACE,
                "{name} is only valid on a collection"
            );
        };
        one(ListingStage::new(model::doc! { name: arg }, move |host| {
            host.index_stats(&resolve_view(host, ns.clone(), name)?)
        }))
    },
}];
