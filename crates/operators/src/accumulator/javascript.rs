//! `$accumulator: {init, initArgs, accumulate, accumulateArgs, merge, finalize, lang}`, and
//! `$_internalJsReduce: {data, eval}`, with which mapReduce is built. Partial states of a group are
//! never merged here: `$group` writes documents, not states, to temporary files when memory is
//! short. Errors: 4544701 no constant, 4544702 no text, 4544703 no document, 4544704 / 4544705 the
//! language, 4544706 unknown, 4544707-4544710 missing, 4544711 / 4544712 no arrays; 31242-31245,
//! 31251, 31326, 31349 and 31392 of the internal one; at run time 31264 without the engine and
//! those of [`crate::script::Scripts::call`].

use super::{Accumulator, AccumulatorOp, AccumulatorSpec};
use crate::Cx;
use crate::expr::{BoxExpr, Constant, ParseCx, parse};
use crate::script::{Call, CallResult, Script};
use model::{Array, Doc, MongoError, OwnedValue, Result, Value, bail};
use std::sync::Arc;

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[
    AccumulatorOp {
        name: "$accumulator",
        parse: parse_accumulator,
    },
    AccumulatorOp {
        name: "$_internalJsReduce",
        parse: parse_reduce,
    },
];

/// Most pending arguments, passed to the engine together: a call costs more than the work of most
/// functions.
const PENDING_MAX: usize = 1000;
const PENDING_BYTES_MAX: usize = 1 << 20;

/// The functions of an accumulator.
struct Functions {
    init: Script,
    accumulate: Script,
    finalize: Option<Script>,
}

fn function(cx: &mut ParseCx<'_>, name: &str, v: Value<'_>) -> Result<Option<Script>> {
    if v.is_missing() {
        return Ok(None);
    }
    let e = parse(cx, v)?;
    let Some(v) = e.constant() else {
        bail!(
            4544701,
            "$accumulator '{name}' must be a constant expression"
        )
    };
    match Script::source_of(&v) {
        Some(source) => Ok(Some(Script::new(source))),
        None => bail!(4544702, "$accumulator '{name}' must be a String or Code"),
    }
}

fn parse_accumulator(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
) -> Result<AccumulatorSpec> {
    const FIELDS: &[&str] = &[
        "init",
        "initArgs",
        "accumulate",
        "accumulateArgs",
        "merge",
        "finalize",
        "lang",
    ];
    let Value::Document(d) = spec else {
        bail!(
            4544703,
            "{name} expects an object as an argument; found: {}",
            spec.type_name()
        )
    };
    if let Some((unexpected, _)) = d.iter().find(|(n, _)| !FIELDS.contains(n)) {
        bail!(4544706, "{name} got an unexpected field: {unexpected}");
    }
    match d.field("lang") {
        Value::Missing | Value::String("js") => {}
        Value::String(_) => bail!(4544705, "{name} only supports lang: 'js'"),
        v => bail!(
            4544704,
            "{name} lang must be a string; found: {}",
            v.type_name()
        ),
    }
    let mut required = |field: &str, number: i32| -> Result<Script> {
        let script = function(cx, field, d.field(field))?;
        script.filter(|s| !s.source.is_empty()).ok_or_else(|| {
            MongoError::new(
                number,
                format!("{name} missing required argument '{field}'"),
            )
        })
    };
    let init = required("init", 4544707)?;
    let accumulate = required("accumulate", 4544708)?;
    required("merge", 4544709)?;
    let finalize = function(cx, "finalize", d.field("finalize"))?;
    if d.field("accumulateArgs").is_missing() {
        bail!(4544710, "{name} missing required argument 'accumulateArgs'");
    }
    let init_args = match d.field("initArgs") {
        Value::Missing => Constant::new_boxed(Value::Array(Array::EMPTY)),
        v => parse(cx, v)?,
    };
    let functions = Arc::new(Functions {
        init,
        accumulate,
        finalize,
    });
    Ok(AccumulatorSpec {
        many: None,
        any_order: false,
        input: parse(cx, d.field("accumulateArgs"))?,
        init: Some(init_args),
        start: Box::new(move || {
            Box::new(Accumulate {
                functions: functions.clone(),
                state: Value::Null.to_owned_value(),
                pending: Vec::new(),
                pending_bytes: 0,
            })
        }),
    })
}

/// The state of one group.
struct Accumulate {
    functions: Arc<Functions>,
    state: OwnedValue,
    /// Arguments of calls that are not made yet.
    pending: Vec<OwnedValue>,
    pending_bytes: usize,
}

fn call_script<'a>(
    cx: &Cx<'_, 'a>,
    script: &Script,
    args: &[Value<'_>],
    wants: CallResult,
) -> Result<Value<'a>> {
    cx.env.check_interrupt()?;
    let call = Call {
        script,
        this: None,
        args,
        wants,
    };
    cx.env.scripts()?.call(cx, &call)
}

impl Accumulate {
    /// The state after the pending calls.
    fn compute_state<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        if self.pending.is_empty() {
            return Ok(self.state.get().copy_into(cx.arena));
        }
        let pending: Vec<Value<'_>> = self.pending.iter().map(OwnedValue::get).collect();
        let calls = Array::build_in(cx.arena, |w| {
            for v in &pending {
                w.push(*v);
            }
        });
        let args = [self.state.get(), Value::Array(calls)];
        call_script(cx, &self.functions.accumulate, &args, CallResult::Fold)
    }
}

impl Accumulator for Accumulate {
    fn init(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        let Value::Array(args) = value else {
            bail!(
                4544711,
                "$accumulator initArgs must evaluate to an array: {}",
                value.type_name()
            )
        };
        let args: Vec<Value<'_>> = args.iter().collect();
        self.state =
            call_script(cx, &self.functions.init, &args, CallResult::Value)?.to_owned_value();
        Ok(())
    }

    fn add(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        if !matches!(value, Value::Array(_)) {
            bail!(
                4544712,
                "$accumulator accumulateArgs must evaluate to an array: {}",
                value.type_name()
            );
        }
        let value = value.to_owned_value();
        self.pending_bytes += value.len_bytes();
        self.pending.push(value);
        if self.pending.len() >= PENDING_MAX || self.pending_bytes >= PENDING_BYTES_MAX {
            self.state = self.compute_state(cx)?.to_owned_value();
            self.pending.clear();
            self.pending_bytes = 0;
        }
        Ok(())
    }

    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let state = self.compute_state(cx)?;
        match &self.functions.finalize {
            None => Ok(state),
            Some(finalize) => call_script(cx, finalize, &[state], CallResult::Value),
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.state.len_bytes()
            + self.pending_bytes
            + self.pending.capacity() * size_of::<OwnedValue>()
    }
}

fn parse_reduce(
    cx: &mut ParseCx<'_>,
    name: &'static str,
    spec: Value<'_>,
) -> Result<AccumulatorSpec> {
    let Value::Document(d) = spec else {
        bail!(
            31326,
            "{name} requires a document argument, but found {}",
            spec.type_name()
        )
    };
    if let Some((other, _)) = d.iter().find(|(n, _)| !matches!(*n, "eval" | "data")) {
        bail!(31243, "Invalid argument specified to {name}: {other}");
    }
    let script = match d.field("eval") {
        Value::Missing => bail!(31245, "{name} requires 'eval' argument"),
        v => match Script::source_of(&v) {
            Some(source) => Arc::new(Script::new(source)),
            None => bail!(
                31244,
                "{name} requires the 'eval' argument to be of type string, or code but found {}",
                v.type_name()
            ),
        },
    };
    let data: BoxExpr = match d.field("data") {
        Value::Missing => bail!(31349, "{name} requires 'data' argument"),
        v => parse(cx, v)?,
    };
    Ok(AccumulatorSpec {
        many: None,
        any_order: false,
        input: data,
        init: None,
        start: Box::new(move || {
            Box::new(Reduce {
                script: script.clone(),
                key: Value::Null.to_owned_value(),
                values: Vec::new(),
                bytes: 0,
            })
        }),
    })
}

/// Values of one key, reduced whenever there are many.
struct Reduce {
    script: Arc<Script>,
    key: OwnedValue,
    values: Vec<OwnedValue>,
    bytes: usize,
}

/// Most bytes of the array passed to a reduce function.
const REDUCE_BYTES_MAX: usize = 16 * 1024 * 1024;

impl Reduce {
    fn reduce_values<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        if let [one] = self.values.as_slice() {
            return Ok(one.get().copy_into(cx.arena));
        }
        if self.bytes > REDUCE_BYTES_MAX {
            bail!(31392, "Value too large to reduce");
        }
        let values = Array::build_in(cx.arena, |w| {
            for v in &self.values {
                w.push(v.get());
            }
        });
        let args = [self.key.get(), Value::Array(values)];
        call_script(cx, &self.script, &args, CallResult::Value)
    }
}

impl Accumulator for Reduce {
    fn add(&mut self, cx: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        let Value::Document(d) = value else {
            if value.is_missing() {
                return Ok(());
            }
            bail!(
                31242,
                "$_internalJsReduce requires a document argument, but found {}",
                value.type_name()
            )
        };
        let (key, v) = key_and_value(d)?;
        let v = v.to_owned_value();
        if self.values.is_empty() {
            self.key = key.to_owned_value();
        } else if self.values.len() > 1
            && (self.values.len() >= PENDING_MAX || self.bytes + v.len_bytes() > PENDING_BYTES_MAX)
        {
            let so_far = self.reduce_values(cx)?.to_owned_value();
            self.bytes = so_far.len_bytes();
            self.values = vec![so_far];
        }
        self.bytes += v.len_bytes();
        self.values.push(v);
        Ok(())
    }

    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        match self.values.is_empty() {
            true => Ok(Value::Missing),
            false => self.reduce_values(cx),
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.key.len_bytes()
            + self.bytes
            + self.values.capacity() * size_of::<OwnedValue>()
    }
}

fn key_and_value(d: Doc<'_>) -> Result<(Value<'_>, Value<'_>)> {
    let (k, v) = (d.field("k"), d.field("v"));
    if d.count() != 2 || k.is_missing() || v.is_missing() {
        bail!(
            31251,
            "$_internalJsReduce requires the 'data' argument to have a 'k' and 'v' field"
        );
    }
    Ok((k, v))
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        const ALL: &str = "'init': 'i', 'accumulate': 'a', 'merge': 'm', 'accumulateArgs': []";
        let row = |spec: &str, want: &'static str| (spec.replace("ALL", ALL), want);
        for (spec, want) in [
            row("{'$accumulator': 1}", "!4544703"),
            row("{'$accumulator': {ALL, 'x': 1}}", "!4544706"),
            row("{'$accumulator': {ALL, 'lang': 1}}", "!4544704"),
            row("{'$accumulator': {ALL, 'lang': 'py'}}", "!4544705"),
            row("{'$accumulator': {ALL, 'finalize': '$x'}}", "!4544701"),
            row("{'$accumulator': {ALL, 'finalize': 1}}", "!4544702"),
            row("{'$accumulator': {'accumulate': 'a'}}", "!4544707"),
            row("{'$accumulator': {'init': 'a'}}", "!4544708"),
            row(
                "{'$accumulator': {'init': 'a', 'accumulate': 'a'}}",
                "!4544709",
            ),
            row(
                "{'$accumulator': {'init': 'a', 'accumulate': 'a', 'merge': 'm'}}",
                "!4544710",
            ),
            row("{'$accumulator': {ALL, 'initArgs': 1}}", "!4544711"),
            row("{'$accumulator': {ALL}}", "!31264"),
            row("{'$_internalJsReduce': 1}", "!31326"),
            row("{'$_internalJsReduce': {'data': 1}}", "!31245"),
            row("{'$_internalJsReduce': {'eval': 'x'}}", "!31349"),
            row("{'$_internalJsReduce': {'eval': 1}}", "!31244"),
            row("{'$_internalJsReduce': {'eval': 'x', 'y': 1}}", "!31243"),
            row("{'$_internalJsReduce': {'eval': 'x', 'data': 1}}", "!31242"),
            row(
                "{'$_internalJsReduce': {'eval': 'x', 'data': {'k': 1}}}",
                "!31251",
            ),
        ] {
            crate::accumulator::check::table(&[(&spec, "[{}]", want)]);
        }
    }
}
