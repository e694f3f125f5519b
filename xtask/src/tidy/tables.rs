//! Tables of Markdown files: a block of rows without a head is shown as plain text, and cells
//! beyond those of the head are not shown at all.

use super::finding::Finding;

/// Checks one document.
pub(super) fn check(name: &str, content: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !name.ends_with(".md") {
        return findings;
    }
    let lines: Vec<&str> = content.lines().collect();
    // The number of cells of the table that the line before belongs to.
    let mut cells = None;
    let mut in_code = false;
    for (index, line) in lines.iter().enumerate() {
        in_code ^= line.starts_with("```");
        if in_code || !line.starts_with('|') {
            cells = None;
            continue;
        }
        let found = count_cells(line);
        match cells {
            None if !lines.get(index + 1).is_some_and(|next| is_rule(next)) => {
                findings.push(Finding::new(
                    name,
                    index + 1,
                    "begins a table without a head; no blank line may stand between rows",
                ));
            }
            Some(head) if found != head => {
                let message = format!("has {found} cells, the head of its table has {head}");
                findings.push(Finding::new(name, index + 1, message));
            }
            _ => {}
        }
        cells = Some(cells.unwrap_or(found));
    }
    findings
}

/// The line below a head.
fn is_rule(line: &str) -> bool {
    line.starts_with('|') && line.contains('-') && line.chars().all(|c| "|-: ".contains(c))
}

/// Cells between bars, of which `\|` is none.
fn count_cells(line: &str) -> usize {
    let bars = line.replace("\\|", "").matches('|').count();
    bars - usize::from(line.trim_end().ends_with('|'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(content: &str) -> Vec<String> {
        check("a.md", content)
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn whole_tables_pass() {
        let text = "| a | b |\n|---|:-:|\n| `x \\| y` | 1 |\n\n```\n| no table\n```\n";
        assert_eq!(complaints(text), Vec::<String>::new());
        assert_eq!(check("a.rs", "| x"), []);
    }

    #[test]
    fn rows_below_a_blank_line_fail() {
        let text = "| a | b |\n|---|---|\n| 1 | 2 |\n\n| 3 | 4 |\n| 5 | 6 |\n";
        let expected = "a.md:5: begins a table without a head; no blank line may stand between \
                        rows";
        assert_eq!(complaints(text), [expected]);
    }

    #[test]
    fn rows_of_another_width_fail() {
        let text = "| a | b |\n|---|---|\n| 1 |\n| 1 | 2 | 3 |\n";
        assert_eq!(
            complaints(text),
            [
                "a.md:3: has 1 cells, the head of its table has 2",
                "a.md:4: has 3 cells, the head of its table has 2",
            ]
        );
    }
}
