//! The `score` option of operators: `{boost: {value | path, undefined}}`, `{constant: {value}}` or
//! `{function: expression}`.

use super::build::Build;
use crate::args::Args;
use crate::error::invalid;
use crate::matching::{Curve, Function, FunctionQuery};
use model::{Result, Value};
use tantivy::query::{BoostQuery, ConstScoreQuery, Query};

/// Deepest expression in an expression.
const DEPTH_MAX: usize = 50;
const FUNCTIONS: [&str; 8] = [
    "add", "constant", "gauss", "log", "log1p", "multiply", "path", "score",
];

/// Applies the operator's `score` option to a query.
pub(super) fn apply_score(
    b: &Build<'_>,
    args: &Args<'_>,
    query: Box<dyn Query>,
) -> Result<Box<dyn Query>> {
    match args.get("score") {
        None => Ok(query),
        Some(v) => apply_score_at(b, &args.name("score"), v, query),
    }
}

/// Applies the score option at `path` to a query.
pub(super) fn apply_score_at(
    b: &Build<'_>,
    path: &str,
    v: Value<'_>,
    query: Box<dyn Query>,
) -> Result<Box<dyn Query>> {
    let allowed = ["boost", "constant", "function"];
    let score = Args::new(path, v, &allowed)?;
    match (
        score.get("boost"),
        score.get("constant"),
        score.get("function"),
    ) {
        (Some(v), None, None) => boost_query(b, &score, v, query),
        (None, Some(v), None) => {
            let inner = Args::new(&score.name("constant"), v, &["value"])?;
            let to = least(&inner, "value", 0.0)?;
            Ok(Box::new(ConstScoreQuery::new(query, to as f32)))
        }
        (None, None, Some(v)) => {
            let function = parse(b, &score.name("function"), v, 0)?;
            Ok(FunctionQuery::new_boxed(query, function))
        }
        _ => Err(invalid(format!(
            "\"{}\" must have exactly one of {}",
            score.path,
            allowed.join(", ")
        ))),
    }
}

fn boost_query(
    b: &Build<'_>,
    score: &Args<'_>,
    v: Value<'_>,
    query: Box<dyn Query>,
) -> Result<Box<dyn Query>> {
    let inner = Args::new(&score.name("boost"), v, &["value", "path", "undefined"])?;
    match (inner.get("value"), inner.string("path")?) {
        (Some(_), None) if inner.get("undefined").is_none() => {
            let by = least(&inner, "value", 0.0)?;
            if by == 0.0 {
                return Err(invalid(format!(
                    "\"{}\" must be greater than zero, not {by}",
                    inner.name("value")
                )));
            }
            Ok(Box::new(BoostQuery::new(query, by as f32)))
        }
        (None, Some(path)) => {
            let value = Function::Path {
                path: b.key(path)?,
                or: inner.number("undefined")?.unwrap_or(0.0),
            };
            let product = Function::Multiply(vec![Function::Score, value]);
            Ok(FunctionQuery::new_boxed(query, product))
        }
        _ => Err(invalid(format!(
            "\"{}\" must have either a value or a path, with undefined only beside a path",
            inner.path
        ))),
    }
}

/// A required number with a lower bound.
fn least(args: &Args<'_>, field: &str, min: f64) -> Result<f64> {
    args.required(field)?;
    let n = args.number(field)?.unwrap_or(min);
    match n >= min {
        true => Ok(n),
        false => Err(invalid(format!(
            "\"{}\" must be at least {min}, it is {n}",
            args.name(field)
        ))),
    }
}

/// An expression: `{name: argument}`.
fn parse(b: &Build<'_>, path: &str, v: Value<'_>, depth: usize) -> Result<Function> {
    if depth > DEPTH_MAX {
        return Err(invalid(format!(
            "\"{path}\": expressions may be {DEPTH_MAX} deep at most"
        )));
    }
    let args = Args::new(path, v, &FUNCTIONS)?;
    let mut given = args.doc.iter();
    let (Some((name, v)), None) = (given.next(), given.next()) else {
        return Err(invalid(format!(
            "\"{path}\" must have exactly one of {}",
            FUNCTIONS.join(", ")
        )));
    };
    let inner = args.name(name);
    Ok(match name {
        "constant" => {
            let n = args.number(name)?;
            Function::Constant(n.ok_or_else(|| args.wrong_type(name, "a number", v))?)
        }
        "score" => {
            args.word(name, &["relevance"])?;
            Function::Score
        }
        "log" => Function::Log(Box::new(parse(b, &inner, v, depth + 1)?)),
        "log1p" => Function::Log1p(Box::new(parse(b, &inner, v, depth + 1)?)),
        "path" => {
            let (path, or) = parse_path(b, &args, name, v)?;
            Function::Path { path, or }
        }
        "gauss" => gauss(b, &inner, v)?,
        _ => {
            let Value::Array(list) = v else {
                return Err(args.wrong_type(name, "an array of expressions", v));
            };
            let each = (0..).zip(list.iter());
            let each =
                each.map(|(n, v): (usize, _)| parse(b, &format!("{inner}[{n}]"), v, depth + 1));
            let each: Vec<Function> = each.collect::<Result<_>>()?;
            if each.len() < 2 {
                return Err(invalid(format!(
                    "\"{inner}\" must have at least two expressions, not {}",
                    each.len()
                )));
            }
            match name {
                "add" => Function::Add(each),
                _ => Function::Multiply(each),
            }
        }
    })
}

/// `"field"` or `{value: "field", undefined: number}`.
fn parse_path(b: &Build<'_>, args: &Args<'_>, field: &str, v: Value<'_>) -> Result<(String, f64)> {
    if let Value::Document(_) = v {
        let inner = Args::new(&args.name(field), v, &["value", "undefined"])?;
        let path = inner.as_string("value", inner.required("value")?)?;
        return Ok((b.key(path)?, inner.number("undefined")?.unwrap_or(0.0)));
    }
    let path = v.as_str();
    let path = path.ok_or_else(|| args.wrong_type(field, "a string or a document", v))?;
    Ok((b.key(path)?, 0.0))
}

fn gauss(b: &Build<'_>, path: &str, v: Value<'_>) -> Result<Function> {
    let allowed = ["path", "origin", "scale", "decay", "offset"];
    let args = Args::new(path, v, &allowed)?;
    let (field, or) = parse_path(b, &args, "path", args.required("path")?)?;
    args.required("origin")?;
    let origin = args.number("origin")?.unwrap_or(0.0);
    let scale = least(&args, "scale", 0.0)?;
    let decay = args.number("decay")?.unwrap_or(0.5);
    let offset = args.number("offset")?.unwrap_or(0.0);
    if scale == 0.0 || decay <= 0.0 || decay >= 1.0 || offset < 0.0 {
        return Err(invalid(format!(
            "\"{path}\": scale must be greater than 0 (it is {scale}), decay between 0 and 1 \
             ({decay}), offset not negative ({offset})"
        )));
    }
    Ok(Function::Gauss {
        path: field,
        or,
        curve: Curve {
            origin,
            scale,
            decay,
            offset,
        },
    })
}
