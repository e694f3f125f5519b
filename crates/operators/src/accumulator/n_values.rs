//! Shared by `$firstN`, `$lastN`, `$maxN` and `$minN`: at most `n` values and the bytes they hold.
//! Must not know: which values are kept.

use super::{Accumulator, AccumulatorSpec};
use crate::Cx;
use crate::expr::ParseCx;
use crate::expr::n_spec::{NSpec, constant_count, count_of_group};
use model::{Array, MongoError, OwnedValue, Result, Value};
use std::collections::VecDeque;

/// Values of one group.
pub(super) struct NValues {
    n: Option<usize>,
    values: VecDeque<OwnedValue>,
    bytes: usize,
}

impl NValues {
    /// Parses `{n, input}`; `start` makes the empty state of the accumulator.
    ///
    /// # Errors
    /// See [`NSpec`].
    pub(super) fn parse<A: Accumulator + 'static>(
        cx: &mut ParseCx<'_>,
        name: &'static str,
        spec: Value<'_>,
        start: impl Fn(NValues) -> A + Send + Sync + 'static,
    ) -> Result<AccumulatorSpec> {
        let spec = NSpec::parse(cx, name, spec)?;
        let n = constant_count(&spec.n);
        let none = move || NValues {
            n,
            values: VecDeque::new(),
            bytes: 0,
        };
        Ok(AccumulatorSpec {
            many: None,
            any_order: false,
            input: spec.input,
            init: Some(spec.n),
            start: Box::new(move || Box::new(start(none())) as Box<dyn Accumulator>),
        })
    }

    /// Takes the `n` of the group.
    ///
    /// # Errors
    /// 7548606.
    pub(super) fn init(&mut self, n: Value<'_>) -> Result<()> {
        self.n = Some(count_of_group(n)?);
        Ok(())
    }

    /// Most values that are kept.
    ///
    /// # Errors
    /// An internal error before [`NValues::init`].
    pub(super) fn limit(&self) -> Result<usize> {
        self.n
            .ok_or_else(|| MongoError::internal("'n' must be initialized"))
    }

    /// The values.
    pub(super) fn values(&self) -> &VecDeque<OwnedValue> {
        &self.values
    }

    /// Inserts a value at a position.
    pub(super) fn insert(&mut self, place: usize, value: Value<'_>) {
        let value = value.to_owned_value();
        self.bytes += value.len_bytes();
        self.values.insert(place, value);
    }

    /// Removes the first value.
    pub(super) fn remove_first(&mut self) {
        self.bytes -= self.values.pop_front().map_or(0, |v| v.len_bytes());
    }

    /// Removes the last value.
    pub(super) fn remove_last(&mut self) {
        self.bytes -= self.values.pop_back().map_or(0, |v| v.len_bytes());
    }

    /// All values as an array.
    pub(super) fn array<'a>(&self, cx: &Cx<'_, 'a>) -> Value<'a> {
        let values = self.values.iter().map(OwnedValue::get);
        Value::Array(Array::from_values_in(cx.arena, values))
    }

    /// Bytes that the values hold outside of this struct.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.values.len() * size_of::<OwnedValue>()
    }
}
