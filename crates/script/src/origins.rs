//! The origins of objects in a script. To a script 32-bit integers are plain numbers and would come
//! back as doubles; a field that still has its number comes back as an integer, as in MongoDB.
//!
//! Origins are valid for one call on one thread. Objects are recognized by identity, so the caller
//! must keep a noted object alive until the end of the call.

use model::{Doc, Value};
use rquickjs::Value as Js;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};

/// Most bytes of documents kept; integers of further documents come back as doubles.
const BYTES_MAX: usize = 16 << 20;

/// The location of a kept document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    /// The address of the original.
    from: usize,
    /// Its offset in the kept bytes.
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

/// Removes everything.
pub(crate) fn clear() {
    ORIGINS.with_borrow_mut(|o| {
        o.bytes = Vec::new();
        o.at.clear();
    });
}

/// Keeps a copy of a document whose parts may be noted.
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

/// Notes that an object stands for a document or array inside a kept document.
pub(crate) fn note(object: &Js<'_>, base: Base, part: Doc<'_>) {
    let at = base.to + (part.as_bytes().as_ptr() as usize - base.from);
    ORIGINS.with_borrow_mut(|o| o.at.insert(identity(object), at));
}

/// The 32-bit integer that a field of an object had, if it had one.
pub(crate) fn int_at(object: &Js<'_>, name: &str) -> Option<i32> {
    ORIGINS.with_borrow(|o| {
        let at = *o.at.get(&identity(object))?;
        match Doc::from_prefix(o.bytes.get(at..)?).field(name) {
            Value::Int32(n) => Some(n),
            _ => None,
        }
    })
}

/// Whether nothing was noted.
pub(crate) fn is_empty() -> bool {
    ORIGINS.with_borrow(|o| o.at.is_empty())
}

/// A number that is unique among the living objects.
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
    // The hash is that of the object's address, by which the engine compares objects.
    object.hash(&mut bits);
    bits.finish()
}
