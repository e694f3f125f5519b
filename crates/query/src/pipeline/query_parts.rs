//! A query in parts (filter, order, skip, limit, projection) as the stages of a pipeline. Views are
//! read this way: opening the pipeline puts the view's own stages in front. Must not know: the
//! commands.

use super::Pipeline;
use crate::stage::ParseOptions;
use model::{Doc, MongoError, Result, Value};
use operators::expr::ParseCx;

/// The parts of a query; an empty document stands for a missing part.
#[derive(Clone, Copy)]
pub struct QueryParts<'q> {
    /// Selects the documents.
    pub filter: Doc<'q>,
    /// Their order.
    pub sort: Doc<'q>,
    /// Documents to leave out at the beginning.
    pub skip: u64,
    /// At most this many.
    pub limit: Option<u64>,
    /// The fields to return.
    pub projection: Doc<'q>,
    /// Return the number of documents in a field of this name instead of the documents; nothing if
    /// there are none.
    pub counted_in: Option<&'q str>,
}

impl<'q> QueryParts<'q> {
    /// All documents as they are.
    pub const ALL: QueryParts<'static> = QueryParts {
        filter: Doc::EMPTY,
        sort: Doc::EMPTY,
        skip: 0,
        limit: None,
        projection: Doc::EMPTY,
        counted_in: None,
    };

    /// The stages, in the order in which the parts apply.
    fn stages(self) -> impl Iterator<Item = (&'static str, Value<'q>)> {
        let number = |n: u64| Value::Int64(i64::try_from(n).unwrap_or(i64::MAX));
        let document = |d: Doc<'q>| (!d.is_empty()).then_some(Value::Document(d));
        let parts = [
            ("$match", document(self.filter)),
            ("$sort", document(self.sort)),
            ("$skip", (self.skip > 0).then(|| number(self.skip))),
            ("$limit", self.limit.map(number)),
            ("$project", document(self.projection)),
            ("$count", self.counted_in.map(Value::String)),
        ];
        let given = |(name, arg): (_, Option<Value<'q>>)| arg.map(|arg| (name, arg));
        parts.into_iter().filter_map(given)
    }
}

impl Pipeline {
    /// The pipeline of a query in parts.
    ///
    /// # Errors
    /// Those of the stages: a pipeline refuses operators that a find allows.
    pub fn of_query(
        cx: &mut ParseCx<'_>,
        query: QueryParts<'_>,
        options: &ParseOptions,
    ) -> Result<Pipeline> {
        let mut asked = Vec::new();
        for (name, arg) in query.stages() {
            let op = options.stages.find(name);
            asked.push((
                op.ok_or_else(|| MongoError::internal("no such stage"))?,
                arg,
            ));
        }
        Pipeline::of_named(cx, &asked, options)
    }
}
