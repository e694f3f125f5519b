//! `$mergeObjects`: one document of all operands' fields; a later value replaces an earlier one in its place. Nullish
//! operands are left out; an array as the only operand is read as the operands. Errors: 40400 no document.

use crate::Cx;
use crate::cx::bytes_of;
use crate::expr::{Operator, nary};
use model::{Doc, Result, Value, bail};

pub(super) static OPERATORS: &[Operator] =
    &[Operator { name: "$mergeObjects", parse: |cx, name, spec| nary(cx, name, spec, (0, usize::MAX), eval) }];

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut merged = Merged::default();
    match args {
        [Value::Array(a)] => a.iter().try_for_each(|v| merged.add(&v))?,
        args => args.iter().try_for_each(|v| merged.add(v))?,
    }
    merged.build(cx).map(Value::Document)
}

/// Fields in the order they first came, with their last values.
#[derive(Default)]
struct Merged<'a> {
    fields: Vec<(&'a str, Value<'a>)>,
}

impl<'a> Merged<'a> {
    fn add(&mut self, v: &Value<'a>) -> Result<()> {
        let d = match v {
            Value::Document(d) => d,
            v if v.is_nullish() => return Ok(()),
            v => bail!(40400, "$mergeObjects requires object inputs, but input {v:?} is of type {}", v.type_name()),
        };
        if self.fields.is_empty() {
            self.fields.extend(d.iter());
            return Ok(());
        }
        for (name, v) in d.iter() {
            match self.fields.iter_mut().find(|(n, _)| *n == name) {
                Some(slot) => slot.1 = v,
                None => self.fields.push((name, v)),
            }
        }
        Ok(())
    }
    fn build(&self, cx: &Cx<'_, 'a>) -> Result<Doc<'a>> {
        cx.spend(self.fields.iter().map(|(name, v)| name.len() + bytes_of(v) + 2).sum())?;
        Ok(Doc::build_in(cx.arena, |w| {
            for (name, v) in &self.fields {
                w.put(name, *v);
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::expr::table::table(&[
            ("{'$mergeObjects': ['$a', {'y': 3, 'z': 4}, null, '$none']}", "{'a': {'x': 1, 'y': 2}}", "{'x': 1, 'y': 3, 'z': 4}"),
            ("{'$mergeObjects': '$a'}", "{'a': [{'x': 1}, {'x': 2}]}", "{'x': 2}"),
            ("{'$mergeObjects': []}", "{}", "{}"),
            ("{'$mergeObjects': ['$a', {}]}", "{'a': [{'x': 1}]}", "!40400"),
            ("{'$mergeObjects': 1}", "{}", "!40400"),
        ]);
    }
}
