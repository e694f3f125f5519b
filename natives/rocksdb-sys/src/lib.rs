//! RocksDB's C functions for `rust-rocksdb`, declared by bindings that were generated once, defined
//! by the archive that `scripts/natives.sh` keeps in the cache. It promises the items of the
//! published crate `rust-librocksdb-sys` and knows nothing of Quarry.

// Named so that the two libraries are linked: only the archive calls them.
extern crate lz4_sys;
extern crate zstd_sys;

#[allow(
    clippy::all,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    rustdoc::all,
    unreachable_pub,
    unused_qualifications
)]
mod bindings;

pub use bindings::*;
