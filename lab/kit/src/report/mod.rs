//! Reports: self-contained HTML pages, readable without a network and without scripts.
//!
//! Promises: no number without its unit, no average without its interval series, conditions and
//! warnings on the same page.

mod axis;
mod bars;
mod by_clients;
mod chart;
mod chart_svg;
mod charts;
mod claims_page;
mod comparison;
mod conditions;
mod html;
mod notes;
mod overlay;
mod overview;
mod published_tables;
mod repeats;
mod replay;
mod resources;
mod run_page;
mod runs;
mod step_numbers;
mod steps_by_configuration;
#[cfg(test)]
mod tests;
mod tiles;

pub use claims_page::claims_page;
pub use comparison::comparison_page;
pub use notes::by_code;
pub use run_page::page;
pub use runs::{RunsError, runs_page};
