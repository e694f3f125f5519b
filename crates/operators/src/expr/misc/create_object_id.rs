//! `$createObjectId: {}` (8.3): an ObjectId, new at each evaluation. Errors: 9 for any argument.

use crate::Cx;
use crate::expr::{BoxExpr, Expr, Operator, ParseCx};
use model::{ObjectId, Result, Value, bail, code};

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$createObjectId",
    parse: parse_create,
}];

struct Create;

fn parse_create(_: &mut ParseCx<'_>, name: &'static str, spec: Value<'_>) -> Result<BoxExpr> {
    if !spec.as_doc().is_some_and(|d| d.is_empty()) {
        bail!(
            code::FAILED_TO_PARSE,
            "{name} takes an empty object, given {}",
            spec
        );
    }
    Ok(Box::new(Create))
}

impl Expr for Create {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let seconds = u32::try_from(cx.env.now_ms / 1000).unwrap_or(0);
        let mut id = [0; 12];
        id[..4].copy_from_slice(&seconds.to_be_bytes());
        id[4..].copy_from_slice(&cx.env.random_u64().to_be_bytes());
        Ok(Value::ObjectId(ObjectId(id)))
    }
    fn is_volatile(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    #[test]
    fn table() {
        let two = "{'$setUnion': [[{'$createObjectId': {}}, {'$createObjectId': {}}]]}";
        let types = format!("{{'$map': {{'input': {two}, 'in': {{'$type': '$$this'}}}}}}");
        crate::expr::check::table_of(
            Profile::V8_2,
            &[
                (types.as_str(), "{}", "['objectId', 'objectId']"),
                ("{'$createObjectId': {'a': 1}}", "{}", "!9"),
                ("{'$createObjectId': 1}", "{}", "!9"),
            ],
        );
    }
}
