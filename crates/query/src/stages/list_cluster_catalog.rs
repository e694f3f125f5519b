//! `$listClusterCatalog: {shards, balancingConfiguration, tracked}`: the collections the server
//! has. Errors: 9621302 no object, 14 no boolean, 40415 unknown.

use super::fields::Fields;
use super::listed::Listed;
use crate::stage::{Placement, StageNeeds, StageOp, Subject, one};
use model::{Value, bail};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$listClusterCatalog",
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.told(Subject::Collections);
        Ok(())
    }),
    placement: Placement::DATABASE,
    parse: |scx, name, arg| {
        let Value::Document(spec) = arg else {
            bail!(
                9621302,
                "{name} must take a nested object but found: {arg:?}"
            );
        };
        const OPTIONS: [&str; 3] = ["shards", "balancingConfiguration", "tracked"];
        let f = Fields::new(name, spec, &OPTIONS)?;
        for option in OPTIONS {
            // Null is a wrong type here.
            if spec.contains(option) && f.boolean(option)?.is_none() {
                return f.wrong_type(option, Value::Null, "bool");
            }
        }
        let (db, spec) = (scx.options.target.db().to_owned(), spec.to_buf());
        one(Listed::new(model::doc! { name: arg }, move |host| {
            host.list("$listClusterCatalog", &db, spec.doc())
        }))
    },
}];
