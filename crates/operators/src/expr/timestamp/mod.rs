//! Timestamp expressions.

crate::expr_family!(ts_second);
