//! Documents and statements of workload files: nested values in which generators stand for drawn
//! values.
//!
//! A text that begins with `@` is a generator, such as `@int(1, 100)`; `@@` begins a text with an
//! `@`. Promises: the same stream draws the same values; an error contains the wrong words and the
//! allowed ones, so that the reader of the file can name the line. Must not know: targets,
//! settings.

mod generator;
mod parse;
mod shape;
mod statement;
mod tree;

pub use generator::{DrawContext, Generator, Template, constant, draw_existing};
pub use parse::TemplateError;
pub use shape::Shape;
pub use statement::{Command, DatabaseAction, Statement, StatementCall, StatementFile};
pub use tree::{Tree, Variables};
