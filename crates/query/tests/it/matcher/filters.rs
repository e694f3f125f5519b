//! Random filters over the few paths and values of the random documents, and random indexes on the
//! same paths.

use super::naive::PATTERNS;
use super::tree::{Rng, Tree};
use model::{Binary, Regex, Value};

const PATHS: [&str; 16] = [
    "a", "b", "c", "a.b", "a.b.c", "b.a", "a.0", "a.0.b", "a.b.0", "a.1", "b.0.1", "a.0.0", "b.c",
    "c.a.b", "_id", "a.c",
];

impl Rng {
    pub(super) fn path(&mut self) -> &'static str {
        // Often one of the few paths that indexes, filter and order of this case share.
        if self.focus.is_empty() || self.one_in(3) {
            return PATHS[self.roll(PATHS.len())];
        }
        let n = self.roll(self.focus.len());
        self.focus[n]
    }

    /// Chooses the paths of this case; short ones are more likely.
    pub(super) fn choose_focus(&mut self) {
        self.focus = (0..2 + self.roll(2))
            .map(|_| PATHS[self.roll(PATHS.len()).min(self.roll(PATHS.len()))])
            .collect();
    }

    fn list_of(&mut self, most: usize, mut each: impl FnMut(&mut Rng) -> Tree) -> Tree {
        let n = self.roll(most + 1);
        Tree::Array((0..n).map(|_| each(self)).collect())
    }

    /// An operand of a comparison: neither undefined nor a regular expression.
    fn operand(&mut self) -> Tree {
        loop {
            let t = self.value(2);
            let unfit = |t: &Tree| {
                matches!(t, Tree::Leaf(v) if matches!(v.get(),
                Value::Undefined | Value::Regex(_)))
            };
            if !unfit(&t) {
                return t;
            }
        }
    }

    fn pattern_value(&mut self) -> Tree {
        let (pattern, options, _) = PATTERNS[self.roll(PATTERNS.len())];
        Tree::Leaf(Value::Regex(Regex { pattern, options }).to_owned_value())
    }

    fn draw_list_value(&mut self) -> Tree {
        let long = self.one_in(8);
        let regexes = self.one_in(3);
        self.list_of(if long { 40 } else { 4 }, |d| {
            if regexes && d.one_in(2) {
                d.pattern_value()
            } else {
                d.operand()
            }
        })
    }

    fn type_spec(&mut self) -> Tree {
        let one = |d: &mut Rng| match d.roll(3) {
            0 => Tree::leaf(*d.pick(&[&1i32, &2, &3, &4, &8, &10, &16, &18, &-1, &127])),
            _ => Tree::leaf(d.pick(&[
                "number", "string", "array", "object", "null", "int", "double", "decimal", "bool",
                "date", "minKey",
            ])),
        };
        if self.one_in(3) {
            Tree::Array(vec![one(self), one(self)])
        } else {
            one(self)
        }
    }

    /// One operator with its operand; `$regex` may bring `$options`.
    fn operator(&mut self, depth: usize, out: &mut Vec<(String, Tree)>) {
        let mut put = |n: &str, t: Tree| out.push((n.to_owned(), t));
        match self.roll(if depth == 0 { 19 } else { 26 }) {
            0 | 1 => put("$eq", self.operand()),
            n @ 2..=8 => put(
                ["$gt", "$gte", "$lt", "$lte", "$gt", "$lt", "$ne"][n - 2],
                self.operand(),
            ),
            9 | 10 => put("$in", self.draw_list_value()),
            11 => put("$nin", self.draw_list_value()),
            12 => put("$exists", Tree::leaf(self.one_in(2))),
            13 => put("$type", self.type_spec()),
            14 => put("$size", Tree::leaf(self.roll(4) as i32)),
            15 => {
                let divisor = *self.pick(&[&1i32, &2, &3, &-2]);
                put(
                    "$mod",
                    Tree::Array(vec![
                        Tree::leaf(divisor),
                        Tree::leaf(self.roll(3) as i32 - 1),
                    ]),
                );
            }
            16 => {
                let (name, mask) = self.bits();
                put(name, mask);
            }
            17 => {
                let (pattern, options, _) = PATTERNS[self.roll(PATTERNS.len())];
                put("$regex", Tree::leaf(pattern));
                if !options.is_empty() {
                    put("$options", Tree::leaf(options));
                }
            }
            18 => put("$eq", Tree::leaf(Value::Null)),
            19 => put(
                "$all",
                self.list_of(3, |d| {
                    if d.one_in(5) {
                        d.pattern_value()
                    } else {
                        d.operand()
                    }
                }),
            ),
            20 => {
                let n = 1 + self.roll(2);
                put(
                    "$all",
                    Tree::Array(
                        (0..n)
                            .map(|_| Tree::doc(vec![("$elemMatch", self.elem_match(depth - 1))]))
                            .collect(),
                    ),
                );
            }
            21 | 22 => put(
                "$not",
                if self.one_in(5) {
                    self.pattern_value()
                } else {
                    self.operators(depth - 1)
                },
            ),
            _ => put("$elemMatch", self.elem_match(depth - 1)),
        }
    }

    fn bits(&mut self) -> (&'static str, Tree) {
        let name = self.pick(&[
            "$bitsAllSet",
            "$bitsAllClear",
            "$bitsAnySet",
            "$bitsAnyClear",
        ]);
        let mask = match self.roll(3) {
            0 => Tree::leaf(self.roll(8) as i64),
            1 => Tree::leaf(Binary {
                subtype: 0,
                bytes: self.pick(&[&b"\x01"[..], b"\x00\x80", b""]),
            }),
            _ => self.list_of(3, |d| {
                Tree::leaf(*d.pick(&[&0i32, &1, &2, &15, &63, &64, &200]))
            }),
        };
        (name, mask)
    }

    fn operators(&mut self, depth: usize) -> Tree {
        let n = 1 + self.roll(3) / 2;
        let mut out = Vec::new();
        for _ in 0..n {
            self.operator(depth, &mut out);
        }
        // Two operators with the same name would overwrite each other's options.
        let regexes = out.iter().filter(|(n, _)| n == "$regex").count();
        if regexes > 1 {
            out.truncate(1);
            out.retain(|(n, _)| n != "$regex");
            out.push(("$exists".to_owned(), Tree::leaf(true)));
        }
        Tree::Doc(out)
    }

    fn elem_match(&mut self, depth: usize) -> Tree {
        if self.one_in(2) {
            self.operators(depth)
        } else {
            self.filter_of(depth, false)
        }
    }

    /// A filter; without `top`, operators that are allowed only at the top level are left out.
    pub(super) fn filter_of(&mut self, depth: usize, top: bool) -> Tree {
        let mut out: Vec<(String, Tree)> = Vec::new();
        for _ in 0..1 + self.roll(5) / 2 {
            let clause = match self.roll(if depth == 0 { 8 } else { 13 }) {
                0 | 1 => (self.path().to_owned(), self.operand()),
                2 if self.one_in(2) => (self.path().to_owned(), self.pattern_value()),
                8..=10 => {
                    let name = self.pick(&["$and", "$or", "$nor"]);
                    let n = 1 + self.roll(3);
                    (
                        name.to_owned(),
                        Tree::Array((0..n).map(|_| self.filter_of(depth - 1, top)).collect()),
                    )
                }
                11 if top => ("$expr".to_owned(), self.expression(2)),
                12 => ("$jsonSchema".to_owned(), self.schema(2)),
                _ => (self.path().to_owned(), self.operators(depth)),
            };
            // Equality with a document whose first name is an operator cannot be written plainly;
            // generated values contain none.
            out.push(clause);
        }
        Tree::Doc(out)
    }

    fn expression(&mut self, depth: usize) -> Tree {
        let operand = |d: &mut Rng| match d.roll(3) {
            0 => Tree::doc(vec![("$literal", d.value(1))]),
            _ => Tree::leaf(d.pick(&["$a", "$b", "$a.b", "$a.b.c", "$b.c", "$_id", "$c"])),
        };
        if depth == 0 {
            return operand(self);
        }
        match self.roll(9) {
            n @ 0..=5 => {
                let name = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"][n];
                Tree::doc(vec![(
                    name,
                    Tree::Array(vec![operand(self), operand(self)]),
                )])
            }
            6 => {
                let name = self.pick(&["$and", "$or"]);
                Tree::doc(vec![(
                    name,
                    Tree::Array(vec![self.expression(depth - 1), self.expression(depth - 1)]),
                )])
            }
            7 => Tree::doc(vec![(
                "$not",
                Tree::Array(vec![self.expression(depth - 1)]),
            )]),
            _ => match self.roll(2) {
                0 => Tree::doc(vec![("$isArray", Tree::Array(vec![operand(self)]))]),
                _ => Tree::doc(vec![(
                    "$ifNull",
                    Tree::Array(vec![operand(self), self.expression(depth - 1)]),
                )]),
            },
        }
    }

    fn schema(&mut self, depth: usize) -> Tree {
        let mut out: Vec<(&str, Tree)> = Vec::new();
        for _ in 0..1 + self.roll(2) {
            let (k, v) = match self.roll(if depth == 0 { 6 } else { 12 }) {
                0 => (
                    "bsonType",
                    Tree::leaf(self.pick(&[
                        "object", "array", "number", "int", "string", "null", "double",
                    ])),
                ),
                1 => ("minimum", self.number()),
                2 => ("maximum", self.number()),
                3 => ("enum", Tree::Array(vec![self.value(1)])),
                4 => ("minItems", Tree::leaf(self.roll(3) as i32)),
                5 => ("pattern", Tree::leaf(self.pick(&["^a", "b$", "ab"]))),
                6 => (
                    "required",
                    Tree::Array(vec![Tree::leaf(self.pick(&["a", "b", "c"]))]),
                ),
                7 | 8 => (
                    "properties",
                    Tree::doc(vec![(self.pick(&["a", "b", "c"]), self.schema(depth - 1))]),
                ),
                9 => ("items", self.schema(depth - 1)),
                10 => ("not", self.schema(depth - 1)),
                _ => {
                    let name = self.pick(&["anyOf", "allOf", "oneOf"]);
                    (
                        name,
                        Tree::Array(vec![self.schema(depth - 1), self.schema(depth - 1)]),
                    )
                }
            };
            if out.iter().all(|(n, _)| *n != k) {
                out.push((k, v));
            }
        }
        Tree::doc(out)
    }

    /// The specification of an index.
    pub(super) fn index(&mut self, n: usize, collations: &[Tree]) -> Tree {
        let mut key: Vec<(&str, Tree)> = Vec::new();
        for _ in 0..1 + self.roll(5) / 2 {
            let path = self.path();
            let kind = match self.roll(9) {
                0 if key
                    .iter()
                    .all(|(_, k)| !matches!(k, Tree::Leaf(v) if v.get().as_str().is_some())) =>
                {
                    Tree::leaf("hashed")
                }
                1..=3 => Tree::leaf(-1i32),
                _ => Tree::leaf(1i32),
            };
            if key.iter().all(|(p, _)| *p != path) {
                key.push((path, kind));
            }
        }
        let name = format!("i{n}");
        let mut spec = vec![
            ("v", Tree::leaf(2i32)),
            ("key", Tree::doc(key)),
            ("name", Tree::leaf(name.as_str())),
        ];
        match self.roll(8) {
            0 | 1 => spec.push(("sparse", Tree::leaf(true))),
            2 | 3 => {
                let path = self.path();
                let condition = match self.roll(5) {
                    0 => self.number(),
                    1 => Tree::doc(vec![("$exists", Tree::leaf(true))]),
                    2 => Tree::doc(vec![("$type", Tree::leaf("number"))]),
                    _ => Tree::doc(vec![(
                        self.pick(&["$gt", "$gte", "$lt", "$lte", "$eq"]),
                        self.scalar(),
                    )]),
                };
                spec.push((
                    "partialFilterExpression",
                    Tree::doc(vec![(path, condition)]),
                ));
            }
            4 => spec.push(("unique", Tree::leaf(true))),
            _ => {}
        }
        if self.one_in(3) {
            spec.push(("collation", collations[self.roll(collations.len())].clone()));
        }
        Tree::doc(spec)
    }
}
