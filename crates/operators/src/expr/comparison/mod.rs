//! Comparisons in BSON order (by type, then value, numbers across types), strings by the
//! operation's collation.

crate::expr_family! { compare }
