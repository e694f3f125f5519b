//! The accumulator fields of `$group`, `$bucket` and `$bucketAuto`: `name: {$accumulator:
//! argument}`. Errors: 40234 no accumulator object, 40235 dot in the name, 40236 dollar in the
//! name, 40237 array argument, 40238 several accumulators, 15952 unknown accumulator.

use model::{DocWriter, Result, Value, bail};
use operators::accumulator::{self, Accumulator, AccumulatorSpec};
use operators::expr::ParseCx;
use operators::{Cx, Env, RequiredFields};

/// One field to accumulate.
pub(super) struct Field {
    pub(super) name: String,
    spec: AccumulatorSpec,
}

impl Field {
    /// The accumulator.
    pub(super) fn spec(&self) -> &AccumulatorSpec {
        &self.spec
    }

    /// Adds the fields that it uses.
    pub(super) fn reads(&self, reads: &mut RequiredFields) {
        self.spec.reads(reads);
    }
}

/// Parses one field.
pub(super) fn parse_field(cx: &mut ParseCx<'_>, name: &str, arg: Value<'_>) -> Result<Field> {
    if name.contains('.') {
        bail!(40235, "The field name '{name}' cannot contain '.'");
    }
    if name.starts_with('$') {
        bail!(40236, "The field name '{name}' cannot be an operator name");
    }
    let first = arg
        .as_doc()
        .and_then(|d| d.first().map(|(op, arg)| (d, op, arg)));
    let Some((spec, op, operand)) = first.filter(|(_, op, _)| op.starts_with('$')) else {
        bail!(
            40234,
            "The field '{name}' must be an accumulator object, not {arg}"
        );
    };
    if spec.count() > 1 {
        bail!(
            40238,
            "The field '{name}' must specify one accumulator, not {}",
            spec.count()
        );
    }
    if matches!(operand, Value::Array(_)) {
        bail!(
            40237,
            "The {op} accumulator is a unary operator; it was given an array"
        );
    }
    let Some(op) = accumulator::find(op) else {
        bail!(15952, "unknown group operator '{op}'");
    };
    Ok(Field {
        name: name.to_owned(),
        spec: (op.parse)(cx, op.name, operand)?,
    })
}

/// The states of all fields in one group.
pub(super) struct States(Vec<Box<dyn Accumulator>>);

impl States {
    /// Begins a group; `cx.root` is its `_id`.
    pub(super) fn start<'a>(fields: &'a [Field], cx: &Cx<'_, 'a>) -> Result<States> {
        fields
            .iter()
            .map(|f| f.spec.begin(cx))
            .collect::<Result<_>>()
            .map(States)
    }

    /// Adds one document; returns the number of bytes by which the states grew.
    pub(super) fn add<'a>(&mut self, fields: &'a [Field], cx: &Cx<'_, 'a>) -> Result<usize> {
        let mut grown = 0;
        for (field, state) in fields.iter().zip(&mut self.0) {
            let value = field.spec.group_input(cx)?;
            let before = state.memory_bytes();
            state.add(cx, value)?;
            grown += state.memory_bytes().saturating_sub(before);
        }
        Ok(grown)
    }

    /// Bytes held.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0
            .iter()
            .map(|s| s.memory_bytes() + size_of::<Box<dyn Accumulator>>())
            .sum()
    }

    /// Checks that there is memory for the results, which are made in an arena and then copied to
    /// the output.
    ///
    /// # Errors
    /// 146 ExceededMemoryLimit.
    pub(super) fn room_to_write(&self, env: &Env) -> Result<()> {
        env.room_for(2 * self.memory_bytes())
    }

    /// Writes the results.
    pub(super) fn write(
        &self,
        fields: &[Field],
        cx: &Cx<'_, '_>,
        w: &mut DocWriter<'_>,
    ) -> Result<()> {
        for (field, state) in fields.iter().zip(&self.0) {
            w.put(&field.name, state.finish(cx)?);
        }
        Ok(())
    }
}

/// Builds a result document in `out`; on an error it is removed again.
pub(super) fn emit(
    out: &mut crate::exec::DocBatch,
    fill: impl FnOnce(&mut DocWriter<'_>) -> Result<()>,
) -> Result<()> {
    let mut result = Ok(());
    out.build(None, |w| result = fill(w));
    result
}
