//! What a stage is: its contract, how it is parsed, where it may appear. Must not know: which
//! stages there are (the table above them says), pipelines as a whole.

mod needs;
mod parse;
mod placement;
mod traits;

pub use needs::{
    FindNeeds, Need, NeedsContext, Report, SessionUser, StageNeeds, Subject, pipeline_needs,
};
pub use parse::{
    Inside, ParseOptions, ParseStage, PipelineSource, StageContext, StageOp, StageTable,
};
pub(crate) use parse::{MAX_DEPTH, single_field, stage_of};
pub use placement::Placement;
pub(crate) use traits::one;
pub use traits::{Kind, Stage, Transform};
