//! TPC-C: orders of a wholesaler, in tables, or in documents that hold the lines of their order.
//!
//! Promises: the five transactions with the weights that the workload file gives them, by the
//! statements that the benchmark's specification (revision 5.11, clause 2) describes; the checks are
//! its conditions of consistency (clause 3.3.2), and that nothing committed is missing. Differs: no
//! keying and thinking times, money in hundredths, and the setting `rows` scales all tables.

mod load;
mod tables;
mod transactions;

use rand::Rng;

use super::state::{Finding, ProgramState, Scale};
use crate::records::{Field, Found, Query, Records};
use crate::seed::Stream;

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
/// Of a stock record, the largest part.
pub(super) const ROW_BYTES: u64 = 320;
/// Districts of a warehouse.
const DISTRICTS: i64 = 10;
/// Counter of committed orders.
const ORDERS: usize = 0;
/// Counter of their lines.
const LINES: usize = 1;
/// Counter of committed payments.
const PAYMENTS: usize = 2;
/// Counter of the money of payments.
const PAID: usize = 3;
/// Counter of delivered orders.
const DELIVERED: usize = 4;

/// How much of everything there is.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    warehouses: i64,
    items: i64,
    customers: i64,
}

impl Sizes {
    /// `tables` warehouses with `rows` items; 100,000 items go with 3,000 customers and orders in
    /// each district, as the specification has it.
    fn of(scale: Scale) -> Self {
        let items = i64::try_from(scale.rows).unwrap_or(i64::MAX).max(100);
        Self {
            warehouses: i64::from(scale.tables.max(1)),
            items,
            customers: (items * 3 / 100).clamp(10, 3_000),
        }
    }

    /// Orders of each district at the beginning that are delivered; the others are not.
    fn delivered(self) -> i64 {
        self.customers * 7 / 10
    }
}

/// The specification's skewed number between two others, both included.
fn skewed(random: &mut Stream, most: i64, from: i64, to: i64) -> i64 {
    let constant = most / 3;
    let drawn = random.random_range(0..=most) | random.random_range(from..=to);
    (drawn + constant) % (to - from + 1) + from
}

/// The last name of a number up to 999.
fn last_name(number: i64) -> String {
    const PARTS: [&str; 10] = [
        "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
    ];
    let part = |digit: i64| PARTS.get(usize::try_from(digit % 10).unwrap_or(0)).copied();
    [number / 100, number / 10, number]
        .into_iter()
        .filter_map(part)
        .collect()
}

/// Numbers that hold of a district.
async fn check_district<R: Records>(
    records: &mut R,
    (warehouse, district): (i64, i64),
    out: &mut [i64; 4],
) -> Found<()> {
    let key = [("d_w_id", warehouse.into()), ("d_id", district.into())];
    let next = records
        .one(Query::of(&tables::DISTRICT, &key))
        .await?
        .int("d_next_o_id");
    let orders = [
        ("o_w_id", Field::Int(warehouse)),
        ("o_d_id", district.into()),
    ];
    let last = Query::of(&tables::ORDERS, &orders).ordered("o_id", true, 1);
    let last = records.one(last).await?.int("o_id");
    out[0] += i64::from(next != last + 1);
    let new = [
        ("no_w_id", Field::Int(warehouse)),
        ("no_d_id", district.into()),
    ];
    let ends = |down| Query::of(&tables::NEW_ORDER, &new).ordered("no_o_id", down, 1);
    let (high, low) = (
        records.many(ends(true)).await?,
        records.many(ends(false)).await?,
    );
    let (count, _) = records
        .count_and_sum(&tables::NEW_ORDER, &new, "no_o_id")
        .await?;
    if let (Some(high), Some(low)) = (high.first(), low.first()) {
        let (high, low) = (high.int("no_o_id"), low.int("no_o_id"));
        out[1] += i64::from(high - low + 1 != count);
        out[0] += i64::from(high != last);
    }
    let (_, lines) = records
        .count_and_sum(&tables::ORDERS, &orders, "o_ol_cnt")
        .await?;
    let found = if records.embeds() {
        let mut found = 0;
        let mut see = |order: crate::records::Record| found += order.list("lines").len() as i64;
        records
            .scan(Query::of(&tables::ORDERS, &orders), &mut see)
            .await?;
        found
    } else {
        let key = [
            ("ol_w_id", Field::Int(warehouse)),
            ("ol_d_id", district.into()),
        ];
        records
            .count_and_sum(&tables::ORDER_LINE, &key, "ol_number")
            .await?
            .0
    };
    out[2] += i64::from(lines != found);
    out[3] += found;
    Ok(())
}

pub(super) async fn check<R: Records>(
    state: &ProgramState,
    records: &mut R,
) -> Found<Vec<Finding>> {
    let sizes = Sizes::of(state.scale);
    let mut wrong = [0; 4];
    let mut wrong_money = 0;
    for warehouse in 1..=sizes.warehouses {
        let key = [("w_id", Field::Int(warehouse))];
        let own = records
            .one(Query::of(&tables::WAREHOUSE, &key))
            .await?
            .int("w_ytd");
        let of_districts = [("d_w_id", Field::Int(warehouse))];
        let (_, paid) = records
            .count_and_sum(&tables::DISTRICT, &of_districts, "d_ytd")
            .await?;
        wrong_money += i64::from(own != paid);
        for district in 1..=DISTRICTS {
            check_district(records, (warehouse, district), &mut wrong).await?;
        }
    }
    let initial = sizes.warehouses * DISTRICTS * sizes.customers;
    let unknown = state.unknown();
    let grown = |name: &str, initial: i64, counter: usize, each: i64, found: i64| {
        let low = initial + state.counted(counter);
        Finding::within(name, (low, low.saturating_add(unknown * each)), found)
    };
    let (orders, _) = records.count_and_sum(&tables::ORDERS, &[], "o_id").await?;
    let (payments, money) = records
        .count_and_sum(&tables::HISTORY, &[], "h_amount")
        .await?;
    let (waiting, _) = records
        .count_and_sum(&tables::NEW_ORDER, &[], "no_o_id")
        .await?;
    let (_, paid) = records
        .count_and_sum(&tables::WAREHOUSE, &[], "w_ytd")
        .await?;
    let initial_paid = initial * load::FIRST_PAYMENT;
    let undelivered = sizes.warehouses * DISTRICTS * (sizes.customers - sizes.delivered());
    let left = undelivered + state.counted(ORDERS) - state.counted(DELIVERED);
    let lines = state.counted(LINES);
    let mut all_orders = grown("orders", initial, ORDERS, 1, orders);
    all_orders.remark = format!(
        "{} transactions were begun again after a conflict",
        state.again()
    );
    Ok(vec![
        all_orders,
        grown("payments", initial, PAYMENTS, 1, payments),
        grown("money of payments", initial_paid, PAID, 500_000, money),
        grown("money of warehouses", initial_paid, PAID, 500_000, paid),
        Finding::within(
            "orders that wait for delivery",
            (left - unknown * DISTRICTS, left + unknown),
            waiting,
        ),
        Finding::within(
            "lines of orders since the load",
            (lines, lines + unknown * 15),
            wrong[3] - load::lines(state.scale),
        ),
        Finding::equal(
            "warehouses whose districts have other money",
            0,
            wrong_money,
        ),
        Finding::equal(
            "districts whose last order is not the one before the next",
            0,
            wrong[0],
        ),
        Finding::equal("districts with gaps among orders that wait", 0, wrong[1]),
        Finding::equal("districts with another number of lines", 0, wrong[2]),
    ])
}
