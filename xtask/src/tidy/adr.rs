//! The index of decisions names every page of `docs/adr/`.

use super::finding::Finding;

/// The index.
pub(super) const INDEX: &str = "docs/adr/README.md";

/// Reports each page of `names` (paths in the repository) without a link in the index.
pub(super) fn check(index: &str, names: &[&str]) -> Vec<Finding> {
    let pages = names.iter().filter(|name| **name != INDEX);
    let pages = pages.filter_map(|name| name.strip_prefix("docs/adr/"));
    pages
        .filter(|page| page.ends_with(".md") && !index.contains(&format!("]({page})")))
        .map(|page| Finding::new(INDEX, 0, format!("does not list {page}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_the_index_lacks_is_found() {
        let index = "| [0001](0001-one.md) | One | accepted |";
        let names = [
            INDEX,
            "docs/adr/0001-one.md",
            "docs/adr/0002-two.md",
            "docs/x.md",
        ];
        let found = check(index, &names);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("does not list 0002-two.md"));
    }
}
