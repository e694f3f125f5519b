//! `$listCatalog: {}`: the catalog's entry of a collection, or of all of them when run on `admin`
//! with `{aggregate: 1}`. Errors: 9 no empty object, 73 on another database without a collection.

use super::listed::ListingStage;
use crate::stage::{ApiClass, PipelineSource, Placement, StageNeeds, StageOp, Subject, one};
use model::{bail, code};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$listCatalog",
    api: ApiClass::Outside,
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.add_server_facts(Subject::Collections);
        Ok(())
    }),
    placement: Placement {
        on_database: true,
        ..Placement::FIRST
    },
    parse: |scx, name, arg| {
        if !arg.as_doc().is_some_and(|d| d.is_empty()) {
            bail!(
                code::FAILED_TO_PARSE,
                "The {name} stage specification must be an empty object, found {arg}"
            );
        }
        let (db, coll) = match &scx.options.target {
            PipelineSource::Collection(ns) => (ns.db().to_owned(), Some(ns.coll().to_owned())),
            PipelineSource::Database(db) if db == "admin" => (db.clone(), None),
            PipelineSource::Database(_) => bail!(
                code::INVALID_NAMESPACE,
                "Collectionless {name} must be run against the 'admin' database with \
                    {{aggregate: 1}}"
            ),
        };
        let spec = model::DocBuf::build(|w| {
            if let Some(coll) = &coll {
                w.put("collection", coll.as_str());
            }
        });
        one(ListingStage::new(model::doc! { name: arg }, move |host| {
            host.list("$listCatalog", &db, spec.doc())
        }))
    },
}];
