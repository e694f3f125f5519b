//! `$currentOp: {allUsers, idleConnections, idleCursors, idleSessions, localOps, truncateOps,
//! targetAllNodes}`: running operations; only on the admin database. Errors: 14 no object or no
//! boolean, 40415 unknown, 9 for targetAllNodes, 73 elsewhere.

use super::listed::{ListingStage, require_admin};
use crate::stage::{
    ApiClass, NeedsContext, Placement, Report, RequiredPrivilege, StageNeeds, StageOp, one,
};
use model::{Doc, Result, Value, bail, code};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$currentOp",
    api: ApiClass::Outside,
    needs: StageNeeds::OfSource(needs),
    placement: Placement::DATABASE,
    parse: |scx, name, arg| {
        let spec = specification(name, arg)?;
        require_admin(scx, name)?;
        let spec = spec.to_buf();
        one(ListingStage::new(model::doc! { name: arg }, move |host| {
            host.list("$currentOp", "admin", spec.doc())
        }))
    },
}];

const OPTIONS: &[&str] = &[
    "allUsers",
    "idleConnections",
    "idleCursors",
    "idleSessions",
    "localOps",
    "truncateOps",
    "targetAllNodes",
];

fn specification<'a>(name: &str, arg: Value<'a>) -> Result<Doc<'a>> {
    let Value::Document(spec) = arg else {
        bail!(
            code::TYPE_MISMATCH,
            "{name} options must be specified in an object, but found: {}",
            arg.type_name()
        );
    };
    check(name, spec)?;
    Ok(spec)
}

fn needs(cx: &mut NeedsContext<'_>, name: &'static str, arg: Value<'_>) -> Result<()> {
    let of_all = specification(name, arg)?.field("allUsers").truthy();
    cx.add(RequiredPrivilege::Server(Report::Operations { of_all }));
    Ok(())
}

fn check(name: &str, spec: Doc<'_>) -> Result<()> {
    for (option, v) in spec.iter() {
        if !OPTIONS.contains(&option) {
            bail!(
                40415,
                "BSON field '{name}.{option}' is an unknown field. Known are {}",
                OPTIONS.join(", ")
            );
        }
        if v.as_bool().is_none() {
            bail!(
                code::TYPE_MISMATCH,
                "BSON field '{name}.{option}' is the wrong type '{}', expected type 'bool'",
                v.type_name()
            );
        }
    }
    if spec.field("targetAllNodes").truthy() {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} supports targetAllNodes only on a sharded cluster"
        );
    }
    Ok(())
}
