//! The five transactions.

use rand::Rng;

use super::sizes::{
    DELIVERED, DISTRICTS, LINES, ORDERS as ORDERS_DONE, PAID, PAYMENTS, Sizes, draw_skewed,
    last_name,
};
use super::tables::{
    CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDER, ORDER_LINE, ORDERS, STOCK, WAREHOUSE,
};
use crate::program::state::{Effect, Scale};
use crate::records::{Field, Outcome, Query, Record, Records, RecordsError, Set};
use crate::seed::Stream;

/// A district of a warehouse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::program) struct District {
    pub(super) warehouse: i64,
    pub(super) number: i64,
}

/// A line of an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::program) struct Line {
    item: i64,
    /// The warehouse that supplies it.
    supplier: i64,
    quantity: i64,
}

/// A payment of a customer.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::program) struct Payment {
    district: District,
    /// The district of the customer.
    of: District,
    who: CustomerKey,
    amount: i64,
    id: i64,
}

/// A customer by number or by last name.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::program) enum CustomerKey {
    Id(i64),
    Name(String),
}

/// A procedure of a client, with all drawn values.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::program) enum Procedure {
    NewOrder {
        district: District,
        customer: i64,
        lines: Vec<Line>,
        /// The last item does not exist, so the order is aborted.
        is_wrong: bool,
    },
    Payment(Payment),
    OrderStatus {
        district: District,
        who: CustomerKey,
    },
    Delivery {
        warehouse: i64,
        carrier: i64,
    },
    StockLevel {
        district: District,
        threshold: i64,
    },
}

pub(in crate::program) fn draw(scale: Scale, name: &str, random: &mut Stream) -> Procedure {
    let sizes = Sizes::of(scale);
    let warehouse = random.random_range(1..=sizes.warehouses);
    let district = District {
        warehouse,
        number: random.random_range(1..=DISTRICTS),
    };
    match name {
        "new-order" => new_order(sizes, random, district),
        "payment" => {
            let is_remote = sizes.warehouses > 1 && random.random_range(0..100) < 15;
            let of = if is_remote {
                District {
                    warehouse: other(sizes, random, warehouse),
                    number: random.random_range(1..=DISTRICTS),
                }
            } else {
                district
            };
            Procedure::Payment(Payment {
                district,
                of,
                who: draw_customer(sizes, random),
                amount: random.random_range(100..=500_000),
                id: random.random_range(1..=i64::MAX),
            })
        }
        "order-status" => Procedure::OrderStatus {
            district,
            who: draw_customer(sizes, random),
        },
        "delivery" => Procedure::Delivery {
            warehouse,
            carrier: random.random_range(1..=10),
        },
        _ => Procedure::StockLevel {
            district,
            threshold: random.random_range(10..=20),
        },
    }
}

fn new_order(sizes: Sizes, random: &mut Stream, district: District) -> Procedure {
    let mut lines: Vec<Line> = (0..random.random_range(5..=15))
        .map(|_| {
            let is_remote = sizes.warehouses > 1 && random.random_range(0..100) == 0;
            let supplier = if is_remote {
                other(sizes, random, district.warehouse)
            } else {
                district.warehouse
            };
            let item = draw_skewed(random, 8_191, 1, sizes.items);
            Line {
                item,
                supplier,
                quantity: random.random_range(1..=10),
            }
        })
        .collect();
    // Sorted, so that two orders cannot deadlock, and without duplicates, so that each line changes
    // a different stock record.
    lines.sort_unstable();
    lines.dedup_by_key(|line| (line.item, line.supplier));
    Procedure::NewOrder {
        district,
        customer: draw_skewed(random, 1_023, 1, sizes.customers),
        lines,
        is_wrong: random.random_range(0..100) == 0,
    }
}

fn other(sizes: Sizes, random: &mut Stream, warehouse: i64) -> i64 {
    let drawn = random.random_range(1..sizes.warehouses);
    if drawn < warehouse { drawn } else { drawn + 1 }
}

/// Draws a customer: six of ten are found by name.
fn draw_customer(sizes: Sizes, random: &mut Stream) -> CustomerKey {
    if random.random_range(0..10) < 6 {
        let names = sizes.customers.min(1_000);
        CustomerKey::Name(last_name(draw_skewed(random, 255, 0, names - 1)))
    } else {
        CustomerKey::Id(draw_skewed(random, 1_023, 1, sizes.customers))
    }
}

impl Procedure {
    pub(in crate::program) async fn run<R: Records>(&self, records: &mut R) -> Outcome<Effect> {
        match self {
            Self::NewOrder {
                district,
                customer,
                lines,
                is_wrong,
            } => order(records, *district, *customer, lines, *is_wrong).await,
            Self::Payment(payment) => pay(records, payment).await,
            Self::OrderStatus { district, who } => status(records, *district, who).await,
            Self::Delivery { warehouse, carrier } => deliver(records, *warehouse, *carrier).await,
            Self::StockLevel {
                district,
                threshold,
            } => level(records, *district, *threshold).await,
        }
    }
}

fn of_warehouse(id: i64) -> [(&'static str, Field); 1] {
    [("w_id", id.into())]
}

fn of_district(district: District) -> [(&'static str, Field); 2] {
    [
        ("d_w_id", district.warehouse.into()),
        ("d_id", district.number.into()),
    ]
}

fn of_customer(district: District, id: i64) -> [(&'static str, Field); 3] {
    [
        ("c_w_id", district.warehouse.into()),
        ("c_d_id", district.number.into()),
        ("c_id", id.into()),
    ]
}

fn of_order(district: District, id: i64) -> [(&'static str, Field); 3] {
    [
        ("o_w_id", district.warehouse.into()),
        ("o_d_id", district.number.into()),
        ("o_id", id.into()),
    ]
}

fn of_new_order(district: District, id: i64) -> [(&'static str, Field); 3] {
    [
        ("no_w_id", district.warehouse.into()),
        ("no_d_id", district.number.into()),
        ("no_o_id", id.into()),
    ]
}

/// An order line as a record of a separate table.
pub(super) fn flat_line(
    district: District,
    order: i64,
    number: i64,
    delivered: Field,
    line: Record,
) -> Record {
    let mut out = vec![
        ("ol_w_id", district.warehouse.into()),
        ("ol_d_id", district.number.into()),
        ("ol_o_id", order.into()),
        ("ol_number", number.into()),
        ("ol_delivery_d", delivered),
    ];
    out.extend(line.0);
    Record(out)
}

fn now() -> Field {
    Field::Int(jiff::Timestamp::now().as_millisecond())
}

async fn order<R: Records>(
    records: &mut R,
    district: District,
    customer: i64,
    lines: &[Line],
    is_wrong: bool,
) -> Outcome<Effect> {
    let key = of_district(district);
    // This comes before all reads, so that of two transactions the first one gets the number.
    records
        .change(&DISTRICT, &key, &[("d_next_o_id", Set::Add(1))])
        .await?;
    let id = records
        .one(Query::of(&DISTRICT, &key))
        .await?
        .int("d_next_o_id")
        - 1;
    records
        .one(Query::of(&WAREHOUSE, &of_warehouse(district.warehouse)))
        .await?;
    records
        .one(Query::of(&CUSTOMER, &of_customer(district, customer)))
        .await?;
    let mut drawn = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Line {
            item,
            supplier,
            quantity,
        } = line;
        let found = records
            .find_many(Query::of(&ITEM, &[("i_id", Field::Int(*item))]))
            .await?;
        let is_last = at + 1 == lines.len();
        let Some(price) = found.first().map(|item| item.int("i_price")) else {
            let message = format!("item {item} is not there");
            return Err(RecordsError::failure("item not found", message));
        };
        if is_wrong && is_last {
            return Ok(Effect {
                turned_back: true,
                ..Effect::default()
            });
        }
        let is_local = *supplier == district.warehouse;
        let text = take_stock(records, *supplier, *item, *quantity, is_local).await?;
        let from = usize::try_from((district.number - 1) * 24).unwrap_or(0);
        drawn.push(Record(vec![
            ("ol_i_id", (*item).into()),
            ("ol_supply_w_id", (*supplier).into()),
            ("ol_quantity", (*quantity).into()),
            ("ol_amount", (price * quantity).into()),
            (
                "ol_dist_info",
                text.get(from..from + 24).unwrap_or("").to_owned().into(),
            ),
        ]));
    }
    let is_local = lines.iter().all(|line| line.supplier == district.warehouse);
    let count = i64::try_from(drawn.len()).unwrap_or(0);
    store_order(records, district, id, customer, is_local, drawn).await?;
    Ok(Effect {
        rows: lines.len() as u64,
        counts: vec![(ORDERS_DONE, 1), (LINES, count)],
        turned_back: false,
    })
}

/// Stores a new order with its lines.
async fn store_order<R: Records>(
    records: &mut R,
    district: District,
    id: i64,
    customer: i64,
    is_local: bool,
    drawn: Vec<Record>,
) -> Outcome<()> {
    let count = i64::try_from(drawn.len()).unwrap_or(0);
    let mut order = of_order(district, id).to_vec();
    order.extend([
        ("o_c_id", customer.into()),
        ("o_entry_d", now()),
        ("o_carrier_id", Field::Null),
        ("o_ol_cnt", count.into()),
        ("o_all_local", i64::from(is_local).into()),
        ("delivery_d", Field::Null),
    ]);
    let (mut flat, embeds) = (Vec::new(), records.embeds());
    if embeds {
        order.push(("lines", Field::List(drawn)));
    } else {
        let line = |(number, line)| flat_line(district, id, number, Field::Null, line);
        flat.extend((1..).zip(drawn).map(line));
    }
    records.insert(&ORDERS, &[Record(order)]).await?;
    let new = Record(of_new_order(district, id).to_vec());
    records.insert(&NEW_ORDER, &[new]).await?;
    if !embeds {
        records.insert(&ORDER_LINE, &flat).await?;
    }
    Ok(())
}

/// Takes an amount from a stock, which is refilled when it runs low; returns the stock's texts for
/// the districts.
async fn take_stock<R: Records>(
    records: &mut R,
    warehouse: i64,
    item: i64,
    quantity: i64,
    is_local: bool,
) -> Outcome<String> {
    let key = [("s_w_id", Field::Int(warehouse)), ("s_i_id", item.into())];
    let stock = records.one(Query::of(&STOCK, &key).for_update()).await?;
    let left = stock.int("s_quantity") - quantity;
    let left = if left >= 10 { left } else { left + 91 };
    let changes = [
        ("s_quantity", Set::To(left.into())),
        ("s_ytd", Set::Add(quantity)),
        ("s_order_cnt", Set::Add(1)),
        ("s_remote_cnt", Set::Add(i64::from(!is_local))),
    ];
    records.change(&STOCK, &key, &changes).await?;
    Ok(stock.text("s_dist").to_owned())
}

/// Finds the customer; of several with the same name, the middle one by first name.
async fn find<R: Records>(records: &mut R, of: District, who: &CustomerKey) -> Outcome<Record> {
    match who {
        CustomerKey::Id(id) => {
            records
                .one(Query::of(&CUSTOMER, &of_customer(of, *id)))
                .await
        }
        CustomerKey::Name(name) => {
            let key = [
                ("c_w_id", Field::Int(of.warehouse)),
                ("c_d_id", of.number.into()),
                ("c_last", name.clone().into()),
            ];
            let all = Query::of(&CUSTOMER, &key).order_by("c_first", false, 0);
            let found = records.find_many(all).await?;
            let middle = found.len().saturating_sub(1) / 2;
            found.into_iter().nth(middle).ok_or_else(|| {
                RecordsError::failure("customer not found", format!("nobody is called {name}"))
            })
        }
    }
}

async fn pay<R: Records>(records: &mut R, payment: &Payment) -> Outcome<Effect> {
    let Payment {
        district,
        of,
        ref who,
        amount,
        id,
    } = *payment;
    let warehouse = of_warehouse(district.warehouse);
    records
        .change(&WAREHOUSE, &warehouse, &[("w_ytd", Set::Add(amount))])
        .await?;
    let place = records.one(Query::of(&WAREHOUSE, &warehouse)).await?;
    let key = of_district(district);
    records
        .change(&DISTRICT, &key, &[("d_ytd", Set::Add(amount))])
        .await?;
    let part = records.one(Query::of(&DISTRICT, &key)).await?;
    let customer = find(records, of, who).await?;
    let number = customer.int("c_id");
    let mut changes = vec![
        ("c_balance", Set::Add(-amount)),
        ("c_ytd_payment", Set::Add(amount)),
        ("c_payment_cnt", Set::Add(1)),
    ];
    if customer.text("c_credit") == "BC" {
        let mut data = format!(
            "{number} {} {} {} {} {amount} ",
            of.warehouse, of.number, district.warehouse, district.number
        );
        data.push_str(customer.text("c_data"));
        data.truncate(500);
        changes.push(("c_data", Set::To(data.into())));
    }
    records
        .change(&CUSTOMER, &of_customer(of, number), &changes)
        .await?;
    let words = format!("{}    {}", place.text("w_name"), part.text("d_name"));
    let history = Record(vec![
        ("h_id", id.into()),
        ("h_c_w_id", of.warehouse.into()),
        ("h_c_d_id", of.number.into()),
        ("h_c_id", number.into()),
        ("h_w_id", district.warehouse.into()),
        ("h_d_id", district.number.into()),
        ("h_date", now()),
        ("h_amount", amount.into()),
        ("h_data", words.into()),
    ]);
    records.insert(&HISTORY, &[history]).await?;
    Ok(Effect {
        rows: 3,
        counts: vec![(PAYMENTS, 1), (PAID, amount)],
        turned_back: false,
    })
}

async fn status<R: Records>(
    records: &mut R,
    district: District,
    who: &CustomerKey,
) -> Outcome<Effect> {
    let customer = find(records, district, who).await?;
    let key = [
        ("o_w_id", Field::Int(district.warehouse)),
        ("o_d_id", district.number.into()),
        ("o_c_id", customer.int("c_id").into()),
    ];
    let last = Query::of(&ORDERS, &key).order_by("o_id", true, 1);
    let order = records.one(last).await?;
    let lines = lines_of(records, district, &order).await?;
    if i64::try_from(lines.len()).ok() != Some(order.int("o_ol_cnt")) {
        let message = format!("order {} has {} lines", order.int("o_id"), lines.len());
        return Err(RecordsError::failure("wrong number of lines", message));
    }
    Ok(Effect {
        rows: 2 + lines.len() as u64,
        ..Effect::default()
    })
}

async fn lines_of<R: Records>(
    records: &mut R,
    district: District,
    order: &Record,
) -> Outcome<Vec<Record>> {
    if records.embeds() {
        return Ok(order.list("lines").to_vec());
    }
    let key = [
        ("ol_w_id", Field::Int(district.warehouse)),
        ("ol_d_id", district.number.into()),
        ("ol_o_id", order.int("o_id").into()),
    ];
    records.find_many(Query::of(&ORDER_LINE, &key)).await
}

/// Delivers the oldest open order of each district.
async fn deliver<R: Records>(records: &mut R, warehouse: i64, carrier: i64) -> Outcome<Effect> {
    let mut delivered: i64 = 0;
    for number in 1..=DISTRICTS {
        let district = District { warehouse, number };
        let waiting = [
            ("no_w_id", Field::Int(warehouse)),
            ("no_d_id", district.number.into()),
        ];
        let oldest = Query::of(&NEW_ORDER, &waiting)
            .order_by("no_o_id", false, 1)
            .for_update();
        let found = records.find_many(oldest).await?;
        let Some(id) = found.first().map(|new| new.int("no_o_id")) else {
            continue;
        };
        if records
            .delete(&NEW_ORDER, &of_new_order(district, id))
            .await?
            == 0
        {
            // Another delivery was faster; the target itself does not prevent this.
            return Err(RecordsError::Again(
                "the order was delivered meanwhile".to_owned(),
            ));
        }
        let key = of_order(district, id);
        let order = records.one(Query::of(&ORDERS, &key)).await?;
        let lines = lines_of(records, district, &order).await?;
        let amount: i64 = lines.iter().map(|line| line.int("ol_amount")).sum();
        let changes = [
            ("o_carrier_id", Set::To(carrier.into())),
            ("delivery_d", Set::To(now())),
        ];
        records.change(&ORDERS, &key, &changes).await?;
        if !records.embeds() {
            for line in &lines {
                let mut key = vec![
                    ("ol_w_id", Field::Int(warehouse)),
                    ("ol_d_id", district.number.into()),
                ];
                key.extend([
                    ("ol_o_id", id.into()),
                    ("ol_number", line.int("ol_number").into()),
                ]);
                let when = [("ol_delivery_d", Set::To(now()))];
                records.change(&ORDER_LINE, &key, &when).await?;
            }
        }
        let customer = of_customer(district, order.int("o_c_id"));
        let changes = [
            ("c_balance", Set::Add(amount)),
            ("c_delivery_cnt", Set::Add(1)),
        ];
        records.change(&CUSTOMER, &customer, &changes).await?;
        delivered += 1;
    }
    Ok(Effect {
        rows: delivered.cast_unsigned(),
        counts: vec![(DELIVERED, delivered)],
        turned_back: false,
    })
}

/// Counts the items of the last twenty orders whose stock is low.
async fn level<R: Records>(records: &mut R, district: District, threshold: i64) -> Outcome<Effect> {
    let key = of_district(district);
    let next = records
        .one(Query::of(&DISTRICT, &key))
        .await?
        .int("d_next_o_id");
    let orders = [
        ("o_w_id", Field::Int(district.warehouse)),
        ("o_d_id", district.number.into()),
    ];
    let lines: Vec<Record> = if records.embeds() {
        let last = Query::of(&ORDERS, &orders).where_between("o_id", next - 20, next - 1);
        let found = records.find_many(last).await?;
        found
            .iter()
            .flat_map(|order| order.list("lines").to_vec())
            .collect()
    } else {
        let key = [
            ("ol_w_id", Field::Int(district.warehouse)),
            ("ol_d_id", district.number.into()),
        ];
        let last = Query::of(&ORDER_LINE, &key).where_between("ol_o_id", next - 20, next - 1);
        records.find_many(last).await?
    };
    let mut items: Vec<i64> = lines.iter().map(|line| line.int("ol_i_id")).collect();
    items.sort_unstable();
    items.dedup();
    let mut low = 0;
    for item in items {
        let key = [
            ("s_w_id", Field::Int(district.warehouse)),
            ("s_i_id", item.into()),
        ];
        let stock = records.one(Query::of(&STOCK, &key)).await?;
        low += u64::from(stock.int("s_quantity") < threshold);
    }
    Ok(Effect {
        rows: low,
        ..Effect::default()
    })
}
