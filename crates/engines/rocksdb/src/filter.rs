//! The compaction filter that removes keys of dropped idents. The factory returns null while
//! nothing is dropped, so that compactions of a database without drops cost nothing more.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rust_rocksdb::{Options, ffi_raw as sys};
use storage::{IDENT_BYTES, IdentSet, Table};

/// The current set of one table, always replaced as a whole.
pub(crate) type DroppedSet = Arc<ArcSwap<IdentSet>>;

/// The sets of all tables.
#[derive(Default)]
pub(crate) struct DroppedSets([DroppedSet; Table::ALL.len()]);

impl DroppedSets {
    pub(crate) fn of(&self, table: Table) -> &DroppedSet {
        &self.0[table.index()]
    }
}

/// One for each compaction; keys arrive sorted, so the result for the last ident is cached.
struct Filter {
    set: Arc<IdentSet>,
    last: Option<([u8; IDENT_BYTES], bool)>,
}

impl Filter {
    fn is_dropped(&mut self, key: &[u8]) -> bool {
        let Some(ident) = key.first_chunk::<IDENT_BYTES>() else {
            return false;
        };
        match self.last {
            Some((last, verdict)) if last == *ident => verdict,
            _ => {
                let verdict = self.set.contains(u32::from_be_bytes(*ident));
                self.last = Some((*ident, verdict));
                verdict
            }
        }
    }
}

/// Adds the set to the options of its table.
pub(crate) fn install_filter(opts: &mut Options, set: &DroppedSet) {
    let state = Box::into_raw(Box::new(Arc::clone(set))).cast::<c_void>();
    // SAFETY: the factory owns `state` and frees it by `drop_factory`; the options own the factory.
    unsafe {
        let factory = sys::rocksdb_compactionfilterfactory_create(
            state,
            Some(drop_factory),
            Some(create_filter),
            Some(filter_name),
        );
        sys::rocksdb_options_set_compaction_filter_factory(
            crate::ffi::options_handle(opts),
            factory,
        );
    }
}

unsafe extern "C" fn drop_factory(state: *mut c_void) {
    // SAFETY: made by `Box::into_raw` in `install_filter`, freed once by the factory.
    drop(unsafe { Box::from_raw(state.cast::<DroppedSet>()) });
}

unsafe extern "C" fn create_filter(
    state: *mut c_void,
    _context: *mut sys::rocksdb_compactionfiltercontext_t,
) -> *mut sys::rocksdb_compactionfilter_t {
    // SAFETY: the factory keeps its state alive; several compactions may share it, and it is only
    // read.
    let set = unsafe { &*state.cast::<DroppedSet>() }.load_full();
    if set.is_empty() {
        return ptr::null_mut();
    }
    let filter = Box::into_raw(Box::new(Filter { set, last: None })).cast::<c_void>();
    // SAFETY: the filter owns its state and frees it by `drop_filter`; RocksDB owns the filter.
    unsafe {
        sys::rocksdb_compactionfilter_create(
            filter,
            Some(drop_filter),
            Some(filter_key),
            Some(filter_name),
        )
    }
}

unsafe extern "C" fn drop_filter(state: *mut c_void) {
    // SAFETY: made by `Box::into_raw` in `create_filter`, freed once by the filter.
    drop(unsafe { Box::from_raw(state.cast::<Filter>()) });
}

unsafe extern "C" fn filter_key(
    state: *mut c_void,
    _level: c_int,
    key: *const c_char,
    key_len: usize,
    _value: *const c_char,
    _value_len: usize,
    _new_value: *mut *mut c_char,
    _new_value_len: *mut usize,
    _changed: *mut c_uchar,
) -> c_uchar {
    // SAFETY: one filter serves one compaction thread, so the exclusive borrow is unique.
    let filter = unsafe { &mut *state.cast::<Filter>() };
    // SAFETY: RocksDB passes a key of `key_len` bytes that lives during the call.
    let key = unsafe { std::slice::from_raw_parts(key.cast::<u8>(), key_len) };
    c_uchar::from(filter.is_dropped(key))
}

unsafe extern "C" fn filter_name(_state: *mut c_void) -> *const c_char {
    c"quarry.dropped".as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_is_kept_per_ident() {
        let set: IdentSet = [2, 9].into_iter().collect();
        let mut filter = Filter {
            set: Arc::new(set),
            last: None,
        };
        let verdicts: Vec<bool> = [
            &b"\0\0\0\x01a"[..],
            b"\0\0\0\x02a",
            b"\0\0\0\x02b",
            b"\0\0\0\x03",
            b"\0\0\0",
        ]
        .iter()
        .map(|key| filter.is_dropped(key))
        .collect();
        assert_eq!(verdicts, [false, true, true, false, false]);
    }
}
