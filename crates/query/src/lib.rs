//! Queries over documents, parsed once and executed as a chain of pull operators over batches of
//! documents. From bottom to top: [`exec`], the parts that operators are made of; [`plan`], access
//! paths; [`stage`], the contract of a stage; [`pipeline`], chains of stages; [`stages`], all
//! stages and their table; [`find`] and [`explain`]; [`segments`], the content of column indexes.
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
