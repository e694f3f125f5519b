//! Keywords of `$jsonSchema` and the checks of their operands.

use super::schema::{AdditionalRule, Bound, Dependency, Items, Schema};
use crate::filter::element::TypeSet;
use crate::filter::regex::Pattern;
use model::{Decimal128, Doc, Number, OwnedValue, Result, Value, bail, code};

/// Deepest nesting of schemas.
const MAX_DEPTH: usize = 150;

fn wrong(keyword: &str, wanted: &str, v: Value<'_>) -> model::MongoError {
    model::MongoError::type_mismatch(format!(
        "$jsonSchema keyword '{keyword}' must be {wanted}, not {}",
        v.type_name()
    ))
}

pub(super) fn schema(spec: Value<'_>, keyword: &str, depth: usize) -> Result<Schema> {
    let Value::Document(d) = spec else {
        return Err(wrong(keyword, "an object", spec));
    };
    if depth >= MAX_DEPTH {
        bail!(
            code::OVERFLOW,
            "$jsonSchema is nested deeper than {MAX_DEPTH} levels"
        );
    }
    if d.contains("type") && d.contains("bsonType") {
        bail!(
            code::FAILED_TO_PARSE,
            "Cannot specify both $jsonSchema keywords 'type' and 'bsonType'"
        );
    }
    let mut s = Schema::default();
    for (k, v) in d.iter() {
        if !simple(&mut s, d, k, v)? {
            parse_nested(&mut s, k, v, depth + 1)?;
        }
    }
    Ok(s)
}

/// Keywords without nested schemas. False for other keywords.
fn simple(s: &mut Schema, d: Doc<'_>, k: &str, v: Value<'_>) -> Result<bool> {
    match k {
        "type" => s.types = Some(types(k, v, json_type)?),
        "bsonType" => s.types = Some(types(k, v, bson_type)?),
        "minimum" | "maximum" => {
            if !v.is_number() {
                return Err(wrong(k, "a number", v));
            }
            let is_minimum = k == "minimum";
            let exclusive = d.field(if is_minimum {
                "exclusiveMinimum"
            } else {
                "exclusiveMaximum"
            });
            let exclusive = matches!(exclusive, Value::Bool(true));
            s.numeric.push(Bound {
                is_minimum,
                exclusive,
                value: v.to_owned_value(),
            });
        }
        "exclusiveMinimum" | "exclusiveMaximum" => {
            let needs = if k == "exclusiveMinimum" {
                "minimum"
            } else {
                "maximum"
            };
            boolean(k, v)?;
            if !d.contains(needs) {
                bail!(
                    code::FAILED_TO_PARSE,
                    "$jsonSchema keyword '{needs}' must be a present if {k} is present"
                );
            }
        }
        "multipleOf" => s.multiple_of = Some(multiple_of(k, v)?),
        "minLength" => s.min_length = Some(count(k, v)?),
        "maxLength" => s.max_length = Some(count(k, v)?),
        "minItems" => s.min_items = Some(count(k, v)?),
        "maxItems" => s.max_items = Some(count(k, v)?),
        "minProperties" => s.min_properties = Some(count(k, v)?),
        "maxProperties" => s.max_properties = Some(count(k, v)?),
        "uniqueItems" => s.unique_items = boolean(k, v)?,
        "pattern" => {
            let Value::String(p) = v else {
                return Err(wrong(k, "a string", v));
            };
            s.pattern = Some(Pattern::new(p, "")?);
        }
        "required" => s.required = strings(k, v)?,
        "enum" => s.allowed = Some(parse_enum(k, v)?),
        "title" | "description" => {
            if !matches!(v, Value::String(_)) {
                return Err(wrong(k, "a string", v));
            }
        }
        "encrypt" | "encryptMetadata" => {
            if v.as_doc().is_none() {
                return Err(wrong(k, "an object", v));
            }
            s.encrypted |= k == "encrypt";
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Keywords with nested schemas.
fn parse_nested(s: &mut Schema, k: &str, v: Value<'_>, depth: usize) -> Result<()> {
    match k {
        "items" => {
            s.items = Some(match v {
                Value::Array(a) => Items::Tuple(
                    a.iter()
                        .map(|v| schema(v, k, depth))
                        .collect::<Result<_>>()?,
                ),
                Value::Document(_) => Items::Each(Box::new(schema(v, k, depth)?)),
                v => return Err(wrong(k, "an array or an object", v)),
            });
        }
        "additionalItems" => s.additional_items = additional(k, v, depth)?,
        "additionalProperties" => s.additional_properties = additional(k, v, depth)?,
        "properties" => {
            let Value::Document(d) = v else {
                return Err(wrong(k, "an object", v));
            };
            for (name, v) in d.iter() {
                s.properties
                    .push((name.to_owned(), schema(v, name, depth)?));
            }
        }
        "patternProperties" => {
            let Value::Document(d) = v else {
                return Err(wrong(k, "an object", v));
            };
            for (pattern, v) in d.iter() {
                let inner = schema(v, pattern, depth)?;
                let Ok(compiled) = Pattern::new(pattern, "") else {
                    bail!(
                        code::BAD_VALUE,
                        "Invalid regular expression in $jsonSchema keyword '{k}': {pattern}"
                    );
                };
                s.pattern_properties.push((compiled, inner));
            }
        }
        "dependencies" => {
            let Value::Document(d) = v else {
                return Err(wrong(k, "an object", v));
            };
            for (name, v) in d.iter() {
                let dependency = match v {
                    Value::Document(_) => Dependency::Schema(Box::new(schema(v, k, depth)?)),
                    Value::Array(_) => Dependency::Fields(strings(k, v)?),
                    v => return Err(wrong(k, "an object or an array of strings", v)),
                };
                s.dependencies.push((name.to_owned(), dependency));
            }
        }
        "allOf" => s.all_of = schemas(k, v, depth)?,
        "anyOf" => s.any_of = Some(schemas(k, v, depth)?),
        "oneOf" => s.one_of = Some(schemas(k, v, depth)?),
        "not" => s.not = Some(Box::new(schema(v, k, depth)?)),
        "$ref" | "$schema" | "default" | "definitions" | "format" | "id" => {
            bail!(
                code::FAILED_TO_PARSE,
                "$jsonSchema keyword '{k}' is not currently supported"
            )
        }
        _ => bail!(code::FAILED_TO_PARSE, "Unknown $jsonSchema keyword: {k}"),
    }
    Ok(())
}

fn schemas(k: &str, v: Value<'_>, depth: usize) -> Result<Vec<Schema>> {
    let Value::Array(a) = v else {
        return Err(wrong(k, "an array", v));
    };
    if a.is_empty() {
        bail!(
            code::BAD_VALUE,
            "$jsonSchema keyword '{k}' must be a non-empty array"
        );
    }
    a.iter().map(|v| schema(v, k, depth)).collect()
}

fn additional(k: &str, v: Value<'_>, depth: usize) -> Result<AdditionalRule> {
    Ok(match v {
        Value::Bool(true) => AdditionalRule::Allowed,
        Value::Bool(false) => AdditionalRule::Forbidden,
        Value::Document(_) => AdditionalRule::Schema(Box::new(schema(v, k, depth)?)),
        v => return Err(wrong(k, "an object or a boolean", v)),
    })
}

fn boolean(k: &str, v: Value<'_>) -> Result<bool> {
    v.as_bool().ok_or_else(|| wrong(k, "a boolean", v))
}

fn count(k: &str, v: Value<'_>) -> Result<u64> {
    // Here a wrong type has the error code of a wrong value, unlike in all other keywords.
    let Some(n) = v.as_i64_exact().and_then(|n| u64::try_from(n).ok()) else {
        bail!(
            code::FAILED_TO_PARSE,
            "$jsonSchema keyword '{k}' must be a non-negative integer: {}",
            v
        )
    };
    Ok(n)
}

fn multiple_of(k: &str, v: Value<'_>) -> Result<Decimal128> {
    let Some(n) = Number::of(&v) else {
        return Err(wrong(k, "a number", v));
    };
    let d = n.to_decimal();
    if n.is_nan() || d.is_infinite() || d.is_negative() || d.is_zero() {
        bail!(
            code::FAILED_TO_PARSE,
            "$jsonSchema keyword '{k}' must have a positive value"
        );
    }
    Ok(d)
}

/// Distinct strings, at least one.
fn strings(k: &str, v: Value<'_>) -> Result<Vec<String>> {
    let Value::Array(a) = v else {
        return Err(wrong(k, "an array", v));
    };
    if a.is_empty() {
        bail!(
            code::FAILED_TO_PARSE,
            "$jsonSchema keyword '{k}' cannot be an empty array"
        );
    }
    let mut out: Vec<String> = Vec::new();
    for v in a.iter() {
        let Value::String(s) = v else {
            return Err(wrong(k, "an array of strings", v));
        };
        if out.iter().any(|o| o == s) {
            bail!(
                code::FAILED_TO_PARSE,
                "$jsonSchema keyword '{k}' array cannot contain duplicate values: {s}"
            );
        }
        out.push(s.to_owned());
    }
    Ok(out)
}

fn parse_enum(k: &str, v: Value<'_>) -> Result<Vec<OwnedValue>> {
    let Value::Array(a) = v else {
        return Err(wrong(k, "an array", v));
    };
    if a.is_empty() {
        bail!(
            code::FAILED_TO_PARSE,
            "$jsonSchema keyword '{k}' cannot be an empty array"
        );
    }
    let mut out: Vec<OwnedValue> = Vec::new();
    for v in a.iter() {
        if out.iter().any(|o| super::matching::same(&o.get(), &v)) {
            bail!(
                code::FAILED_TO_PARSE,
                "$jsonSchema keyword '{k}' array cannot contain duplicate values"
            );
        }
        out.push(v.to_owned_value());
    }
    Ok(out)
}

fn types(k: &str, v: Value<'_>, add: fn(&mut TypeSet, &str) -> Result<()>) -> Result<TypeSet> {
    let mut set = TypeSet::default();
    match v {
        Value::String(s) => add(&mut set, s)?,
        Value::Array(_) => strings(k, v)?.iter().try_for_each(|s| add(&mut set, s))?,
        v => return Err(wrong(k, "either a string or an array of strings", v)),
    }
    Ok(set)
}

fn refuse_integer(name: &str) -> Result<()> {
    if name == "integer" {
        bail!(
            code::FAILED_TO_PARSE,
            "$jsonSchema type 'integer' is not currently supported"
        );
    }
    Ok(())
}

fn bson_type(set: &mut TypeSet, name: &str) -> Result<()> {
    refuse_integer(name)?;
    set.insert_name(name)
}

fn json_type(set: &mut TypeSet, name: &str) -> Result<()> {
    refuse_integer(name)?;
    match name {
        "array" | "object" | "null" | "string" | "number" => set.insert_name(name),
        "boolean" => set.insert_name("bool"),
        _ => bail!(code::BAD_VALUE, "Unknown type name alias: {name}"),
    }
}
