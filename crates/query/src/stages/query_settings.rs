//! `$querySettings: {showDebugQueryShape}`: the settings stored for query shapes, of all databases,
//! asked of any database. Errors: 7746800 no object, 14 no boolean, 40415 unknown.

use super::listed::ListingStage;
use crate::stage::{ApiClass, Placement, Report, RequiredPrivilege, StageNeeds, StageOp, one};
use model::{Value, bail, code};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$querySettings",
    api: ApiClass::Outside,
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.add(RequiredPrivilege::Server(Report::QuerySettings));
        Ok(())
    }),
    placement: Placement::DATABASE,
    parse: |_, name, arg| {
        let Value::Document(spec) = arg else {
            bail!(
                7746800,
                "{name} stage expects a document as argument, not {}",
                arg.type_name()
            );
        };
        for (option, v) in spec.iter() {
            if option != "showDebugQueryShape" {
                bail!(40415, "BSON field '{name}.{option}' is an unknown field");
            }
            if v.as_bool().is_none() {
                bail!(
                    code::TYPE_MISMATCH,
                    "BSON field '{name}.{option}' is the wrong type '{}', expected type 'bool'",
                    v.type_name()
                );
            }
        }
        let spec = spec.to_buf();
        one(ListingStage::new(model::doc! { name: arg }, move |host| {
            host.list("$querySettings", "admin", spec.doc())
        }))
    },
}];
