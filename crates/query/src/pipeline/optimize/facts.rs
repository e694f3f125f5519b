//! What a stage does to the fields of documents, derived from its specification. A fact holds for
//! every document; a stage without facts may change everything. The fields it reads are known from
//! [`Stage::reads`].

use crate::exec::{CountOutput, GroupEnd};
use crate::stage::{Kind, Stage, Transform, single_field};
use model::{Doc, Value};
use operators::RequiredFields;
use operators::expr::ParseCx;
use operators::filter::Filter;
use std::collections::BTreeSet;

/// Top-level names of fields; `None` is every field.
pub(crate) type Names = Option<BTreeSet<String>>;

/// How a stage changes the fields of a document.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// All stay as they are.
    Keeps,
    /// These may change; the others stay.
    Changes(BTreeSet<String>),
    /// Only these stay as they are; all other fields of the output are new.
    Only(BTreeSet<String>),
    /// Nothing is known.
    Anything,
}

/// The facts of one stage.
#[derive(Debug)]
pub(super) struct Facts {
    /// What it does to fields.
    pub(super) effect: Effect,
    /// As many documents come out as went in, in the same order.
    pub(super) one_to_one: bool,
    /// New fields that are old fields under another name: the new and the old name.
    pub(super) renames: Vec<(String, String)>,
    /// The output has only the old fields that the stage names.
    pub(super) closes: bool,
}

impl Facts {
    fn unknown() -> Facts {
        Facts {
            effect: Effect::Anything,
            one_to_one: false,
            renames: Vec::new(),
            closes: false,
        }
    }
}

/// The fields that a stage uses.
pub(super) fn reads(stage: &dyn Stage) -> Names {
    let mut reads = RequiredFields::default();
    stage.reads(&mut reads);
    reads.names()
}

/// The facts of a stage.
pub(super) fn of(stage: &dyn Stage) -> Facts {
    match stage.kind() {
        Kind::Match(_) | Kind::Limit(_) | Kind::Skip(_) | Kind::Sort { .. } => Facts {
            effect: Effect::Keeps,
            ..Facts::unknown()
        },
        Kind::Transform(t) => of_transform(&t),
        Kind::Other => Facts::unknown(),
    }
}

fn of_transform(t: &Transform<'_>) -> Facts {
    match *t {
        Transform::Project(spec) => project(spec),
        Transform::AddFields(spec) => add_fields(spec),
        Transform::Unset(spec) => unset(spec),
        Transform::Unwind { path, index, .. } => unwind(path, index),
        Transform::Lookup(spec) => lookup(spec),
        Transform::Group(spec) => group(spec),
        Transform::Count => Facts {
            closes: true,
            ..Facts::unknown()
        },
        Transform::ReplaceRoot => Facts {
            one_to_one: true,
            closes: true,
            ..Facts::unknown()
        },
        Transform::SetWindowFields => Facts::unknown(),
    }
}

/// The top-level fields of the source's documents that the stages use; `None` if it may be all.
pub(crate) fn needs(stages: &[std::sync::Arc<dyn Stage>]) -> Names {
    let mut reads = RequiredFields::default();
    for stage in stages {
        stage.reads(&mut reads);
        if of(stage.as_ref()).closes {
            return reads.names();
        }
    }
    None
}

/// The path of a `$group` without accumulators: the stage uses only the values at this path.
pub(crate) fn groups_by_alone(stage: &dyn Stage) -> Option<String> {
    let Kind::Transform(Transform::Group(spec)) = stage.kind() else {
        return None;
    };
    let ("_id", Value::String(path)) = single_field(spec)? else {
        return None;
    };
    let path = path.strip_prefix('$').filter(|p| !p.starts_with('$'))?;
    Some(path.to_owned())
}

/// The groups of which one document is enough, for stages that begin with a sort and a `$group`
/// that keeps only values of each group's first document, or only of its last. Computed values are
/// not allowed: computing them may fail for another document.
pub(crate) fn group_end(stages: &[std::sync::Arc<dyn Stage>]) -> Option<GroupEnd> {
    let [sort, group, ..] = stages else {
        return None;
    };
    let (Kind::Sort { limit: None, .. }, Kind::Transform(Transform::Group(spec))) =
        (sort.kind(), group.kind())
    else {
        return None;
    };
    let (mut path, mut last) = (None, None);
    for (name, v) in spec.iter() {
        if name == "_id" {
            let id = v.as_str()?.strip_prefix('$');
            path = Some(id.filter(|p| !p.starts_with('$'))?.to_owned());
            continue;
        }
        let (operator, value) = single_field(v.as_doc()?)?;
        let is_last = match operator {
            "$first" => false,
            "$last" => true,
            _ => return None,
        };
        let value = value.as_str().filter(|value| value.starts_with('$'))?;
        let is_plain = !value.starts_with("$$") || value == "$$ROOT";
        if !is_plain || last.is_some_and(|last| last != is_last) {
            return None;
        }
        last = Some(is_last);
    }
    Some(GroupEnd {
        path: path?,
        last: last?,
    })
}

/// The output of a stage that needs only the number of its documents: `$count`, or a `$group` that
/// counts all documents.
pub(crate) fn number_only(stage: &dyn Stage) -> Option<CountOutput> {
    let spec = match stage.kind() {
        Kind::Transform(Transform::Group(spec)) => spec,
        Kind::Transform(Transform::Count) => {
            let shown = stage.describe();
            let name = shown.doc().first()?.1.as_str()?.to_owned();
            return Some(CountOutput {
                id: None,
                names: vec![name],
            });
        }
        _ => return None,
    };
    let (mut id, mut names) = (None, Vec::new());
    for (name, v) in spec.iter() {
        match v {
            Value::Null | Value::Bool(_) | Value::Int32(_) if name == "_id" => {
                id = Some(v.to_owned_value());
            }
            Value::Document(d) => match single_field(d)? {
                ("$sum", Value::Int32(1)) if name != "_id" => names.push(name.to_owned()),
                ("$count", Value::Document(d)) if name != "_id" && d.is_empty() => {
                    names.push(name.to_owned());
                }
                _ => return None,
            },
            _ => return None,
        }
    }
    id.map(|id| CountOutput {
        id: Some(id),
        names,
    })
}

/// The first component of a path.
pub(super) fn first(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// The fields that a filter uses; `None` if it must stay in its place or cannot be parsed.
pub(super) fn filter_names(cx: &mut ParseCx<'_>, spec: Doc<'_>) -> Names {
    let filter = Filter::parse(cx, spec).ok()?;
    let mut reads = RequiredFields::default();
    filter.root().reads(&mut reads);
    reads.names()
}

/// `"$name"` without dots or variables.
fn plain_reference(v: Value<'_>) -> Option<&str> {
    let name = v.as_str()?.strip_prefix('$')?;
    (!name.starts_with('$') && !name.contains('.')).then_some(name)
}

/// True for `0`, `1`, `true`, `false` and objects of them.
fn keeps_or_drops(v: Value<'_>) -> bool {
    match v {
        Value::Bool(_) => true,
        Value::Document(d) => {
            !d.is_empty()
                && d.iter()
                    .all(|(n, v)| !n.starts_with('$') && keeps_or_drops(v))
        }
        v => v.is_number(),
    }
}

/// Notes whether some leaves drop a field and whether others do not.
fn leaves(v: Value<'_>, drops: &mut bool, others: &mut bool) {
    match v {
        Value::Document(d) if !d.first().is_some_and(|(n, _)| n.starts_with('$')) => {
            d.iter().for_each(|(_, v)| leaves(v, drops, others))
        }
        v if (v.is_number() || v.as_bool().is_some()) && !v.truthy() => *drops = true,
        _ => *others = true,
    }
}

fn project(spec: Doc<'_>) -> Facts {
    let plain = |v: Value<'_>| !matches!(v, Value::Document(_)) && keeps_or_drops(v);
    let (mut drops, mut others) = (false, false);
    for (_, v) in spec.iter().filter(|(n, _)| *n != "_id") {
        leaves(v, &mut drops, &mut others);
    }
    if drops && others {
        // The parser refuses this, except below `_id`; no facts are given.
        return Facts::unknown();
    }
    if drops || !others && spec.get("_id").is_some_and(|v| plain(v) && !v.truthy()) {
        let dropped = spec
            .iter()
            .filter(|(n, v)| *n != "_id" || !v.truthy())
            .map(|(n, _)| first(n).to_owned())
            .collect();
        let id_computed = spec.get("_id").is_some_and(|v| !plain(v));
        return match id_computed {
            true => Facts::unknown(),
            false => Facts {
                effect: Effect::Changes(dropped),
                one_to_one: true,
                ..Facts::unknown()
            },
        };
    }
    let mut kept = BTreeSet::new();
    let mut renames = Vec::new();
    if !spec.contains("_id") {
        kept.insert("_id".to_owned());
    }
    for (path, v) in spec.iter().filter(|(path, _)| !path.contains('.')) {
        if plain(v) && v.truthy() {
            kept.insert(path.to_owned());
        } else if let Some(from) = plain_reference(v) {
            renames.push((path.to_owned(), from.to_owned()));
        }
    }
    Facts {
        effect: Effect::Only(kept),
        one_to_one: true,
        renames,
        closes: true,
    }
}

fn add_fields(spec: Doc<'_>) -> Facts {
    let changed: BTreeSet<String> = spec.iter().map(|(n, _)| first(n).to_owned()).collect();
    let renames = spec
        .iter()
        .filter(|(n, _)| !n.contains('.'))
        .filter_map(|(n, v)| Some((n.to_owned(), plain_reference(v)?.to_owned())))
        .collect();
    Facts {
        effect: Effect::Changes(changed),
        one_to_one: true,
        renames,
        closes: false,
    }
}

fn unset(spec: Value<'_>) -> Facts {
    let mut dropped = BTreeSet::new();
    match spec {
        Value::String(s) => drop(dropped.insert(first(s).to_owned())),
        Value::Array(a) => dropped.extend(
            a.iter()
                .filter_map(|v| v.as_str())
                .map(|s| first(s).to_owned()),
        ),
        _ => return Facts::unknown(),
    }
    Facts {
        effect: Effect::Changes(dropped),
        one_to_one: true,
        ..Facts::unknown()
    }
}

fn unwind(path: &str, index: Option<&str>) -> Facts {
    let mut changed = BTreeSet::from([first(path).to_owned()]);
    if let Some(index) = index {
        changed.insert(first(index).to_owned());
    }
    Facts {
        effect: Effect::Changes(changed),
        ..Facts::unknown()
    }
}

fn lookup(spec: Doc<'_>) -> Facts {
    let Some(to) = spec.field("as").as_str() else {
        return Facts::unknown();
    };
    let changed = BTreeSet::from([first(to).to_owned()]);
    Facts {
        effect: Effect::Changes(changed),
        one_to_one: true,
        ..Facts::unknown()
    }
}

/// A group keeps no field, but a filter on the key selects whole groups, so the key's fields count
/// as renames.
/// renames.
fn group(spec: Doc<'_>) -> Facts {
    let mut renames = Vec::new();
    match spec.field("_id") {
        Value::Document(d) => {
            for (n, v) in d.iter().filter(|(n, _)| !n.starts_with('$')) {
                if let Some(from) = plain_reference(v) {
                    renames.push((format!("_id.{n}"), from.to_owned()));
                }
            }
        }
        v => renames.extend(plain_reference(v).map(|from| ("_id".to_owned(), from.to_owned()))),
    }
    Facts {
        effect: Effect::Anything,
        one_to_one: false,
        renames,
        closes: true,
    }
}
