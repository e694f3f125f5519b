//! Things in which two targets may differ while everything else is the same, for claims about just
//! that.
//!
//! A run says on which side it is by a label (`quarry-lab run --label change-log=off`), and to
//! which pair it belongs by another (`pair`).

use crate::result::RunResult;

/// A label that keeps runs of several pairs apart.
pub(super) const PAIR: &str = "pair";

/// One thing that may differ.
#[derive(Debug)]
pub struct PairDifference {
    /// As `--differ` and labels name it.
    pub name: &'static str,
    /// Values of the label: that of `--target`, then that of `--versus`.
    pub sides: [&'static str; 2],
    /// In words.
    pub about: &'static str,
}

/// All differences.
pub const DIFFERENCES: &[PairDifference] = &[
    PairDifference {
        name: "change-log",
        sides: ["on", "off"],
        about: "whether a change log is written (oplog, binary log)",
    },
    PairDifference {
        name: "journal",
        sides: ["off", "on"],
        about: "whether a journal is written, or at least ever waited for",
    },
    PairDifference {
        name: "durability",
        sides: ["sync", "lazy"],
        about: "whether a commit waits for storage",
    },
    PairDifference {
        name: "allocator",
        sides: ["a", "b"],
        about: "the memory allocator",
    },
    PairDifference {
        name: "build",
        sides: ["new", "old"],
        about: "the version of the target",
    },
    PairDifference {
        name: "page-size",
        sides: ["small", "large"],
        about: "the page size, one half of the other",
    },
    PairDifference {
        name: "flush-neighbors",
        sides: ["on", "off"],
        about: "whether dirty neighbours of a page are flushed with it",
    },
    PairDifference {
        name: "interface",
        sides: ["low", "query"],
        about: "whether reads go past the query layer",
    },
    PairDifference {
        name: "read-lock",
        sides: ["without", "with"],
        about: "whether reads take one global lock",
    },
    PairDifference {
        name: "alignment",
        sides: ["unaligned", "aligned"],
        about: "whether blocks begin where pages do",
    },
    PairDifference {
        name: "read-size",
        sides: ["large", "small"],
        about: "how much a miss reads: read-ahead or the size of blocks",
    },
    PairDifference {
        name: "throttling",
        sides: ["limited", "free"],
        about: "whether writes are slowed down before compaction is far behind",
    },
];

/// The difference called `name`.
pub fn difference(name: &str) -> Option<&'static PairDifference> {
    DIFFERENCES
        .iter()
        .find(|difference| difference.name == name)
}

/// Whether a run belongs to a pair; it says nothing about its target otherwise.
pub(super) fn is_of_a_pair(run: &RunResult) -> bool {
    DIFFERENCES
        .iter()
        .any(|difference| run.run.labels.contains_key(difference.name))
}
