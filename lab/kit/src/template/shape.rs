//! The document of a workload file as a kind of documents that can be copied and compared.

use std::sync::{Mutex, PoisonError};

use super::generator::{DrawContext, Template};
use super::parse::TemplateError;
use super::tree::{Tree, Variables};
use crate::seed::Stream;

/// Shapes of files that this process has read. They live until the process ends; they are few,
/// because a run reads a file only once or twice.
static SHAPES: Mutex<Vec<&'static [(String, Template)]>> = Mutex::new(Vec::new());

/// The document of a workload file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape(usize);

impl Shape {
    /// Parses the table of a file.
    ///
    /// # Errors
    /// A generator is wrong, there is no field, or a field's name is reserved for the lab.
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
            return Err(wrong("document", "a document must be a table of fields"));
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
        let mut draws = DrawContext {
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
