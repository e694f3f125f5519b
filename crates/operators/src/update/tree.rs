//! The operators of one update arranged by path; conflicts are found while parsing.

use super::array_filters::ArrayFilters;
use super::modifier::Modifier;
use super::path::{self, Part};
use super::{add_to_set, arithmetic, bit, current_date, fields, min_max, pop, pull, push, rename};
use crate::cx::NODE_WORK;
use crate::expr::ParseCx;
use model::{Doc, Result, Value, bail, code};
use rustc_hash::FxHashMap;

/// The changes at a path.
pub(super) enum Node {
    Leaf(Box<dyn Modifier>),
    Branch(Branch),
}

impl Node {
    /// See [`Modifier::wants_viable_path`].
    pub(super) fn wants_viable_path(&self) -> bool {
        match self {
            Node::Leaf(m) => m.wants_viable_path(),
            Node::Branch(b) => b.wants_viable_path(),
        }
    }
}

/// The changes below a path.
#[derive(Default)]
pub(super) struct Branch {
    /// By name; sorted in the order of new fields once everything is parsed.
    pub(super) fields: Vec<(String, Node)>,
    /// Index of each name in `fields` while parsing.
    places: FxHashMap<String, usize>,
    /// `$`
    pub(super) positional: Option<Box<Node>>,
    /// `$[]`
    pub(super) all: Option<Box<Node>>,
    /// `$[id]`
    pub(super) filtered: Vec<(String, Node)>,
}

impl Branch {
    /// See [`Modifier::wants_viable_path`].
    pub(super) fn wants_viable_path(&self) -> bool {
        self.fields.iter().any(|(_, n)| n.wants_viable_path())
    }

    /// Names of the document's own fields that may change.
    pub(super) fn top_level(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn uses_position(&self) -> bool {
        let below = |n: &Node| matches!(n, Node::Branch(b) if b.uses_position());
        self.positional.is_some()
            || self.fields.iter().any(|(_, n)| below(n))
            || self.filtered.iter().any(|(_, n)| below(n))
            || self.all.as_deref().is_some_and(below)
    }

    /// True when the value must be an array (`$[]`, `$[id]`).
    pub(super) fn wants_array(&self) -> bool {
        self.all.is_some() || !self.filtered.is_empty()
    }

    /// The child at `part`, created when it does not exist; the second value is false when it
    /// existed.
    fn child(&mut self, part: &Part, path: &str) -> Result<&mut Node> {
        let named = !self.fields.is_empty() || self.positional.is_some();
        let array_part = matches!(part, Part::All | Part::Filtered(_));
        if array_part && named || !array_part && self.wants_array() {
            return Err(conflict(path, path));
        }
        let fresh = || Node::Branch(Branch::default());
        Ok(match part {
            Part::Positional => self.positional.get_or_insert_with(|| Box::new(fresh())),
            Part::All => self.all.get_or_insert_with(|| Box::new(fresh())),
            Part::Filtered(id) => {
                let at = match self.filtered.iter().position(|(n, _)| n == id) {
                    Some(i) => i,
                    None => {
                        self.filtered.push((id.clone(), fresh()));
                        self.filtered.len() - 1
                    }
                };
                &mut self.filtered[at].1
            }
            Part::Name(name) => {
                let at = match self.places.get(name) {
                    Some(i) => *i,
                    None => {
                        self.places.insert(name.clone(), self.fields.len());
                        self.fields.push((name.clone(), fresh()));
                        self.fields.len() - 1
                    }
                };
                &mut self.fields[at].1
            }
        })
    }

    /// The child called `name`.
    pub(super) fn field(&self, name: &str) -> Option<&Node> {
        let at = self
            .fields
            .binary_search_by(|(n, _)| path::field_order(n, name))
            .ok()?;
        self.fields.get(at).map(|(_, n)| n)
    }

    /// Sorts the fields of all branches.
    fn settle(&mut self) {
        self.places = FxHashMap::default();
        self.fields
            .sort_by(|(a, _), (b, _)| path::field_order(a, b));
        let below = self
            .fields
            .iter_mut()
            .chain(&mut self.filtered)
            .map(|(_, n)| n);
        let below = below
            .chain(self.positional.as_deref_mut())
            .chain(self.all.as_deref_mut());
        for n in below {
            if let Node::Branch(b) = n {
                b.settle();
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.fields.is_empty() && self.positional.is_none() && !self.wants_array()
    }

    /// Inserts a modifier at a path.
    fn insert(&mut self, parts: &[Part], path: &str, modifier: Box<dyn Modifier>) -> Result<()> {
        let Some((head, rest)) = parts.split_first() else {
            return Err(conflict(path, path));
        };
        let child = self.child(head, path)?;
        match child {
            Node::Leaf(_) => Err(conflict(path, path)),
            Node::Branch(b) if rest.is_empty() => {
                if !b.is_empty() {
                    return Err(conflict(path, path));
                }
                *child = Node::Leaf(modifier);
                Ok(())
            }
            Node::Branch(b) => b.insert(rest, path, modifier),
        }
    }
}

pub(super) fn conflict(path: &str, at: &str) -> model::MongoError {
    model::MongoError::new(
        code::CONFLICTING_UPDATE_OPERATORS,
        format!("Updating the path '{path}' would create a conflict at '{at}'"),
    )
}

/// Parses an operator document.
///
/// # Errors
/// 9 FailedToParse for unknown operators and operands that are not documents; the errors of paths
/// and operators; 40 ConflictingUpdateOperators for conflicts.
pub(super) fn parse(
    cx: &mut ParseCx<'_>,
    spec: Doc<'_>,
    filters: &mut ArrayFilters,
) -> Result<Branch> {
    let mut root = Branch::default();
    for (name, operand) in spec.iter() {
        if !is_operator(name) {
            bail!(
                code::FAILED_TO_PARSE,
                "Unknown modifier: {name}. Expected a valid update modifier or pipeline-style \
                    update specified as an array"
            );
        }
        let Value::Document(operand) = operand else {
            bail!(
                code::FAILED_TO_PARSE,
                "Modifiers operate on fields but we found type {} instead. For example: {{$mod: \
                    {{<field>: ...}}}} not \
                 {{{name}: {}}}",
                operand.type_name(),
                operand
            );
        };
        for (field, v) in operand.iter() {
            cx.env.work(NODE_WORK)?;
            if name == "$rename" {
                rename::parse(field, v, filters, &mut |parts, path, m| {
                    root.insert(parts, path, m)
                })?;
                continue;
            }
            let parts = filters.checked_path(field)?;
            let modifier = modifier(cx, name, field, v)?;
            root.insert(&parts, field, modifier)?;
        }
    }
    root.settle();
    Ok(root)
}

fn is_operator(name: &str) -> bool {
    matches!(
        name,
        "$set"
            | "$setOnInsert"
            | "$unset"
            | "$inc"
            | "$mul"
            | "$min"
            | "$max"
            | "$currentDate"
            | "$bit"
            | "$push"
            | "$addToSet"
            | "$pop"
            | "$pull"
            | "$pullAll"
            | "$rename"
    )
}

fn modifier(
    cx: &mut ParseCx<'_>,
    name: &str,
    field: &str,
    v: Value<'_>,
) -> Result<Box<dyn Modifier>> {
    Ok(match name {
        "$set" => Box::new(fields::Set::new(v, false)),
        "$setOnInsert" => Box::new(fields::Set::new(v, true)),
        "$unset" => Box::new(fields::Unset),
        "$inc" => Box::new(arithmetic::Arithmetic::parse(
            arithmetic::Op::Inc,
            field,
            v,
        )?),
        "$mul" => Box::new(arithmetic::Arithmetic::parse(
            arithmetic::Op::Mul,
            field,
            v,
        )?),
        "$min" => Box::new(min_max::MinMax::new(v, true)),
        "$max" => Box::new(min_max::MinMax::new(v, false)),
        "$currentDate" => Box::new(current_date::CurrentDate::parse(v)?),
        "$bit" => Box::new(bit::Bit::parse(field, v)?),
        "$push" => Box::new(push::Push::parse(field, v)?),
        "$addToSet" => Box::new(add_to_set::AddToSet::parse(v)?),
        "$pop" => Box::new(pop::Pop::parse(field, v)?),
        "$pull" => Box::new(pull::Pull::parse(cx, v)?),
        "$pullAll" => Box::new(pull::PullAll::parse(v)?),
        _ => bail!(code::FAILED_TO_PARSE, "Unknown modifier: {name}"),
    })
}
