//! `$listSearchIndexes: {id, name}`: the search indexes of a collection. Errors: 31082
//! SearchNotEnabled, 9 no object, 14 wrong types, 40415 unknown, 73 without a collection.

use super::fields::Fields;
use super::listed::{ListingStage, resolve_view};
use super::search::searched_collection;
use crate::stage::{ApiClass, Placement, StageNeeds, StageOp, Subject, one};
use model::{Value, bail, code};

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$listSearchIndexes",
    needs: StageNeeds::OfSource(|cx, _, _| {
        cx.add_server_facts(Subject::SearchIndexes);
        Ok(())
    }),
    api: ApiClass::Outside,
    placement: Placement::FIRST,
    parse: |scx, name, arg| {
        let ns = searched_collection(scx, name)?;
        let Value::Document(spec) = arg else {
            bail!(
                code::FAILED_TO_PARSE,
                "The {name} stage specification must be an object. Found: {}",
                arg.type_name()
            );
        };
        let f = Fields::new(name, spec, &["id", "name"])?;
        f.string("id")?;
        f.string("name")?;
        let spec = spec.to_buf();
        one(ListingStage::new(model::doc! { name: arg }, move |host| {
            host.search_indexes(&resolve_view(host, ns.clone(), name)?, spec.doc())
        }))
    },
}];
