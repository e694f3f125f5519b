//! Values of many documents side by side: the needed paths of up to a thousand documents, read in
//! one pass over the bytes of each. Must not know: what is computed from them.

mod batch;
mod column;
mod operand;
mod paths;
mod shape;

pub use batch::Batch;
pub use column::{Column, Types};
pub use operand::Operand;
pub(crate) use operand::row_of;
pub use paths::Paths;
pub use shape::Assembly;
