//! A plan as explain shows it.

use super::bounds::Bound;
use super::{Access, Plan};
use crate::pipeline::MatchFilter;
use model::{DocBuf, DocWriter};

/// The `winningPlan` of a read.
pub fn explain(plan: &Plan, filter: Option<&MatchFilter>) -> DocBuf {
    DocBuf::build(|w| {
        w.put("isCached", false);
        match &plan.access {
            Access::Nothing => {
                w.put("stage", "EOF");
            }
            Access::Collection { reverse } => {
                w.put("stage", "COLLSCAN");
                put_filter(w, filter);
                w.put("direction", direction(*reverse));
            }
            Access::Ids { ids, .. } if ids.len() == 1 => {
                w.put("stage", "EXPRESS_CLUSTERED_IXSCAN").put("keyPattern", &model::doc! { "_id": 1i32 });
                w.put("indexName", "_id_");
                put_filter(w, filter);
            }
            Access::Ids { reverse, .. } | Access::IdRange { reverse, .. } => {
                w.put("stage", "CLUSTERED_IXSCAN");
                put_filter(w, filter);
                w.put("keyPattern", &model::doc! { "_id": 1i32 }).put("indexName", "_id_");
                w.put("direction", direction(*reverse));
            }
            Access::Union { branches, .. } => {
                w.put("stage", "OR");
                let mut list = w.array("inputStages");
                for b in branches {
                    list.push(&explain(b, None));
                }
            }
            Access::Index { name, reverse, .. } => {
                w.put("stage", "FETCH");
                put_filter(w, filter);
                let mut scan = w.doc("inputStage");
                scan.put("stage", "IXSCAN");
                if let Some(i) = &plan.index {
                    scan.put("keyPattern", i.key_pattern()).put("indexName", name.as_str());
                    scan.put("isMultiKey", i.is_multikey()).put("isUnique", i.is_unique());
                    scan.put("isSparse", i.is_sparse()).put("isPartial", i.is_partial());
                    scan.put("indexVersion", 2i32).put("direction", direction(*reverse));
                    let mut b = scan.doc("indexBounds");
                    for (f, bounds) in i.fields().iter().zip(&plan.bounds) {
                        let mut list = b.array(f.path.as_str());
                        match &bounds.ranges {
                            None => {
                                list.push("[MinKey, MaxKey]");
                            }
                            Some(ranges) => {
                                for r in ranges {
                                    list.push(shown(r).as_str());
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}

fn put_filter(w: &mut DocWriter<'_>, filter: Option<&MatchFilter>) {
    if let Some(f) = filter.filter(|f| !f.filter.is_always_true()) {
        w.put("filter", f.spec.doc());
    }
}

fn direction(reverse: bool) -> &'static str {
    if reverse { "backward" } else { "forward" }
}

/// Bounds are shown as their encoded bytes in hexadecimal: exact, and the same for every type.
fn shown(r: &super::ValueRange) -> String {
    let hex = |b: &[u8]| b.iter().map(|x| format!("{x:02x}")).collect::<String>();
    let end = |b: &Bound| match b {
        Bound::Included(c) | Bound::Excluded(c) => format!("x'{}'", hex(c)),
        Bound::Prefix(p) => hex(p),
        Bound::Class(c) => format!("class {c:#04x}"),
    };
    let open = if matches!(r.low, Bound::Excluded(_)) { "(" } else { "[" };
    let close = if matches!(r.high, Bound::Included(_)) { "]" } else { ")" };
    format!("{open}{}, {}{close}", end(&r.low), end(&r.high))
}
