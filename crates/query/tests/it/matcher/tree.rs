//! An owned document tree, random trees with values that are difficult for matchers, and smaller
//! versions of a tree for shrinking.

use model::{
    ArrayWriter, Binary, Decimal128, Doc, DocBuf, DocWriter, ObjectId, OwnedValue, Regex,
    Timestamp, Value,
};

/// A value as a tree.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Leaf(OwnedValue),
    Doc(Vec<(String, Tree)>),
    Array(Vec<Tree>),
}

impl Tree {
    pub(super) fn of(v: &Value<'_>) -> Tree {
        match v {
            Value::Document(d) => Tree::of_doc(*d),
            Value::Array(a) => Tree::Array(a.iter().map(|v| Tree::of(&v)).collect()),
            v => Tree::Leaf(v.to_owned_value()),
        }
    }

    pub(super) fn of_doc(d: Doc<'_>) -> Tree {
        Tree::Doc(
            d.iter()
                .map(|(n, v)| (n.to_owned(), Tree::of(&v)))
                .collect(),
        )
    }

    pub(super) fn leaf<'v>(v: impl Into<Value<'v>>) -> Tree {
        Tree::Leaf(v.into().to_owned_value())
    }

    pub(super) fn doc(fields: Vec<(&str, Tree)>) -> Tree {
        Tree::Doc(fields.into_iter().map(|(n, t)| (n.to_owned(), t)).collect())
    }

    /// As a BSON value that owns its bytes.
    pub(super) fn to_value(&self) -> OwnedValue {
        let mut d = DocBuf::new();
        d.append(|w| self.put(w, ""));
        d.doc().field("").to_owned_value()
    }

    fn put(&self, w: &mut DocWriter<'_>, name: &str) {
        match self {
            Tree::Leaf(v) => drop(w.put(name, v.get())),
            Tree::Doc(fields) => fill(&mut w.doc(name), fields),
            Tree::Array(items) => fill_array(&mut w.array(name), items),
        }
    }

    /// A field of a document.
    pub(super) fn field(&self, name: &str) -> Option<&Tree> {
        match self {
            Tree::Doc(fields) => fields.iter().find(|(n, _)| n == name).map(|(_, t)| t),
            _ => None,
        }
    }

    /// As a document.
    pub(super) fn buf(&self) -> DocBuf {
        let Tree::Doc(fields) = self else {
            panic!("not a document: {self:?}")
        };
        DocBuf::build(|w| fill(w, fields))
    }

    /// Every tree that lacks one part of this one, larger cuts first.
    pub(super) fn smaller(&self) -> Vec<Tree> {
        let mut out = Vec::new();
        match self {
            Tree::Leaf(_) => {}
            Tree::Doc(fields) => {
                for i in 0..fields.len() {
                    let mut less = fields.clone();
                    less.remove(i);
                    out.push(Tree::Doc(less));
                }
                for (i, (_, inner)) in fields.iter().enumerate() {
                    for t in inner.smaller() {
                        let mut with = fields.clone();
                        with[i].1 = t;
                        out.push(Tree::Doc(with));
                    }
                }
            }
            Tree::Array(items) => {
                for i in 0..items.len() {
                    let mut less = items.clone();
                    less.remove(i);
                    out.push(Tree::Array(less));
                }
                for (i, inner) in items.iter().enumerate() {
                    for t in inner.smaller() {
                        let mut with = items.clone();
                        with[i] = t;
                        out.push(Tree::Array(with));
                    }
                }
            }
        }
        out
    }
}

fn fill(w: &mut DocWriter<'_>, fields: &[(String, Tree)]) {
    for (n, t) in fields {
        t.put(w, n);
    }
}

fn fill_array(w: &mut ArrayWriter<'_>, items: &[Tree]) {
    for t in items {
        match t {
            Tree::Leaf(v) => drop(w.push(v.get())),
            Tree::Doc(fields) => fill(&mut w.doc(), fields),
            Tree::Array(items) => fill_array(&mut w.array(), items),
        }
    }
}

/// Seeded random choices (splitmix64), and the paths of this case.
pub(super) struct Rng {
    state: u64,
    pub(super) focus: Vec<&'static str>,
}

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        Rng {
            state: seed,
            focus: Vec::new(),
        }
    }
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % sides.max(1) as u64) as usize
    }
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.roll(n) == 0
    }
    pub(super) fn pick<'l, T: ?Sized>(&mut self, list: &[&'l T]) -> &'l T {
        list[self.roll(list.len())]
    }

    /// A number of any type; few different magnitudes, so that types meet.
    pub(super) fn number(&mut self) -> Tree {
        let small = self.roll(7) as i32 - 2;
        let decimal = |t: &str| Tree::leaf(Decimal128::parse(t).expect("a decimal"));
        match self.roll(16) {
            0..=4 => Tree::leaf(small),
            5 => Tree::leaf(i64::from(small)),
            6 => Tree::leaf(f64::from(small)),
            7 => Tree::leaf(f64::from(small) / 2.0),
            8 => decimal(&small.to_string()),
            9 => decimal(self.pick(&[
                "1.50",
                "0.5",
                "-1E0",
                "0E+10",
                "-0",
                "0.1",
                "NaN",
                "Infinity",
                "1E+400",
                "9007199254740993",
                "9007199254740992.5",
            ])),
            10 => Tree::leaf(*self.pick(&[
                &-0.0f64,
                &f64::NAN,
                &f64::INFINITY,
                &f64::NEG_INFINITY,
                &0.1,
                &1e300,
                &5e-324,
            ])),
            11 => Tree::leaf(*self.pick(&[
                &9_007_199_254_740_992i64,
                &9_007_199_254_740_993,
                &-9_007_199_254_740_993,
                &i64::MAX,
                &i64::MIN,
            ])),
            12 => Tree::leaf(*self.pick(&[
                &9_007_199_254_740_992f64,
                &9_223_372_036_854_775_808.0,
                &-9_223_372_036_854_775_808.0,
            ])),
            _ => Tree::leaf(self.roll(4) as i32),
        }
    }

    pub(super) fn text(&mut self) -> Tree {
        Tree::leaf(self.pick(&[
            "", "a", "b", "A", "á", "ab", "abc", "Ab", "aab", "a2", "a10", "b\u{0}", "a\nb", "c",
            "ſ", "ba",
        ]))
    }

    /// A value that is not a container.
    pub(super) fn scalar(&mut self) -> Tree {
        match self.roll(24) {
            0..=9 => self.number(),
            10..=14 => self.text(),
            15 | 16 => Tree::leaf(Value::Null),
            17 => Tree::leaf(self.one_in(2)),
            18 => Tree::Leaf(Value::Date(self.roll(4) as i64 - 1).to_owned_value()),
            19 => Tree::leaf(ObjectId([self.roll(2) as u8; 12])),
            20 => Tree::leaf(Binary {
                subtype: *self.pick(&[&0u8, &4]),
                bytes: self.pick(&[&b"\x05"[..], b"", b"\x01\x80"]),
            }),
            21 => Tree::Leaf(
                Value::Regex(Regex {
                    pattern: self.pick(&["^a", "b$"]),
                    options: "",
                })
                .to_owned_value(),
            ),
            22 => match self.roll(5) {
                0 => Tree::leaf(Value::MinKey),
                1 => Tree::leaf(Value::MaxKey),
                2 => Tree::leaf(Value::Undefined),
                3 => Tree::leaf(Value::Code("a")),
                _ => Tree::leaf(Timestamp {
                    time: self.roll(2) as u32,
                    increment: 1,
                }),
            },
            _ => Tree::leaf(self.roll(3) as i32),
        }
    }

    /// Any value, nested at most `depth` deep.
    pub(super) fn value(&mut self, depth: usize) -> Tree {
        match self.roll(if depth == 0 { 5 } else { 9 }) {
            5 | 6 => {
                // Often the elements have one type, as in real arrays.
                let n = self.roll(4);
                let kind = self.roll(3);
                Tree::Array(
                    (0..n)
                        .map(|_| match kind {
                            0 => self.scalar(),
                            1 => self.fields(depth - 1),
                            _ => self.value(depth - 1),
                        })
                        .collect(),
                )
            }
            7 | 8 => self.fields(depth - 1),
            _ => self.scalar(),
        }
    }

    /// A document with some of the few names that occur in paths.
    pub(super) fn fields(&mut self, depth: usize) -> Tree {
        let mut out: Vec<(String, Tree)> = Vec::new();
        for name in ["a", "b", "c", "0", "1"] {
            if self.roll(10)
                < if name.len() == 1 && name.as_bytes()[0].is_ascii_digit() {
                    1
                } else {
                    5
                }
            {
                out.push((name.to_owned(), self.value(depth)));
            }
        }
        if out.len() > 1 && self.one_in(3) {
            out.reverse();
        }
        Tree::Doc(out)
    }
}
