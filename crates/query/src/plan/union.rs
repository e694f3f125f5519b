//! Plans that are unions: a scan for each branch of an `$or`, and a scan for each point of an `$in`
//! whose rest of the index is in the wanted order; and the walk over them, one after another or
//! merged by the order.

use super::Access;
use super::bounds::{self, FieldBounds, ValueRange};
use super::choose::{Plan, Want, intervals, of_branch, sort_direction};
use super::read::Walk;
use crate::stages::sort_pattern::SortPattern;
use model::{Doc, Result};
use operators::Env;
use operators::filter::Node;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use store::{Collection, EachRow, Header, Index, ReadView, Row};

/// Most branches of a union.
const BRANCHES_MAX: usize = 64;
/// Most scans a list of points is turned into; MongoDB's `internalQueryMaxScansToExplode`.
const SCANS_MAX: usize = 200;
/// Documents a branch of a merge reads ahead.
const AHEAD: usize = 8;

/// A union over the branches of a disjunction the filter demands, when each branch has bounds of
/// its own.
pub(super) fn by_disjunction(
    coll: &Collection,
    want: &Want<'_>,
    root: &Node,
    indexes: &[Arc<Index>],
) -> Option<Plan> {
    let mut found = None;
    bounds::conjuncts(root, &mut |n| {
        if let (Node::Or(nodes), None) = (n, found) {
            found = Some(nodes);
        }
    });
    let nodes = found.filter(|n| n.len() <= BRANCHES_MAX)?;
    let mut branches = Vec::with_capacity(nodes.len());
    for n in nodes {
        let plan = of_branch(coll, want, n, indexes)?;
        if !matches!(plan.access, Access::Nothing) {
            branches.push(plan);
        }
    }
    if branches.is_empty() {
        return Some(Plan::nothing());
    }
    let complete = matches!(root, Node::Or(_)) && branches.iter().all(|p| p.complete);
    let ordered = want.sort.filter(|_| branches.iter().all(|p| p.sorted));
    let sorted = want.sort.is_none() || ordered.is_some();
    let access = Access::Union {
        branches,
        merge: ordered.map(|s| Arc::new(s.clone())),
        disjoint: false,
    };
    Some(Plan {
        complete,
        ..Plan::of(access, sorted)
    })
}

/// A scan for each combination of points of the leading fields, when each of them then comes in the
/// wanted order.
pub(super) fn by_points(
    index: &Arc<Index>,
    multikey: u32,
    fields: &[FieldBounds],
    want: &Want<'_>,
    root: &Node,
) -> Option<Plan> {
    let sort = want.sort?;
    let points = fields.iter().take_while(|b| b.is_points()).count();
    let mut combinations: Vec<Vec<&ValueRange>> = vec![Vec::new()];
    for b in fields.iter().take(points) {
        let ranges = b.ranges.as_ref()?;
        if ranges.len().saturating_mul(combinations.len()) > SCANS_MAX {
            return None;
        }
        combinations = combinations
            .iter()
            .flat_map(|c| {
                ranges
                    .iter()
                    .map(move |r| c.iter().copied().chain([r]).collect())
            })
            .collect();
    }
    if combinations.len() < 2 {
        return None;
    }
    let mut branches = Vec::with_capacity(combinations.len());
    for points in &combinations {
        let mut own = fields.to_vec();
        for (b, r) in own.iter_mut().zip(points) {
            b.ranges = Some(vec![(*r).clone()]);
        }
        let reverse = sort_direction(index, &own, Some(sort), true)?;
        let (intervals, used) = intervals(index, &own);
        own.iter_mut()
            .skip(used)
            .for_each(|b| *b = FieldBounds::all());
        if intervals.is_empty() {
            continue;
        }
        let access = Access::Index {
            name: index.name().to_owned(),
            intervals,
            reverse,
        };
        let complete = super::choose::all_exact(root, &|path| {
            index
                .fields()
                .iter()
                .zip(&own)
                .any(|(f, b)| b.exact && f.path.as_str() == path)
        });
        branches.push(Plan {
            index: Some(index.clone()),
            multikey,
            bounds: own,
            complete,
            ..Plan::of(access, true)
        });
    }
    if branches.is_empty() {
        return Some(Plan::nothing());
    }
    let complete = branches.iter().all(|p| p.complete);
    let access = Access::Union {
        branches,
        merge: Some(Arc::new(sort.clone())),
        disjoint: true,
    };
    Some(Plan {
        index: Some(index.clone()),
        multikey,
        complete,
        ..Plan::of(access, true)
    })
}

/// A row read ahead.
struct Ahead {
    key: Vec<u8>,
    header: Header,
    doc: Vec<u8>,
    /// Its key, whose bytes compare as the order does.
    order: Vec<u8>,
    score: f64,
}

struct Branch {
    walk: Walk,
    ahead: VecDeque<Ahead>,
    more: bool,
}

/// A walk over a union.
pub(super) struct UnionWalk {
    branches: Vec<Branch>,
    merge: Option<Arc<SortPattern>>,
    at: usize,
    seen: Option<FxHashSet<Vec<u8>>>,
}

impl UnionWalk {
    pub(super) fn open(
        coll: &Arc<Collection>,
        view: &ReadView,
        branches: &[Plan],
        merge: Option<&Arc<SortPattern>>,
        disjoint: bool,
    ) -> UnionWalk {
        let branches = branches
            .iter()
            .map(|p| Branch {
                walk: Walk::open(coll, view, p),
                ahead: VecDeque::new(),
                more: true,
            })
            .collect();
        UnionWalk {
            branches,
            merge: merge.cloned(),
            at: 0,
            seen: (!disjoint).then(FxHashSet::default),
        }
    }

    pub(super) fn visit(
        &mut self,
        coll: &Collection,
        env: &Env,
        max: usize,
        f: &mut EachRow<'_>,
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
        f: &mut EachRow<'_>,
    ) -> Result<bool> {
        let mut shown = 0;
        let seen = &mut self.seen;
        while let Some(branch) = self.branches.get_mut(self.at) {
            let mut stopped = false;
            let more = branch.walk.visit(coll, env, max - shown, &mut |row| {
                if seen.as_mut().is_some_and(|s| !s.insert(row.key.to_vec())) {
                    return true;
                }
                shown += 1;
                stopped = !f(row);
                !stopped && shown < max
            })?;
            if !more {
                branch.walk.pause();
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
        f: &mut EachRow<'_>,
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

    pub(super) fn keys_by_branch(&self) -> Vec<u64> {
        self.branches
            .iter()
            .map(|b| b.walk.keys_examined())
            .collect()
    }

    pub(super) fn keys_examined(&self) -> u64 {
        self.branches.iter().map(|b| b.walk.keys_examined()).sum()
    }

    pub(super) fn pause(&mut self) {
        self.branches.iter_mut().for_each(|b| b.walk.pause());
    }
}

impl Branch {
    fn fill(&mut self, coll: &Collection, env: &Env, order: &SortPattern) -> Result<()> {
        let mut failed = None;
        while self.more && self.ahead.is_empty() && failed.is_none() {
            let ahead = &mut self.ahead;
            self.more = self.walk.visit(coll, env, AHEAD, &mut |row| {
                let mut key = Vec::new();
                if let Err(e) = order.key_into(row.doc, None, env, &mut key) {
                    failed = Some(e);
                    return false;
                }
                ahead.push_back(Ahead {
                    key: row.key.to_vec(),
                    header: row.header,
                    doc: row.doc.as_bytes().to_vec(),
                    order: key,
                    score: row.score,
                });
                true
            })?;
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The branch whose next row comes first; of equal ones the first.
fn least(branches: &[Branch]) -> Option<usize> {
    let heads = branches
        .iter()
        .enumerate()
        .filter_map(|(i, b)| Some((i, &b.ahead.front()?.order)));
    heads.min_by(|(_, a), (_, b)| a.cmp(b)).map(|(i, _)| i)
}
