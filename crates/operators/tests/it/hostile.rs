//! No expression a client can send makes an operator panic: every operator on operands of every
//! type and extreme.

use model::{Bump, DocBuf, DocWriter, Value, extjson};
use operators::expr::{ParseCx, names, parse};
use operators::{Cx, Env};

/// Operands; strings among them are field paths, variables, patterns, units, formats.
const POOL: &str = r#"{"pool": [
    0, 1, -1, 2, 2147483647, -2147483648, {"$numberLong": "9223372036854775807"},
        {"$numberLong": "-9223372036854775808"},
    0.5, {"$numberDouble": "-0.0"}, {"$numberDouble": "NaN"}, {"$numberDouble": "Infinity"}, 1e308,
        -1e308, 5e-324, 1e19,
    {"$numberDecimal": "1E+6144"}, {"$numberDecimal": "-1E-6176"}, {"$numberDecimal": "NaN"},
        {"$numberDecimal": "-Infinity"},
    {"$numberDecimal": "9999999999999999999999999999999999"}, {"$numberDecimal": "-0E+6111"},
        {"$numberDecimal": "0.1"},
    "", "a", "é😀", "$a", "$arr", "$doc.x", "$$ROOT", "$$NOW", "$$REMOVE", "(a|b)*c", "[", "day",
        "week", "UTC", "+99:99",
    "America/New_York", "%Y-%m-%dT%H:%M:%S", "2024-02-30T25:00:00Z", "int", "binData", "double",
        "base64", "i", "big",
    null, true, false, {"$undefined": true}, {"$minKey": 1}, {"$maxKey": 1},
        {"$oid": "ffffffffffffffffffffffff"},
    {"$date": {"$numberLong": "9223372036854775807"}},
        {"$date": {"$numberLong": "-9223372036854775808"}},
    {"$date": {"$numberLong": "0"}}, {"$timestamp": {"t": 4294967295, "i": 4294967295}},
        {"$symbol": "s"},
    {"$binary": {"base64": "", "subType": "00"}},
        {"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "04"}},
    {"$regularExpression": {"pattern": "a+", "options": "i"}}, {"$code": "x"}, {"$code": "x",
        "$scope": {}},
    [], [[]], [null], [1, 2, 3], [{"k": "a", "v": 1}], [["a", 1]], ["$a", "$s"], {}, {"a": 1},
        {"x": "$a"}, {"$literal": "$a"},
    {"$add": ["$a", 1]}, {"$concat": ["$s", "é"]}, {"$divide": [1, 0]}, {"$gt": ["$$this", 1]}
]}"#;

/// Arguments that go together, for the operators that take a document.
const ARGUMENTS: [&[&str]; 22] = [
    &["input", "to", "onError"],
    &["input", "to", "format", "byteOrder", "onNull"],
    &["input", "regex", "options"],
    &["input", "find", "replacement"],
    &["input", "chars"],
    &["if", "then", "else"],
    &["date", "timezone"],
    &["date", "timezone", "iso8601"],
    &["startDate", "unit", "amount", "timezone"],
    &["startDate", "endDate", "unit", "timezone", "startOfWeek"],
    &["date", "unit", "binSize", "timezone", "startOfWeek"],
    &["date", "format", "timezone", "onNull"],
    &["dateString", "format", "timezone", "onError", "onNull"],
    &["year", "month", "day", "hour", "timezone"],
    &["isoWeekYear", "isoWeek", "isoDayOfWeek", "millisecond"],
    &["input", "in", "as"],
    &["input", "cond", "limit"],
    &["input", "initialValue", "in"],
    &["inputs", "useLongestLength", "defaults"],
    &["input", "sortBy", "n", "output"],
    &["field", "input", "value"],
    &["input", "p", "method"],
];

struct Rng(u64);

impl Rng {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides.max(1)
    }
}

fn specification(dice: &mut Rng, name: &str, pool: &[Value<'_>]) -> DocBuf {
    let shape = dice.roll(4);
    DocBuf::build(|w: &mut DocWriter<'_>| {
        let mut e = w.doc("e");
        match shape {
            0 => {
                e.put(name, pool[dice.roll(pool.len())]);
            }
            1 => {
                let mut operands = e.array(name);
                for _ in 0..dice.roll(5) {
                    operands.push(pool[dice.roll(pool.len())]);
                }
            }
            _ => {
                let mut arguments = e.doc(name);
                for field in ARGUMENTS[dice.roll(ARGUMENTS.len())] {
                    if dice.roll(8) > 0 {
                        arguments.put(field, pool[dice.roll(pool.len())]);
                    }
                }
            }
        }
    })
}

#[test]
fn no_operand_makes_an_operator_panic() {
    let pool = extjson::parse_document(POOL).expect("the pool is extended JSON");
    let pool: Vec<Value<'_>> = pool
        .doc()
        .field("pool")
        .as_array()
        .expect("it is an array")
        .iter()
        .collect();
    let root = extjson::parse_document(
        r#"{"a": 5, "s": "aéz", "arr": [3, null, "x", [1]], "doc": {"x": [{"y": 1}]}}"#,
    );
    let root = root.expect("the document is extended JSON");
    let env = Env::new(1_700_000_000_000, 3);
    let mut dice = Rng(42);
    let mut evaluated = 0u32;
    let mut all: Vec<&str> = names().collect();
    all.sort_unstable();
    for name in all {
        for _ in 0..800 {
            let spec = specification(&mut dice, name, &pool);
            let arena = Bump::new();
            if let Ok(e) = parse(&mut ParseCx::new(&env), spec.doc().field("e")) {
                let _ = e.eval(&Cx::new(&arena, Value::Document(root.doc()), &env));
                evaluated += 1;
            }
        }
    }
    assert!(evaluated > 1000, "only {evaluated} specifications parsed");
}
