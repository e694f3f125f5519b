//! `embeddedDocument: {path, operator, score}`: documents with elements of an array that match an
//! operator, each element on its own. Scores of elements are combined by `score.embedded`:
//! `{aggregate: sum | maximum | minimum | mean, outerScore}`. Must not know: the operators.

use super::build::Build;
use super::score::{apply_score, apply_score_at};
use crate::args::Args;
use crate::error::invalid;
use crate::matching::{Aggregate, Elements};
use crate::schema::TermKind;
use model::{Result, Value};
use tantivy::query::Query;

pub(super) fn embedded_document(
    b: &Build<'_>,
    path: &str,
    v: Value<'_>,
    depth: usize,
) -> Result<Box<dyn Query>> {
    let args = Args::new(path, v, &["path", "operator", "score"])?;
    let array = args.as_string("path", args.required("path")?)?;
    let operator = args.required("operator")?;
    let Value::Document(operator) = operator else {
        return Err(args.wrong_type("operator", "an operator", operator));
    };
    // A path outside of the searched elements is refused.
    b.key(array)?;
    if !b.index.definition().has_elements_at(array) {
        return Err(invalid(format!(
            "\"{}\": {array} is not indexed as embeddedDocuments",
            args.name("path")
        )));
    }
    let outer = b.index.fields().term(TermKind::Element, &b.scope(), "");
    let name = args.name("operator");
    let inner = b.build_within(array, || (b.operator)(b, &name, operator, depth + 1))?;
    let embedded = args
        .get("score")
        .and_then(|v| v.as_doc()?.get("embedded"))
        .filter(|v| !v.is_nullish());
    let Some(v) = embedded else {
        return apply_score(b, &args, Elements::new_boxed(inner, outer, Aggregate::Sum));
    };
    Args::new(&args.name("score"), args.required("score")?, &["embedded"])?;
    let path = format!("{}.embedded", args.name("score"));
    let embedded = Args::new(&path, v, &["aggregate", "outerScore"])?;
    let words = ["sum", "maximum", "minimum", "mean"];
    let aggregate = match embedded.word("aggregate", &words)? {
        Some("maximum") => Aggregate::Maximum,
        Some("minimum") => Aggregate::Minimum,
        Some("mean") => Aggregate::Mean,
        _ => Aggregate::Sum,
    };
    let query = Elements::new_boxed(inner, outer, aggregate);
    match embedded.get("outerScore") {
        Some(v) => apply_score_at(b, &embedded.name("outerScore"), v, query),
        None => Ok(query),
    }
}
