//! COMPAT.md equals the text that the registries produce.

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/compat.rs"]
mod example;

#[test]
fn the_table_of_compatibility_is_fresh() {
    let path = "../../COMPAT.md";
    let (written, page) = (
        std::fs::read_to_string(path).unwrap(),
        example::compatibility(),
    );
    let mut names = page.split_whitespace();
    let missing = names.find(|name| !written.contains(name));
    assert!(
        written == page,
        "run `make compat`; the first name that COMPAT.md has not: {missing:?}"
    );
}
