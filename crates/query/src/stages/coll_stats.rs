//! `$collStats: {latencyStats: {histograms}, storageStats: {...}, count: {}, queryExecStats: {}}`:
//! statistics of a collection. Errors: 5447000 no object, 14 a part that is no object, 31170 fields
//! in `count` or `queryExecStats`, 40415 unknown names, 166 on a view (except latencyStats), and
//! the host's 26.

use super::listed::ListingStage;
use crate::exec::ResolvedNamespace;
use crate::stage::{
    ApiClass, PipelineSource, Placement, StageContext, StageNeeds, StageOp, Subject, one,
};
use model::{Doc, Number, Result, Value, bail, code};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$collStats",
    api: ApiClass::Of(counts_only),
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.add_server_facts(Subject::CollectionStatistics);
        Ok(())
    }),
    placement: Placement::FIRST,
    parse: |scx, name, arg| one(parse(scx, name, arg)?),
}];

/// Version 1 of the stable API has only `count`.
fn counts_only(arg: Value<'_>) -> bool {
    arg.as_doc()
        .is_some_and(|d| d.iter().all(|(name, _)| name == "count"))
}

fn parse(
    scx: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<ListingStage> {
    let Value::Document(spec) = arg else {
        bail!(
            5447000,
            "{name} must take a nested object but found {}: {arg}",
            arg.type_name()
        );
    };
    for (part, v) in spec.iter() {
        check_part(name, part, v)?;
    }
    let PipelineSource::Collection(ns) = scx.options.target.clone() else {
        bail!(
            code::INVALID_NAMESPACE,
            "{name} is only valid on a collection"
        );
    };
    // A part that is null is not wanted.
    let spec = model::DocBuf::build(|w| {
        for (part, v) in spec.iter().filter(|(_, v)| !v.is_nullish()) {
            w.put(part, v);
        }
    });
    Ok(ListingStage::new(model::doc! { name: arg }, move |host| {
        let reads = spec.doc().iter().any(|(part, _)| part != "latencyStats");
        if reads && matches!(host.resolve(&ns)?, ResolvedNamespace::View { .. }) {
            bail!(
                code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "{ns} is a view, not a collection"
            );
        }
        host.coll_stats(&ns, spec.doc())
    }))
}

fn check_part(name: &str, part: &str, v: Value<'_>) -> Result<()> {
    let inner = match v {
        Value::Null => Doc::EMPTY,
        Value::Document(d) => d,
        _ if !matches!(
            part,
            "latencyStats" | "storageStats" | "count" | "queryExecStats" | "operationStats"
        ) =>
        {
            Doc::EMPTY
        }
        v => bail!(
            code::TYPE_MISMATCH,
            "BSON field '{name}.{part}' is the wrong type '{}', expected type 'object'",
            v.type_name()
        ),
    };
    match part {
        "latencyStats" => {
            for (field, v) in inner.iter() {
                if field != "histograms" {
                    bail!(
                        40415,
                        "BSON field '{name}.latencyStats.{field}' is an unknown field"
                    );
                }
                if v.as_bool().is_none() {
                    bail!(
                        code::TYPE_MISMATCH,
                        "BSON field '{name}.latencyStats.histograms' is the wrong type '{}', \
                            expected type 'bool'",
                        v.type_name()
                    );
                }
            }
        }
        "count" | "queryExecStats" => {
            if !inner.is_empty() {
                bail!(
                    31170,
                    "'{part}' parameter to {name} must be an empty object, not {inner}"
                );
            }
        }
        "storageStats" => {
            let v = inner.field("scale");
            match Number::of(&v) {
                Some(n) if n.to_i64_lenient() < 1 => bail!(
                    code::BAD_VALUE,
                    "BSON field '{name}.storageStats.scale' value must be >= 1, actual value {v}"
                ),
                None if !v.is_nullish() => bail!(
                    code::TYPE_MISMATCH,
                    "BSON field '{name}.storageStats.scale' is the wrong type '{}', expected \
                        types '[long, int, decimal, double]'",
                    v.type_name()
                ),
                _ => {}
            }
        }
        "operationStats" => {}
        _ => bail!(
            40415,
            "BSON field '{name}.{part}' is an unknown field. Known are latencyStats, storageStats, \
                count, queryExecStats"
        ),
    }
    Ok(())
}
