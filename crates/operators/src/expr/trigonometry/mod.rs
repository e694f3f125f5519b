//! Trigonometry in radians, and the conversion from and to degrees. Doubles for ints, longs and
//! doubles; decimals for decimals.

crate::expr_family! { angle }
