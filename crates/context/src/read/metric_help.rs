//! Descriptions of the numbers of `serverStatus`, read from the page that documents them: the page
//! and the exported descriptions have the same text. Must not know: exporters.

use std::sync::LazyLock;

/// The page; a test compares it with the reply of a server.
const REFERENCE: &str = include_str!("../../../../docs/metrics-reference.md");

/// The path below `serverStatus` and the description of each row.
static ROWS: LazyLock<Vec<(Vec<&str>, String)>> = LazyLock::new(|| {
    let row = |line: &'static str| {
        let (path, text) = line.strip_prefix("| `serverStatus.")?.split_once("` | ")?;
        let text = text.strip_suffix(" |")?;
        Some((path.split('.').collect(), remove_links(text)))
    };
    REFERENCE.lines().filter_map(row).collect()
});

/// The description for a path. Names in angle brackets stand for names that depend on the data.
pub fn help(path: &[&str]) -> Option<&'static str> {
    let is_same = |(row, name): (&&str, &&str)| row == name || row.starts_with('<');
    let matches = |row: &Vec<&str>| {
        let is_open = row.last().is_some_and(|last| last.starts_with('<'));
        let fits = row.len() == path.len() || (is_open && row.len() < path.len());
        fits && row.iter().zip(path).all(is_same)
    };
    let found = ROWS.iter().find(|(row, _)| matches(row));
    found.map(|(_, text)| text.as_str())
}

/// Removes links and code quotes from Markdown.
fn remove_links(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((shown, after)) = link.split_once("](") else {
            break;
        };
        plain.push_str(before);
        plain.push_str(shown);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    plain.push_str(rest);
    plain.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::help;

    #[test]
    fn rows_are_found_by_their_path() {
        let text = |path: &str| help(&path.split('.').collect::<Vec<_>>());
        let counted = "commands of the class; insert counts documents";
        assert_eq!(text("opcounters.insert"), Some(counted));
        let engine = "all metrics of the storage engine under its own names";
        assert_eq!(text("quarry.engine.doc.sst_bytes"), Some(engine));
        let tickets = text("queues.execution.read.totalTickets").unwrap();
        assert!(tickets.ends_with("(how)"), "{tickets}");
        assert_eq!(text("nothing.of.this"), None);
    }
}
