//! The initial data: items, and for each warehouse its stock, districts, customers and orders.

use rand::Rng;
use rand::seq::SliceRandom;

use super::sizes::{DISTRICTS, Sizes, draw_skewed, last_name};
use super::tables;
use super::transactions::{District, flat_line};
use crate::program::state::{ProgramState, Scale};
use crate::records::{Field, Outcome, Record, Records};
use crate::seed::{self, Stream};
use crate::text::random_text;

/// The initial payment of each customer, in hundredths.
pub(super) const FIRST_PAYMENT: i64 = 1_000;
/// Items, or stock records, in one piece of the load.
const PIECE: i64 = 1_000;
/// Records of one statement.
const CHUNK: usize = 500;

/// A piece of the load.
enum Piece {
    Items(i64),
    Stock(i64, i64),
    Warehouse(i64),
    District(i64, i64),
}

pub(in crate::program) fn pieces(scale: Scale) -> u64 {
    let sizes = Sizes::of(scale);
    let parts = (sizes.items + PIECE - 1) / PIECE;
    (parts + sizes.warehouses * (parts + 1 + DISTRICTS)).cast_unsigned()
}

fn piece(sizes: Sizes, number: u64) -> Piece {
    let parts = (sizes.items + PIECE - 1) / PIECE;
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    if number < parts {
        return Piece::Items(number);
    }
    let each = parts + 1 + DISTRICTS;
    let (warehouse, rest) = ((number - parts) / each + 1, (number - parts) % each);
    match rest {
        rest if rest < parts => Piece::Stock(warehouse, rest),
        rest if rest == parts => Piece::Warehouse(warehouse),
        rest => Piece::District(warehouse, rest - parts),
    }
}

/// The number of lines of an order of the load. It follows from the order's number, so that the
/// total is known.
fn line_count(order: i64) -> i64 {
    5 + seed::mix(order.cast_unsigned())
        .cast_signed()
        .rem_euclid(11)
}

/// The number of lines of all orders of the load.
pub(super) fn lines(scale: Scale) -> i64 {
    let sizes = Sizes::of(scale);
    let district: i64 = (1..=sizes.customers).map(line_count).sum();
    district * sizes.warehouses * DISTRICTS
}

pub(in crate::program) async fn load<R: Records>(
    state: &ProgramState,
    records: &mut R,
    number: u64,
) -> Outcome<u64> {
    let sizes = Sizes::of(state.scale);
    let thread = u32::try_from(number).unwrap_or(0);
    let mut random = seed::stream(state.scale.seed, "load", "tpcc", thread);
    let random = &mut random;
    let part = |part: i64| part * PIECE + 1..=((part + 1) * PIECE).min(sizes.items);
    match piece(sizes, number) {
        Piece::Items(number) => {
            let items: Vec<Record> = part(number).map(|id| item(random, id)).collect();
            insert_records(records, &tables::ITEM, &items).await
        }
        Piece::Stock(warehouse, number) => {
            let stock: Vec<Record> = part(number)
                .map(|id| stock(random, warehouse, id))
                .collect();
            insert_records(records, &tables::STOCK, &stock).await
        }
        Piece::Warehouse(id) => {
            let warehouse = Record(vec![
                ("w_id", id.into()),
                ("w_name", random_text(random, 10, 100).into()),
                ("w_address", random_text(random, 71, 100).into()),
                ("w_tax", random.random_range(0..=20).into()),
                (
                    "w_ytd",
                    (FIRST_PAYMENT * DISTRICTS * sizes.customers).into(),
                ),
            ]);
            insert_records(records, &tables::WAREHOUSE, &[warehouse]).await
        }
        Piece::District(warehouse, district) => {
            let district = District {
                warehouse,
                number: district,
            };
            store_district(records, random, sizes, district).await
        }
    }
}

async fn insert_records<R: Records>(
    records: &mut R,
    table: &'static crate::records::RecordTable,
    all: &[Record],
) -> Outcome<u64> {
    for chunk in all.chunks(CHUNK) {
        records.insert(table, chunk).await?;
    }
    Ok(all.len() as u64)
}

fn item(random: &mut Stream, id: i64) -> Record {
    Record(vec![
        ("i_id", id.into()),
        ("i_im_id", random.random_range(1..=10_000).into()),
        ("i_name", random_text(random, 20, 100).into()),
        ("i_price", random.random_range(100..=10_000).into()),
        ("i_data", random_text(random, 40, 100).into()),
    ])
}

fn stock(random: &mut Stream, warehouse: i64, id: i64) -> Record {
    Record(vec![
        ("s_w_id", warehouse.into()),
        ("s_i_id", id.into()),
        ("s_quantity", random.random_range(10..=100).into()),
        ("s_dist", random_text(random, 240, 100).into()),
        ("s_ytd", 0.into()),
        ("s_order_cnt", 0.into()),
        ("s_remote_cnt", 0.into()),
        ("s_data", random_text(random, 40, 100).into()),
    ])
}

async fn store_district<R: Records>(
    records: &mut R,
    random: &mut Stream,
    sizes: Sizes,
    district: District,
) -> Outcome<u64> {
    let District { warehouse, number } = district;
    let own = Record(vec![
        ("d_w_id", warehouse.into()),
        ("d_id", number.into()),
        ("d_name", random_text(random, 10, 100).into()),
        ("d_address", random_text(random, 71, 100).into()),
        ("d_tax", random.random_range(0..=20).into()),
        ("d_ytd", (FIRST_PAYMENT * sizes.customers).into()),
        ("d_next_o_id", (sizes.customers + 1).into()),
    ]);
    let mut total = insert_records(records, &tables::DISTRICT, &[own]).await?;
    let (mut customers, mut history) = (Vec::new(), Vec::new());
    for id in 1..=sizes.customers {
        customers.push(customer(random, district, id));
        history.push(Record(vec![
            ("h_id", first_payment_id(sizes, district, id).into()),
            ("h_c_w_id", warehouse.into()),
            ("h_c_d_id", number.into()),
            ("h_c_id", id.into()),
            ("h_w_id", warehouse.into()),
            ("h_d_id", number.into()),
            ("h_date", 0.into()),
            ("h_amount", FIRST_PAYMENT.into()),
            ("h_data", random_text(random, 24, 100).into()),
        ]));
    }
    total += insert_records(records, &tables::CUSTOMER, &customers).await?;
    total += insert_records(records, &tables::HISTORY, &history).await?;
    total += store_orders(records, random, sizes, district).await?;
    Ok(total)
}

/// Ids of the load are negative, so that they differ from the ids of payments.
fn first_payment_id(sizes: Sizes, district: District, customer: i64) -> i64 {
    -((district.warehouse * DISTRICTS + district.number) * sizes.customers + customer)
}

fn customer(random: &mut Stream, district: District, id: i64) -> Record {
    let name = if id <= 1_000 {
        id - 1
    } else {
        draw_skewed(random, 255, 0, 999)
    };
    let credit = if random.random_range(0..10) == 0 {
        "BC"
    } else {
        "GC"
    };
    Record(vec![
        ("c_w_id", district.warehouse.into()),
        ("c_d_id", district.number.into()),
        ("c_id", id.into()),
        ("c_first", random_text(random, 12, 100).into()),
        ("c_last", last_name(name).into()),
        ("c_address", random_text(random, 71, 100).into()),
        ("c_credit", credit.to_owned().into()),
        ("c_discount", random.random_range(0..=50).into()),
        ("c_balance", (-FIRST_PAYMENT).into()),
        ("c_ytd_payment", FIRST_PAYMENT.into()),
        ("c_payment_cnt", 1.into()),
        ("c_delivery_cnt", 0.into()),
        ("c_data", random_text(random, 400, 100).into()),
    ])
}

async fn store_orders<R: Records>(
    records: &mut R,
    random: &mut Stream,
    sizes: Sizes,
    district: District,
) -> Outcome<u64> {
    let District { warehouse, number } = district;
    let mut buyers: Vec<i64> = (1..=sizes.customers).collect();
    buyers.shuffle(random);
    let (mut orders, mut new, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for (id, buyer) in (1..).zip(buyers) {
        let is_delivered = id <= sizes.delivered_orders();
        let when = if is_delivered {
            Field::Int(0)
        } else {
            Field::Null
        };
        let own: Vec<Record> = (1..=line_count(id))
            .map(|_| {
                let amount = if is_delivered {
                    0
                } else {
                    random.random_range(1..=999_999)
                };
                Record(vec![
                    ("ol_i_id", random.random_range(1..=sizes.items).into()),
                    ("ol_supply_w_id", warehouse.into()),
                    ("ol_quantity", 5.into()),
                    ("ol_amount", amount.into()),
                    ("ol_dist_info", random_text(random, 24, 100).into()),
                ])
            })
            .collect();
        let carrier = if is_delivered {
            Field::Int(random.random_range(1..=10))
        } else {
            Field::Null
        };
        let mut order = vec![
            ("o_w_id", warehouse.into()),
            ("o_d_id", number.into()),
            ("o_id", id.into()),
            ("o_c_id", buyer.into()),
            ("o_entry_d", 0.into()),
            ("o_carrier_id", carrier),
            ("o_ol_cnt", line_count(id).into()),
            ("o_all_local", 1.into()),
            ("delivery_d", when.clone()),
        ];
        if records.embeds() {
            order.push(("lines", Field::List(own)));
        } else {
            lines.extend(
                (1..)
                    .zip(own)
                    .map(|(number, line)| flat_line(district, id, number, when.clone(), line)),
            );
        }
        orders.push(Record(order));
        if !is_delivered {
            new.push(Record(vec![
                ("no_w_id", warehouse.into()),
                ("no_d_id", number.into()),
                ("no_o_id", id.into()),
            ]));
        }
    }
    let mut total = insert_records(records, &tables::ORDERS, &orders).await?;
    total += insert_records(records, &tables::NEW_ORDER, &new).await?;
    total += insert_records(records, &tables::ORDER_LINE, &lines).await?;
    Ok(total)
}
