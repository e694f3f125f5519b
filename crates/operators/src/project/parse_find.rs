//! Projections of `find`: those of `$project`, and the positional `.$`, `$elemMatch` and `$slice`.

use super::find::{ArrayProjection, ElemMatch, Slice};
use super::parse::{ProjectionParser, SubfieldKind, sub_specification};
use super::projection::Projection;
use super::tree::Field;
use crate::expr::{self, ParseCx, check_path};
use model::{Doc, FieldPath, Result, Value, bail, code};

/// Deepest nesting of a specification.
const MAX_DEPTH: usize = 180;

pub(super) fn find(cx: &mut ParseCx<'_>, spec: Doc<'_>) -> Result<Projection> {
    let mut find = Find {
        reading: ProjectionParser::default(),
        after: Vec::new(),
    };
    for (name, v) in spec.iter() {
        find.field(cx, "", name, v, 0)?;
    }
    let mut projection = find.reading.finish()?;
    projection.after = find.after;
    Ok(projection)
}

struct Find {
    reading: ProjectionParser,
    after: Vec<ArrayProjection>,
}

impl Find {
    fn field(
        &mut self,
        cx: &mut ParseCx<'_>,
        above: &str,
        name: &str,
        v: Value<'_>,
        depth: usize,
    ) -> Result<()> {
        let full = if above.is_empty() {
            name.to_owned()
        } else {
            format!("{above}.{name}")
        };
        if full.contains(".$.") {
            bail!(
                31394,
                "the positional operator stands at the end of a path, not as in '{full}'"
            );
        }
        if let Some(path) = full.strip_suffix(".$") {
            return self.positional(path, v);
        }
        let path = check_path(&full)?;
        if !above.is_empty() {
            check_path(name)?;
        }
        match v {
            v if v.is_number() || v.as_bool().is_some() => self.reading.flag(&path, v.truthy()),
            Value::Document(d) => match sub_specification(d, &path)? {
                SubfieldKind::Nested => {
                    if depth >= MAX_DEPTH {
                        bail!(
                            code::OVERFLOW,
                            "a projection is nested deeper than {MAX_DEPTH} levels"
                        );
                    }
                    d.iter()
                        .try_for_each(|(name, v)| self.field(cx, path.as_str(), name, v, depth + 1))
                }
                SubfieldKind::Expression("$elemMatch") => {
                    self.elem_match(cx, path, d.field("$elemMatch"))
                }
                SubfieldKind::Expression("$slice") => self.slice(cx, path, v, d.field("$slice")),
                SubfieldKind::Expression(op) => {
                    if expr::find(op).is_none() {
                        bail!(31325, "Unknown expression {op}");
                    }
                    self.reading.add_computed(cx, &path, v)
                }
            },
            v => self.reading.add_computed(cx, &path, v),
        }
    }

    fn positional(&mut self, path: &str, v: Value<'_>) -> Result<()> {
        match v {
            Value::Document(_) => {
                bail!(
                    31271,
                    "positional projection '{path}.$' cannot be used with an expression or sub \
                        object"
                )
            }
            v if v.is_number() || v.as_bool().is_some() => {}
            v => bail!(
                31308,
                "positional projection '{path}.$' cannot be used with a literal of type {}",
                v.type_name()
            ),
        }
        if self.reading.has_elem_match {
            bail!(31256, "Cannot specify positional operator and $elemMatch");
        }
        if self.after.iter().any(ArrayProjection::is_positional) {
            bail!(
                31276,
                "Cannot specify more than one positional projection per query"
            );
        }
        if !v.truthy() {
            bail!(31395, "positional projection cannot be used with exclusion");
        }
        let path = check_path(path)?;
        self.reading.flag(&path, true)?;
        self.after.push(ArrayProjection::Positional(path));
        Ok(())
    }

    fn elem_match(&mut self, cx: &mut ParseCx<'_>, path: FieldPath, spec: Value<'_>) -> Result<()> {
        let Value::Document(d) = spec else {
            bail!(
                31274,
                "elemMatch: Invalid argument, object required, but got {}",
                spec.type_name()
            )
        };
        if self.after.iter().any(ArrayProjection::is_positional) {
            bail!(31255, "Cannot specify positional operator and $elemMatch");
        }
        if path.parts().len() > 1 {
            bail!(31275, "Cannot use $elemMatch projection on a nested field");
        }
        let parsed = ElemMatch::parse(cx, d)?;
        self.reading.has_elem_match = true;
        if path.as_str() == "_id" {
            self.reading.id = Some(true);
        }
        self.reading
            .tree
            .insert(path.parts(), Field::ElemMatch(parsed))
    }

    /// `$slice: n` and `$slice: [skip, n]` cut the field's own array; with three operands it is the
    /// expression.
    fn slice(
        &mut self,
        cx: &mut ParseCx<'_>,
        path: FieldPath,
        whole: Value<'_>,
        spec: Value<'_>,
    ) -> Result<()> {
        let Some(slice) = Slice::parse(spec)? else {
            return self.reading.add_computed(cx, &path, whole);
        };
        self.reading.tree.insert(path.parts(), Field::Sliced)?;
        self.after.push(ArrayProjection::Slice(path, slice));
        Ok(())
    }
}
