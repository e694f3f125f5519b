//! Document expressions, one file each.

crate::expr_family!(merge_objects, set_field);
