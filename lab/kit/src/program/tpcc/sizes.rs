//! How much of everything there is, what is counted, and the numbers and names that are drawn.

use rand::Rng;

use crate::program::state::Scale;
use crate::seed::Stream;

/// Districts of a warehouse.
pub(super) const DISTRICTS: i64 = 10;
/// Counter of committed orders.
pub(super) const ORDERS: usize = 0;
/// Counter of their lines.
pub(super) const LINES: usize = 1;
/// Counter of committed payments.
pub(super) const PAYMENTS: usize = 2;
/// Counter of the money of payments.
pub(super) const PAID: usize = 3;
/// Counter of delivered orders.
pub(super) const DELIVERED: usize = 4;

/// How much of everything there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// How many.
    pub(super) warehouses: i64,
    /// How many.
    pub(super) items: i64,
    /// How many.
    pub(super) customers: i64,
}

impl Sizes {
    /// `tables` warehouses with `rows` items; 100,000 items go with 3,000 customers and orders in
    /// each district, as the specification has it.
    pub(super) fn of(scale: Scale) -> Self {
        let items = i64::try_from(scale.rows).unwrap_or(i64::MAX).max(100);
        Self {
            warehouses: i64::from(scale.tables.max(1)),
            items,
            customers: (items * 3 / 100).clamp(10, 3_000),
        }
    }

    /// Orders of each district at the beginning that are delivered; the others are not.
    pub(super) fn delivered(self) -> i64 {
        self.customers * 7 / 10
    }
}

/// The specification's skewed number between two others, both included.
pub(super) fn skewed(random: &mut Stream, most: i64, from: i64, to: i64) -> i64 {
    let constant = most / 3;
    let drawn = random.random_range(0..=most) | random.random_range(from..=to);
    (drawn + constant) % (to - from + 1) + from
}

/// The last name of a number up to 999.
pub(super) fn last_name(number: i64) -> String {
    const PARTS: [&str; 10] = [
        "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
    ];
    let part = |digit: i64| PARTS.get(usize::try_from(digit % 10).unwrap_or(0)).copied();
    [number / 100, number / 10, number]
        .into_iter()
        .filter_map(part)
        .collect()
}
