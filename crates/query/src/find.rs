//! A `find`: filter, order, skip, limit and projection over one collection, as a chain of pull
//! operators.

use crate::exec::{
    BatchStream, DocBatch, ExecContext, MatchFilter, ReadRequest, Run, SortPattern, sort_all,
};
use crate::plan::{
    AllowedIndexes, Hint, INDEX_KEY, Plan, PlanRequest, PlanStream, RECORD_ID, ReadOptions,
    open_read,
};
use model::{Bump, Doc, DocBuf, Result, Value, bail, code};
use operators::Cx;
use operators::project::Projection;
use std::sync::Arc;
use store::{Collection, ReadView};

/// A parsed find.
pub struct Find {
    /// Documents wanted.
    pub filter: Arc<MatchFilter>,
    /// Their order.
    pub sort: Option<SortPattern>,
    /// Left out at the beginning.
    pub skip: u64,
    /// At most this many.
    pub limit: Option<u64>,
    /// What of them.
    pub projection: Option<Projection>,
    /// How to read.
    pub hint: Option<Hint>,
    /// Bounds of the hinted index; an empty document is none.
    pub min: DocBuf,
    /// The upper bound, which is outside.
    pub max: DocBuf,
    /// Index keys instead of documents.
    pub return_key: bool,
    /// Documents with their record id.
    pub show_record_id: bool,
    /// The end of the collection is waited at.
    pub tail: bool,
    /// Collation as the client wrote it.
    pub collation: Option<DocBuf>,
    /// The state to read; `None` is the latest.
    pub view: Option<ReadView>,
    /// The only indexes to consider, see [`PlanRequest::allowed`].
    pub allowed: Option<AllowedIndexes>,
}

impl Find {
    /// The read as the planner is asked for it.
    pub fn plan_request(&self) -> PlanRequest<'_> {
        PlanRequest {
            filter: Some(&self.filter),
            sort: self.sort.as_ref(),
            hint: self.hint.as_ref(),
            min: given(&self.min),
            max: given(&self.max),
            collation: self.collation.as_ref().map(DocBuf::doc),
            view: self.view.as_ref(),
            allowed: self.allowed.as_ref(),
            near: None,
        }
    }

    /// Opens the chain of operators.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn open(self: &Arc<Self>, coll: Arc<Collection>) -> Result<Box<dyn BatchStream>> {
        let wanted = self.limit.map(|n| n.saturating_add(self.skip));
        if self.tail {
            return self.open_tail(coll, wanted);
        }
        // Of a bucket only these columns are unpacked; other documents are at hand as a whole.
        let fields = coll.is_series().then(|| self.needed_fields()).flatten();
        let read = ReadRequest {
            filter: Some(&self.filter),
            sort: self.sort.as_ref(),
            limit: wanted,
            fields: fields.as_deref(),
            ..ReadRequest::all(coll.ns())
        };
        let options = ReadOptions {
            hint: self.hint.as_ref(),
            min: given(&self.min),
            max: given(&self.max),
            collation: self.collation.as_ref().map(DocBuf::doc),
            view: self.view.as_ref(),
            row_metadata: self.shows_row_metadata(),
            allowed: self.allowed.as_ref(),
        };
        let opened = open_read(coll.clone(), &read, &options)?;
        Ok(self.above(opened.docs, opened.sorted || self.sort.is_none()))
    }

    /// Only the collection itself has an end where new documents come in; hints other than its
    /// direction count for nothing.
    fn open_tail(
        self: &Arc<Self>,
        coll: Arc<Collection>,
        wanted: Option<u64>,
    ) -> Result<Box<dyn BatchStream>> {
        if self.filter.filter.text().is_some() {
            bail!(
                code::BAD_VALUE,
                "error processing query: text and tailable cursor not allowed in same query"
            );
        }
        let reverse = matches!(self.hint, Some(Hint::Natural { reverse: true }));
        let mut source = PlanStream::tail(coll, reverse, Some(self.filter.clone()), wanted);
        if self.shows_row_metadata() {
            source = source.with_row_metadata(&Plan::scan());
        }
        Ok(self.above(Box::new(source), true))
    }

    /// The top-level fields that order and projection look at; `None` is all of them.
    fn needed_fields(&self) -> Option<Vec<String>> {
        if self.shows_row_metadata() {
            return None;
        }
        let mut paths = self.projection.as_ref()?.needed_paths()?;
        for (path, order) in self.sort.iter().flat_map(|s| s.spec().iter()) {
            if !order.is_number() {
                return None;
            }
            paths.push(path.to_owned());
        }
        let mut fields: Vec<String> = paths
            .iter()
            .map(|p| p.split('.').next().unwrap_or_default().to_owned())
            .collect();
        fields.sort_unstable();
        fields.dedup();
        Some(fields)
    }

    fn shows_row_metadata(&self) -> bool {
        self.return_key || self.show_record_id
    }

    fn above(self: &Arc<Self>, source: Box<dyn BatchStream>, sorted: bool) -> Box<dyn BatchStream> {
        Box::new(FindStream {
            find: self.clone(),
            source,
            sort: (!sorted).then_some(None),
            skip: self.skip,
            left: self.limit.unwrap_or(u64::MAX),
            scratch: DocBatch::new(),
        })
    }
}

/// A bound of the hinted index; an empty document is none.
fn given(bound: &DocBuf) -> Option<Doc<'_>> {
    Some(bound.doc()).filter(|d| !d.is_empty())
}

struct FindStream {
    find: Arc<Find>,
    source: Box<dyn BatchStream>,
    /// `Some(None)` before and `Some(Some)` after sorting, when the source is not in order.
    sort: Option<Option<Run>>,
    skip: u64,
    left: u64,
    scratch: DocBatch,
}

impl FindStream {
    fn pull(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let Some(run) = &mut self.sort else {
            return self.source.next_batch(exec, out);
        };
        let Some(pattern) = &self.find.sort else {
            return Ok(false);
        };
        let run = match run {
            Some(run) => run,
            none => {
                let keep = self.find.limit.map(|n| n.saturating_add(self.find.skip));
                none.insert(sort_all(pattern, keep, self.source.as_mut(), exec)?)
            }
        };
        run.next_batch(out)
    }
}

impl BatchStream for FindStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let mut raw = std::mem::take(&mut self.scratch);
        let projected = self.find.projection.is_some() || self.find.shows_row_metadata();
        raw.set_max_docs(out.max_docs());
        let target = if projected { &mut raw } else { &mut *out };
        target.clear();
        let more = self.pull(exec, target)?;
        let skipped = usize::try_from(self.skip)
            .unwrap_or(usize::MAX)
            .min(target.len());
        target.drop_front(skipped);
        self.skip -= skipped as u64;
        target.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= target.len() as u64;
        if projected {
            let mut arena = Bump::new();
            for (doc, meta) in raw.iter_meta() {
                arena.reset();
                let extra = |name: &str| meta.map_or(Value::Missing, |m| m.field(name));
                let shown = match &self.find.projection {
                    _ if self.find.return_key => extra(INDEX_KEY).as_doc().unwrap_or(Doc::EMPTY),
                    Some(p) => {
                        let cx = Cx {
                            meta,
                            ..exec.cx(&arena, doc)
                        };
                        let position = match p.needs_position() {
                            true => {
                                self.find
                                    .filter
                                    .filter
                                    .matches_with_position(doc, &arena, exec.env)?
                                    .1
                            }
                            false => None,
                        };
                        p.apply_at(&cx, doc, position)?
                    }
                    None => doc,
                };
                if self.find.show_record_id && !self.find.return_key {
                    out.build(None, |w| {
                        w.put_all(shown).put("$recordId", extra(RECORD_ID));
                    });
                } else {
                    out.push(shown);
                }
            }
        }
        self.scratch = raw;
        Ok(more && self.left > 0)
    }
}
