//! What is asked when the work of a step has ended.

use serde::Deserialize;

use crate::template::{Template, TemplateError, Tree, constant};

/// Two questions that must have the same answer, soon after the work has ended.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// In words.
    pub name: String,
    /// A pipeline on the workload's collection.
    pipeline: Vec<toml::Table>,
    /// Another pipeline on it.
    #[serde(default)]
    with: Vec<toml::Table>,
    /// Instead: the same pipeline on the server that the program copies to.
    #[serde(default)]
    pub copy: bool,
}

impl Agreement {
    /// The stages of its pipeline.
    pub fn pipeline(&self) -> Vec<Tree> {
        self.pipeline.iter().map(constant).collect()
    }

    /// The stages of what it is compared with.
    pub fn with(&self) -> Vec<Tree> {
        let other = if self.copy {
            &self.pipeline
        } else {
            &self.with
        };
        other.iter().map(constant).collect()
    }

    /// Whether it can be asked.
    ///
    /// # Errors
    /// A wrong generator, or nothing to compare with.
    pub(super) fn check(&self) -> Result<(), TemplateError> {
        if self.copy != self.with.is_empty() {
            return Err(TemplateError {
                words: self.name.clone(),
                reason: "it needs one of with = [ STAGES ] and copy = true".to_owned(),
            });
        }
        let mut stages = self.pipeline.iter().chain(&self.with);
        stages.try_for_each(|stage| Template::table(stage).map(drop))
    }
}
