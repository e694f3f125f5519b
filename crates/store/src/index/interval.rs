//! Intervals of index entries.

/// An interval of encoded components: lower included, upper excluded. Made from values with
/// `Index::encode_bound` and the bound bytes of `format::keys`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInterval {
    /// First components inside the interval.
    pub lower: Vec<u8>,
    /// First components after the interval.
    pub upper: Vec<u8>,
}
