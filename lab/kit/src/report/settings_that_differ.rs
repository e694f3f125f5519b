//! The settings of engines in which the configurations of a page differ, by the engines' own names.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::by_clients::Configuration;
use super::html::escape;
use crate::result::RunResult;

/// The settings that an engine reported; empty if it reported none.
fn settings(run: &RunResult) -> BTreeMap<&str, &str> {
    let told = run.target.build_info.get("configuration");
    let told = told
        .and_then(serde_json::Value::as_object)
        .into_iter()
        .flatten();
    told.filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect()
}

/// A table of the settings that differ; empty if none differ, or if an engine reports no settings.
pub(super) fn section(groups: &[Configuration<'_>]) -> String {
    let first_runs = groups.iter().filter_map(|group| group.runs.first());
    let all: Vec<BTreeMap<&str, &str>> = first_runs.map(|run| settings(run)).collect();
    if all.len() < 2 || all.iter().any(BTreeMap::is_empty) {
        return String::new();
    }
    let names: BTreeSet<&str> = all.iter().flat_map(|one| one.keys().copied()).collect();
    let differ = |name: &&str| {
        all.iter()
            .any(|one| one.get(name) != all.first().and_then(|a| a.get(name)))
    };
    let names: Vec<&str> = names.into_iter().filter(differ).collect();
    let mut out = String::from("<h2>Settings of the engine that differ</h2>\n");
    if names.is_empty() {
        out.push_str("<p class=\"muted\">None do.</p>\n");
        return out;
    }
    out.push_str("<div class=\"card scroll\"><table><thead><tr><th scope=\"col\">setting</th>");
    for group in groups {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&group.name));
    }
    out.push_str("</tr></thead><tbody>\n");
    for name in names {
        let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
        for one in &all {
            let value = one.get(name).copied().unwrap_or("–");
            let _ = write!(out, "<td>{}</td>", escape(value));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    out
}
