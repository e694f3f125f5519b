//! Prints COMPAT.md from the registries: `cargo run -p quarry-commands --example compat >
//! COMPAT.md`.

use commands::registry;

fn table(title: &str, names: impl Iterator<Item = &'static str>) {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.dedup();
    println!("\n## {title} ({})\n", names.len());
    println!(
        "{}",
        names
            .iter()
            .map(|n| format!("`{n}`"))
            .collect::<Vec<_>>()
            .join(" ")
    );
}

fn main() {
    println!("# Compatibility\n");
    println!(
        "Generated from the registries by `make compat`; what is listed is known to the parser, \
            and may still be refused. The reference is MongoDB 8.2."
    );
    println!(
        "Differences and what is missing: \
            [docs/expected-differences.md](docs/expected-differences.md)."
    );
    table("Commands", registry::all().map(|c| c.spec.name));
    println!(
        "\nKnown and answered with 238 NotImplemented: {}",
        registry::NOT_BUILT
            .iter()
            .map(|n| format!("`{n}`"))
            .collect::<Vec<_>>()
            .join(" ")
    );
    table("Stages", query::stages::names());
    table("Expressions", operators::expr::names());
    table("Accumulators", operators::accumulator::names());
}
