//! Accumulators of `$group` and of windows, one file each. Input values are borrowed from their
//! document; a state copies what it keeps and reports how many bytes that is.

use crate::{Cx, RequiredFields, expr::BoxExpr, expr::ParseCx};
use model::{Doc, ErrorKind, MongoError, Result, Value, code};

mod elements;
mod many;
mod n_values;
mod state;

pub use many::{GroupAccumulator, Merge};
pub use state::Accumulator;

/// Declares the accumulators of this folder: one module per name, and their table.
macro_rules! accumulators {
    ($($module:ident),* $(,)?) => {
        $(pub(crate) mod $module;)*
        static ACCUMULATORS: &[&[AccumulatorOp]] = &[$($module::ACCUMULATORS),*];
    };
}

accumulators!(
    add_to_set,
    avg,
    concat_arrays,
    count,
    first,
    first_n,
    javascript,
    max,
    max_n,
    merge_objects,
    percentile,
    push,
    set_union,
    std_dev,
    sum,
    top,
);

/// A parsed accumulator: its input expression, and how to begin a group.
pub struct AccumulatorSpec {
    /// Evaluated on each document; the value is passed to [`Accumulator::add`].
    pub input: BoxExpr,
    /// Evaluated once per group (`n` of `$topN` and similar).
    pub init: Option<BoxExpr>,
    /// Makes the state of a new group, before [`Accumulator::init`].
    pub start: Box<dyn Fn() -> Box<dyn Accumulator> + Send + Sync>,
    /// Makes the states of many groups; only for accumulators whose partial states can be merged.
    pub many: Option<fn() -> Box<dyn GroupAccumulator>>,
    /// The result is the same for every order of the documents.
    pub any_order: bool,
}

impl AccumulatorSpec {
    /// An accumulator of one expression without further arguments.
    ///
    /// # Errors
    /// The errors of the expression.
    pub fn of<A: Accumulator + Default + 'static>(
        cx: &mut ParseCx<'_>,
        spec: Value<'_>,
    ) -> Result<AccumulatorSpec> {
        let input = crate::expr::parse(cx, spec)?;
        Ok(AccumulatorSpec {
            input,
            init: None,
            start: Box::new(|| Box::new(A::default())),
            many: None,
            any_order: false,
        })
    }

    /// Like [`AccumulatorSpec::of`], for an accumulator whose partial states can be merged.
    ///
    /// # Errors
    /// The errors of the expression.
    pub fn of_parts<A: Merge>(cx: &mut ParseCx<'_>, spec: Value<'_>) -> Result<AccumulatorSpec> {
        Ok(AccumulatorSpec {
            many: Some(many::new_states::<A>),
            ..AccumulatorSpec::of::<A>(cx, spec)?
        })
    }

    /// The same, for an accumulator whose result does not depend on the order of the documents.
    pub fn in_any_order(self) -> AccumulatorSpec {
        AccumulatorSpec {
            any_order: true,
            ..self
        }
    }

    /// Adds the fields that it reads of each document.
    pub fn reads(&self, reads: &mut RequiredFields) {
        self.input.reads(reads);
        if let Some(init) = &self.init {
            init.reads(reads);
        }
    }

    /// Makes the state of a new group. `cx.root` is the group's `_id`, which `init` may refer to.
    ///
    /// # Errors
    /// The errors of `init`.
    pub fn begin<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Box<dyn Accumulator>> {
        let mut state = (self.start)();
        if let Some(init) = &self.init {
            let mut cx = *cx;
            if !matches!(cx.root, Value::Document(_)) {
                cx.root = Value::Document(Doc::EMPTY);
            }
            let value = init.eval(&cx)?;
            state.init(&cx, value)?;
        }
        Ok(state)
    }
}

impl AccumulatorSpec {
    /// The input of one document as `$group` computes it. MongoDB runs `$group` in its other
    /// engine, which has its own error codes for divisions by zero.
    ///
    /// # Errors
    /// The errors of the expression; 4848401 / 4848403 for a division / modulo by zero.
    pub fn group_input<'a>(&'a self, cx: &Cx<'_, 'a>) -> Result<Value<'a>> {
        self.input.eval(cx).map_err(|e| match e.code() {
            code::BAD_VALUE if e.is(ErrorKind::DivisionByZero) => {
                MongoError::new(4848401, e.message())
            }
            16610 => MongoError::new(4848403, e.message()),
            _ => e,
        })
    }
}

/// One registered accumulator.
pub struct AccumulatorOp {
    /// Including the dollar sign.
    pub name: &'static str,
    /// Parses the accumulator's argument.
    pub parse: fn(&mut ParseCx<'_>, &'static str, Value<'_>) -> Result<AccumulatorSpec>,
}

/// The accumulator called `name` (including the dollar sign).
pub fn find(name: &str) -> Option<&'static AccumulatorOp> {
    ACCUMULATORS
        .iter()
        .flat_map(|ops| ops.iter())
        .find(|op| op.name == name)
}

/// The names of all accumulators.
pub fn names() -> impl Iterator<Item = &'static str> {
    ACCUMULATORS
        .iter()
        .flat_map(|ops| ops.iter())
        .map(|op| op.name)
}

#[cfg(test)]
pub(crate) mod check {
    //! Table tests of accumulators: specification, documents, outcome (see `expr::check`).

    use super::find;
    use crate::expr::{ParseCx, check::json};
    use crate::{Cx, Env};
    use model::{Bump, OwnedValue, Result, Value};

    /// Accumulates over an array of documents in one group with `_id: {n: 2}`.
    pub(crate) fn eval(spec: &str, docs: &str) -> Result<OwnedValue> {
        let (env, arena) = (Env::new(0, 1), Bump::new());
        let (spec, docs, id) = (json(spec), json(docs), json("{'n': 2}"));
        let (name, argument) = spec
            .get()
            .as_doc()
            .and_then(|d| d.first())
            .expect("one accumulator");
        let op = find(name).unwrap_or_else(|| panic!("no accumulator {name}"));
        let parsed = (op.parse)(&mut ParseCx::new(&env), op.name, argument)?;
        let mut state = parsed.begin(&Cx::new(&arena, id.get(), &env))?;
        for doc in docs.get().as_array().expect("an array of documents").iter() {
            let cx = Cx::new(&arena, doc, &env);
            state.add(&cx, parsed.input.eval(&cx)?)?;
        }
        assert!(state.memory_bytes() < 10_000);
        state
            .finish(&Cx::new(&arena, Value::Missing, &env))
            .map(|v| v.to_owned_value())
    }

    /// Checks rows of (specification, documents, outcome).
    pub(crate) fn table(rows: &[(&str, &str, &str)]) {
        for (spec, docs, want) in rows {
            let got = eval(spec, docs);
            match (want.strip_prefix('!'), &got) {
                (Some(code), Err(e)) => {
                    assert_eq!(e.code().to_string(), code, "{spec} over {docs}: {e:?}")
                }
                (None, Ok(v)) => {
                    let want = json(want);
                    assert!(
                        *v == want && same(v.get(), want.get()),
                        "{spec} over {docs}: {v:?}, wanted {want:?}"
                    );
                }
                _ => panic!("{spec} over {docs}: {got:?}, wanted {want}"),
            }
        }
    }

    fn same(a: Value<'_>, b: Value<'_>) -> bool {
        a.tag() == b.tag()
    }
}
