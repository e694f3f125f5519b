//! `$meta`: metadata of a document. No source of metadata exists below this room yet, so documents never have any: names
//! that a query must first provide are refused, the others are missing. Errors: 17307 no string, 17308 unknown name, 40218
//! metadata that is not available.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx};
use model::{Result, Value, bail};

pub(super) static OPERATORS: &[Operator] = &[Operator { name: "$meta", parse: parse_meta }];

fn parse_meta(_: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    let Value::String(which) = spec else {
        bail!(17307, "{name} only supports string arguments, found {}", spec.type_name());
    };
    match which {
        "textScore" | "geoNearDistance" | "geoNearPoint" => {
            bail!(40218, "query requires {which} metadata, but it is not available")
        }
        "indexKey" | "randVal" | "recordId" | "score" | "scoreDetails" | "searchHighlights" | "searchScore"
        | "searchScoreDetails" | "searchSequenceToken" | "sortKey" | "vectorSearchScore" => Ok(Box::new(NoMetadata)),
        _ => bail!(17308, "Unsupported argument to {name}: {which}"),
    }
}

struct NoMetadata;

impl Expr for NoMetadata {
    fn eval<'a>(&'a self, _: &Cx<'_, 'a>) -> Result<Value<'a>> {
        Ok(Value::Missing)
    }
    fn is_volatile(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::table::table(&[
            ("{'$meta': 'recordId'}", "{}", "missing"),
            ("{'$meta': 'textScore'}", "{}", "!40218"),
            ("{'$meta': 'x'}", "{}", "!17308"),
            ("{'$meta': 1}", "{}", "!17307"),
        ]);
    }
}
