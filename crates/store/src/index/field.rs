//! One field of an index key, and its component.

use crate::format::keys;
use model::{Collate, FieldPath, Value};

/// How a field's value becomes a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldKind {
    /// The value, ascending.
    Ascending,
    /// The value, descending.
    Descending,
    /// A 64-bit hash of the value.
    Hashed,
    /// The number of a geospatial cell; it cannot be decoded to a value.
    Cells,
}

/// One field of an index key.
#[derive(Clone, Debug)]
pub struct IndexField {
    /// The path of the field in the document.
    pub path: FieldPath,
    /// How the field's value is encoded.
    pub kind: FieldKind,
}

/// Appends the component of a value.
pub(super) fn encode_component(
    kind: FieldKind,
    v: &Value<'_>,
    collate: Option<&dyn Collate>,
    out: &mut Vec<u8>,
) {
    match kind {
        FieldKind::Ascending | FieldKind::Cells => keys::encode(v, collate, out),
        FieldKind::Descending => keys::encode_directed(v, true, collate, out),
        FieldKind::Hashed => {
            let mut canonical = Vec::new();
            // A missing field is indexed as null, as in ordered components.
            let v = if v.is_missing() { &Value::Null } else { v };
            model::compare::equality_key(v, collate, &mut canonical);
            // FNV-1a is implemented here and not taken from a library, because the hash is stored
            // on disk.
            let hash = canonical.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
                (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
            });
            out.push(keys::HASH);
            out.extend_from_slice(&hash.to_be_bytes());
        }
    }
}
