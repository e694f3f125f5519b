//! What a stage is: its contract, how it is parsed, where it may appear. Must not know: which
//! stages there are (the table above them says), pipelines as a whole.

mod parse;
mod placement;
mod traits;

pub use parse::{
    Inside, ParseOptions, ParseStage, PipelineSource, StageContext, StageOp, StageTable,
};
pub(crate) use parse::{MAX_DEPTH, single_field};
pub use placement::Placement;
pub(crate) use traits::one;
pub use traits::{Kind, Stage, Transform};
