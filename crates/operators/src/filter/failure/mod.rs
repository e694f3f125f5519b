//! Why a document does not match a filter, as MongoDB reports it in `errInfo.details` of a failed
//! validation. Works on the original filter document, because the report quotes it; called only
//! after a document has failed. Must not know: commands, collections.

mod considered;
mod schema;

use super::{Filter, comparison::is_operator_document};
use crate::expr::{self, ParseCx};
use crate::{Cx, Env};
use considered::PathValues;
use model::{Array, Bump, Doc, DocBuf, DocWriter, Value};

/// Whether a part of the filter should match, or (below `$nor` and `$not`) should not match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expectation {
    Match,
    NoMatch,
}

impl Expectation {
    fn flip(self) -> Expectation {
        if self == Expectation::Match {
            Expectation::NoMatch
        } else {
            Expectation::Match
        }
    }
}

/// Reports why `doc` does not match `filter`. `None` when it does, or when the filter cannot be
/// split into conditions.
pub fn explain_failure(filter: Doc<'_>, doc: Doc<'_>, env: &Env) -> Option<DocBuf> {
    Failure { doc, env }.document(filter, Expectation::Match)
}

struct Failure<'d> {
    doc: Doc<'d>,
    env: &'d Env,
}

/// One condition of a filter: `spec` is a filter with only this condition.
struct Condition<'s> {
    /// Name of the operator in reports.
    operator: &'s str,
    /// Its operand.
    operand: Value<'s>,
    /// The field it tests; `None` for operators on whole documents.
    path: Option<&'s str>,
    spec: DocBuf,
}

/// The conditions of a filter document; several operators on one field are separate conditions.
fn conditions<'s>(filter: Doc<'s>) -> Vec<Condition<'s>> {
    let mut found = Vec::new();
    for (name, v) in filter.iter() {
        if name == "$comment" {
            continue;
        }
        if name.starts_with('$') && !matches!(name, "$ref" | "$id" | "$db") {
            found.push(Condition {
                operator: name,
                operand: v,
                path: None,
                spec: single(name, v),
            });
            continue;
        }
        match v {
            Value::Document(d) if is_operator_document(d) => field_conditions(name, d, &mut found),
            Value::Regex(_) => found.push(Condition {
                operator: "$regex",
                operand: v,
                path: Some(name),
                spec: single(name, v),
            }),
            v => found.push(Condition {
                operator: "$eq",
                operand: v,
                path: Some(name),
                spec: single(name, v),
            }),
        }
    }
    found
}

fn single(name: &str, v: Value<'_>) -> DocBuf {
    DocBuf::build(|w| {
        w.put(name, v);
    })
}

fn field_conditions<'s>(path: &'s str, operators: Doc<'s>, found: &mut Vec<Condition<'s>>) {
    for (operator, operand) in operators.iter() {
        // These are options of another operator on the same field.
        if matches!(
            operator,
            "$options" | "$comment" | "$minDistance" | "$maxDistance"
        ) {
            continue;
        }
        let spec = DocBuf::build(|w| {
            let mut inner = w.doc(path);
            inner.put(operator, operand);
            if operator == "$regex" && operators.contains("$options") {
                inner.put("$options", operators.field("$options"));
            }
        });
        found.push(Condition {
            operator,
            operand,
            path: Some(path),
            spec,
        });
    }
}

impl Failure<'_> {
    fn matches(&self, filter: Doc<'_>) -> Option<bool> {
        let parsed = Filter::parse(&mut ParseCx::new(self.env), filter).ok()?;
        // A condition whose evaluation fails does not match.
        Some(
            parsed
                .matches(self.doc, &Bump::new(), self.env)
                .unwrap_or(false),
        )
    }

    /// A filter document: its only condition, or an implicit `$and`.
    fn document(&self, filter: Doc<'_>, wanted: Expectation) -> Option<DocBuf> {
        let conditions = conditions(filter);
        if let [only] = conditions.as_slice() {
            return self.condition(only, wanted);
        }
        let parts = conditions.iter().map(|c| self.condition(c, wanted));
        self.list("$and", parts.collect(), wanted)
    }

    fn list(
        &self,
        operator: &str,
        parts: Vec<Option<DocBuf>>,
        wanted: Expectation,
    ) -> Option<DocBuf> {
        let satisfied = (wanted == Expectation::NoMatch) != (operator == "$nor");
        if parts.iter().all(Option::is_none) {
            return None;
        }
        Some(DocBuf::build(|w| {
            w.put("operatorName", operator);
            let mut clauses = w.array(if satisfied {
                "clausesSatisfied"
            } else {
                "clausesNotSatisfied"
            });
            for (i, details) in parts.iter().enumerate() {
                if let Some(d) = details {
                    clauses
                        .doc()
                        .put("index", i32::try_from(i).unwrap_or(i32::MAX))
                        .put("details", d);
                }
            }
        }))
    }

    /// Why one condition failed; `None` when it has the expected result.
    fn condition(&self, c: &Condition<'_>, wanted: Expectation) -> Option<DocBuf> {
        if self.matches(c.spec.doc())? == (wanted == Expectation::Match) {
            return None;
        }
        match (c.operator, c.path) {
            ("$and" | "$or", None) => self.list(c.operator, self.parts(c.operand, wanted), wanted),
            ("$nor", None) => self.list(c.operator, self.parts(c.operand, wanted.flip()), wanted),
            ("$jsonSchema", None) if wanted == Expectation::NoMatch => {
                Some(model::doc! { "operatorName": "$jsonSchema", "reason": "schema matched" })
            }
            ("$jsonSchema", None) => schema::explain(c.operand.as_doc()?, self.doc),
            ("$not", Some(path)) => {
                let inner = single(path, c.operand);
                let details = self.document(inner.doc(), wanted.flip());
                Some(DocBuf::build(|w| {
                    w.put("operatorName", "$not");
                    if let Some(d) = &details {
                        w.put("details", d);
                    }
                }))
            }
            _ => Some(DocBuf::build(|w| self.leaf(c, wanted, w))),
        }
    }

    fn parts(&self, list: Value<'_>, wanted: Expectation) -> Vec<Option<DocBuf>> {
        let one = |v: Value<'_>| v.as_doc().and_then(|d| self.document(d, wanted));
        list.as_array()
            .unwrap_or(Array::EMPTY)
            .iter()
            .map(one)
            .collect()
    }

    /// A condition without nested conditions.
    fn leaf(&self, c: &Condition<'_>, wanted: Expectation, w: &mut DocWriter<'_>) {
        w.put("operatorName", c.operator)
            .put("specifiedAs", &c.spec);
        let (failed, succeeded) = reasons(c.operator);
        let (failed, succeeded) = match c.operator {
            "$exists" if !c.operand.truthy() => (succeeded, failed),
            _ => (failed, succeeded),
        };
        let reason = if wanted == Expectation::Match {
            failed
        } else {
            succeeded
        };
        match c.path {
            Some(_) if c.operator == "$exists" => {
                w.put("reason", reason);
            }
            Some(path) => PathValues::at(self.doc, path, considered::Leaf::of(c.operator))
                .write(c.operator, reason, w),
            None => {
                w.put("reason", reason);
                if c.operator == "$expr" {
                    self.expression(c.operand, w);
                }
            }
        }
    }

    fn expression(&self, e: Value<'_>, w: &mut DocWriter<'_>) {
        let Ok(parsed) = expr::parse(&mut ParseCx::new(self.env), e) else {
            return;
        };
        let arena = Bump::new();
        if let Ok(v) = parsed.eval(&Cx::new(&arena, Value::Document(self.doc), self.env))
            && !v.is_missing()
        {
            w.put("expressionResult", v);
        }
    }
}

/// The reason reported when an operator fails, and the one when it succeeds where it should not.
fn reasons(operator: &str) -> (&'static str, &'static str) {
    match operator {
        "$ne" => ("comparison succeeded", "comparison failed"),
        "$in" => (
            "no matching value found in array",
            "matching value found in array",
        ),
        "$nin" => (
            "matching value found in array",
            "no matching value found in array",
        ),
        "$exists" => ("path does not exist", "path does exist"),
        "$type" => ("type did not match", "type did match"),
        "$regex" => (
            "regular expression did not match",
            "regular expression did match",
        ),
        "$mod" => (
            "$mod did not evaluate to expected remainder",
            "$mod did evaluate to expected remainder",
        ),
        "$size" => (
            "array length was not equal to given size",
            "array length was equal to given size",
        ),
        "$all" => (
            "array did not contain all specified values",
            "array did contain all specified values",
        ),
        "$elemMatch" => (
            "array did not satisfy the child predicate",
            "array did satisfy the child predicate",
        ),
        "$bitsAllSet" | "$bitsAllClear" | "$bitsAnySet" | "$bitsAnyClear" => (
            "bitwise operator failed to match",
            "bitwise operator matched successfully",
        ),
        "$geoWithin" | "$within" => (
            "none of the considered geometries were contained within the expression's geometry",
            "at least one of considered geometries was contained within the expression's geometry",
        ),
        "$geoIntersects" => (
            "none of the considered geometries intersected the expression's geometry",
            "at least one of considered geometries intersected the expression's geometry",
        ),
        "$expr" => ("expression did not match", "expression did match"),
        "$alwaysFalse" => (
            "expression always evaluates to false",
            "expression always evaluates to false",
        ),
        "$alwaysTrue" => (
            "expression always evaluates to true",
            "expression always evaluates to true",
        ),
        _ => ("comparison failed", "comparison succeeded"),
    }
}

#[cfg(test)]
mod tests;
