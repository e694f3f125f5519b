//! `$fill: {partitionBy | partitionByFields, sortBy, output: {field: {value} | {method}}}`: gives
//! null and missing fields a value: a constant expression, the last value ("locf") or one
//! interpolated ("linear"). Errors: strict field codes, 6050202 an unknown method, 6050204 both
//! kinds of partitions, 6050201 no sort for "linear", 9 an output without value and
//! method.

use super::fields::Fields;
use super::set_window_fields::SetWindowFields;
use super::window::{self, WindowContext, WindowFn};
use crate::exec::SortPattern;
use crate::path::{checked_path, write_with};
use crate::stage::{ApiClass, Placement, Stage, StageContext, StageNeeds, StageOp};
use model::{Doc, DocBuf, Result, Value, bail, code};
use operators::expr;
use std::sync::Arc;

pub(super) static STAGES: &[StageOp] = &[StageOp {
    name: "$fill",
    api: ApiClass::Inside,
    needs: StageNeeds::Nothing,
    placement: Placement::ANYWHERE,
    parse,
}];

/// Whether every output is a value, so that each document is changed independently.
pub(super) fn is_by_value(arg: Value<'_>) -> bool {
    let output = arg.as_doc().and_then(|d| d.field("output").as_doc());
    output.is_some_and(|d| {
        d.iter()
            .all(|(_, how)| how.as_doc().is_some_and(|how| how.contains("value")))
    })
}

fn parse(
    scx: &mut StageContext<'_, '_>,
    name: &'static str,
    arg: Value<'_>,
) -> Result<Vec<Arc<dyn Stage>>> {
    let Value::Document(spec) = arg else {
        bail!(
            code::FAILED_TO_PARSE,
            "The {name} stage specification must be an object, found {}",
            arg.type_name()
        );
    };
    let f = Fields::new(
        name,
        spec,
        &["partitionBy", "partitionByFields", "sortBy", "output"],
    )?;
    f.required("output")?;
    let output = f.document("output")?.unwrap_or(Doc::EMPTY);
    let sort = f.document("sortBy")?.map(SortPattern::parse).transpose()?;
    let by = partition_spec(&f)?;
    let by = by
        .as_ref()
        .map(|d| expr::parse(scx.cx, d.doc().field("by")))
        .transpose()?;
    let mut windows = Vec::new();
    let mut constants = DocBuf::new();
    for (field, v) in output.iter() {
        let path = checked_path(field)?;
        let Value::Document(how) = v else {
            bail!(
                code::TYPE_MISMATCH,
                "{name} output '{field}' must be an object, not {}",
                v.type_name()
            );
        };
        let how = Fields::new("output", how, &["value", "method"])?;
        match (how.get("value"), how.string("method")?) {
            (v, None) if !v.is_missing() => {
                let fallback = model::doc! { "$ifNull": [format!("${field}").as_str(), v] };
                constants = DocBuf::build(|w| {
                    write_with(w, constants.doc(), path.parts(), (&fallback).into())
                });
            }
            (Value::Missing, Some(method)) => {
                windows.push((path, fill_method(scx, name, method, sort.as_ref(), field)?));
            }
            _ => bail!(
                code::FAILED_TO_PARSE,
                "{name} output '{field}' must have exactly one of 'value' and 'method'"
            ),
        }
    }
    let mut stages: Vec<Arc<dyn Stage>> = Vec::new();
    if !windows.is_empty() {
        stages.push(Arc::new(SetWindowFields::new(
            by,
            sort,
            windows,
            model::doc! { name: spec },
        )));
    }
    if !constants.doc().is_empty() || stages.is_empty() {
        stages.extend(scx.expand("$addFields", (&constants).into())?);
    }
    Ok(stages)
}

/// The window function of a method.
fn fill_method(
    scx: &mut StageContext<'_, '_>,
    name: &str,
    method: &str,
    sort: Option<&SortPattern>,
    field: &str,
) -> Result<Box<dyn WindowFn>> {
    let function = match method {
        "locf" => "$locf",
        "linear" => "$linearFill",
        other => bail!(
            6050202,
            "Method must be either 'locf' or 'linear', not '{other}'"
        ),
    };
    // "locf" takes the last value in input order.
    if function == "$linearFill" && sort.is_none() {
        bail!(6050201, "{name} with method '{method}' requires sortBy");
    }
    let wcx = &mut WindowContext {
        cx: scx.cx,
        sort,
        has_sort_by: sort.is_some(),
        window: None,
    };
    window::parse(wcx, function, Value::String(&format!("${field}")))
}

/// The partition expression as `{by: expression}`.
fn partition_spec(f: &Fields<'_>) -> Result<Option<DocBuf>> {
    let by = f.get("partitionBy");
    let fields = f.array("partitionByFields")?;
    match (by, fields) {
        (Value::Missing, None) => Ok(None),
        (Value::Missing, Some(fields)) => {
            let mut by = DocBuf::new();
            for v in fields.iter() {
                let Value::String(s) = v else {
                    return f.wrong_type("partitionByFields", v, "string");
                };
                let path = checked_path(s)?;
                by = DocBuf::build(|w| {
                    write_with(w, by.doc(), path.parts(), Value::String(&format!("${s}")))
                });
            }
            Ok(Some(model::doc! { "by": &by }))
        }
        (v, None) => Ok(Some(model::doc! { "by": v })),
        (_, Some(_)) => bail!(
            6050204,
            "Maximum one of 'partitionBy' and 'partitionByFields' can be specified in '$fill'"
        ),
    }
}
