//! Rows of a workload as plain values, before a target encodes them.
//!
//! Promises: the same seed and number give the same row in every version. Must not know: how a
//! target stores it.

pub mod contents;
mod table;

use std::fmt;

use rand::Rng;
use serde::{Deserialize, Serialize};

use crate::documents::{Purchase, SysbenchRow};
use crate::program::Program;
use crate::records::RecordTable;
use crate::seed::{Stream, mix};
use crate::template::{Shape, Tree};
use crate::text::{push_noise, random_text};

pub use table::Table;

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// 32 bits.
    Int(i32),
    /// 64 bits.
    Long(i64),
    /// A binary fraction.
    Double(f64),
    /// Milliseconds since 1970.
    Date(i64),
    /// Text.
    Text(String),
    /// A value of any shape; only in documents of workload files.
    Tree(Tree),
}

/// The id of a row within its table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A number.
    Number(i64),
    /// Text.
    Text(String),
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(out),
            Self::Text(text) => text.fmt(out),
        }
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The id; `None` if the target makes it.
    pub id: Option<Key>,
    /// Name and value, always in the same order for one kind.
    pub fields: Vec<(&'static str, Value)>,
}

impl Row {
    /// Bytes of keys and values, without names: the divisor of write and space amplification.
    pub fn logical_bytes(&self) -> u64 {
        let id = match &self.id {
            Some(Key::Text(text)) => text.len(),
            _ => 8,
        };
        let fields: usize = self
            .fields
            .iter()
            .map(|(_, value)| match value {
                Value::Int(_) => 4,
                Value::Text(text) => text.len(),
                Value::Tree(tree) => tree.logical_bytes(),
                _ => 8,
            })
            .sum();
        (id + fields) as u64
    }

    /// The counter field `k`, if the kind has one.
    pub fn k(&self) -> Option<i32> {
        self.fields.iter().find_map(|(name, value)| match value {
            Value::Int(k) | Value::Tree(Tree::Int(k)) if *name == "k" => Some(*k),
            _ => None,
        })
    }
}

/// The type of a field, for targets that need it before the first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// [`Value::Int`].
    Int,
    /// [`Value::Long`].
    Long,
    /// [`Value::Double`].
    Double,
    /// [`Value::Date`].
    Date,
    /// [`Value::Text`] of at most this many bytes; 0 stands for the payload of the settings.
    Text(u32),
}

/// The row generators.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentKind {
    /// Modern insert benchmark: [`Purchase`].
    Purchase,
    /// Classic insert benchmark: the price follows the customer, and a pad of the payload's size.
    PurchaseClassic,
    /// [`SysbenchRow`].
    Sysbench,
    /// `ForestDB` benchmark: hashed keys of about 32 letters, bodies of about 512 bytes, half of
    /// them random.
    Keyed,
    /// `db_bench`: keys of 16 digits, one value of the payload's size, half of it random.
    Numbered,
    /// YCSB: ten fields of 100 bytes under a hashed key.
    Ycsb,
    /// Probes: a number, a counter and a pad of the payload's size.
    #[default]
    Small,
    /// Tables of [`Program::Trx`].
    Trx,
    /// Tables of [`Program::Tpcc`].
    Tpcc,
    /// Tables of [`Program::Linkbench`].
    Linkbench,
    /// Documents of a workload file.
    #[serde(skip)]
    Custom(Shape),
    /// A table of a program.
    #[serde(skip)]
    Records(&'static RecordTable),
}

const SMALL: &[(&str, FieldType)] = &[
    ("n", FieldType::Long),
    ("k", FieldType::Int),
    ("pad", FieldType::Text(0)),
];
const YCSB_FIELDS: [&str; 10] = [
    "field0", "field1", "field2", "field3", "field4", "field5", "field6", "field7", "field8",
    "field9",
];

impl DocumentKind {
    /// Fields without the id, in order.
    pub fn fields(self) -> Vec<(&'static str, FieldType)> {
        use FieldType::{Date, Double, Int, Long, Text};
        match self {
            Self::Purchase => vec![
                ("dateandtime", Date),
                ("cashregisterid", Int),
                ("customerid", Int),
                ("product", Int),
                ("price", Int),
                ("data", Text(20)),
            ],
            Self::PurchaseClassic => vec![
                ("dateandtime", Long),
                ("cashregisterid", Int),
                ("customerid", Int),
                ("productid", Int),
                ("price", Double),
                ("cf1", Text(0)),
            ],
            Self::Sysbench => vec![("k", Int), ("c", Text(119)), ("pad", Text(59))],
            Self::Keyed => vec![("body", Text(1_024))],
            Self::Numbered => vec![("value", Text(0))],
            Self::Ycsb => YCSB_FIELDS.iter().map(|name| (*name, Text(100))).collect(),
            Self::Small => SMALL.to_vec(),
            // Targets with columns do not take documents of workload files; programs define their
            // own tables.
            Self::Custom(_) | Self::Trx | Self::Tpcc | Self::Linkbench | Self::Records(_) => {
                Vec::new()
            }
        }
    }

    /// The program that makes the records of this kind, if there is one.
    pub fn program(self) -> Option<Program> {
        match self {
            Self::Trx => Some(Program::Trx),
            Self::Tpcc => Some(Program::Tpcc),
            Self::Linkbench => Some(Program::Linkbench),
            _ => None,
        }
    }

    /// Whether keys are text; otherwise they are numbers from 1.
    pub fn has_text_keys(self) -> bool {
        matches!(self, Self::Keyed | Self::Numbered | Self::Ycsb)
    }

    /// The key of row `number`, counted from 1.
    pub fn key(self, number: u64) -> Key {
        match self {
            Self::Keyed => Key::Text(hashed_key(number)),
            Self::Numbered => Key::Text(format!("{number:016}")),
            Self::Ycsb => Key::Text(format!("user{:020}", mix(number))),
            _ => Key::Number(i64::try_from(number).unwrap_or(i64::MAX)),
        }
    }

    /// The field that a `$set` update replaces, with a new value.
    pub fn fresh_field(self, random: &mut Stream, payload: u32) -> (&'static str, Value) {
        match self {
            Self::Purchase => ("data", text(random, 20, 50)),
            Self::PurchaseClassic => ("cf1", text(random, payload, 50)),
            Self::Sysbench => ("c", Value::Text(SysbenchRow::draw(random, 1).c)),
            Self::Keyed => ("body", Value::Text(body(random, "", 0))),
            Self::Numbered => ("value", text(random, payload, 50)),
            Self::Ycsb => {
                let field = random.random_range(0..YCSB_FIELDS.len());
                (
                    YCSB_FIELDS.get(field).copied().unwrap_or("field0"),
                    text(random, 100, 100),
                )
            }
            // Programs change their records themselves.
            Self::Small | Self::Trx | Self::Tpcc | Self::Linkbench | Self::Records(_) => {
                ("pad", text(random, payload, 50))
            }
            Self::Custom(shape) => {
                let field = random.random_range(0..shape.fields().len().max(1));
                let drawn = shape.draw(random, 1, 1, 0).into_iter().nth(field);
                drawn.map_or(("field", Value::Int(0)), |(name, value)| {
                    (name, Value::Tree(value))
                })
            }
        }
    }

    /// Draws row `number` of a table that will hold `rows`, without its id.
    pub fn draw(
        self,
        random: &mut Stream,
        number: u64,
        rows: u64,
        payload: u32,
        now_ms: i64,
    ) -> Vec<(&'static str, Value)> {
        match self {
            Self::Purchase => {
                let row = Purchase::draw(random);
                vec![
                    ("dateandtime", Value::Date(now_ms)),
                    ("cashregisterid", Value::Int(row.cashregisterid)),
                    ("customerid", Value::Int(row.customerid)),
                    ("product", Value::Int(row.product)),
                    ("price", Value::Int(row.price)),
                    ("data", Value::Text(row.data)),
                ]
            }
            Self::PurchaseClassic => {
                let customer = random.random_range(0..100_000);
                let price = (random.random::<f64>() * 500.0 + f64::from(customer)) / 100.0;
                let mut out = vec![
                    ("dateandtime", Value::Long(now_ms)),
                    ("cashregisterid", Value::Int(random.random_range(0..1_000))),
                    ("customerid", Value::Int(customer)),
                    ("productid", Value::Int(random.random_range(0..10_000))),
                    ("price", Value::Double(price)),
                ];
                if payload > 0 {
                    out.push(("cf1", text(random, payload, 50)));
                }
                out
            }
            Self::Sysbench => {
                let row = SysbenchRow::draw(random, rows);
                vec![
                    ("k", Value::Int(row.k)),
                    ("c", Value::Text(row.c)),
                    ("pad", Value::Text(row.pad)),
                ]
            }
            Self::Keyed => {
                let key = hashed_key(number);
                vec![("body", Value::Text(body(random, &key, number)))]
            }
            Self::Numbered => vec![("value", text(random, payload, 50))],
            Self::Ycsb => YCSB_FIELDS
                .iter()
                .map(|name| (*name, text(random, 100, 100)))
                .collect(),
            Self::Small => vec![
                ("n", Value::Long(i64::try_from(number).unwrap_or(i64::MAX))),
                ("k", Value::Int(0)),
                ("pad", text(random, payload, 50)),
            ],
            Self::Custom(shape) => shape
                .draw(random, number, rows, now_ms)
                .into_iter()
                .map(|(name, value)| (name, Value::Tree(value)))
                .collect(),
            // Programs make their records themselves.
            Self::Trx | Self::Tpcc | Self::Linkbench | Self::Records(_) => Vec::new(),
        }
    }
}

/// Text of `length` bytes: `random_percent` of it are random characters, and the rest repeats one
/// randomly drawn letter.
fn text(random: &mut Stream, length: u32, random_percent: u32) -> Value {
    Value::Text(random_text(random, length, random_percent))
}

/// A key of letters, digits and underscores from a hash of the number; its length is normal(32, 2).
/// The key ends with the number itself, so that no two keys are equal.
fn hashed_key(number: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_z";
    let mut state = mix(number);
    // The sum of eight bytes is close enough to a normal distribution.
    let sum: u64 = state
        .to_le_bytes()
        .iter()
        .map(|byte| u64::from(*byte))
        .sum();
    let length = (32 + (sum as i64 - 1_020) / 104).clamp(26, 38) as usize;
    let tail = format!("_{number:x}");
    let mut out = String::with_capacity(length + tail.len());
    let mut bits = 0;
    while out.len() + tail.len() < length {
        if bits == 0 {
            state = mix(state);
            bits = 10;
        }
        bits -= 1;
        let letter = LETTERS.get((state >> (bits * 6)) as usize & 63).copied();
        out.push(char::from(letter.unwrap_or(b'a')));
    }
    out + &tail
}

/// A body of normal(512, 32) bytes, rounded to a multiple of eight: a header, half random
/// characters, the rest one repeated letter, an end mark.
fn body(random: &mut Stream, key: &str, number: u64) -> String {
    let spread: f64 = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    let length = ((512.0 + 32.0 * spread) as usize).clamp(256, 1_000) / 8 * 8;
    let mut out = format!("<{number} {key}>");
    let noise = (length / 2).saturating_sub(out.len());
    push_noise(&mut out, random, noise);
    let rest = length.saturating_sub(out.len() + 5);
    out.extend(std::iter::repeat_n('x', rest));
    out.push_str("<end>");
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::seed::stream;

    const KINDS: [DocumentKind; 7] = [
        DocumentKind::Purchase,
        DocumentKind::PurchaseClassic,
        DocumentKind::Sysbench,
        DocumentKind::Keyed,
        DocumentKind::Numbered,
        DocumentKind::Ycsb,
        DocumentKind::Small,
    ];

    #[test]
    fn rows_have_the_fields_that_their_kind_declares() {
        for kind in KINDS {
            let mut random = stream(1, "load", "insert", 0);
            let row = kind.draw(&mut random, 7, 100, 24, 0);
            for ((name, value), (declared, of_type)) in row.iter().zip(kind.fields()) {
                assert_eq!(*name, declared, "{kind:?}");
                let fits = match (value, of_type) {
                    (Value::Int(_), FieldType::Int)
                    | (Value::Long(_), FieldType::Long)
                    | (Value::Double(_), FieldType::Double)
                    | (Value::Date(_), FieldType::Date) => true,
                    (Value::Text(text), FieldType::Text(0)) => text.len() == 24,
                    (Value::Text(text), FieldType::Text(limit)) => text.len() <= limit as usize,
                    _ => false,
                };
                assert!(fits, "{kind:?} {name}: {value:?} is no {of_type:?}");
            }
            assert_eq!(row.len(), kind.fields().len(), "{kind:?}");
        }
    }

    #[test]
    fn keys_are_unique_and_have_their_published_shape() {
        let keys: HashSet<Key> = (1..50_000).map(|n| DocumentKind::Keyed.key(n)).collect();
        assert_eq!(keys.len(), 49_999);
        let lengths: Vec<usize> = (1..50_000)
            .map(|n| DocumentKind::Keyed.key(n).to_string().len())
            .collect();
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((31.5..32.5).contains(&mean), "{mean}");
        assert_eq!(
            DocumentKind::Numbered.key(42).to_string(),
            "0000000000000042"
        );
    }

    #[test]
    fn bodies_average_512_bytes_and_the_classic_price_follows_the_customer() {
        let mut random = stream(2, "load", "insert", 0);
        let total: usize = (0..2_000).map(|n| body(&mut random, "key", n).len()).sum();
        assert!((505..519).contains(&(total / 2_000)), "{}", total / 2_000);
        for _ in 0..100 {
            let row = DocumentKind::PurchaseClassic.draw(&mut random, 1, 1, 0, 0);
            let (Value::Int(customer), Value::Double(price)) = (&row[2].1, &row[4].1) else {
                panic!("{row:?}");
            };
            let first = f64::from(*customer) / 100.0;
            assert!((first..first + 5.0).contains(price), "{row:?}");
        }
    }
}
