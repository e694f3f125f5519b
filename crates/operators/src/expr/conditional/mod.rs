//! Choices: `$cond`, `$ifNull`, `$switch`. Only the operand that is chosen is evaluated on a
//! document.

crate::expr_family! { cond, if_null, switch }
