//! Filters over columns: a test of a path reads its column, with the same function that tests a
//! field of a document. Array values, and filters that do not test a path, are evaluated on the
//! document of the columns' values. Must not know: operators by name.

use super::form::ColumnExpr;
use crate::columns::{Batch, Column, Paths};
use crate::filter::{Filter, Node, Test};
use crate::{Cx, Env, Frame};
use model::{Bump, Doc, Element, Result, Tag, Value};

/// How a filter is applied to columns; valid only for that filter.
pub struct ColumnFilter(FilterNode);

enum FilterNode {
    Always,
    Never,
    And(Vec<FilterNode>),
    Or(Vec<FilterNode>),
    Nor(Vec<FilterNode>),
    Not(Box<FilterNode>),
    /// A test of a path that has a column.
    Column(usize),
    /// Applied document by document.
    Rows,
}

/// The context in which a filter is applied.
#[derive(Clone, Copy)]
pub struct FilterContext<'r> {
    /// The operation.
    pub env: &'r Env,
    /// Variables bound outside of the filter.
    pub vars: Option<&'r Frame<'r, 'r>>,
}

impl ColumnFilter {
    /// The sieve of a filter; its paths are added to `paths`. `None` when it may read any field, or
    /// when there are too many paths.
    pub fn of(filter: &Filter, paths: &mut Paths) -> Option<ColumnFilter> {
        kind_of(filter.root(), paths).map(ColumnFilter)
    }

    /// Keeps the rows of matching documents.
    ///
    /// # Errors
    /// An error that the filter has on some document.
    pub fn keep(
        &self,
        filter: &Filter,
        batch: &Batch,
        around: FilterContext<'_>,
        rows: &mut Vec<u32>,
    ) -> Result<()> {
        let mut arena = Bump::new();
        keep(&self.0, filter.root(), batch, around, &mut arena, rows)
    }
}

fn kind_of(node: &Node, paths: &mut Paths) -> Option<FilterNode> {
    let mut all = |nodes: &[Node]| -> Option<Vec<FilterNode>> {
        nodes.iter().map(|n| kind_of(n, paths)).collect()
    };
    Some(match node {
        Node::AlwaysTrue => FilterNode::Always,
        Node::AlwaysFalse => FilterNode::Never,
        Node::And(nodes) => FilterNode::And(all(nodes)?),
        Node::Or(nodes) => FilterNode::Or(all(nodes)?),
        Node::Nor(nodes) => FilterNode::Nor(all(nodes)?),
        Node::Not(inner) => FilterNode::Not(Box::new(kind_of(inner, paths)?)),
        Node::Field {
            test: Test::Geo(_), ..
        } => return None,
        Node::Field { path, .. } => FilterNode::Column(paths.add(path)?),
        Node::Expr(e) => ColumnExpr::of(e.as_ref(), paths).map(|_| FilterNode::Rows)?,
        Node::JsonSchema(_) | Node::SampleRate(_) | Node::Where(_) | Node::Text(_) => return None,
    })
}

/// Removes the rows in `gone`; both lists are ascending.
fn remove_rows(rows: &mut Vec<u32>, gone: &[u32]) {
    let mut gone = gone.iter().peekable();
    rows.retain(|row| {
        while gone.next_if(|g| *g < row).is_some() {}
        gone.peek() != Some(&row)
    });
}

fn keep(
    kind: &FilterNode,
    node: &Node,
    batch: &Batch,
    around: FilterContext<'_>,
    arena: &mut Bump,
    rows: &mut Vec<u32>,
) -> Result<()> {
    match (kind, node) {
        (FilterNode::Always, _) => {}
        (FilterNode::Never, _) => rows.clear(),
        (FilterNode::And(kinds), Node::And(nodes)) => {
            for (kind, node) in kinds.iter().zip(nodes) {
                keep(kind, node, batch, around, arena, rows)?;
            }
        }
        (FilterNode::Or(kinds), Node::Or(nodes)) | (FilterNode::Nor(kinds), Node::Nor(nodes)) => {
            let mut left = rows.clone();
            for (kind, node) in kinds.iter().zip(nodes) {
                let mut found = left.clone();
                keep(kind, node, batch, around, arena, &mut found)?;
                remove_rows(&mut left, &found);
            }
            match kind {
                FilterNode::Or(_) => remove_rows(rows, &left),
                _ => *rows = left,
            }
        }
        (FilterNode::Not(kind), Node::Not(node)) => {
            let mut found = rows.clone();
            keep(kind, node, batch, around, arena, &mut found)?;
            remove_rows(rows, &found);
        }
        (FilterNode::Column(at), Node::Field { test, .. }) if batch.is_whole() => {
            if let Some(column) = batch.column(*at) {
                let look = TestContext {
                    node,
                    test,
                    column,
                    batch,
                    around,
                };
                return look.keep(arena, rows);
            }
        }
        _ => return keep_documents(node, batch, around, arena, rows),
    }
    Ok(())
}

/// Keeps the rows for which `passes` returns true.
fn keep_where(rows: &mut Vec<u32>, mut passes: impl FnMut(usize) -> Result<bool>) -> Result<()> {
    let mut failed = None;
    rows.retain(|row| {
        if failed.is_some() {
            return false;
        }
        passes(*row as usize).unwrap_or_else(|e| {
            failed = Some(e);
            false
        })
    });
    failed.map_or(Ok(()), Err)
}

fn keep_documents(
    node: &Node,
    batch: &Batch,
    around: FilterContext<'_>,
    arena: &mut Bump,
    rows: &mut Vec<u32>,
) -> Result<()> {
    keep_where(rows, |row| {
        arena.reset();
        let doc = batch.doc(row, arena);
        node.matches(&context(around, arena, doc), doc)
    })
}

fn context<'r, 'a>(around: FilterContext<'r>, arena: &'a Bump, doc: Doc<'a>) -> Cx<'r, 'a>
where
    'r: 'a,
{
    Cx {
        vars: around.vars,
        ..Cx::new(arena, Value::Document(doc), around.env)
    }
}

/// A test and its column.
struct TestContext<'r> {
    node: &'r Node,
    test: &'r Test,
    column: &'r Column,
    batch: &'r Batch,
    around: FilterContext<'r>,
}

impl TestContext<'_> {
    fn keep(&self, arena: &mut Bump, rows: &mut Vec<u32>) -> Result<()> {
        let TestContext { test, column, .. } = self;
        if self.column.types().has(Tag::ARRAY) {
            return keep_where(rows, |row| match column.value(row) {
                Value::Array(_) => {
                    arena.reset();
                    let doc = self.batch.doc(row, arena);
                    self.node.matches(&context(self.around, arena, doc), doc)
                }
                v => test.passes(&context(self.around, arena, Doc::EMPTY), v),
            });
        }
        let collate = self.around.env.collate();
        if let Test::Compare(compare) = test {
            rows.retain(|row| {
                let mut word = [0; 8];
                let (tag, payload) = column.payload(*row as usize, &mut word);
                match tag {
                    Tag::MISSING => compare.matches(&Value::Missing, collate),
                    tag => {
                        let name = &[];
                        let e = Element { name, tag, payload };
                        compare.matches_element(&e, collate)
                    }
                }
            });
            return Ok(());
        }
        keep_where(rows, |row| {
            test.passes(&context(self.around, arena, Doc::EMPTY), column.value(row))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::ParseCx;
    use crate::expr::check::json;
    use std::sync::Arc;

    #[test]
    fn rows_are_those_of_documents_that_match() {
        let docs = json(
            "[{'a': 1, 'b': {'x': 'p'}}, {'a': [1, 5]}, {'b': {'x': null}}, {'b': [{'x': 'p'}]}, \
             {'a': 2.5, 'b': 3}, {'a': {'$numberLong': '1'}, 'b': {'x': 'q'}}, {'a': null}, {}]",
        );
        let docs: Vec<Doc<'_>> = docs
            .get()
            .as_array()
            .expect("an array")
            .iter()
            .filter_map(|v| v.as_doc())
            .collect();
        let env = Env::new(0, 1);
        for text in [
            "{}",
            "{'a': 1}",
            "{'a': {'$gte': 1, '$lt': 3}}",
            "{'a': {'$in': [5, null]}}",
            "{'b.x': 'p'}",
            "{'b.x': {'$exists': false}}",
            "{'b.x': null}",
            "{'$or': [{'a': 1}, {'b.x': {'$ne': 'p'}}]}",
            "{'$nor': [{'a': 1}, {'b': 3}]}",
            "{'a': {'$not': {'$gt': 2}}, 'b': {'$exists': true}}",
            "{'a': {'$type': 'number'}}",
            "{'$expr': {'$eq': ['$b.x', 'p']}}",
            "{'a': {'$elemMatch': {'$gt': 4}}}",
            "{'b.x': {'$regex': '^p'}}",
        ] {
            let spec = json(text);
            let spec = spec.get().as_doc().expect(text);
            let filter = Filter::parse(&mut ParseCx::of_query(&env), spec).expect(text);
            let mut paths = Paths::default();
            let sieve = ColumnFilter::of(&filter, &mut paths).expect(text);
            let around = FilterContext {
                env: &env,
                vars: None,
            };
            let paths = Arc::new(paths);
            // First documents that can be split, then all.
            let whole = |d: &&Doc<'_>| !matches!(d.field("b"), Value::Array(_));
            for docs in [
                docs.iter().filter(whole).collect::<Vec<_>>(),
                docs.iter().collect(),
            ] {
                let mut batch = Batch::new(Arc::clone(&paths));
                docs.iter().for_each(|d| batch.push(**d));
                let mut rows: Vec<u32> = (0..docs.len() as u32).collect();
                sieve.keep(&filter, &batch, around, &mut rows).expect(text);
                let arena = Bump::new();
                let wanted: Vec<u32> = (0..docs.len())
                    .filter(|i| filter.matches(*docs[*i], &arena, &env).expect(text))
                    .map(|i| i as u32)
                    .collect();
                assert_eq!(rows, wanted, "{text} {}", batch.is_whole());
            }
        }
        for text in [
            "{'$sampleRate': 0.5}",
            "{'$expr': '$$ROOT'}",
            "{'$jsonSchema': {}}",
        ] {
            let spec = json(text);
            let spec = spec.get().as_doc().expect(text);
            let filter = Filter::parse(&mut ParseCx::of_query(&env), spec).expect(text);
            let always = filter.is_always_true();
            assert!(
                always || ColumnFilter::of(&filter, &mut Paths::default()).is_none(),
                "{text}"
            );
        }
    }
}
