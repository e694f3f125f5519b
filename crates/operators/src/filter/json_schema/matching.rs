//! Matching of values against a schema.

use super::schema::{AdditionalRule, Dependency, Items, Schema};
use model::compare::{self, compare};
use model::decimal::DecimalParts;
use model::{Array, Decimal128, Doc, Number, Result, Value};
use rustc_hash::FxHashSet;
use std::cmp::Ordering;

pub(super) fn value(s: &Schema, v: &Value<'_>) -> Result<bool> {
    if s.types.as_ref().is_some_and(|t| !t.contains(v)) {
        return Ok(false);
    }
    if s.encrypted && !matches!(v, Value::Binary(b) if b.subtype == 6) {
        return Ok(false);
    }
    if s.allowed
        .as_ref()
        .is_some_and(|list| !list.iter().any(|a| same(&a.get(), v)))
    {
        return Ok(false);
    }
    let by_type = match v {
        Value::String(text) => string(s, text)?,
        Value::Array(a) => array(s, *a)?,
        Value::Document(d) => object(s, *d)?,
        v => Number::of(v).is_none_or(|n| number(s, v, n)),
    };
    Ok(by_type && combinations(s, v)?)
}

fn combinations(s: &Schema, v: &Value<'_>) -> Result<bool> {
    for inner in &s.all_of {
        if !value(inner, v)? {
            return Ok(false);
        }
    }
    if let Some(list) = &s.any_of
        && count_matching(list, v, 1)? == 0
    {
        return Ok(false);
    }
    if let Some(list) = &s.one_of
        && count_matching(list, v, 2)? != 1
    {
        return Ok(false);
    }
    match &s.not {
        Some(inner) => Ok(!value(inner, v)?),
        None => Ok(true),
    }
}

/// The number of matching schemas, counted up to `enough`.
fn count_matching(list: &[Schema], v: &Value<'_>, enough: usize) -> Result<usize> {
    let mut n = 0;
    for s in list {
        if n < enough && value(s, v)? {
            n += 1;
        }
    }
    Ok(n)
}

fn is_within(n: usize, min: Option<u64>, max: Option<u64>) -> bool {
    let n = n as u64;
    min.is_none_or(|m| n >= m) && max.is_none_or(|m| n <= m)
}

fn string(s: &Schema, text: &str) -> Result<bool> {
    if (s.min_length.is_some() || s.max_length.is_some())
        && !is_within(text.chars().count(), s.min_length, s.max_length)
    {
        return Ok(false);
    }
    s.pattern.as_ref().map_or(Ok(true), |p| p.is_match(text))
}

fn number(s: &Schema, v: &Value<'_>, n: Number) -> bool {
    let bounds = s.numeric.iter().all(|b| {
        let limit = b.value.get();
        if n.is_nan() || Number::of(&limit).is_some_and(Number::is_nan) {
            return n.is_nan() && Number::of(&limit).is_some_and(Number::is_nan) && !b.exclusive;
        }
        match compare(v, &limit) {
            Ordering::Equal => !b.exclusive,
            Ordering::Greater => b.is_minimum,
            Ordering::Less => !b.is_minimum,
        }
    });
    bounds && s.multiple_of.is_none_or(|d| is_multiple(n.to_decimal(), d))
}

/// Exact divisibility of finite decimals.
fn is_multiple(n: Decimal128, of: Decimal128) -> bool {
    let (
        DecimalParts::Finite {
            coefficient: a,
            exponent: ea,
            ..
        },
        DecimalParts::Finite {
            coefficient: b,
            exponent: eb,
            ..
        },
    ) = (n.canonical().parts(), of.canonical().parts())
    else {
        return false;
    };
    if a == 0 {
        return true;
    }
    if b == 0 {
        return false;
    }
    // a·10^ea is a multiple of b·10^eb exactly when b divides a·10^(ea-eb), or b·10^(eb-ea) divides
    // a.
    let shift = ea.abs_diff(eb);
    if ea < eb {
        return 10u128
            .checked_pow(shift)
            .and_then(|p| b.checked_mul(p))
            .is_some_and(|b| a % b == 0);
    }
    let mut rest = a % b;
    for _ in 0..shift {
        // rest < b <= 10^34, so this stays below 10^35.
        rest = rest * 10 % b;
        if rest == 0 {
            return true;
        }
    }
    rest == 0
}

fn array(s: &Schema, a: Array<'_>) -> Result<bool> {
    if (s.min_items.is_some() || s.max_items.is_some())
        && !is_within(a.len(), s.min_items, s.max_items)
    {
        return Ok(false);
    }
    if s.unique_items {
        let mut seen = FxHashSet::default();
        for v in a.iter() {
            let mut key = Vec::new();
            unordered_key(&v, &mut key);
            if !seen.insert(key) {
                return Ok(false);
            }
        }
    }
    match &s.items {
        None => {}
        Some(Items::Each(each)) => {
            for v in a.iter() {
                if !value(each, &v)? {
                    return Ok(false);
                }
            }
        }
        Some(Items::Tuple(schemas)) => {
            for (i, v) in a.iter().enumerate() {
                let fits = match schemas.get(i) {
                    Some(schema) => value(schema, &v)?,
                    None => additional(&s.additional_items, &v)?,
                };
                if !fits {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

fn additional(rule: &AdditionalRule, v: &Value<'_>) -> Result<bool> {
    match rule {
        AdditionalRule::Allowed => Ok(true),
        AdditionalRule::Forbidden => Ok(false),
        AdditionalRule::Schema(s) => value(s, v),
    }
}

fn object(s: &Schema, d: Doc<'_>) -> Result<bool> {
    if (s.min_properties.is_some() || s.max_properties.is_some())
        && !is_within(d.count(), s.min_properties, s.max_properties)
    {
        return Ok(false);
    }
    if !s.required.iter().all(|name| d.contains(name)) {
        return Ok(false);
    }
    for (name, schema) in &s.properties {
        if let Some(v) = d.get(name)
            && !value(schema, &v)?
        {
            return Ok(false);
        }
    }
    if (!s.pattern_properties.is_empty()
        || !matches!(s.additional_properties, AdditionalRule::Allowed))
        && !every_name(s, d)?
    {
        return Ok(false);
    }
    for (name, dependency) in &s.dependencies {
        if !d.contains(name) {
            continue;
        }
        let holds = match dependency {
            Dependency::Fields(names) => names.iter().all(|n| d.contains(n)),
            Dependency::Schema(schema) => value(schema, &Value::Document(d))?,
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

fn every_name(s: &Schema, d: Doc<'_>) -> Result<bool> {
    for (name, v) in d.iter() {
        let mut known = s.properties.iter().any(|(n, _)| n == name);
        for (pattern, schema) in &s.pattern_properties {
            if pattern.is_match(name)? {
                known = true;
                if !value(schema, &v)? {
                    return Ok(false);
                }
            }
        }
        if !known && !additional(&s.additional_properties, &v)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Appends bytes that are equal exactly when two values are the [`same`].
fn unordered_key(v: &Value<'_>, out: &mut Vec<u8>) {
    match v {
        Value::Document(d) => {
            let mut fields: Vec<_> = d.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            out.push(compare::class(v));
            for (name, v) in fields {
                out.push(1);
                out.extend_from_slice(&(name.len() as u32).to_le_bytes());
                out.extend_from_slice(name.as_bytes());
                unordered_key(&v, out);
            }
            out.push(0);
        }
        Value::Array(a) => {
            out.push(compare::class(v));
            for v in a.iter() {
                out.push(1);
                unordered_key(&v, out);
            }
            out.push(0);
        }
        v => compare::equality_key(v, None, out),
    }
}

/// Equality that ignores the order of fields.
pub(super) fn same(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Document(x), Value::Document(y)) => {
            x.count() == y.count()
                && x.iter()
                    .all(|(name, v)| y.get(name).is_some_and(|w| same(&v, &w)))
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y.iter()).all(|(v, w)| same(&v, &w))
        }
        _ => compare(a, b) == Ordering::Equal,
    }
}
