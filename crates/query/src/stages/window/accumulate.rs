//! Every accumulator over a window. If the window only grows its state is kept; otherwise it is
//! computed again for each document. Standard deviations slide instead, as in MongoDB: they are
//! null with an infinity or NaN in the window, and the integer zero for a single number.

use super::bounds::Bounds;
use super::function::{WindowContext, WindowFn};
use super::partition::Partition;
use super::removable::{Slider, SlidingDeviation};
use crate::exec::ExecContext;
use model::{Bump, Doc, Number, OwnedValue, Result, Value};
use operators::RequiredFields;
use operators::accumulator::{Accumulator, AccumulatorOp, AccumulatorSpec};

pub(super) fn parse(
    wcx: &mut WindowContext<'_, '_>,
    op: &'static AccumulatorOp,
    arg: Value<'_>,
) -> Result<Box<dyn WindowFn>> {
    let spec = (op.parse)(wcx.cx, op.name, arg)?;
    Ok(Box::new(Accumulate {
        spec,
        bounds: wcx.bounds()?,
        std_dev_of_sample: match op.name {
            "$stdDevPop" => Some(false),
            "$stdDevSamp" => Some(true),
            _ => None,
        },
    }))
}

struct Accumulate {
    spec: AccumulatorSpec,
    bounds: Bounds,
    /// `Some` for standard deviations: true for that of a sample.
    std_dev_of_sample: Option<bool>,
}

impl Accumulate {
    fn begin(&self, exec: &ExecContext<'_>, arena: &Bump) -> Result<Box<dyn Accumulator>> {
        self.spec.begin(&exec.cx(arena, Doc::EMPTY))
    }
    /// The standard deviation of each window, from the values that enter and leave it.
    fn slide(
        &self,
        part: &Partition,
        spans: Vec<(usize, usize)>,
        sample: bool,
        exec: &ExecContext<'_>,
    ) -> Result<Vec<OwnedValue>> {
        let values = part.values(&self.spec.input, exec)?;
        let number = |i: usize| values.get(i).and_then(|v| Number::of(&v.get()));
        let (mut state, mut slider) = (SlidingDeviation::default(), Slider::default());
        let mut out = Vec::with_capacity(spans.len());
        for (start, end) in spans {
            exec.env.check_interrupt()?;
            let add = |s: &mut SlidingDeviation, i| number(i).into_iter().for_each(|n| s.add(n));
            let remove =
                |s: &mut SlidingDeviation, i| number(i).into_iter().for_each(|n| s.remove(n));
            slider.move_to(start..end, &mut state, add, remove);
            out.push(state.value(sample).to_owned_value());
        }
        Ok(out)
    }

    fn add(
        &self,
        state: &mut dyn Accumulator,
        doc: Doc<'_>,
        exec: &ExecContext<'_>,
        arena: &Bump,
    ) -> Result<()> {
        let cx = exec.cx(arena, doc);
        exec.env.work(8)?;
        let value = self.spec.input.eval(&cx)?;
        state.add(&cx, value)
    }
}

impl WindowFn for Accumulate {
    fn reads(&self, reads: &mut RequiredFields) {
        self.spec.reads(reads);
    }

    fn compute(&self, part: &Partition, exec: &ExecContext<'_>) -> Result<Vec<OwnedValue>> {
        let spans = self.bounds.spans(part, exec)?;
        let grows = self.bounds.begins_with_partition();
        if let (false, Some(sample)) = (grows, self.std_dev_of_sample) {
            return self.slide(part, spans, sample, exec);
        }
        let mut arena = Bump::new();
        let mut out: Vec<OwnedValue> = Vec::with_capacity(spans.len());
        let mut running = (self.begin(exec, &arena)?, 0);
        let mut last: Option<(usize, usize)> = None;
        for (start, end) in spans {
            exec.env.check_interrupt()?;
            if last == Some((start, end))
                && let Some(same) = out.last()
            {
                out.push(same.clone());
                continue;
            }
            last = Some((start, end));
            if !grows {
                running = (self.begin(exec, &arena)?, start);
            }
            for i in running.1..end {
                self.add(running.0.as_mut(), part.docs.doc(i), exec, &arena)?;
            }
            running.1 = end.max(running.1);
            let cx = exec.cx(&arena, Doc::EMPTY);
            out.push(running.0.finish(&cx)?.to_owned_value());
            arena.reset();
        }
        Ok(out)
    }
}
