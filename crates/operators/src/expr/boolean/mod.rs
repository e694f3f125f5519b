//! `$and`, `$or`, `$not` by MongoDB's truth values: false, null, undefined, missing and numeric
//! zero are false.

crate::expr_family! { junction, not }
