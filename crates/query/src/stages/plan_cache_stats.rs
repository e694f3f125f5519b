//! `$planCacheStats: {allHosts}`: one document per cached plan. Errors: 9 no object or another
//! option, 13111 `allHosts` no boolean, 4503200 all hosts asked of a single server, 50933 when the
//! collection is missing.

use super::listed::{ListingStage, resolve_view};
use crate::exec::ResolvedNamespace;
use crate::stage::{ApiClass, PipelineSource, Placement, StageNeeds, StageOp, Subject, one};
use model::{Value, bail, code};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$planCacheStats",
    api: ApiClass::Outside,
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.add_server_facts(Subject::CachedPlans);
        Ok(())
    }),
    placement: Placement::FIRST,
    parse: |scx, name, arg| {
        let Value::Document(spec) = arg else {
            bail!(
                code::FAILED_TO_PARSE,
                "{name} value must be an object, found {}",
                arg.type_name()
            );
        };
        let all = spec.field("allHosts");
        if !all.is_missing() && all.as_bool().is_none() {
            bail!(
                13111,
                "wrong type for field (allHosts): {} is not a boolean",
                all.type_name()
            );
        }
        if let Some((other, _)) = spec.iter().find(|(option, _)| *option != "allHosts") {
            bail!(
                code::FAILED_TO_PARSE,
                "{name} takes no option but 'allHosts', found '{other}'"
            );
        }
        if all.truthy() {
            bail!(
                4503200,
                "{name} cannot ask all hosts: this is a single server"
            );
        }
        let PipelineSource::Collection(ns) = scx.options.target.clone() else {
            bail!(
                code::INVALID_NAMESPACE,
                "{name} is only valid on a collection"
            );
        };
        one(ListingStage::new(model::doc! { name: arg }, move |host| {
            let ns = resolve_view(host, ns.clone(), name)?;
            if matches!(host.resolve(&ns)?, ResolvedNamespace::Missing) {
                bail!(50933, "collection '{ns}' does not exist");
            }
            host.plan_cache_stats(&ns)
        }))
    },
}];
