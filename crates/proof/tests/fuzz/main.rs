//! Every reader of bytes and documents from clients or from the device, fuzzed by seed (ADR 0078):
//! none panics, none allocates much more than its input. The corpora in `crates/proof/corpus` are
//! small and stored; an input that found an error is added there as a line. `QUARRY_FUZZ_SECONDS=n`
//! runs each target for n seconds, `QUARRY_SEED=n` begins with another seed.

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
static ALLOCATOR: peak::CountingAllocator = peak::CountingAllocator;
