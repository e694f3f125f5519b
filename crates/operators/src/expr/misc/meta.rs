//! `$meta`: metadata of a document, set by an earlier stage; else missing. Errors: 17307 no string,
//! 17308 unknown name, 40218 metadata that no earlier stage provides.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$meta",
    parse: parse_meta,
}];

fn parse_meta(cx: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::String(which) = spec else {
        bail!(
            17307,
            "{name} only supports string arguments, found {}",
            spec.type_name()
        );
    };
    match which {
        "textScore" | "geoNearDistance" | "geoNearPoint" => {
            if !cx.meta.contains(&which) {
                bail!(
                    40218,
                    "query requires {which} metadata, but it is not available"
                )
            }
            Ok(Box::new(Metadata(which.to_owned())))
        }
        "indexKey" | "recordId" => {
            cx.wants_row_metadata = true;
            Ok(Box::new(Metadata(which.to_owned())))
        }
        // Fused rankings report score details only on request.
        "scoreDetails" if cx.meta.contains(&"score") && !cx.meta.contains(&which) => bail!(
            40218,
            "query requires {which} metadata, but it is not available"
        ),
        "randVal"
        | "score"
        | "scoreDetails"
        | "searchHighlights"
        | "searchScore"
        | "searchScoreDetails"
        | "searchSequenceToken"
        | "sortKey"
        | "vectorSearchScore" => Ok(Box::new(Metadata(which.to_owned()))),
        _ => bail!(17308, "Unsupported argument to {name}: {which}"),
    }
}

struct Metadata(String);

impl Expr for Metadata {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let v = cx.meta.map_or(Value::Missing, |m| m.field(&self.0));
        // A read without an index has an empty index key.
        let is_empty = v.as_doc().is_some_and(|d| d.is_empty());
        Ok(if is_empty { Value::Missing } else { v })
    }
    fn is_volatile(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::check::table(&[
            ("{'$meta': 'recordId'}", "{}", "missing"),
            ("{'$meta': 'textScore'}", "{}", "!40218"),
            ("{'$meta': 'x'}", "{}", "!17308"),
            ("{'$meta': 1}", "{}", "!17307"),
        ]);
    }
}
