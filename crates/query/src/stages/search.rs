//! `$search` (`$searchBeta`), `$searchMeta`, `$vectorSearch`: documents found by a search index,
//! with their scores as `$meta` values. The server interprets the argument. Errors: 31082
//! SearchNotEnabled, 10065 no object, 9 an array, 73 without a collection, and those of the server.

use super::listed::resolve_view;
use crate::exec::{BatchStream, ExecContext};
use crate::stage::{
    ApiClass, PipelineSource, Placement, RequiredPrivilege, Stage, StageContext, StageNeeds,
    StageOp, one,
};
use model::{DocBuf, Namespace, Result, Value, bail, code};
use std::sync::Arc;

const fn op(name: &'static str) -> StageOp {
    StageOp {
        name,
        needs: StageNeeds::Of(|cx, _, _| {
            cx.add(RequiredPrivilege::Search);
            Ok(())
        }),
        api: ApiClass::Outside,
        placement: Placement::FIRST,
        parse,
    }
}

pub(super) static STAGES: &[StageOp] = &[
    op("$search"),
    op("$searchBeta"),
    op("$searchMeta"),
    op("$vectorSearch"),
];

fn parse(
    scx: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Vec<Arc<dyn Stage>>> {
    let ns = searched_collection(scx, name)?;
    let spec = match arg {
        Value::Document(d) => d.to_buf(),
        Value::Array(_) => bail!(
            code::FAILED_TO_PARSE,
            "{name} value must be an object. Found: {}",
            arg.type_name()
        ),
        _ => bail!(10065, "invalid parameter: expected an object ({name})"),
    };
    one(SearchStage { name, ns, spec })
}

/// The collection that is searched.
///
/// # Errors
/// 31082 SearchNotEnabled on a server without search, 73 InvalidNamespace without a collection.
pub(super) fn searched_collection(scx: &StageContext<'_, '_>, name: &str) -> Result<Namespace> {
    if !scx.options.search {
        bail!(
            code::SEARCH_NOT_ENABLED,
            "{name} needs a log of changes, which this store does not keep. Full-text search is \
                available as $text"
        );
    }
    match &scx.options.target {
        PipelineSource::Collection(ns) => Ok(ns.clone()),
        PipelineSource::Database(_) => bail!(
            code::INVALID_NAMESPACE,
            "{name} is only valid on a collection"
        ),
    }
}

struct SearchStage {
    name: &'static str,
    ns: Namespace,
    spec: DocBuf,
}

impl Stage for SearchStage {
    fn open(
        self: Arc<Self>,
        _: Box<dyn BatchStream>,
        exec: &ExecContext<'_>,
    ) -> Result<Box<dyn BatchStream>> {
        let ns = resolve_view(exec.host, self.ns.clone(), self.name)?;
        // `$searchBeta` is an older name of the same stage.
        let name = match self.name {
            "$searchBeta" => "$search",
            name => name,
        };
        exec.host.search(exec, &ns, name, self.spec.doc())
    }

    fn describe(&self) -> DocBuf {
        let name = self.name;
        model::doc! { name: &self.spec }
    }

    fn makes_documents(&self) -> bool {
        true
    }

    fn provides_meta(&self) -> &'static [&'static str] {
        match self.name {
            "$search" | "$searchBeta" => &[
                "searchScore",
                "searchHighlights",
                "searchScoreDetails",
                "searchSequenceToken",
                "SEARCH_META",
                "score",
            ],
            "$vectorSearch" => &["vectorSearchScore", "score"],
            _ => &[],
        }
    }
}
