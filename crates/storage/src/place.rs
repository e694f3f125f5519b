//! Finds the damaged file and its offset in the text of an engine's error: an operator needs them,
//! and only the engine's own text names them. Must not know: which engine wrote the text.

use std::fmt;

/// A place in a file of a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLocation {
    /// Name of the file, without its directory.
    pub file: String,
    /// Byte offset in the file.
    pub offset: Option<u64>,
}

/// Suffixes of the names of data files.
const ENDS: [&str; 6] = [".sst", ".blob", ".log", ".mdb", ".wt", ".ldb"];
/// Prefixes of the names of files that list other files.
const BEGINS: [&str; 3] = ["MANIFEST-", "OPTIONS-", "WiredTigerLog."];
const NAMES: [&str; 4] = [
    "CURRENT",
    "IDENTITY",
    "WiredTiger.turtle",
    "WiredTigerHS.wt",
];

impl FileLocation {
    /// The place that a message names: the last data file named in it, and the number after the
    /// word "offset".
    pub fn parse_message(text: &str) -> Option<FileLocation> {
        let words = || text.split(|c: char| c.is_whitespace() || matches!(c, ':' | ',' | ';'));
        let file = words().filter_map(file_name).next_back()?;
        let mut behind = words().skip_while(|word| *word != "offset").skip(1);
        Some(FileLocation {
            file: file.to_owned(),
            offset: behind.find_map(|word| word.parse().ok()),
        })
    }
}

fn file_name(word: &str) -> Option<&str> {
    let name = word.rsplit('/').next()?;
    let name = name.trim_matches(|c: char| matches!(c, '"' | '\'' | '(' | ')' | '[' | ']' | '.'));
    let is_one = ENDS
        .iter()
        .any(|end| name.len() > end.len() && name.ends_with(end))
        || BEGINS.iter().any(|begin| name.starts_with(begin))
        || NAMES.contains(&name);
    is_one.then_some(name)
}

impl fmt::Display for FileLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file {}", self.file)?;
        match self.offset {
            Some(offset) => write!(f, " at byte {offset}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_engines_name_a_place() {
        for (text, expected) in [
            (
                "Corruption: block checksum mismatch: stored = 1, computed = 2, type = 4  in \
                 /data of mine/000012.sst offset 4096 size 812",
                Some("file 000012.sst at byte 4096"),
            ),
            (
                "IO error: While pread offset 77 len 4096: /d/000015.blob: Input/output error",
                Some("file 000015.blob at byte 77"),
            ),
            (
                "Corruption: encrypted file MANIFEST-000005 was changed at offset 64, or belongs \
                 to another key",
                Some("file MANIFEST-000005 at byte 64"),
            ),
            (
                "[1:2], file:doc.wt, WT_CURSOR.search: doc.wt: potential hardware corruption, \
                 read checksum error for 4096B block at offset 12288: block header checksum",
                Some("file doc.wt at byte 12288"),
            ),
            (
                "IO error: No such file or directory: /d/000007.sst",
                Some("file 000007.sst"),
            ),
            ("Corruption: Blob CRC mismatch", None),
            ("Corruption: bad .sst", None),
        ] {
            let found = FileLocation::parse_message(text).map(|place| place.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
