//! Differences between two targets that are otherwise the same, for claims about one difference.
//!
//! One label of a run names its side (`quarry-lab run --label change-log=off`), and another one
//! (`pair`) the pair that it belongs to.

use crate::result::RunResult;

/// The label that distinguishes the runs of several pairs.
pub(super) const PAIR: &str = "pair";

/// One difference.
#[derive(Debug)]
pub struct PairDifference {
    /// The name in `--differ` and in labels.
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

/// Whether a run belongs to a pair. Such a run is not used to judge its target alone.
pub(super) fn is_of_a_pair(run: &RunResult) -> bool {
    DIFFERENCES
        .iter()
        .any(|difference| run.run.labels.contains_key(difference.name))
}
