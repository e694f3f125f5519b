//! Accumulators used as expressions: over the elements of a single array operand, else over the
//! operands themselves. (As expressions, `$first`, `$last`, `$firstN`, `$minN` and similar are
//! array operators.)

crate::expr_family!(avg, max, percentile, std_dev, sum);

use model::Value;
use std::ops::RangeInclusive;

/// Calls `each` for every value an expression accumulates over.
fn each_value<'a>(args: &[Value<'a>], mut each: impl FnMut(Value<'a>)) {
    match args {
        [Value::Array(a)] => a.iter().for_each(each),
        args => args.iter().for_each(|v| each(*v)),
    }
}

/// Any number of operands.
const ANY: RangeInclusive<usize> = 0..=usize::MAX;
