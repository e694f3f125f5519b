//! Documents and statements of workload files: nested values with generators, which draw values.
//!
//! A text that begins with `@` is a generator, such as `@int(1, 100)`; `@@` stands for a literal
//! `@` at the beginning. Promises: the same stream draws the same values; an error says what is
//! allowed and quotes the wrong words, so that a reader of the file can name the line. Must not
//! know: targets, settings.

mod generator;
mod parse;
mod shape;
mod statement;
mod tree;

pub use generator::{Draws, Generator, Template, constant, draw_existing};
pub use parse::TemplateError;
pub use shape::Shape;
pub use statement::{Command, DatabaseAction, Statement, StatementCall, StatementFile};
pub use tree::{Tree, Variables};
