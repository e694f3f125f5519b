//! The contract of a stage, its parsing and its allowed positions. Must not know: which stages
//! there are (the table above this module does), pipelines as a whole.

mod need;
mod parse;
mod placement;
mod source;
mod traits;

pub use need::{Report, RequiredPrivilege, SessionUser, Subject};
pub use parse::{
    ApiClass, FindNeeds, NeedsContext, ParseOptions, ParseStage, PipelineContext, StageContext,
    StageNeeds, StageOp, StageTable, pipeline_needs,
};
pub(crate) use parse::{MAX_DEPTH, single_field, stage_of};
pub use placement::Placement;
pub use source::PipelineSource;
pub(crate) use traits::one;
pub use traits::{Kind, Stage, Transform};
