//! Running writes: documents found by a plan, changed one by one under their locks. Neighbours:
//! `crud` before, `query` and `store` after.

pub(crate) mod capped;
pub(crate) mod statement;
pub(crate) mod write;
