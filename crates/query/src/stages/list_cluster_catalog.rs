//! `$listClusterCatalog: {shards, balancingConfiguration, tracked}`: the collections the server
//! has. Errors: 9621302 no object, 9621301 on a collection, 14 no boolean, 40415 unknown.

use super::fields::Fields;
use super::listed::ListingStage;
use crate::stage::{ApiClass, PipelineSource, Placement, StageNeeds, StageOp, Subject, one};
use model::{Value, bail};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$listClusterCatalog",
    api: ApiClass::Outside,
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.add_server_facts(Subject::Collections);
        Ok(())
    }),
    placement: Placement::DATABASE,
    parse: |scx, name, arg| {
        let Value::Document(spec) = arg else {
            bail!(9621302, "{name} must take a nested object but found: {arg}");
        };
        const OPTIONS: [&str; 3] = ["shards", "balancingConfiguration", "tracked"];
        let f = Fields::new(name, spec, &OPTIONS)?;
        for option in OPTIONS {
            f.strict_boolean(option)?;
        }
        if matches!(scx.options.target, PipelineSource::Collection(_)) {
            bail!(
                9621301,
                "{name} must be run against the database with {{aggregate: 1}}, not a collection"
            );
        }
        let (db, spec) = (scx.options.target.db().to_owned(), spec.to_buf());
        one(ListingStage::new(model::doc! { name: arg }, move |host| {
            host.list("$listClusterCatalog", &db, spec.doc())
        }))
    },
}];
