//! The sizes of the tables, the counters, and the drawn numbers and names.

use rand::Rng;

use crate::program::state::Scale;
use crate::seed::Stream;

/// Districts of a warehouse.
pub(super) const DISTRICTS: i64 = 10;
/// Counter of committed orders.
pub(super) const ORDERS: usize = 0;
/// Counter of the lines of committed orders.
pub(super) const LINES: usize = 1;
/// Counter of committed payments.
pub(super) const PAYMENTS: usize = 2;
/// Counter of the money of committed payments.
pub(super) const PAID: usize = 3;
/// Counter of delivered orders.
pub(super) const DELIVERED: usize = 4;

/// The sizes of the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Number of warehouses.
    pub(super) warehouses: i64,
    /// Number of items.
    pub(super) items: i64,
    /// Number of customers of each district.
    pub(super) customers: i64,
}

impl Sizes {
    /// `tables` warehouses with `rows` items; with 100,000 items there are 3,000 customers and
    /// orders in each district, as in the specification.
    pub(super) fn of(scale: Scale) -> Self {
        let items = i64::try_from(scale.rows).unwrap_or(i64::MAX).max(100);
        Self {
            warehouses: i64::from(scale.tables.max(1)),
            items,
            customers: (items * 3 / 100).clamp(10, 3_000),
        }
    }

    /// The number of initial orders of each district that are already delivered.
    pub(super) fn delivered_orders(self) -> i64 {
        self.customers * 7 / 10
    }
}

/// A skewed random number between `from` and `to`, both included, as the specification defines it.
pub(super) fn draw_skewed(random: &mut Stream, most: i64, from: i64, to: i64) -> i64 {
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
