//! Documents of a workload file as a kind of documents, which is copied about and compared.

use std::sync::{Mutex, PoisonError};

use super::generator::{Draws, Template};
use super::parse::TemplateError;
use super::tree::{Tree, Variables};
use crate::seed::Stream;

/// Shapes of files that this process has read. A file is read once or twice in a run, so that they
/// are few; they live to its end.
static SHAPES: Mutex<Vec<&'static [(String, Template)]>> = Mutex::new(Vec::new());

/// The document of a workload file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape(usize);

impl Shape {
    /// From the table of a file.
    ///
    /// # Errors
    /// A wrong generator, no field, or one that is the lab's.
    pub fn parse(table: &toml::Table) -> Result<Self, TemplateError> {
        let wrong = |words: &str, reason: &str| TemplateError {
            words: words.to_owned(),
            reason: reason.to_owned(),
        };
        if table.contains_key("_id") {
            return Err(wrong(
                "_id",
                "the lab makes ids: numbers from 1 (ids = \"lab\")",
            ));
        }
        let Template::Object(fields) = Template::table(table)? else {
            return Err(wrong("document", "a document is a table of fields"));
        };
        if fields.is_empty() {
            return Err(wrong("document", "a document needs a field"));
        }
        let mut used = Vec::new();
        fields
            .iter()
            .for_each(|(_, value)| value.variables(&mut used));
        if let Some(name) = used.first() {
            return Err(wrong(
                &format!("@var({name})"),
                "only statements have variables",
            ));
        }
        let mut shapes = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
        shapes.push(Vec::leak(fields));
        Ok(Self(shapes.len() - 1))
    }

    /// Its fields.
    pub(crate) fn fields(self) -> &'static [(String, Template)] {
        let shapes = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
        shapes.get(self.0).copied().unwrap_or_default()
    }

    /// Draws document `number` of `rows`.
    pub(crate) fn draw(
        self,
        random: &mut Stream,
        number: u64,
        rows: u64,
        now_ms: i64,
    ) -> Vec<(&'static str, Tree)> {
        let mut draws = Draws {
            random,
            number,
            rows,
            client: 0,
            sequence: number,
            now_ms,
            variables: &Variables::new(),
            // While documents are stored, those with lower numbers exist or soon will.
            existing: &mut |random, _| {
                use rand::Rng;
                let number = random.random_range(1..=number.max(1));
                Tree::Long(i64::try_from(number).unwrap_or(i64::MAX))
            },
        };
        self.fields()
            .iter()
            .filter_map(|(name, value)| Some((name.as_str(), value.draw_if_any(&mut draws)?)))
            .collect()
    }
}
