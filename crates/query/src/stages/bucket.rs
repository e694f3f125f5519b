//! `$bucket: {groupBy, boundaries, default, output}`: `$group` by the lower boundary of the range a
//! value falls into, sorted. Errors: 40201 no object, 40202 groupBy no expression, 40200 boundaries
//! no array, 40191 boundary not constant, 40192 fewer than two, 40193 mixed types, 40194 not
//! ascending, 40195 default not constant, 40196 output no object, 40197 unknown field, 40198
//! required field absent, 40199 default inside the boundaries, 40066 a value outside without
//! default.

use super::group::Group;
use super::sort::Sort;
use crate::exec::SortPattern;
use crate::stage::{ApiClass, Placement, Stage, StageContext, StageNeeds, StageOp};
use model::{OwnedValue, Result, Value, bail, compare, compare_with, doc};
use operators::Cx;
use operators::expr::{self, BoxExpr, Expr};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$bucket",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse,
}];

fn parse(
    scx: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Vec<Arc<dyn Stage>>> {
    let Value::Document(spec) = arg else {
        bail!(
            40201,
            "argument to {name} stage must be an object, but found type: {}",
            arg.type_name()
        );
    };
    let (mut by, mut boundaries, mut default) = (None, None, None);
    let mut output = doc! { "count": { "$sum": 1i32 } };
    for (field, v) in spec.iter() {
        match (field, v) {
            ("groupBy", v) => by = Some(group_by(scx, 40202, v)?),
            ("boundaries", Value::Array(a)) => {
                boundaries = Some(
                    a.iter()
                        .map(|v| constant(scx, v, 40191, "boundaries"))
                        .collect::<Result<Vec<_>>>()?,
                );
            }
            ("boundaries", v) => bail!(
                40200,
                "the {name} 'boundaries' field must be an array, but found type: {}",
                v.type_name()
            ),
            ("default", v) => default = Some(constant(scx, v, 40195, "default")?),
            ("output", Value::Document(d)) if d.contains("_id") => bail!(
                15948,
                "the 'output' of {name} cannot have the field '_id', which is the boundary"
            ),
            ("output", Value::Document(d)) => output = d.to_buf(),
            ("output", v) => bail!(
                40196,
                "the {name} 'output' field must be an object, but found type: {}",
                v.type_name()
            ),
            _ => bail!(40197, "unrecognized option to {name}: {field}"),
        }
    }
    let (Some(by), Some(boundaries)) = (by, boundaries) else {
        bail!(
            40198,
            "{name} requires 'groupBy' and 'boundaries' to be specified"
        );
    };
    check_boundaries(scx, &boundaries, default.as_ref())?;
    let id = Box::new(BucketOf {
        by,
        boundaries,
        default,
    });
    let group = Group::new(scx.cx, id, output.doc(), doc! { "$bucket": arg })?;
    let sort = Sort::new(SortPattern::parse(doc! { "_id": 1i32 }.doc())?);
    Ok(vec![Arc::new(group), Arc::new(sort)])
}

/// A field path or an operator expression.
pub(super) fn group_by(
    scx: &mut StageContext<'_, '_>,
    number: i32,
    v: Value<'_>,
) -> Result<BoxExpr> {
    let fits = match v {
        Value::String(s) => s.starts_with('$'),
        Value::Document(d) => d.first().is_some_and(|(n, _)| n.starts_with('$')),
        _ => false,
    };
    if !fits {
        bail!(
            number,
            "the 'groupBy' field must be defined as a $-prefixed path or an expression object, but \
                found: {v}"
        );
    }
    expr::parse(scx.cx, v)
}

fn constant(
    scx: &mut StageContext<'_, '_>,
    v: Value<'_>,
    number: i32,
    what: &str,
) -> Result<OwnedValue> {
    // Variables of the operation have no value yet when the parser looks for constants.
    if v.as_str()
        .is_some_and(|s| s.starts_with("$$NOW") || s.starts_with("$$CLUSTER_TIME"))
    {
        bail!(
            number,
            "each value of the $bucket '{what}' field must be constant, but found: {v}"
        );
    }
    expr::parse_constant(
        scx.cx,
        v,
        number,
        &format!("each value of the $bucket '{what}' field"),
    )
}

fn check_boundaries(
    scx: &StageContext<'_, '_>,
    boundaries: &[OwnedValue],
    default: Option<&OwnedValue>,
) -> Result<()> {
    let collate = scx.cx.env.collate();
    let ([first, ..], [.., last]) = (boundaries, boundaries) else {
        bail!(
            40192,
            "the $bucket 'boundaries' field must have at least 2 values, but found 0"
        );
    };
    if boundaries.len() < 2 {
        bail!(
            40192,
            "the $bucket 'boundaries' field must have at least 2 values, but found 1"
        );
    }
    for pair in boundaries.windows(2) {
        let (Some(a), Some(b)) = (pair.first(), pair.last()) else {
            continue;
        };
        if compare::class(&a.get()) != compare::class(&b.get()) {
            bail!(
                40193,
                "all values in the 'boundaries' option to $bucket must have the same type, but \
                    found {a} and {b}"
            );
        }
        if compare_with(&a.get(), &b.get(), collate) != Ordering::Less {
            bail!(
                40194,
                "the 'boundaries' option to $bucket must be sorted in ascending order, but found \
                    {a} before {b}"
            );
        }
    }
    if let Some(d) = default {
        let same_type = compare::class(&d.get()) == compare::class(&first.get());
        let below = compare_with(&d.get(), &first.get(), collate) == Ordering::Less;
        let above = compare_with(&d.get(), &last.get(), collate) != Ordering::Less;
        if same_type && !below && !above {
            bail!(
                40199,
                "the $bucket 'default' field must be less than the lowest boundary or greater than \
                    or equal to the highest boundary, but is {d}"
            );
        }
    }
    Ok(())
}

/// An expression: the lower boundary of the range into which a value falls.
struct BucketOf {
    by: BoxExpr,
    boundaries: Vec<OwnedValue>,
    default: Option<OwnedValue>,
}

impl Expr for BucketOf {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let v = match self.by.eval(cx)? {
            Value::Missing => Value::Null,
            v => v,
        };
        let above = self
            .boundaries
            .partition_point(|b| compare_with(&b.get(), &v, cx.collate()) != Ordering::Greater);
        let inside = above > 0 && above < self.boundaries.len();
        if let (true, Some(lower)) = (inside, self.boundaries.get(above.wrapping_sub(1))) {
            return Ok(lower.get());
        }
        match &self.default {
            Some(d) => Ok(d.get()),
            None => bail!(
                40066,
                "$bucket could not find a matching bucket for {v}, and no default was specified"
            ),
        }
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        each(self.by.as_ref());
    }
    fn is_volatile(&self) -> bool {
        true
    }
}
