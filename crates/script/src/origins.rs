//! Where objects of a script came from: numbers of 32 bits are plain numbers to a script, and would
//! come back as doubles; a field that still has its number comes back as it was, as in MongoDB.
//!
//! Of one call on one thread. Objects are told by their identity, so whoever notes one keeps it
//! alive until the end of the call.

use model::{Doc, Value};
use rquickjs::Value as Js;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};

/// Arguments larger than this are not kept: their numbers come back as doubles.
const BYTES_MAX: usize = 16 << 20;

/// Where a document that was kept lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    /// Its address outside.
    from: usize,
    /// Its place among what is kept.
    to: usize,
}

#[derive(Default)]
struct Origins {
    bytes: Vec<u8>,
    at: FxHashMap<u64, usize>,
}

thread_local! {
    static ORIGINS: RefCell<Origins> = RefCell::default();
}

/// Forgets everything.
pub(crate) fn clear() {
    ORIGINS.with_borrow_mut(|o| {
        o.bytes = Vec::new();
        o.at.clear();
    });
}

/// Keeps a document whose parts may be noted.
pub(crate) fn keep(d: Doc<'_>) -> Option<Base> {
    ORIGINS.with_borrow_mut(|o| {
        let to = o.bytes.len();
        if to + d.len_bytes() > BYTES_MAX {
            return None;
        }
        o.bytes.extend_from_slice(d.as_bytes());
        Some(Base {
            from: d.as_bytes().as_ptr() as usize,
            to,
        })
    })
}

/// Notes that an object is a document, or an array, within one that is kept.
pub(crate) fn note(object: &Js<'_>, base: Base, part: Doc<'_>) {
    let at = base.to + (part.as_bytes().as_ptr() as usize - base.from);
    ORIGINS.with_borrow_mut(|o| o.at.insert(identity(object), at));
}

/// Shows the number of 32 bits that a field of an object had, if it had one.
pub(crate) fn int_at(object: &Js<'_>, name: &str) -> Option<i32> {
    ORIGINS.with_borrow(|o| {
        let at = *o.at.get(&identity(object))?;
        match Doc::from_prefix(o.bytes.get(at..)?).field(name) {
            Value::Int32(n) => Some(n),
            _ => None,
        }
    })
}

/// True when nothing was noted.
pub(crate) fn is_empty() -> bool {
    ORIGINS.with_borrow(|o| o.at.is_empty())
}

/// A number that no other object alive has.
fn identity(object: &Js<'_>) -> u64 {
    #[derive(Default)]
    struct Bits(u64);
    impl Hasher for Bits {
        fn write(&mut self, _: &[u8]) {}
        fn write_u64(&mut self, bits: u64) {
            self.0 = bits;
        }
        fn finish(&self) -> u64 {
            self.0
        }
    }
    let mut bits = Bits::default();
    // The address of the object, as the engine's own equality of values compares it.
    object.hash(&mut bits);
    bits.finish()
}
