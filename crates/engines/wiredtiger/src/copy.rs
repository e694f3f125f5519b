//! Selects and copies the files of a checkpoint.
//!
//! WiredTiger deletes the log files that no checkpoint needs one by one, in the order in which the
//! file system lists them. A process that ends meanwhile may leave old ones, followed by a gap. The
//! next process opens such a directory, because it reads the log only from its checkpoint on, and
//! lists the old files for a copy until its first checkpoint; the copy would not open, because
//! there the whole log is read.

use std::fs::{self, File};
use std::io;
use std::path::Path;

const LOG: &str = "WiredTigerLog.";

/// Copies those of the files listed by WiredTiger that are needed.
pub(crate) fn copy(names: &[String], from: &Path, to: &Path) -> io::Result<()> {
    let oldest = oldest_log(names);
    for name in names {
        let number = log_number(name);
        if number.is_none() || number >= oldest {
            fs::copy(from.join(name), to.join(name))?;
            File::open(to.join(name))?.sync_all()?;
        }
    }
    Ok(())
}

/// The first of the consecutive log files up to the newest.
fn oldest_log(names: &[String]) -> Option<u64> {
    let mut numbers: Vec<_> = names.iter().filter_map(|name| log_number(name)).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let newest = *numbers.first()?;
    let row = numbers.iter().zip((0..=newest).rev());
    row.take_while(|(number, expected)| *number == expected)
        .last()
        .map(|(number, _)| *number)
}

fn log_number(name: &str) -> Option<u64> {
    name.strip_prefix(LOG)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_follow_one_another() {
        let oldest = |numbers: &[u64]| {
            let logs = numbers.iter().map(|n| format!("{LOG}{n:010}"));
            let names: Vec<_> = logs.chain(["doc.wt".to_owned()]).collect();
            oldest_log(&names)
        };
        assert_eq!(oldest(&[]), None);
        assert_eq!(oldest(&[7]), Some(7));
        assert_eq!(oldest(&[2, 1, 3]), Some(1));
        assert_eq!(oldest(&[5, 6, 8, 11, 10]), Some(10));
    }
}
