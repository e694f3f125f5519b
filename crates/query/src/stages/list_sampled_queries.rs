//! `$listSampledQueries: {namespace}`: the queries that the server has sampled for
//! `configureQueryAnalyzer`; only on the admin database. Errors: 14 no object and wrong types,
//! 40415 unknown, 73 elsewhere and for an invalid name.

use super::fields::Fields;
use super::listed::{ListingStage, require_admin};
use crate::stage::{ApiClass, Placement, Report, RequiredPrivilege, StageNeeds, StageOp, one};
use model::{Namespace, Value, bail, code};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$listSampledQueries",
    api: ApiClass::Outside,
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.add(RequiredPrivilege::Server(Report::SampledQueries));
        Ok(())
    }),
    placement: Placement::DATABASE,
    parse: |scx, name, arg| {
        let Value::Document(spec) = arg else {
            bail!(
                code::TYPE_MISMATCH,
                "{name} must take a nested object but found: {}",
                arg.type_name()
            );
        };
        let f = Fields::new(name, spec, &["namespace"])?;
        if let Some(ns) = f.string("namespace")? {
            Namespace::parse(ns)?;
        }
        require_admin(scx, name)?;
        let spec = spec.to_buf();
        one(ListingStage::new(model::doc! { name: arg }, move |host| {
            host.list("$listSampledQueries", "admin", spec.doc())
        }))
    },
}];
