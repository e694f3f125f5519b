//! Every accumulator over a window. A window that only grows is accumulated on; another one is computed anew per document.

use super::bounds::{Bound, Bounds};
use super::{Partition, WindowCx, WindowFn};
use crate::pipeline::Rt;
use model::{Bump, Doc, OwnedValue, Result, Value};
use operators::accumulator::{Accumulator, AccumulatorOp, AccumulatorSpec};

pub(super) fn parse(wcx: &mut WindowCx<'_, '_>, op: &'static AccumulatorOp, arg: Value<'_>) -> Result<Box<dyn WindowFn>> {
    let spec = (op.parse)(wcx.cx, op.name, arg)?;
    Ok(Box::new(Accumulate { spec, bounds: wcx.bounds()? }))
}

struct Accumulate {
    spec: AccumulatorSpec,
    bounds: Bounds,
}

impl Accumulate {
    fn begin(&self, rt: &Rt<'_>, arena: &Bump) -> Result<Box<dyn Accumulator>> {
        self.spec.begin(&rt.cx(arena, Doc::EMPTY))
    }
    fn add(&self, state: &mut dyn Accumulator, doc: Doc<'_>, rt: &Rt<'_>, arena: &Bump) -> Result<()> {
        let cx = rt.cx(arena, doc);
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
            out.push(running.0.finish(&arena)?.to_owned_value());
            arena.reset();
        }
        Ok(out)
    }
}
