//! Every accumulator over a window. A window that only grows is accumulated on; another one is
//! computed anew per document. `$stdDevPop` of one number in a moving window is the integer zero,
//! elsewhere a double, as in MongoDB.

use super::bounds::{Bound, Bounds};
use super::{Partition, WindowCx, WindowFn};
use crate::pipeline::Rt;
use model::{Bump, Doc, OwnedValue, Result, Value};
use operators::accumulator::{Accumulator, AccumulatorOp, AccumulatorSpec};

pub(super) fn parse(
    wcx: &mut WindowCx<'_, '_>,
    op: &'static AccumulatorOp,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    let spec = (op.parse)(wcx.cx, op.name, arg)?;
    Ok(Box::new(Accumulate {
        spec,
        bounds: wcx.bounds()?,
        is_std_dev_pop: op.name == "$stdDevPop",
    }))
}

struct Accumulate {
    spec: AccumulatorSpec,
    bounds: Bounds,
    is_std_dev_pop: bool,
}

impl Accumulate {
    fn begin(&self, rt: &Rt<'_>, arena: &Bump) -> Result<Box<dyn Accumulator>> {
        self.spec.begin(&rt.cx(arena, Doc::EMPTY))
    }
    fn count_numbers(
        &self,
        part: &Partition,
        start: usize,
        end: usize,
        rt: &Rt<'_>,
        arena: &Bump,
    ) -> Result<usize> {
        let mut n = 0;
        for i in start..end {
            let v = self.spec.input.eval(&rt.cx(arena, part.docs.doc(i)))?;
            n += usize::from(model::Number::of(&v).is_some());
        }
        Ok(n)
    }
    fn add(
        &self,
        state: &mut dyn Accumulator,
        doc: Doc<'_>,
        rt: &Rt<'_>,
        arena: &Bump,
    ) -> Result<()> {
        let cx = rt.cx(arena, doc);
        rt.env.work(8)?;
        let value = self.spec.input.eval(&cx)?;
        state.add(&cx, value)
    }
}

impl WindowFn for Accumulate {
    fn compute(&self, part: &Partition, rt: &Rt<'_>) -> Result<Vec<OwnedValue>> {
        let spans = self.bounds.spans(part, rt)?;
        let grows = matches!(&self.bounds, Bounds::Documents(Bound::Unbounded, _));
        let mut arena = Bump::new();
        let mut out: Vec<OwnedValue> = Vec::with_capacity(spans.len());
        let mut running = (self.begin(rt, &arena)?, 0);
        let mut last: Option<(usize, usize)> = None;
        for (start, end) in spans {
            rt.env.check_interrupt()?;
            if last == Some((start, end))
                && let Some(same) = out.last()
            {
                out.push(same.clone());
                continue;
            }
            last = Some((start, end));
            if !grows {
                running = (self.begin(rt, &arena)?, start);
            }
            for i in running.1..end {
                self.add(running.0.as_mut(), part.docs.doc(i), rt, &arena)?;
            }
            running.1 = end.max(running.1);
            let moving = !grows && self.is_std_dev_pop;
            let lone = moving && self.count_numbers(part, start, end, rt, &arena)? == 1;
            out.push(
                if lone {
                    Value::Int32(0)
                } else {
                    running.0.finish(&arena)?
                }
                .to_owned_value(),
            );
            arena.reset();
        }
        Ok(out)
    }
}
