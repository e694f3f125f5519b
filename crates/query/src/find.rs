//! A `find`: filter, order, skip, limit and projection over one collection, as a chain of pull
//! operators.

use crate::near;
use crate::pipeline::{Batch, Docs, MatchFilter, Rt};
use crate::plan::{self, Hint, INDEX_KEY, Plan, PlanDocs, RECORD_ID, Want, choose};
use crate::rows::Run;
use crate::stages::sort::sort_all;
use crate::stages::sort_pattern::SortPattern;
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
}

impl Find {
    /// Chooses how to read.
    ///
    /// # Errors
    /// 2 for a hint that names no index.
    pub fn plan(&self, coll: &Collection) -> Result<Plan> {
        let bounded = !self.min.doc().is_empty() || !self.max.doc().is_empty();
        // With a `$text` the planner says why not.
        if bounded && self.filter.filter.text().is_none() {
            let plan = plan::between(coll, self.hint.as_ref(), self.min.doc(), self.max.doc())?;
            let view = self.view.clone().unwrap_or_default();
            return Ok(Plan {
                sorted: self.sort.is_none(),
                view,
                ..plan
            });
        }
        let want = Want {
            filter: Some(&self.filter),
            sort: self.sort.as_ref(),
            hint: self.hint.as_ref(),
            collation: self.collation.as_ref().map(DocBuf::doc),
            view: self.view.as_ref(),
        };
        choose(coll, &want)
    }

    /// Opens the chain.
    ///
    /// # Errors
    /// Those of the planner.
    pub fn open(self: &Arc<Self>, coll: Arc<Collection>) -> Result<Box<dyn Docs>> {
        if self.tail {
            if self.filter.filter.text().is_some() {
                bail!(
                    code::BAD_VALUE,
                    "error processing query: text and tailable cursor not allowed in same query"
                );
            }
            // Only the collection itself has an end where new documents come in; other hints count
            // for nothing.
            let reverse = matches!(self.hint, Some(Hint::Natural { reverse: true }));
            let wanted = self.limit.map(|n| n.saturating_add(self.skip));
            let mut source = PlanDocs::tail(coll, reverse, Some(self.filter.clone()), wanted);
            if self.tells_more() {
                source = source.with_extras(&Plan::scan());
            }
            return Ok(self.above(Box::new(source), true));
        }
        let plan = self.plan(&coll)?;
        let sorted = plan.sorted || self.sort.is_none();
        let wanted = self.limit.map(|n| n.saturating_add(self.skip));
        let near = self.filter.filter.near().is_some();
        if near {
            near::check_index(&self.filter, &coll)?;
        }
        let source = PlanDocs::new(
            coll,
            &plan,
            Some(self.filter.clone()),
            wanted.filter(|_| sorted && !near),
        );
        let source = if self.tells_more() {
            source.with_extras(&plan)
        } else {
            source
        };
        let source: Box<dyn Docs> = match near && self.sort.is_none() {
            true => Box::new(near::NearDocs::new(Box::new(source), self.filter.clone())),
            false => Box::new(source),
        };
        Ok(self.above(source, sorted))
    }

    fn tells_more(&self) -> bool {
        self.return_key || self.show_record_id
    }

    fn above(self: &Arc<Self>, source: Box<dyn Docs>, sorted: bool) -> Box<dyn Docs> {
        Box::new(FindDocs {
            find: self.clone(),
            source,
            sort: (!sorted).then_some(None),
            skip: self.skip,
            left: self.limit.unwrap_or(u64::MAX),
            scratch: Batch::new(),
        })
    }
}

struct FindDocs {
    find: Arc<Find>,
    source: Box<dyn Docs>,
    /// `Some(None)` before and `Some(Some)` after sorting, when the source is not in order.
    sort: Option<Option<Run>>,
    skip: u64,
    left: u64,
    scratch: Batch,
}

impl FindDocs {
    fn pull(&mut self, rt: &Rt<'_>, out: &mut Batch) -> Result<bool> {
        let Some(run) = &mut self.sort else {
            return self.source.next_batch(rt, out);
        };
        let Some(pattern) = &self.find.sort else {
            return Ok(false);
        };
        let run = match run {
            Some(run) => run,
            none => {
                let keep = self.find.limit.map(|n| n.saturating_add(self.find.skip));
                none.insert(sort_all(pattern, keep, self.source.as_mut(), rt)?)
            }
        };
        run.next_batch(out)
    }
}

impl Docs for FindDocs {
    fn next_batch(&mut self, rt: &Rt<'_>, out: &mut Batch) -> Result<bool> {
        if self.left == 0 {
            return Ok(false);
        }
        let mut raw = std::mem::take(&mut self.scratch);
        let projected = self.find.projection.is_some() || self.find.tells_more();
        raw.want(out.wanted());
        let target = if projected { &mut raw } else { &mut *out };
        target.clear();
        let more = self.pull(rt, target)?;
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
                            ..rt.cx(&arena, doc)
                        };
                        let position = match p.needs_position() {
                            true => {
                                self.find
                                    .filter
                                    .filter
                                    .matches_with_position(doc, &arena, rt.env)?
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
