//! Projections that only `find` has: `$elemMatch` (the first matching element, from the original
//! document), `$slice` and the positional `.$` (both cut arrays of the projected document).

use crate::Cx;
use crate::expr::ParseCx;
use crate::filter::{Filter, Test, element_matches, truncate};
use model::{Array, Doc, DocBuf, Edit, FieldPath, Number, Result, Value, bail, code};

/// A parsed `$elemMatch`.
pub(super) struct ElemMatch {
    tests: Vec<Test>,
}

impl ElemMatch {
    pub(super) fn parse(cx: &mut ParseCx<'_>, d: Doc<'_>) -> Result<ElemMatch> {
        if d.contains("$jsonSchema") {
            bail!(
                code::QUERY_FEATURE_NOT_ALLOWED,
                "$jsonSchema is not allowed in this context"
            );
        }
        let spec = DocBuf::build(|w| {
            w.put("$elemMatch", d);
        });
        Ok(ElemMatch {
            tests: Filter::parse_element_tests(cx, spec.doc())?,
        })
    }

    /// An array of the first element that matches, or missing.
    pub(super) fn eval<'a>(&'a self, cx: &Cx<'_, 'a>, name: &str) -> Result<Value<'a>> {
        let Some(Value::Array(a)) = cx.root.as_doc().and_then(|d| d.get(name)) else {
            return Ok(Value::Missing);
        };
        for item in a.iter() {
            let alone = Value::Array(Array::from_values_in(cx.arena, [item]));
            if element_matches(&self.tests, alone, cx)? {
                return Ok(alone);
            }
        }
        Ok(Value::Missing)
    }
}

/// The range of elements of an array that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// Counted from the end when negative; absent for `$slice: n`.
    skip: Option<i64>,
    limit: i64,
}

/// The integer part, saturating; NaN is zero.
fn clamp(n: Number) -> i64 {
    match truncate(n) {
        Some(n) => n,
        None if n.is_nan() => 0,
        None if n.to_f64() < 0.0 => i64::MIN,
        None => i64::MAX,
    }
}

impl Slice {
    /// `None` when the operand is not one of `find`'s forms.
    pub(super) fn parse(spec: Value<'_>) -> Result<Option<Slice>> {
        if let Some(n) = Number::of(&spec) {
            return Ok(Some(Slice {
                skip: None,
                limit: clamp(n),
            }));
        }
        let Value::Array(a) = spec else {
            return Ok(None);
        };
        let mut items = a.iter();
        let (Some(first), Some(second), None) = (items.next(), items.next(), items.next()) else {
            return Ok(None);
        };
        let (Some(skip), Some(limit)) = (Number::of(&first), Number::of(&second)) else {
            return Ok(None);
        };
        let limit = clamp(limit);
        if limit <= 0 {
            bail!(
                28724,
                "First argument to $slice must be an array; $slice limit must be positive, not \
                    {limit}"
            );
        }
        Ok(Some(Slice {
            skip: Some(clamp(skip)),
            limit,
        }))
    }

    fn cut<'a>(self, a: Array<'a>, cx: &Cx<'_, 'a>) -> Array<'a> {
        let len = a.len();
        let size = |n: i64| usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
        let (from, count) = match self.skip {
            None if self.limit < 0 => (len.saturating_sub(size(self.limit)), len),
            None => (0, size(self.limit)),
            Some(skip) if skip < 0 => (len.saturating_sub(size(skip)), size(self.limit)),
            Some(skip) => (size(skip), size(self.limit)),
        };
        Array::from_values_in(cx.arena, a.iter().skip(from).take(count))
    }
}

/// A change of the projected document.
pub(super) enum ArrayProjection {
    Slice(FieldPath, Slice),
    Positional(FieldPath),
}

impl ArrayProjection {
    pub(super) fn is_positional(&self) -> bool {
        matches!(self, ArrayProjection::Positional(_))
    }

    pub(super) fn apply<'a>(
        &'a self,
        cx: &Cx<'_, 'a>,
        doc: Doc<'a>,
        position: Option<usize>,
    ) -> Result<Doc<'a>> {
        match self {
            ArrayProjection::Slice(path, slice) => edit(
                cx,
                doc,
                path,
                0,
                &mut |a| Ok(Value::Array(slice.cut(a, cx))),
                true,
            ),
            ArrayProjection::Positional(path) => edit(
                cx,
                doc,
                path,
                0,
                &mut |a| {
                    let Some(at) = position else {
                        bail!(
                            51246,
                            "Executor error during find command :: caused by :: positional \
                                operator '.$' couldn't find a matching element in the array at \
                                '{}'",
                            path.as_str()
                        );
                    };
                    let Some(v) = a.get(at) else {
                        bail!(
                            51247,
                            "Executor error during find command :: caused by :: positional \
                                operator '.$' element mismatch: the array at '{}' has no element \
                                {at}",
                            path.as_str()
                        );
                    };
                    Ok(Value::Array(Array::from_values_in(cx.arena, [v])))
                },
                false,
            ),
        }
    }
}

/// Replaces the array at a path. With `map`, arrays before the end are mapped over; else the first
/// array on the path is the one to replace.
fn edit<'a>(
    cx: &Cx<'_, 'a>,
    doc: Doc<'a>,
    path: &FieldPath,
    level: usize,
    change: &mut dyn FnMut(Array<'a>) -> Result<Value<'a>>,
    map: bool,
) -> Result<Doc<'a>> {
    let Some(part) = path.parts().get(level) else {
        return Ok(doc);
    };
    let last = level + 1 == path.parts().len();
    let new = match doc.field(&part.name) {
        Value::Array(a) if last || !map => change(a)?,
        Value::Document(d) if !last => Value::Document(edit(cx, d, path, level + 1, change, map)?),
        Value::Array(a) => {
            let mut items = Vec::new();
            for v in a.iter() {
                items.push(match v {
                    Value::Document(d) => {
                        Value::Document(edit(cx, d, path, level + 1, change, map)?)
                    }
                    v => v,
                });
            }
            Value::Array(Array::from_values_in(cx.arena, items))
        }
        _ => return Ok(doc),
    };
    Ok(Doc::build_sized_in(cx.arena, doc.len_bytes(), |w| {
        w.put_edited(doc, |e| {
            if e.name == part.name.as_bytes() {
                Edit::Set(new)
            } else {
                Edit::Keep
            }
        });
    }))
}
