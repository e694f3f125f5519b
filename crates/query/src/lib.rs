//! Queries over documents, parsed once and executed as a chain of pull operators over batches of
//! documents. From below: [`exec`], what operators are made of; [`plan`], access paths; [`stage`],
//! what a stage is; [`pipeline`], stages in a row; [`stages`], all there are and their table;
//! [`find`] and [`explain`]; [`segments`], what column indexes are made of.
//! Must not know: commands, sessions, sockets. What a query needs from outside comes through
//! [`exec::Host`].

pub mod collation;
pub mod exec;
pub mod explain;
pub mod find;
mod meter;
mod path;
pub mod physical;
pub mod pipeline;
pub mod plan;
pub mod segments;
pub mod shown;
pub mod stage;
pub mod stages;
