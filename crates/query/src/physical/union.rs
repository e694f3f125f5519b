//! The scans of a union, one after another or merged by order; a document from several scans is
//! shown once. Must not know: filters.

use super::steps::Steps;
use crate::exec::SortPattern;
use crate::shown::ReadCounts;
use model::{Doc, Result};
use operators::Env;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use store::{Collection, Header, Row, RowVisitor};

/// Rows a branch of a merge reads ahead.
const AHEAD: usize = 8;

/// A row read ahead.
struct BufferedRow {
    key: Vec<u8>,
    header: Header,
    doc: Vec<u8>,
    /// The sort key; its bytes compare in the wanted order.
    sort_key: Vec<u8>,
    score: f64,
}

/// One of the scans.
pub(super) struct Branch<S> {
    scan: S,
    ahead: VecDeque<BufferedRow>,
    more: bool,
    /// Each document also counts as an entry of the `_id` index.
    reads_ids: bool,
    /// Rows shown, before those that another branch has shown are left out.
    shown: u64,
}

/// The scans of a union, one after another or merged by order.
pub(super) struct UnionScan<S> {
    branches: Vec<Branch<S>>,
    merge: Option<Arc<SortPattern>>,
    at: usize,
    seen: Option<FxHashSet<Vec<u8>>>,
}

impl<S: Steps> UnionScan<S> {
    pub(super) fn new(
        branches: Vec<Branch<S>>,
        merge: Option<Arc<SortPattern>>,
        disjoint: bool,
    ) -> UnionScan<S> {
        UnionScan {
            branches,
            merge,
            at: 0,
            seen: (!disjoint).then(FxHashSet::default),
        }
    }

    pub(super) fn visit(
        &mut self,
        coll: &Collection,
        env: &Env,
        max: usize,
        f: &mut RowVisitor<'_>,
    ) -> Result<bool> {
        match self.merge.clone() {
            Some(order) => self.visit_merged(coll, env, &order, max, f),
            None => self.visit_in_turn(coll, env, max, f),
        }
    }

    fn visit_in_turn(
        &mut self,
        coll: &Collection,
        env: &Env,
        max: usize,
        f: &mut RowVisitor<'_>,
    ) -> Result<bool> {
        let mut shown = 0;
        let seen = &mut self.seen;
        while let Some(branch) = self.branches.get_mut(self.at) {
            let mut stopped = false;
            let of_branch = &mut branch.shown;
            let more = branch.scan.visit(coll, env, max - shown, &mut |row| {
                *of_branch += 1;
                if seen.as_mut().is_some_and(|s| !s.insert(row.key.to_vec())) {
                    return true;
                }
                shown += 1;
                stopped = !f(row);
                !stopped && shown < max
            })?;
            if !more {
                branch.scan.pause();
                branch.more = false;
                self.at += 1;
            }
            if stopped || shown >= max {
                break;
            }
        }
        Ok(self.at < self.branches.len())
    }

    fn visit_merged(
        &mut self,
        coll: &Collection,
        env: &Env,
        order: &SortPattern,
        max: usize,
        f: &mut RowVisitor<'_>,
    ) -> Result<bool> {
        let mut shown = 0;
        while shown < max {
            for b in self
                .branches
                .iter_mut()
                .filter(|b| b.more && b.ahead.is_empty())
            {
                b.fill(coll, env, order)?;
            }
            let Some(next) = least(&self.branches) else {
                return Ok(false);
            };
            let Some(row) = self
                .branches
                .get_mut(next)
                .and_then(|b| b.ahead.pop_front())
            else {
                return Ok(false);
            };
            if self
                .seen
                .as_mut()
                .is_some_and(|s| !s.insert(row.key.clone()))
            {
                continue;
            }
            shown += 1;
            let doc = Doc::new(&row.doc).unwrap_or(Doc::EMPTY);
            if !f(Row {
                key: &row.key,
                header: row.header,
                doc,
                score: row.score,
            }) {
                break;
            }
        }
        Ok(self.branches.iter().any(|b| b.more || !b.ahead.is_empty()))
    }

    pub(super) fn counts(&self) -> Vec<ReadCounts> {
        self.branches.iter().map(Branch::counts).collect()
    }

    pub(super) fn keys_examined(&self) -> u64 {
        self.branches.iter().map(|b| b.counts().keys).sum()
    }

    /// Documents read, if no branch reads one for each row.
    pub(super) fn documents_read(&self) -> Option<u64> {
        let of_branches = self.branches.iter().map(|b| b.scan.documents_read());
        of_branches.sum()
    }

    pub(super) fn pause(&mut self) {
        self.branches.iter_mut().for_each(|b| b.scan.pause());
    }
}

impl<S: Steps> Branch<S> {
    pub(super) fn new(scan: S, reads_ids: bool) -> Branch<S> {
        Branch {
            scan,
            ahead: VecDeque::new(),
            more: true,
            reads_ids,
            shown: 0,
        }
    }

    fn counts(&self) -> ReadCounts {
        ReadCounts {
            keys: self.scan.keys_examined() + if self.reads_ids { self.shown } else { 0 },
            docs: self.scan.documents_read().unwrap_or(self.shown),
            matched: self.shown,
            ended: !self.more,
            ..ReadCounts::default()
        }
    }

    fn fill(&mut self, coll: &Collection, env: &Env, order: &SortPattern) -> Result<()> {
        let mut failed = None;
        while self.more && self.ahead.is_empty() && failed.is_none() {
            let (ahead, rows) = (&mut self.ahead, &mut self.shown);
            self.more = self.scan.visit(coll, env, AHEAD, &mut |row| {
                *rows += 1;
                let mut key = Vec::new();
                if let Err(e) = order.key_into(row.doc, None, env, &mut key) {
                    failed = Some(e);
                    return false;
                }
                ahead.push_back(BufferedRow {
                    key: row.key.to_vec(),
                    header: row.header,
                    doc: row.doc.as_bytes().to_vec(),
                    sort_key: key,
                    score: row.score,
                });
                true
            })?;
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The branch whose next row sorts first; of equal rows, the first branch.
fn least<S>(branches: &[Branch<S>]) -> Option<usize> {
    let heads = branches
        .iter()
        .enumerate()
        .filter_map(|(i, b)| Some((i, &b.ahead.front()?.sort_key)));
    heads.min_by(|(_, a), (_, b)| a.cmp(b)).map(|(i, _)| i)
}
