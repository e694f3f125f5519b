//! What a stage reads and what it does to documents, told from the stage's own specification. Only
//! facts that hold for every document are told; whatever is not in the tables here reads everything
//! and changes everything.

use crate::stage::{Kind, Stage, Transform, single_field};
use model::{Doc, Value};
use std::collections::BTreeSet;

/// Top-level names of fields; `None` is every field.
pub(crate) type Names = Option<BTreeSet<String>>;

/// What happens to the fields of a document on its way through a stage.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// All stay as they are.
    Keeps,
    /// These may change; the others stay.
    Changes(BTreeSet<String>),
    /// Only these stay as they are; whatever else comes out is new.
    Only(BTreeSet<String>),
    /// Nothing is known.
    Anything,
}

/// The facts of one stage.
#[derive(Debug)]
pub(super) struct Facts {
    /// Fields it looks at.
    pub(super) reads: Names,
    /// What it does to fields.
    pub(super) effect: Effect,
    /// As many documents come out as went in, in the same order.
    pub(super) one_to_one: bool,
    /// New fields that are old ones under another name.
    pub(super) renames: Vec<(String, String)>,
    /// Nothing of the old document is left but what it names.
    pub(super) closes: bool,
}

impl Facts {
    fn unknown() -> Facts {
        Facts {
            reads: None,
            effect: Effect::Anything,
            one_to_one: false,
            renames: Vec::new(),
            closes: false,
        }
    }
}

/// The facts of a stage.
pub(super) fn of(stage: &dyn Stage) -> Facts {
    match stage.kind() {
        Kind::Match(filter) => Facts {
            reads: filter_names(filter.spec.doc()),
            effect: Effect::Keeps,
            ..Facts::unknown()
        },
        Kind::Limit(_) | Kind::Skip(_) => Facts {
            reads: Some(BTreeSet::new()),
            effect: Effect::Keeps,
            ..Facts::unknown()
        },
        Kind::Sort { pattern, .. } => {
            let reads = pattern
                .spec()
                .iter()
                .map(|(n, _)| first(n).to_owned())
                .collect();
            Facts {
                reads: Some(reads),
                effect: Effect::Keeps,
                ..Facts::unknown()
            }
        }
        Kind::Transform(t) => of_transform(&t),
        Kind::Other => Facts::unknown(),
    }
}

fn of_transform(t: &Transform<'_>) -> Facts {
    match *t {
        Transform::Project(spec) => project(spec),
        Transform::AddFields(spec) => add_fields(spec),
        Transform::Unset(spec) => unset(spec),
        Transform::Unwind { path, index } => unwind(path, index),
        Transform::Lookup(spec) => lookup(spec),
        Transform::Group(spec) => group(spec),
        Transform::Count => Facts {
            reads: Some(BTreeSet::new()),
            closes: true,
            ..Facts::unknown()
        },
        Transform::ReplaceRoot(root) => Facts {
            reads: names_of(root),
            one_to_one: true,
            closes: true,
            ..Facts::unknown()
        },
        Transform::SetWindowFields(spec) => Facts {
            reads: names_of(spec),
            ..Facts::unknown()
        },
    }
}

/// The top-level fields stages need of the documents of their source; `None` when it may be all of
/// them.
pub(crate) fn needs(stages: &[std::sync::Arc<dyn Stage>]) -> Names {
    let mut all = BTreeSet::new();
    for stage in stages {
        let facts = of(stage.as_ref());
        all.extend(facts.reads?);
        if facts.closes {
            return Some(all);
        }
    }
    None
}

/// The path a `$group` without accumulators groups by: it looks at no more than the values there.
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

/// The first component of a path.
pub(super) fn first(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

/// The fields a filter looks at.
pub(super) fn filter_names(spec: Doc<'_>) -> Names {
    let mut out = BTreeSet::new();
    collect_filter(spec, &mut out).then_some(out)
}

fn collect_filter(spec: Doc<'_>, out: &mut BTreeSet<String>) -> bool {
    spec.iter().all(|(name, v)| match (name, v) {
        ("$and" | "$or" | "$nor", Value::Array(list)) => list
            .iter()
            .all(|v| v.as_doc().is_some_and(|d| collect_filter(d, out))),
        ("$expr", v) => collect(v, out),
        ("$comment", _) => true,
        (op, _) if op.starts_with('$') => false,
        // Filters that order by distance must stay where they are.
        (_, Value::Document(d))
            if d.iter()
                .any(|(op, _)| matches!(op, "$near" | "$nearSphere")) =>
        {
            false
        }
        (path, _) => {
            out.insert(first(path).to_owned());
            true
        }
    })
}

/// The fields an expression looks at.
fn names_of(v: Value<'_>) -> Names {
    let mut out = BTreeSet::new();
    collect(v, &mut out).then_some(out)
}

/// False when it may look at any field, or gives another value each time.
fn collect(v: Value<'_>, out: &mut BTreeSet<String>) -> bool {
    match v {
        Value::String(s) => match s.strip_prefix('$') {
            Some(variable) if variable.starts_with('$') => {
                !matches!(first(variable), "$ROOT" | "$CURRENT")
            }
            Some(path) => {
                out.insert(first(path).to_owned());
                true
            }
            None => true,
        },
        Value::Document(d) => d.iter().all(|(name, v)| match name {
            "$literal" => true,
            "$getField" | "$setField" | "$unsetField" | "$function" | "$accumulator" | "$meta"
            | "$_internalJsEmit" | "$_internalJsReduce" | "$rand" | "$sampleRate" | "$where" => {
                false
            }
            // An order names its fields without dollars.
            "sortBy" => {
                if let Value::Document(order) = v {
                    out.extend(order.iter().map(|(n, _)| first(n).to_owned()));
                }
                collect(v, out)
            }
            _ => collect(v, out),
        }),
        Value::Array(a) => a.iter().all(|v| collect(v, out)),
        _ => true,
    }
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

/// Whether there are leaves that drop a field, and others.
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
        // Refused by the parser, but for an `_id` below; nothing is claimed about it.
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
                reads: Some(BTreeSet::new()),
                effect: Effect::Changes(dropped),
                one_to_one: true,
                ..Facts::unknown()
            },
        };
    }
    let mut kept = BTreeSet::new();
    let mut renames = Vec::new();
    let mut reads = BTreeSet::new();
    let mut known = true;
    if !spec.contains("_id") {
        kept.insert("_id".to_owned());
        reads.insert("_id".to_owned());
    }
    for (path, v) in spec.iter() {
        if plain(v) {
            if v.truthy() {
                reads.insert(first(path).to_owned());
                if !path.contains('.') {
                    kept.insert(path.to_owned());
                }
            }
            continue;
        }
        // Computed: fields below a path that is there already are added to it.
        if path.contains('.')
            || keeps_or_drops(v)
            || matches!(v, Value::Document(d) if !d.first().is_some_and(|(n, _)|
                n.starts_with('$')))
        {
            reads.insert(first(path).to_owned());
        }
        known = known && collect(v, &mut reads);
        if let (Some(from), false) = (plain_reference(v), path.contains('.')) {
            renames.push((path.to_owned(), from.to_owned()));
        }
    }
    Facts {
        reads: known.then_some(reads),
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
    let mut reads = names_of(Value::Document(spec));
    // A path below a field needs the field.
    if let Some(r) = &mut reads {
        r.extend(changed.iter().cloned());
    }
    Facts {
        reads,
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
        reads: Some(BTreeSet::new()),
        effect: Effect::Changes(dropped),
        one_to_one: true,
        ..Facts::unknown()
    }
}

fn unwind(path: &str, index: Option<&str>) -> Facts {
    let mut changed = BTreeSet::from([first(path).to_owned()]);
    let reads = Some(changed.clone());
    if let Some(index) = index {
        changed.insert(first(index).to_owned());
    }
    let reads = reads.map(|mut r| {
        r.extend(changed.iter().cloned());
        r
    });
    Facts {
        reads,
        effect: Effect::Changes(changed),
        ..Facts::unknown()
    }
}

fn lookup(spec: Doc<'_>) -> Facts {
    let Some(to) = spec.field("as").as_str() else {
        return Facts::unknown();
    };
    let changed = BTreeSet::from([first(to).to_owned()]);
    let mut reads = changed.clone();
    if let Some(local) = spec.field("localField").as_str() {
        reads.insert(first(local).to_owned());
    }
    let known = collect(spec.field("let"), &mut reads);
    Facts {
        reads: known.then_some(reads),
        effect: Effect::Changes(changed),
        one_to_one: true,
        ..Facts::unknown()
    }
}

/// Groups keep no field, but a filter on the key selects whole groups: the key's fields are
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
        reads: names_of(Value::Document(spec)),
        effect: Effect::Anything,
        one_to_one: false,
        renames,
        closes: true,
    }
}
