//! `$mergeObjects`: one document of all fields; later values replace earlier ones. Nullish values
//! are ignored. Errors: 40400 no document.

use super::{Accumulator, AccumulatorOp, AccumulatorSpec};
use crate::Cx;
use model::{Doc, OwnedValue, Result, Value, bail};

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[AccumulatorOp {
    name: "$mergeObjects",
    parse: |cx, _, spec| AccumulatorSpec::of::<MergeObjects>(cx, spec),
}];

#[derive(Default)]
struct MergeObjects {
    fields: Vec<(String, OwnedValue)>,
    places: rustc_hash::FxHashMap<String, usize>,
    bytes: usize,
}

impl Accumulator for MergeObjects {
    fn add(&mut self, _: &Cx<'_, '_>, value: Value<'_>) -> Result<()> {
        let d = match value {
            Value::Document(d) => d,
            v if v.is_nullish() => return Ok(()),
            v => bail!(
                40400,
                "$mergeObjects requires object inputs, but input {v} is of type {}",
                v.type_name()
            ),
        };
        for (name, v) in d.iter() {
            let v = v.to_owned_value();
            self.bytes += v.len_bytes();
            match self
                .places
                .get(name)
                .and_then(|at| self.fields.get_mut(*at))
            {
                Some(slot) => {
                    self.bytes -= slot.1.len_bytes();
                    slot.1 = v;
                }
                None => {
                    self.bytes += 2 * name.len();
                    self.places.insert(name.to_owned(), self.fields.len());
                    self.fields.push((name.to_owned(), v));
                }
            }
        }
        Ok(())
    }
    fn finish<'a>(&self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        let arena = cx.arena;
        Ok(Value::Document(Doc::build_in(arena, |w| {
            for (name, v) in &self.fields {
                w.put(name, v.get());
            }
        })))
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes + self.fields.len() * 3 * size_of::<(String, usize)>()
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[
            (
                "{'$mergeObjects': '$v'}",
                "[{'v': {'a': 1, 'b': 2}}, {}, {'v': null}, {'v': {'c': 3, \
                'a': 4}}]",
                "{'a': 4, 'b': 2, 'c': 3}",
            ),
            ("{'$mergeObjects': '$v'}", "[]", "{}"),
            ("{'$mergeObjects': '$v'}", "[{'v': [{'a': 1}]}]", "!40400"),
        ]);
    }
}
