//! Checks the conditions of consistency, and that nothing committed is missing.

use super::sizes::{DELIVERED, DISTRICTS, LINES, ORDERS, PAID, PAYMENTS, Sizes};
use super::transactions::District;
use super::{load, tables};
use crate::program::state::{Finding, ProgramState};
use crate::records::{Field, Outcome, Query, Records};

/// Checks the numbers of a district.
async fn check_district<R: Records>(
    records: &mut R,
    district: District,
    out: &mut [i64; 4],
) -> Outcome<()> {
    let key = [
        ("d_w_id", district.warehouse.into()),
        ("d_id", district.number.into()),
    ];
    let next = records
        .one(Query::of(&tables::DISTRICT, &key))
        .await?
        .int("d_next_o_id");
    let orders = [
        ("o_w_id", Field::Int(district.warehouse)),
        ("o_d_id", district.number.into()),
    ];
    let last = Query::of(&tables::ORDERS, &orders).order_by("o_id", true, 1);
    let last = records.one(last).await?.int("o_id");
    out[0] += i64::from(next != last + 1);
    let new = [
        ("no_w_id", Field::Int(district.warehouse)),
        ("no_d_id", district.number.into()),
    ];
    let ends = |down| Query::of(&tables::NEW_ORDER, &new).order_by("no_o_id", down, 1);
    let (high, low) = (
        records.find_many(ends(true)).await?,
        records.find_many(ends(false)).await?,
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
            ("ol_w_id", Field::Int(district.warehouse)),
            ("ol_d_id", district.number.into()),
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

pub(in crate::program) async fn check<R: Records>(
    state: &ProgramState,
    records: &mut R,
) -> Outcome<Vec<Finding>> {
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
        for number in 1..=DISTRICTS {
            let district = District { warehouse, number };
            check_district(records, district, &mut wrong).await?;
        }
    }
    let initial = sizes.warehouses * DISTRICTS * sizes.customers;
    let unknown = state.unknown();
    let grown = |name: &str, initial: i64, counter: usize, each: i64, found: i64| {
        let low = initial + state.counter(counter);
        Finding::in_range(name, low..=low.saturating_add(unknown * each), found)
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
    let undelivered = sizes.warehouses * DISTRICTS * (sizes.customers - sizes.delivered_orders());
    let left = undelivered + state.counter(ORDERS) - state.counter(DELIVERED);
    let lines = state.counter(LINES);
    let mut all_orders = grown("orders", initial, ORDERS, 1, orders);
    all_orders.remark = format!(
        "{} transactions were begun again after a conflict",
        state.repeat_count()
    );
    Ok(vec![
        all_orders,
        grown("payments", initial, PAYMENTS, 1, payments),
        grown("money of payments", initial_paid, PAID, 500_000, money),
        grown("money of warehouses", initial_paid, PAID, 500_000, paid),
        Finding::in_range(
            "orders that wait for delivery",
            left - unknown * DISTRICTS..=left + unknown,
            waiting,
        ),
        Finding::in_range(
            "lines of orders since the load",
            lines..=lines + unknown * 15,
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
