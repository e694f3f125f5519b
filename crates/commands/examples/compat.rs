//! Creates the text of COMPAT.md from the registries; `make compat` writes it.
//! Must not know: what a command or operator does.

use commands::registry;
use std::fmt::Write as _;

fn main() {
    print!("{}", compatibility());
}

/// The whole page.
pub(crate) fn compatibility() -> String {
    let mut page = String::from(
        "# Compatibility\n\n\
        Generated from the registries by `make compat`; what is listed is known to the parser, \
        and may still be refused. The reference is MongoDB 8.2.\n\
        Differences and what is missing: \
        [docs/expected-differences.md](docs/expected-differences.md).\n",
    );
    table(&mut page, "Commands", registry::all().map(|c| c.spec.name));
    let not_built = quote_names(registry::NOT_BUILT);
    let _ = writeln!(
        page,
        "\nKnown and answered with 238 NotImplemented: {not_built}"
    );
    table(&mut page, "Stages", query::stages::names());
    table(&mut page, "Expressions", operators::expr::names());
    table(&mut page, "Accumulators", operators::accumulator::names());
    page
}

fn table(page: &mut String, title: &str, names: impl Iterator<Item = &'static str>) {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    let (count, names) = (names.len(), quote_names(&names));
    let _ = write!(page, "\n## {title} ({count})\n\n{names}\n");
}

fn quote_names(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
    names.join(" ")
}
