//! Every reader of bytes and documents that come from outside or from the device, fuzzed by seed
//! (ADR 0078): none panics, none allocates much more than its input. The corpora in
//! `crates/proof/corpus` are small and kept; an input that was found becomes a line there.
//! `QUARRY_FUZZ_SECONDS=n` runs each target that long, `QUARRY_SEED=n` begins with another seed.

mod bytes;
mod language;
mod peak;
mod repository;
mod requests;
mod rows;
mod settings;
mod tree;
#[path = "../crash/workload.rs"]
mod workload;

#[global_allocator]
static ALLOCATOR: peak::Peak = peak::Peak;
