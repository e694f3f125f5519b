//! The stable API, version 1: which stages a client with `apiStrict` may use. Must not know what
//! stages do.

use model::{Array, Result, Value, bail, code};

/// Stages that are neither implemented nor part of version 1.
const OUTSIDE: &[&str] = &["$listCatalog", "$shardedDataDistribution"];

/// Refuses a pipeline that is not part of version 1.
///
/// # Errors
/// 323 APIStrictError.
pub fn check_pipeline(stages: Array<'_>) -> Result<()> {
    for stage in stages.iter() {
        let Some((name, argument)) = stage.as_doc().and_then(|d| d.first()) else {
            continue;
        };
        let row = query::stages::TABLE.find(name);
        if row.is_some_and(|row| !row.api.has(argument)) || OUTSIDE.contains(&name) {
            bail!(
                code::API_STRICT_ERROR,
                "stage {name} is not allowed with 'apiStrict: true' in API Version 1"
            );
        }
        match (name, argument) {
            ("$facet", Value::Document(facets)) => {
                for (_, inner) in facets.iter() {
                    check_pipeline(inner.as_array().unwrap_or(Array::EMPTY))?;
                }
            }
            ("$lookup" | "$unionWith", Value::Document(d)) => {
                check_pipeline(d.field("pipeline").as_array().unwrap_or(Array::EMPTY))?
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_outside_are_found_at_any_depth() {
        let inside = model::doc! { "p": [{ "$match": {} }, { "$collStats": { "count": {} } }] };
        assert!(check_pipeline(inside.doc().field("p").as_array().unwrap()).is_ok());
        let outside = model::doc! { "p": [{ "$facet": { "a": [{ "$unionWith": { "coll": "c",
        "pipeline": [{ "$indexStats": {} }] } }] } }] };
        assert_eq!(
            check_pipeline(outside.doc().field("p").as_array().unwrap())
                .unwrap_err()
                .code(),
            323
        );
    }
}
