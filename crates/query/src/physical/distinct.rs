//! The distinct values of a field: by a loose index scan if an index gives them, otherwise from
//! documents, which may come from any operator.

use super::distinct_values::DistinctValues;
use super::loose::LooseScan;
use super::nothing::EmptyScan;
use super::operator::Operator;
use super::read::CollectionRead;
use super::reader::{Criteria, STEP_DOCS};
use super::row_filter::RowMatches;
use super::taker::Consumer;
use super::whole_columns::WholeColumns;
use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter, drain};
use crate::plan::{Plan, PlanRequest, RequiredOutput, distinct_plan, plan_read};
use crate::shown::PlanNode;
use model::{Doc, DocBuf, FieldPath, OwnedValue, Result, Value};
use operation::ReadTotals;
use operators::Env;
use operators::columns::{Column, Paths};
use std::ops::Range;
use std::sync::Arc;
use store::Collection;

enum Source {
    /// There is no collection.
    Nothing(EmptyScan),
    /// One document for each value.
    Loose(Box<LooseScan>),
    /// All documents that match.
    Documents(Box<CollectionRead>),
    /// Columns.
    Columns(Box<WholeColumns>),
}

/// Collects values. As a stream it gives no documents.
pub struct Distinct {
    source: Source,
    path: FieldPath,
    values: DistinctValues,
    /// Matching documents, if columns were read.
    met: u64,
}

/// The values found in a part.
struct RowValues<'f> {
    matches: RowMatches<'f>,
    path: &'f FieldPath,
    env: &'f Env,
    values: DistinctValues,
    met: u64,
}

impl Consumer for RowValues<'_> {
    fn take(&mut self, doc: Doc<'_>) -> Result<bool> {
        if self.matches.has(doc)? {
            self.met += 1;
            let doc = Value::Document(doc);
            self.values.collect(doc, self.path, self.env.collate())?;
        }
        Ok(true)
    }

    fn take_rows(&mut self, from: &[Option<Column>], rows: Range<usize>) -> Result<bool> {
        let found = self.matches.find_matches(from, rows.clone())?;
        self.met += found.len() as u64;
        if let Some(Some(column)) = from.first() {
            for row in found {
                let v = column.value(rows.start + *row as usize);
                self.values.collect_value(v, self.env.collate())?;
            }
        }
        Ok(true)
    }

    fn settle(&mut self) -> Result<bool> {
        Ok(true)
    }

    fn filters(&self) -> bool {
        true
    }
}

impl Distinct {
    /// Chooses how to find the values at `key` for `request`; `filter` is the request's filter.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn new(
        coll: Option<Arc<Collection>>,
        request: &PlanRequest<'_>,
        filter: &Arc<MatchFilter>,
        key: &str,
    ) -> Result<Distinct> {
        let source = match coll {
            None => Source::Nothing(EmptyScan::default()),
            Some(c) => {
                let mut paths = Paths::default();
                let at = paths.add(&FieldPath::new(key));
                let request = &PlanRequest {
                    columns: at.map(|_| RequiredOutput::Values(&paths)),
                    ..*request
                };
                let plan = plan_read(&c, request)?;
                let columns = WholeColumns::of(&c, &plan, filter);
                let fields = [FieldPath::new(key).first().to_owned()];
                let loose = distinct_plan(&c, request, &plan, key)
                    .map(|loose| loose.with_covering(&c, None, Some(&fields)))
                    .and_then(|loose| LooseScan::new(c.clone(), loose));
                match (loose, columns) {
                    (Some(scan), _) => Source::Loose(Box::new(scan)),
                    (None, Some(columns)) => Source::Columns(Box::new(columns)),
                    (None, None) => {
                        let read = CollectionRead::new(c, plan, Some(filter.clone()), None);
                        Source::Documents(Box::new(read.with_covering(Some(&fields))))
                    }
                }
            }
        };
        Ok(Distinct {
            source,
            path: FieldPath::new(key),
            values: DistinctValues::default(),
            met: 0,
        })
    }

    /// The access path, if there is one.
    pub fn plan(&self) -> Option<&Plan> {
        match &self.source {
            Source::Nothing(_) => None,
            Source::Loose(scan) => Some(scan.plan()),
            Source::Documents(read) => Some(read.plan()),
            Source::Columns(columns) => Some(columns.plan()),
        }
    }

    /// Collects.
    ///
    /// # Errors
    /// 17217, those of the filter and the store; the operation's interrupt.
    pub fn run(&mut self, env: &Env) -> Result<()> {
        let (values, path) = (&mut self.values, &self.path);
        match &mut self.source {
            Source::Nothing(_) => {}
            // The index has an entry with null for a document without the field, but such a
            // document has no value.
            Source::Loose(scan) => {
                while scan.next(env, &mut |doc| {
                    values.collect(Value::Document(doc), path, env.collate())
                })? {}
            }
            Source::Columns(columns) => {
                let parts = columns.run(env, &|matches| RowValues {
                    matches,
                    path,
                    env,
                    values: DistinctValues::default(),
                    met: 0,
                })?;
                for part in &parts {
                    values.merge(&part.values, env.collate())?;
                    self.met += part.met;
                }
            }
            Source::Documents(read) => {
                let (reader, filter) = read.parts(env);
                let wanted = Criteria {
                    filter,
                    env,
                    vars: None,
                };
                while reader.step(&wanted, STEP_DOCS, |row| {
                    values.collect(Value::Document(row.doc), path, env.collate())?;
                    Ok(true)
                })? {}
            }
        }
        Ok(())
    }

    /// Collects from the documents of a stream.
    ///
    /// # Errors
    /// 17217, and those of the stream.
    pub fn run_over(&mut self, docs: &mut dyn BatchStream, exec: &ExecContext<'_>) -> Result<()> {
        drain(docs, exec, |doc, _| {
            let doc = Value::Document(doc);
            self.values.collect(doc, &self.path, exec.env.collate())?;
            Ok(())
        })
    }

    /// The values, sorted.
    pub fn values(&mut self, env: &Env) -> &[OwnedValue] {
        self.values.sort(env.collate())
    }
}

impl BatchStream for Distinct {
    fn next_batch(&mut self, exec: &ExecContext<'_>, _: &mut DocBatch) -> Result<bool> {
        self.run(exec.env)?;
        Ok(false)
    }
}

impl Operator for Distinct {
    fn begin(&mut self, env: &Env) {
        match &mut self.source {
            Source::Nothing(_) => {}
            Source::Loose(scan) => scan.begin(env),
            Source::Documents(read) => read.begin(env),
            Source::Columns(_) => {}
        }
    }

    /// The read below. Collecting is not shown as a stage, but reading a field from an index is.
    fn show(&self) -> PlanNode {
        let below = match &self.source {
            Source::Nothing(nothing) => nothing.show(),
            Source::Loose(scan) => scan.show(),
            Source::Documents(read) => read.show(),
            Source::Columns(columns) => columns.show(self.met),
        };
        if !below.is_covered() {
            return below;
        }
        let own = DocBuf::build(|w| {
            w.doc("transformBy")
                .put("_id", 0i32)
                .put(self.path.as_str(), 1i32);
        });
        let (returned, ended) = (below.stats.returned, below.stats.ended);
        PlanNode::wrap(below, "PROJECTION_COVERED", own, returned, ended)
    }

    fn read_totals(&self) -> ReadTotals {
        match &self.source {
            Source::Nothing(_) => ReadTotals::default(),
            Source::Loose(scan) => scan.read_totals(),
            Source::Documents(read) => read.read_totals(),
            Source::Columns(columns) => columns.read_totals(),
        }
    }
}
