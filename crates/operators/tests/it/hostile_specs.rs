//! Random specifications built from real operator names: nothing may panic, and every result must
//! be well-formed.

use model::{ArrayWriter, Bump, Decimal128, Doc, DocBuf, DocWriter, Value};
use operators::expr::ParseCx;
use operators::filter::Filter;
use operators::project::Projection;
use operators::update::{Update, UpdateCx, UpdateResult, upsert_base};
use operators::{Cx, Env};

const NAMES: &[&str] = &[
    "a",
    "b",
    "a.b",
    "a.0",
    "a.0.b",
    "a.$",
    "a.$[]",
    "a.$[e].b",
    "_id",
    "",
    "a.",
    "e",
    "e.b",
    "type",
    "coordinates",
    "$ref",
];
const FILTERS: &[&str] = &[
    "$eq",
    "$gt",
    "$lte",
    "$ne",
    "$in",
    "$nin",
    "$not",
    "$exists",
    "$type",
    "$mod",
    "$size",
    "$all",
    "$elemMatch",
    "$and",
    "$or",
    "$nor",
    "$expr",
    "$jsonSchema",
    "$regex",
    "$options",
    "$bitsAllSet",
    "$bitsAnyClear",
    "$geoWithin",
    "$near",
    "$geoIntersects",
    "$geometry",
    "$box",
    "$center",
    "$centerSphere",
    "$polygon",
    "$text",
    "$search",
    "$sampleRate",
    "properties",
    "required",
    "items",
    "minimum",
    "bsonType",
    "enum",
    "multipleOf",
    "oneOf",
    "uniqueItems",
];
const UPDATES: &[&str] = &[
    "$set",
    "$unset",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$rename",
    "$currentDate",
    "$setOnInsert",
    "$push",
    "$pull",
    "$pullAll",
    "$addToSet",
    "$pop",
    "$bit",
    "$each",
    "$slice",
    "$sort",
    "$position",
    "and",
    "xor",
    "$type",
];
const PROJECTIONS: &[&str] = &[
    "$slice",
    "$elemMatch",
    "$meta",
    "$add",
    "$literal",
    "$gt",
    "$map",
];

struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }
    fn pick<'l>(&mut self, list: &'l [&'l str]) -> &'l str {
        list[self.next(list.len())]
    }
    fn name<'l>(&mut self, operators: &'l [&'l str]) -> &'l str {
        if self.next(2) == 0 {
            self.pick(NAMES)
        } else {
            self.pick(operators)
        }
    }

    fn scalar(&mut self) -> Value<'static> {
        match self.next(16) {
            0 => Value::Null,
            1 => Value::Int32(i32::MIN),
            2 => Value::Int64(i64::MAX),
            3 => Value::Double(f64::NAN),
            4 => Value::Double(-1.5),
            5 => Value::Double(f64::INFINITY),
            6 => Value::String("a"),
            7 => Value::String("$a.b"),
            8 => Value::Bool(true),
            9 => Value::Decimal128(Decimal128::parse("1E+6000").expect("a decimal")),
            10 => Value::MinKey,
            11 => Value::Binary(model::Binary {
                subtype: 0,
                bytes: &[1],
            }),
            12 => Value::Regex(model::Regex {
                pattern: "(a",
                options: "i",
            }),
            13 => Value::Undefined,
            n => Value::Int32(n as i32 - 14),
        }
    }

    fn fill_doc(&mut self, w: &mut DocWriter<'_>, depth: usize, operators: &[&str]) {
        for _ in 0..self.next(4) {
            let name = self.name(operators).to_owned();
            match self.next(if depth == 0 { 1 } else { 4 }) {
                0 | 1 => {
                    w.put(&name, self.scalar());
                }
                2 => self.fill_doc(&mut w.doc(&name), depth - 1, operators),
                _ => self.fill_array(&mut w.array(&name), depth - 1, operators),
            }
        }
    }

    fn fill_array(&mut self, w: &mut ArrayWriter<'_>, depth: usize, operators: &[&str]) {
        for _ in 0..self.next(4) {
            match self.next(if depth == 0 { 1 } else { 4 }) {
                0 | 1 => {
                    w.push(self.scalar());
                }
                2 => self.fill_doc(&mut w.doc(), depth - 1, operators),
                _ => self.fill_array(&mut w.array(), depth - 1, operators),
            }
        }
    }

    fn doc(&mut self, depth: usize, operators: &[&str]) -> DocBuf {
        DocBuf::build(|w| self.fill_doc(w, depth, operators))
    }
}

fn check_well_formed(d: Doc<'_>) {
    assert!(model::validate(d.as_bytes()).is_ok(), "{d:?}");
}

#[test]
fn any_specification_is_survived() {
    let mut r = Random(42);
    let (mut parsed, mut changed) = (0, 0);
    for _ in 0..30_000 {
        let env = Env::new(0, 1);
        let arena = Bump::new();
        let mut pcx = ParseCx::new(&env);
        let d = r.doc(3, &["x"]);
        // Most random documents break the first rule; a single operator gets further.
        let spec = if r.next(2) == 0 {
            r.doc(4, FILTERS)
        } else {
            let operator = r.pick(FILTERS).to_owned();
            DocBuf::build(|w| r.fill_doc(&mut w.doc("a"), 3, &[operator.as_str()]))
        };
        let filter = Filter::parse(&mut pcx, spec.doc());
        let mut position = None;
        if let Ok(f) = &filter {
            parsed += 1;
            if let Ok((_, p)) = f.matches_with_position(d.doc(), &arena, &env) {
                position = p;
            }
            if let Ok(base) = upsert_base(f, false) {
                check_well_formed(base.doc());
            }
        }
        let operator = r.pick(UPDATES).to_owned();
        let spec = DocBuf::build(|w| r.fill_doc(&mut w.doc(&operator), 3, UPDATES));
        let filters = DocBuf::build(|w| {
            w.array("f").doc().put("e.b", 1i32);
        });
        let filters = Some(filters.doc().field("f")).filter(|_| r.next(2) == 0);
        if let Ok(u) = Update::parse(&mut pcx, Value::Document(spec.doc()), filters) {
            let cx = UpdateCx {
                arena: &arena,
                env: &env,
                inserting: r.next(2) == 0,
                position,
            };
            if let Ok(UpdateResult::Changed(new)) = u.apply(d.doc(), &cx) {
                changed += 1;
                check_well_formed(new);
            }
        }
        let spec = r.doc(3, PROJECTIONS);
        let cx = Cx::new(&arena, Value::Missing, &env);
        for p in [
            Projection::parse_find(&mut pcx, spec.doc()),
            Projection::parse_project(&mut pcx, Value::Document(spec.doc())),
            Projection::parse_add_fields(&mut pcx, "$set", Value::Document(spec.doc())),
        ]
        .iter()
        .flatten()
        {
            if let Ok(out) = p.apply_at(&cx, d.doc(), position) {
                check_well_formed(out);
            }
        }
    }
    assert!(
        parsed > 3_000 && changed > 1_000,
        "too few got through: {parsed} {changed}"
    );
}
