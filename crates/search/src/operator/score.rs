//! The `score` option of operators: `{boost: {value}}` or `{constant: {value}}`.

use crate::args::Args;
use crate::error::invalid;
use model::{Result, Value};
use tantivy::query::{BoostQuery, ConstScoreQuery, Query};

/// The query with its `score` option.
pub(super) fn scored(args: &Args<'_>, query: Box<dyn Query>) -> Result<Box<dyn Query>> {
    let Some(v) = args.get("score") else {
        return Ok(query);
    };
    let score = Args::new(&args.name("score"), v, &["boost", "constant"])?;
    let value_of = |field: &str, v: Value<'_>| -> Result<f32> {
        let inner = Args::new(&score.name(field), v, &["value"])?;
        inner.required("value")?;
        let n = inner.number("value")?.unwrap_or(0.0);
        if n < 0.0 {
            return Err(invalid(format!(
                "\"{}\" must not be negative, it is {n}",
                inner.name("value")
            )));
        }
        Ok(n as f32)
    };
    match (score.get("boost"), score.get("constant")) {
        (Some(v), None) => {
            let by = value_of("boost", v)?;
            Ok(Box::new(BoostQuery::new(query, by)))
        }
        (None, Some(v)) => {
            let to = value_of("constant", v)?;
            Ok(Box::new(ConstScoreQuery::new(query, to)))
        }
        _ => Err(invalid(format!(
            "\"{}\" must have exactly one of boost, constant",
            score.path
        ))),
    }
}
