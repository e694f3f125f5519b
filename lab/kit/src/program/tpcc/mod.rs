//! TPC-C: orders of a wholesaler, in tables, or in documents that hold the lines of their order.
//!
//! Promises: the five transactions with the weights that the workload file gives them, by the
//! statements that the benchmark's specification (revision 5.11, clause 2) describes; the checks
//! are its conditions of consistency (clause 3.3.2), and that nothing committed is missing.
//! Differs: no keying and thinking times, money in hundredths, and the setting `rows` scales all
//! tables.

mod check;
mod load;
mod sizes;
mod tables;
mod transactions;

pub(super) use check::check;
pub(super) use load::{load, pieces};
pub(super) use tables::TABLES;
pub(super) use transactions::{Procedure, draw};

pub(super) const PROCEDURES: &[&str] = &[
    "new-order",
    "payment",
    "order-status",
    "delivery",
    "stock-level",
];
/// The approximate size of a stock record; stock records are the largest part of the data.
pub(super) const ROW_BYTES: u64 = 320;
