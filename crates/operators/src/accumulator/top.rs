//! `$top`, `$bottom`: `{sortBy, output}` and `$topN`, `$bottomN`: `{n, sortBy, output}`: the output
//! of the documents that sort first / last; among equal ones the earliest is kept. Missing output
//! becomes null. Errors: 5788001 no document, 5788002 unknown argument, 5788003 / 5788004 / 5788005
//! no `n` / `output` / `sortBy`, 9657900 sortBy empty, 10065 sortBy no document, 15974 / 15975 bad
//! direction, else see `n_spec`.

use super::{Accumulator, AccumulatorOp, AccumulatorSpec};
use crate::Cx;
use crate::expr::args::missing_error;
use crate::expr::n_spec::{constant_count, count_of_group};
use crate::expr::{BoxExpr, Expr, ParseCx, parse};
use model::{Array, Doc, MongoError, Number, OwnedValue, Result, Value, bail, compare_with};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[
    AccumulatorOp {
        name: "$top",
        parse: |cx, name, spec| parse_top(cx, name, spec, Kind::TOP),
    },
    AccumulatorOp {
        name: "$topN",
        parse: |cx, name, spec| parse_top(cx, name, spec, Kind::TOP_N),
    },
    AccumulatorOp {
        name: "$bottom",
        parse: |cx, name, spec| parse_top(cx, name, spec, Kind::BOTTOM),
    },
    AccumulatorOp {
        name: "$bottomN",
        parse: |cx, name, spec| parse_top(cx, name, spec, Kind::BOTTOM_N),
    },
];

#[derive(Clone, Copy)]
struct Kind {
    bottom: bool,
    single: bool,
}

impl Kind {
    const TOP: Kind = Kind::of(false, true);
    const TOP_N: Kind = Kind::of(false, false);
    const BOTTOM: Kind = Kind::of(true, true);
    const BOTTOM_N: Kind = Kind::of(true, false);

    const fn of(bottom: bool, single: bool) -> Kind {
        Kind { bottom, single }
    }
}

fn parse_top(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
    kind: Kind,
) -> Result<AccumulatorSpec> {
    let Value::Document(d) = spec else {
        bail!(
            5788001,
            "specification must be an object; found {name}: {spec}"
        );
    };
    let (mut init, mut output, mut sort_by) = (None, None, None);
    for (argument, v) in d.iter() {
        match (argument, v) {
            ("n", v) if !kind.single => init = Some(parse(cx, v)?),
            ("output", v) => output = Some(v),
            ("sortBy", Value::Document(by)) => sort_by = Some(by),
            ("sortBy", v) => bail!(
                10065,
                "invalid parameter: expected an object (sortBy), found \
                {}",
                v.type_name()
            ),
            _ => bail!(5788002, "Unknown argument to {name} '{argument}'"),
        }
    }
    if init.is_none() && !kind.single {
        return Err(missing_error(5788003, name, "n"));
    }
    let output = output.ok_or_else(|| missing_error(5788004, name, "output"))?;
    let sort_by = sort_by.ok_or_else(|| missing_error(5788005, name, "sortBy"))?;
    if sort_by.is_empty() {
        bail!(9657900, "Value for 'sortBy' must be a non-empty object");
    }
    let (keys, descending) = sort_keys(cx, sort_by)?;
    let descending: Arc<[bool]> = descending.into();
    let n = if kind.single {
        Some(1)
    } else {
        init.as_ref().and_then(constant_count)
    };
    let start = move || {
        let descending = descending.clone();
        Box::new(Top {
            n,
            kind,
            descending,
            entries: Vec::new(),
            bytes: 0,
        }) as Box<dyn Accumulator>
    };
    let input = Box::new(KeysAndOutput {
        keys,
        output: parse(cx, output)?,
    });
    Ok(AccumulatorSpec {
        many: None,
        any_order: false,
        input,
        init,
        start: Box::new(start),
    })
}

fn sort_keys(cx: &mut ParseCx<'_>, sort_by: Doc<'_>) -> Result<(Vec<BoxExpr>, Vec<bool>)> {
    let mut keys = Vec::new();
    let mut descending = Vec::new();
    for (path, direction) in sort_by.iter() {
        descending.push(match Number::of(&direction).map(|n| n.to_i64_exact()) {
            Some(Some(1)) => false,
            Some(Some(-1)) => true,
            Some(_) => bail!(
                15975,
                "$sort key ordering must be 1 (for ascending) or -1 (for \
                descending)"
            ),
            None => bail!(
                15974,
                "Illegal key in $sort specification: {path}: {direction}"
            ),
        });
        keys.push(parse(cx, Value::String(&format!("${path}")))?);
    }
    Ok((keys, descending))
}

/// `[key, ..., output]` of a document.
struct KeysAndOutput {
    keys: Vec<BoxExpr>,
    output: BoxExpr,
}

impl Expr for KeysAndOutput {
    fn eval<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let mut values = smallvec::SmallVec::<[Value<'a>; 4]>::new();
        for e in self.keys.iter().chain([&self.output]) {
            values.push(e.eval(cx)?);
        }
        Ok(Value::Array(Array::from_values_in(cx.arena, values)))
    }
    fn visit<'e>(&'e self, each: &mut dyn FnMut(&'e dyn Expr)) {
        self.keys
            .iter()
            .chain([&self.output])
            .for_each(|e| each(e.as_ref()));
    }
    fn is_volatile(&self) -> bool {
        true
    }
    fn reads_more(&self) -> bool {
        false
    }
}

struct Top {
    n: Option<usize>,
    kind: Kind,
    descending: Arc<[bool]>,
    /// `[key, ..., output]` in sort order; equal keys in input order.
    entries: Vec<OwnedValue>,
    bytes: usize,
}

/// The sort key of an array: its smallest element, its largest when descending; undefined when it
/// is empty.
fn sort_value<'a>(v: Value<'a>, descending: bool, cx: &Cx<'_, '_>) -> Value<'a> {
    let Value::Array(a) = v else { return v };
    let order = |x: &Value<'a>, y: &Value<'a>| compare_with(x, y, cx.collate());
    let best = if descending {
        a.iter().max_by(order)
    } else {
        a.iter().min_by(order)
    };
    best.unwrap_or(Value::Undefined)
}

impl Top {
    fn compare(&self, a: Array<'_>, b: Array<'_>, cx: &Cx<'_, '_>) -> Ordering {
        for ((x, y), descending) in a.iter().zip(b.iter()).zip(self.descending.iter()) {
            let order = compare_with(
                &sort_value(x, *descending, cx),
                &sort_value(y, *descending, cx),
                cx.collate(),
            );
            if order.is_ne() {
                return if *descending { order.reverse() } else { order };
            }
        }
        Ordering::Equal
    }
}

impl Accumulator for Top {
    fn init(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        self.n = Some(count_of_group(value)?);
        Ok(())
    }
    fn add(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        let n = self
            .n
            .ok_or_else(|| MongoError::internal("'n' must be initialized"))?;
        let Value::Array(entry) = value else {
            return Err(MongoError::internal(
                "input is keys and \
            output",
            ));
        };
        let place = self.entries.partition_point(|kept| {
            kept.get()
                .as_array()
                .is_some_and(|kept| self.compare(kept, entry, cx).is_le())
        });
        let full = self.entries.len() >= n;
        // A document whose key equals that of the worst kept entry is not kept; for `$bottom` the
        // worst entry is the first one.
        let ties_with_first = || {
            self.entries
                .first()
                .and_then(|e| e.get().as_array())
                .is_some_and(|e| self.compare(e, entry, cx).is_ge())
        };
        if full
            && if self.kind.bottom {
                place == 0 || ties_with_first()
            } else {
                place >= n
            }
        {
            return Ok(());
        }
        let owned = value.to_owned_value();
        self.bytes += owned.len_bytes();
        self.entries.insert(place, owned);
        if full {
            let out = if self.kind.bottom { 0 } else { n };
            self.bytes -= self.entries.remove(out).len_bytes();
        }
        Ok(())
    }
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let arena = cx.arena;
        let outputs = self.entries.iter().map(|e| {
            e.get()
                .as_array()
                .and_then(|a| a.iter().last())
                .unwrap_or(Value::Null)
        });
        Ok(if self.kind.single {
            outputs
                .into_iter()
                .next()
                .map_or(Value::Null, |v| v.copy_into(arena))
        } else {
            Value::Array(Array::from_values_in(arena, outputs))
        })
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes + self.entries.len() * size_of::<OwnedValue>()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        let docs = "[{'k': 2, 'v': 'a'}, {'k': 1, 'v': 'b'}, {'k': 3, 'v': 'c'}, {'k': 1, 'v': \
            'd'}, {'k': 3}]";
        crate::accumulator::check::table(&[
            (
                "{'$top': {'sortBy': {'k': 1}, 'output': '$v'}}",
                docs,
                "'b'",
            ),
            (
                "{'$top': {'sortBy': {'k': -1}, 'output': '$v'}}",
                docs,
                "'c'",
            ),
            (
                "{'$bottom': {'sortBy': {'k': 1}, 'output': '$v'}}",
                docs,
                "'c'",
            ),
            (
                "{'$topN': {'n': 3, 'sortBy': {'k': 1}, 'output': '$v'}}",
                docs,
                "['b', 'd', 'a']",
            ),
            (
                "{'$bottomN': {'n': '$n', 'sortBy': {'k': 1}, 'output': '$v'}}",
                docs,
                "['c', null]",
            ),
            (
                "{'$topN': {'n': 1, 'sortBy': {'k': 1, 'v': -1}, 'output': ['$v']}}",
                docs,
                "[['d']]",
            ),
            (
                "{'$top': {'sortBy': {'k': 1}, 'output': '$k'}}",
                "[{'k': [5, 0]}, {'k': 1}]",
                "[5, 0]",
            ),
            (
                "{'$top': {'n': 1, 'sortBy': {'k': 1}, 'output': '$v'}}",
                docs,
                "!5788002",
            ),
            (
                "{'$topN': {'sortBy': {'k': 1}, 'output': '$v'}}",
                docs,
                "!5788003",
            ),
            ("{'$top': {'sortBy': {'k': 1}}}", docs, "!5788004"),
            ("{'$top': {'output': 1}}", docs, "!5788005"),
            ("{'$top': {'sortBy': {}, 'output': 1}}", docs, "!9657900"),
            (
                "{'$top': {'sortBy': {'k': 2}, 'output': 1}}",
                docs,
                "!15975",
            ),
            ("{'$top': {'sortBy': 1, 'output': 1}}", docs, "!10065"),
            ("{'$top': 1}", docs, "!5788001"),
        ]);
    }
}
