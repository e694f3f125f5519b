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
mod csv;
mod generators_section;
mod history_page;
mod html;
mod notes;
mod overlay;
mod overload_section;
mod overview;
mod published_tables;
mod rate_page;
mod repeats;
mod replay;
mod resources;
mod run_page;
mod runs;
mod settings_that_differ;
mod several_workloads;
mod step_numbers;
mod steps_by_configuration;
#[cfg(test)]
mod tests;
mod tiles;
mod watch_section;

pub use claims_page::claims_page;
pub use comparison::comparison_page;
pub use csv::summary_csv;
pub use history_page::history_page;
pub use notes::group_by_code;
pub use overload_section::overload_line;
pub use rate_page::rate_page;
pub use run_page::page;
pub use runs::{RunsError, runs_page};
pub use several_workloads::workloads_page;
pub use watch_section::watch_lines;
