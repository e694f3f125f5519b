//! Expressions that fit no other folder, one file each.

mod xxh64;

pub use to_hashed_index_key::hashed_index_key;

crate::expr_family!(
    create_object_id,
    get_field,
    hash,
    javascript,
    literal,
    meta,
    rand,
    sizes,
    subtype,
    to_hashed_index_key
);
