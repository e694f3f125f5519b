//! Conditional expressions: `$cond`, `$ifNull`, `$switch`. Only the chosen operand is evaluated on
//! a document.

crate::expr_family! { cond, if_null, switch }
