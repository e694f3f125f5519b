//! The result of a run as it is stored: `result.json`. docs/lab/results.md describes every field.
//!
//! Promises: [`VERSION`] grows whenever a field changes its meaning or is removed, but not when
//! fields are added. A ratio is absent (null), never zero, if its divisor is zero or its source
//! could not be observed.

mod generator;
mod latency;
mod overload;
mod replay;
mod resources;
mod run;
mod step;
mod verdict;
mod watch;

pub use generator::GeneratorResult;
pub use latency::{BUCKET_BOUNDS_US, LatencySummary, PERCENTILES, PERCENTILES_FAR};
pub use overload::Overload;
pub use replay::{
    AnswerDifference, KindResult, RecordingFacts, ReplayResult, WORKLOAD as REPLAY_WORKLOAD,
    WRITES as REPLAY_WRITES,
};
pub use resources::{CostSummary, DeviceSummary, HostSummary, PressureSummary, Sizes, ThreadGroup};
pub use run::{
    Check, MemoryLimit, OWN_LABEL, RunFacts, RunResult, SCHEMA, SkippedStep, TargetFacts, VERSION,
    Warning,
};
pub use step::{
    CallCounts, FinishSummary, Period, RateSummary, RoleResult, Stalls, StepExtras, StepResult,
};
pub use verdict::{ERRORS_PERCENT_MAX, judge_calls};
pub use watch::{AgreementResult, Expiry, FanOut, ProgramRuns};
