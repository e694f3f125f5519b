//! Values of many documents side by side: what is looked at is taken out of up to a thousand
//! documents in one walk over the bytes of each. Must not know: what is computed of it.

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
