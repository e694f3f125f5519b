//! Every operator as a pure function over raw BSON: expressions, filters, updates, projections,
//! accumulators. Must not know: stores, commands, clocks (time and randomness come from [`Env`]).
//!
//! There is one file per operator, named after it and registered by one line in its family's
//! `mod.rs`.

pub mod collation;
pub mod columns;
pub mod cx;
pub mod expr;
pub mod numeric;
pub mod regex;
pub mod script;
pub mod text;

pub mod accumulator;
pub mod filter;
mod profile;
pub mod project;
mod reads;
mod sums;
pub mod update;
pub mod vector;

pub use cx::{Cx, Env, Frame, Scripts, VarId};
pub use profile::Profile;
pub use reads::RequiredFields;
