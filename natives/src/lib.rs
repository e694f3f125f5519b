//! Exists only so that `scripts/natives.sh` can build the pinned RocksDB once and keep its archive.
//! Nothing in the product may import it.
