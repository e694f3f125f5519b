//! Array expressions, one file each. Strings are compared by the operation's collation.

crate::expr_family!(
    array_elem_at,
    array_to_object,
    concat_arrays,
    filter,
    first,
    first_n,
    r#in,
    index_of_array,
    is_array,
    map,
    object_to_array,
    range,
    reduce,
    reverse_array,
    size,
    slice,
    sort_array,
    zip,
);
