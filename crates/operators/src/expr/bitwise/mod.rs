//! Bitwise operators on ints and longs.

crate::expr_family! { bit }
