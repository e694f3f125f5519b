//! Queries that run when the work of a step has ended.

use serde::Deserialize;

use crate::template::{Template, TemplateError, Tree, constant};

/// Two queries that must return the same results soon after the work has ended.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// A description.
    pub name: String,
    /// A pipeline on the workload's collection.
    pipeline: Vec<toml::Table>,
    /// The other pipeline on the same collection.
    #[serde(default)]
    with: Vec<toml::Table>,
    /// Instead of `with`: runs the same pipeline on the server that the program copies to.
    #[serde(default)]
    pub copy: bool,
}

impl Agreement {
    /// The stages of the pipeline.
    pub fn pipeline(&self) -> Vec<Tree> {
        self.pipeline.iter().map(constant).collect()
    }

    /// The stages of the other pipeline.
    pub fn other_stages(&self) -> Vec<Tree> {
        let other = if self.copy {
            &self.pipeline
        } else {
            &self.with
        };
        other.iter().map(constant).collect()
    }

    /// Checks that the queries can run.
    ///
    /// # Errors
    /// A generator is wrong, or there is no second query.
    pub(super) fn check(&self) -> Result<(), TemplateError> {
        if self.copy != self.with.is_empty() {
            return Err(TemplateError {
                words: self.name.clone(),
                reason: "it needs exactly one of with = [ STAGES ] and copy = true".to_owned(),
            });
        }
        let mut stages = self.pipeline.iter().chain(&self.with);
        stages.try_for_each(|stage| Template::table(stage).map(drop))
    }
}
