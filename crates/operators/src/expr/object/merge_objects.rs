//! `$mergeObjects`: one document of all operands' fields; a later value replaces an earlier one at
//! its position. Nullish operands are ignored; a single array operand is the list of operands.
//! Errors: 40400 no document.

use crate::Cx;
use crate::cx::bytes_of;
use crate::expr::{Operator, nary};
use model::{Doc, Result, Value, bail};
use rustc_hash::FxHashMap;

pub(super) static OPERATORS: &[Operator] = &[Operator {
    name: "$mergeObjects",
    parse: |cx, name, spec| nary(cx, name, spec, 0..=usize::MAX, eval),
}];

fn eval<'a>(cx: &Cx<'_, 'a>, args: &[Value<'a>]) -> Result<Value<'a>> {
    let mut merged = FieldMerge::default();
    match args {
        [Value::Array(a)] => a.iter().try_for_each(|v| merged.add(cx, &v))?,
        args => args.iter().try_for_each(|v| merged.add(cx, v))?,
    }
    merged.build(cx).map(Value::Document)
}

/// Fields in the order of their first occurrence, with their last values.
#[derive(Default)]
struct FieldMerge<'a> {
    fields: Vec<(&'a str, Value<'a>)>,
    /// Index of each field, once there are many: searching for every field would take quadratic
    /// time.
    places: FxHashMap<&'a str, usize>,
    /// Number of fields in `places`.
    known: usize,
}

/// From this many fields on their indexes are kept.
const MANY: usize = 32;

impl<'a> FieldMerge<'a> {
    fn add(&mut self, cx: &Cx<'_, 'a>, v: &Value<'a>) -> Result<()> {
        let d = match v {
            Value::Document(d) => d,
            v if v.is_nullish() => return Ok(()),
            v => bail!(
                40400,
                "$mergeObjects requires object inputs, but input {v} is of type {}",
                v.type_name()
            ),
        };
        if self.fields.is_empty() {
            self.fields.extend(d.iter());
            return Ok(());
        }
        for (name, v) in d.iter() {
            cx.env.work(2)?;
            match self.place(name).and_then(|at| self.fields.get_mut(at)) {
                Some(slot) => slot.1 = v,
                None => self.fields.push((name, v)),
            }
        }
        Ok(())
    }
    /// If the first document has a field twice, the first one counts.
    fn place(&mut self, name: &str) -> Option<usize> {
        if self.fields.len() < MANY {
            return self.fields.iter().position(|(n, _)| *n == name);
        }
        for (i, (name, _)) in self.fields.iter().enumerate().skip(self.known) {
            self.places.entry(*name).or_insert(i);
        }
        self.known = self.fields.len();
        self.places.get(name).copied()
    }
    fn build(&self, cx: &Cx<'_, 'a>) -> Result<Doc<'a>> {
        cx.spend(
            self.fields
                .iter()
                .map(|(name, v)| name.len() + bytes_of(v) + 2)
                .sum(),
        )?;
        Ok(Doc::build_in(cx.arena, |w| {
            for (name, v) in &self.fields {
                w.put(name, *v);
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cx, Env};
    use model::{Bump, DocBuf, Value};

    #[test]
    fn many_fields_are_merged_like_few() {
        let (env, arena) = (Env::new(0, 1), Bump::new());
        let cx = Cx::new(&arena, Value::Missing, &env);
        let of = |names: std::ops::Range<i32>, v: i32| {
            DocBuf::build(|w| {
                names.for_each(|n| {
                    w.put(&format!("f{n}"), v);
                })
            })
        };
        let (a, b) = (of(0..30_000, 1), of(20_000..50_000, 2));
        let merged =
            super::eval(&cx, &[Value::Document(a.doc()), Value::Document(b.doc())]).unwrap();
        let merged = merged.as_doc().unwrap();
        let values = |v: i64| {
            merged
                .iter()
                .filter(|(_, x)| x.as_i64_exact() == Some(v))
                .count()
        };
        assert_eq!(
            (merged.count(), values(1), values(2)),
            (50_000, 20_000, 30_000)
        );
        assert_eq!(
            merged.iter().nth(25_000).map(|(n, _)| n),
            Some("f25000"),
            "in its place"
        );
    }

    #[test]
    fn table() {
        crate::expr::check::table(&[
            (
                "{'$mergeObjects': ['$a', {'y': 3, 'z': 4}, null, '$none']}",
                "{'a': {'x': 1, 'y': \
                2}}",
                "{'x': 1, 'y': 3, 'z': 4}",
            ),
            (
                "{'$mergeObjects': '$a'}",
                "{'a': [{'x': 1}, {'x': 2}]}",
                "{'x': 2}",
            ),
            ("{'$mergeObjects': []}", "{}", "{}"),
            (
                "{'$mergeObjects': ['$a', {}]}",
                "{'a': [{'x': 1}]}",
                "!40400",
            ),
            ("{'$mergeObjects': 1}", "{}", "!40400"),
        ]);
    }
}
