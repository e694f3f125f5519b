//! `$accumulator`: this server runs no JavaScript. Errors: 31264 always.

use super::AccumulatorOp;
use model::bail;

pub(super) static ACCUMULATORS: &[AccumulatorOp] = &[AccumulatorOp {
    name: "$accumulator",
    parse: |_, name, _| {
        bail!(
            31264,
            "{name} cannot run without the javascript engine enabled"
        )
    },
}];

#[cfg(test)]
mod tests {
    #[test]
    fn table() {
        crate::accumulator::check::table(&[("{'$accumulator': {'lang': 'js'}}", "[]", "!31264")]);
    }
}
