//! Expressions that bind variables.

crate::expr_family!(r#let);
