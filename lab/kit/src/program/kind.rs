//! The programs that exist.

/// The programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Bank transfers with a conserved sum.
    Trx,
    /// Orders of a wholesaler.
    Tpcc,
    /// A social graph.
    Linkbench,
}
