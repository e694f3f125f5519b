//! Expressions that fit no other folder, a file each.

crate::expr_family!(
    get_field,
    javascript,
    literal,
    meta,
    rand,
    sizes,
    to_hashed_index_key
);
