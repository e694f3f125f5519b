//! The planner's estimate for one stage of a plan, in MongoDB's words.

use crate::plan::EstimateSource;
use model::DocWriter;

/// The planner's estimate for one stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageEstimate {
    /// The cost of this stage and all below it.
    pub cost: f64,
    /// Documents or entries that it gives.
    pub gives: Option<(f64, EstimateSource)>,
    /// Entries of an index that it reads.
    pub keys: Option<f64>,
    /// Documents that it reads of a collection.
    pub docs: Option<f64>,
    /// Rows that it reads of segments.
    pub rows: Option<f64>,
}

impl StageEstimate {
    /// Writes it under MongoDB's names.
    pub(super) fn write(&self, w: &mut DocWriter<'_>) {
        w.put("costEstimate", self.cost);
        if let Some((number, _)) = self.gives {
            w.put("cardinalityEstimate", number);
        }
        if let Some(keys) = self.keys {
            w.put("numKeysEstimate", keys);
        }
        if let Some(docs) = self.docs {
            w.put("numDocsEstimate", docs);
        }
        if let Some(rows) = self.rows {
            w.put("numRowsEstimate", rows);
        }
        if let Some((_, source)) = self.gives {
            w.doc("estimatesMetadata").put("ceSource", source.name());
        }
    }
}
