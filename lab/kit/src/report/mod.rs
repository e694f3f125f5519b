//! page
/// page
pub fn page(result: &crate::result::RunResult) -> String { format!("{}", result.run.id) }
