//! Reads by a plan and copies matching documents into batches. The bottom of every plan.

use super::operator::Operator;
use super::reader::{Criteria, Reader, STEP_DOCS};
use super::row_metadata::RowMetadata;
use super::scan::is_clustered;
use crate::exec::{BatchStream, DocBatch, ExecContext, MatchFilter};
use crate::plan::{Access, Plan};
use crate::shown::{self, PlanNode, ReadCounts};
use model::{Doc, Result};
use operation::ReadTotals;
use operators::Env;
use std::sync::Arc;
use store::Collection;

/// Documents of the first batch: few, so that a client that wants one document gets it soon. If the
/// store is remote, as many as one request returns.
const FIRST_DOCS: usize = 32;

/// The part of a matching document that goes into the batch.
pub(super) enum RowOutput {
    Whole,
    /// These top-level fields.
    Fields(Vec<String>),
    /// An empty document for each index entry.
    Entries,
}

impl RowOutput {
    /// Adds the wanted part of a document to a batch.
    pub(super) fn push(&self, doc: Doc<'_>, out: &mut DocBatch) {
        match self {
            RowOutput::Whole => out.push(doc),
            RowOutput::Entries => out.push(Doc::EMPTY),
            RowOutput::Fields(names) => out.build(None, |w| {
                let mut left = names.len();
                for e in doc.elements() {
                    if left == 0 {
                        break;
                    }
                    if names.iter().any(|n| n.as_bytes() == e.name) {
                        w.put_element(&e);
                        left -= 1;
                    }
                }
            }),
        }
    }
}

/// The source of the documents.
enum Source {
    Planned,
    /// A capped collection, at whose end the read waits.
    Tail {
        reverse: bool,
    },
}

/// Reads by a plan.
pub struct CollectionRead {
    coll: Arc<Collection>,
    plan: Plan,
    source: Source,
    filter: Option<Arc<MatchFilter>>,
    left: u64,
    output: RowOutput,
    target: usize,
    metadata: Option<RowMetadata>,
    reader: Option<Reader>,
}

impl CollectionRead {
    /// A read by a plan; it gives at most `limit` documents.
    pub fn new(
        coll: Arc<Collection>,
        plan: Plan,
        filter: Option<Arc<MatchFilter>>,
        limit: Option<u64>,
    ) -> CollectionRead {
        let target = FIRST_DOCS
            .max(coll.request_rows())
            .min(DocBatch::TARGET_DOCS);
        CollectionRead {
            metadata: RowMetadata::scores(&plan, filter.as_ref()),
            coll,
            plan,
            source: Source::Planned,
            filter,
            left: limit.unwrap_or(u64::MAX),
            output: RowOutput::Whole,
            target,
            reader: None,
        }
    }

    /// A read of a capped collection. After the end, later calls continue with documents inserted
    /// since.
    pub fn tail(
        coll: Arc<Collection>,
        reverse: bool,
        filter: Option<Arc<MatchFilter>>,
        limit: Option<u64>,
    ) -> CollectionRead {
        CollectionRead {
            source: Source::Tail { reverse },
            metadata: None,
            ..CollectionRead::new(coll, Plan::scan(), filter, limit)
        }
    }

    /// Copies only these top-level fields. If there are none, documents of index entries are not
    /// read.
    #[must_use]
    pub fn with_fields(mut self, fields: Vec<String>) -> CollectionRead {
        let all = self
            .filter
            .as_ref()
            .is_none_or(|f| f.filter.is_always_true());
        let entries = fields.is_empty()
            && (self.plan.complete || all)
            && self.metadata.is_none()
            && self.plan.series.is_none()
            && matches!(self.plan.access, Access::Index { .. });
        self = self.with_covering(Some(&fields));
        self.output = if entries {
            RowOutput::Entries
        } else {
            RowOutput::Fields(fields)
        };
        self
    }

    /// Tells which top-level fields are used after the read (`None` for whole documents): if the
    /// index entries have them all, no document is read.
    #[must_use]
    pub fn with_covering(mut self, fields: Option<&[String]>) -> CollectionRead {
        if self.metadata.is_none() {
            let filter = self.filter.as_deref();
            self.plan = self.plan.with_covering(&self.coll, filter, fields);
        }
        self
    }

    /// Reads each document, as writers need it.
    #[must_use]
    pub(crate) fn reading_documents(mut self) -> CollectionRead {
        self.plan.read_documents();
        self
    }

    /// Adds record id and index key of each document as metadata.
    #[must_use]
    pub fn with_row_metadata(mut self) -> CollectionRead {
        self.plan.read_documents();
        self.metadata = Some(RowMetadata::of(&self.plan, self.metadata.take()));
        self
    }

    /// The open reader and the filter.
    pub(super) fn parts(&mut self, env: &Env) -> (&mut Reader, Option<&MatchFilter>) {
        let CollectionRead {
            coll,
            plan,
            source,
            filter,
            reader,
            ..
        } = self;
        let reader = reader.get_or_insert_with(|| match source {
            Source::Planned => Reader::open(coll, plan, env),
            Source::Tail { reverse } => Reader::tail(coll, *reverse, filter.as_deref()),
        });
        (reader, filter.as_deref())
    }

    /// See [`Plan::drop_bounds`].
    pub(super) fn drop_bounds(&mut self) {
        self.plan.drop_bounds();
    }

    /// The collection.
    pub(super) fn collection(&self) -> &Arc<Collection> {
        &self.coll
    }

    /// The filter.
    pub(super) fn filter(&self) -> Option<&MatchFilter> {
        self.filter.as_deref()
    }

    /// The access path.
    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn counts(&self) -> ReadCounts {
        self.reader.as_ref().map(Reader::counts).unwrap_or_default()
    }

    fn next_entries(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let want = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(DocBatch::TARGET_DOCS);
        let (reader, _) = self.parts(exec.env);
        let more = reader.step_entries(exec.env, want, || {
            out.push(Doc::EMPTY);
            true
        })?;
        reader.pause();
        self.left -= out.len() as u64;
        Ok(more && self.left > 0)
    }
}

impl BatchStream for CollectionRead {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        if let RowOutput::Entries = self.output {
            return self.next_entries(exec, out);
        }
        self.begin(exec.env);
        let Some(reader) = &mut self.reader else {
            return Ok(false);
        };
        let (output, metadata) = (&self.output, &self.metadata);
        let (target, left) = (self.target as u64, self.left);
        let mut max = usize::try_from(left).unwrap_or(usize::MAX).min(STEP_DOCS);
        if self.filter.is_some() {
            // Not every document matches, so a request should bring more than one.
            max = max.max(self.coll.request_rows());
        }
        let wanted = Criteria {
            filter: self.filter.as_deref(),
            env: exec.env,
            vars: exec.vars,
        };
        let wants_more = |out: &DocBatch| (out.len() as u64) < target.min(left) && !out.is_full();
        let mut more = Ok(true);
        while matches!(more, Ok(true)) && wants_more(out) {
            more = reader.step(&wanted, max, |row| {
                match metadata {
                    None => output.push(row.doc, out),
                    Some(e) => out.push_with_meta(row.doc, Some(e.row(&row).doc())),
                }
                Ok(wants_more(out))
            });
        }
        reader.pause();
        let more = more?;
        self.target = (self.target * 4).min(DocBatch::TARGET_DOCS);
        self.left -= out.len() as u64;
        Ok(more && self.left > 0)
    }
}

impl Operator for CollectionRead {
    fn begin(&mut self, env: &Env) {
        self.parts(env);
    }

    fn show(&self) -> PlanNode {
        if let RowOutput::Entries = self.output {
            return shown::count_scan(&self.plan, &self.counts());
        }
        let clustered = is_clustered(&self.coll);
        shown::read(
            &self.plan,
            self.filter.as_deref(),
            clustered,
            &self.counts(),
        )
    }

    fn read_totals(&self) -> ReadTotals {
        let counts = self.counts();
        ReadTotals {
            keys: counts.keys,
            docs: counts.docs,
            returned: 0,
        }
    }
}
