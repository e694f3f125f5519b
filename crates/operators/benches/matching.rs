//! Documents matched per second: the compiled filter on raw BSON, a plain walk over decoded trees
//! of the `bson` crate, and the same walk including the decoding. `cargo bench -p quarry-operators
//! --bench matching`; for instruction counts, `QUARRY_PASSES=n` runs only n passes of the compiled
//! filter named by `QUARRY_FILTER` over the documents named by `QUARRY_DOCS`.

use bson::{Bson, Document, doc, oid::ObjectId};
use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use model::{Bump, Doc, DocBuf};
use operators::Env;
use operators::expr::ParseCx;
use operators::filter::Filter;

const DOCS: usize = 1000;
const CITIES: [&str; 3] = ["Paris", "Rome", "Oslo"];
const SHAPES: [&str; 2] = ["flat", "nested"];
const FILTERS: [&str; 10] = [
    "eq-first", "eq-last", "range", "in-10", "in-1000", "path", "elem", "prefix", "and-3", "or-3",
];

fn main() {
    let get = |name: &str| std::env::var(name).ok();
    if let Some(passes) = get("QUARRY_PASSES").and_then(|n| n.parse::<usize>().ok()) {
        let (shape, name) = (
            get("QUARRY_DOCS").unwrap_or_default(),
            get("QUARRY_FILTER").unwrap_or_default(),
        );
        let compiled = Compiled::new(&shape, &name);
        let found: usize = (0..passes).map(|_| compiled.pass()).sum();
        println!(
            "{shape} {name}: {found} matches of {} documents",
            passes * DOCS
        );
        return;
    }
    divan::main();
}

/// 10 fields in about 200 bytes.
fn flat(n: i32) -> Document {
    doc! {
        "_id": ObjectId::from_bytes([(n % 251) as u8; 12]), "n": n, "group": n % 100,
            "name": format!("name-{n:06}"),
        "price": f64::from(n) / 4.0, "active": n % 2 == 0,
            "created": bson::DateTime::from_millis(1_700_000_000_000 + i64::from(n)),
        "count": i64::from(n) * 3, "city": CITIES[n as usize % 3], "last": n % 1000,
    }
}

/// About 1 kB with documents in documents and arrays of both kinds.
fn build_nested(n: i32) -> Document {
    let items: Vec<Document> = (0..6)
        .map(|i| {
            doc! { "sku": format!("sku-{:05}", (n * 7 + i) % 5000), "qty": (n + i) % 20,
            "price": f64::from(n + i) / 10.0 }
        })
        .collect();
    let tags: Vec<String> = (0..8)
        .map(|t| format!("tag-{}", (n + t * 13) % 90))
        .collect();
    let mut d = flat(n);
    d.remove("last");
    d.extend(doc! {
        "address": { "street": format!("{n} Long Street"), "zip": format!("{n:05}"), "geo": {
            "lat": f64::from(n) / 100.0, "lon": 2.5 } },
        "items": items, "tags": tags, "notes": "a text of some length that nobody asks for \
            ".repeat(4), "last": n % 1000,
    });
    d
}

fn documents(shape: &str) -> Vec<Document> {
    (0..DOCS as i32)
        .map(|n| {
            if shape == "nested" {
                build_nested(n)
            } else {
                flat(n)
            }
        })
        .collect()
}

fn filter(name: &str) -> Document {
    match name {
        "eq-first" => doc! { "n": 500 },
        "eq-last" => doc! { "last": 500 },
        "range" => doc! { "price": { "$gte": 20.0, "$lt": 30.0 } },
        "in-10" => doc! { "group": { "$in": (0..10).map(|n| n * 7).collect::<Vec<i32>>() } },
        "in-1000" => {
            doc! { "name": { "$in": (0..1000).map(|n| format!("name-{:06}",
            n * 11)).collect::<Vec<String>>() } }
        }
        "path" => doc! { "address.geo.lat": { "$gt": 9.5 } },
        "elem" => {
            doc! { "items": { "$elemMatch": { "qty": { "$gt": 17 }, "price": { "$lt": 5.0 } } } }
        }
        "prefix" => doc! { "name": { "$regex": "^name-0005" } },
        "and-3" => doc! { "active": true, "group": { "$gt": 50 }, "last": { "$lt": 700 } },
        "or-3" => doc! { "$or": [{ "n": 5 }, { "city": "Madrid" }, { "last": { "$gt": 990 } }] },
        other => panic!("no filter {other}"),
    }
}

struct Compiled {
    filter: Filter,
    docs: Vec<DocBuf>,
    env: Env,
}

impl Compiled {
    fn new(shape: &str, name: &str) -> Compiled {
        let raw = |d: &Document| DocBuf::from_bytes(d.to_vec().unwrap()).unwrap();
        let env = Env::new(0, 1);
        let spec = raw(&filter(name));
        let filter = Filter::parse(&mut ParseCx::new(&env), spec.doc()).unwrap();
        Compiled {
            filter,
            docs: documents(shape).iter().map(raw).collect(),
            env,
        }
    }

    fn pass(&self) -> usize {
        let mut arena = Bump::new();
        let mut found = 0;
        for d in &self.docs {
            arena.reset();
            let d: Doc<'_> = black_box(d.doc());
            found += usize::from(self.filter.matches(d, &arena, &self.env).unwrap());
        }
        found
    }
}

/// A filter for the plain walk.
enum Plain {
    Cmp(Vec<String>, &'static str, Bson),
    In(Vec<String>, Vec<Bson>),
    Prefix(Vec<String>, String),
    Elem(Vec<String>, Box<Plain>),
    And(Vec<Plain>),
    Or(Vec<Plain>),
}

impl Plain {
    fn new(d: &Document) -> Plain {
        let mut all = Vec::new();
        for (name, v) in d {
            let path: Vec<String> = name.split('.').map(str::to_owned).collect();
            match v {
                Bson::Array(list) if name == "$or" => {
                    all.push(Plain::Or(
                        list.iter()
                            .map(|f| Plain::new(f.as_document().unwrap()))
                            .collect(),
                    ));
                }
                Bson::Document(ops) => {
                    all.extend(ops.iter().map(|(op, v)| match (op.as_str(), v) {
                        ("$in", Bson::Array(list)) => Plain::In(path.clone(), list.clone()),
                        ("$regex", Bson::String(p)) => {
                            Plain::Prefix(path.clone(), p.trim_start_matches('^').to_owned())
                        }
                        ("$elemMatch", Bson::Document(d)) => {
                            Plain::Elem(path.clone(), Box::new(Plain::new(d)))
                        }
                        ("$gt", v) => Plain::Cmp(path.clone(), ">", v.clone()),
                        ("$gte", v) => Plain::Cmp(path.clone(), ">=", v.clone()),
                        ("$lt", v) => Plain::Cmp(path.clone(), "<", v.clone()),
                        other => panic!("{other:?}"),
                    }))
                }
                v => all.push(Plain::Cmp(path, "=", v.clone())),
            }
        }
        Plain::And(all)
    }

    fn matches(&self, d: &Document) -> bool {
        match self {
            Plain::And(l) => l.iter().all(|f| f.matches(d)),
            Plain::Or(l) => l.iter().any(|f| f.matches(d)),
            Plain::Cmp(p, op, v) => walk(d, p, &mut |x| holds(x, op, v)),
            Plain::In(p, l) => walk(d, p, &mut |x| l.iter().any(|v| holds(x, "=", v))),
            Plain::Prefix(p, t) => walk(d, p, &mut |x| {
                x.as_str().is_some_and(|s| s.starts_with(t.as_str()))
            }),
            Plain::Elem(p, f) => walk(d, p, &mut |x| x.as_document().is_some_and(|d| f.matches(d))),
        }
    }
}

fn walk(d: &Document, path: &[String], test: &mut dyn FnMut(&Bson) -> bool) -> bool {
    let Some((head, rest)) = path.split_first() else {
        return false;
    };
    match d.get(head) {
        None => false,
        Some(Bson::Array(a)) if rest.is_empty() => a.iter().any(&mut *test),
        Some(Bson::Array(a)) => a
            .iter()
            .filter_map(Bson::as_document)
            .any(|d| walk(d, rest, test)),
        Some(v) if rest.is_empty() => test(v),
        Some(Bson::Document(d)) => walk(d, rest, test),
        Some(_) => false,
    }
}

fn number(b: &Bson) -> Option<f64> {
    match b {
        Bson::Int32(n) => Some(f64::from(*n)),
        Bson::Int64(n) => Some(*n as f64),
        Bson::Double(n) => Some(*n),
        _ => None,
    }
}

fn holds(x: &Bson, op: &str, v: &Bson) -> bool {
    match (number(x), number(v)) {
        (Some(a), Some(b)) => match op {
            "=" => a == b,
            ">" => a > b,
            ">=" => a >= b,
            _ => a < b,
        },
        (None, None) if op == "=" => x == v,
        _ => false,
    }
}

#[divan::bench(args = FILTERS, consts = [0, 1])]
fn bench_compiled<const SHAPE: usize>(b: Bencher<'_, '_>, name: &str) {
    let c = Compiled::new(SHAPES[SHAPE], name);
    b.counter(ItemsCount::new(DOCS)).bench_local(|| c.pass());
}

#[divan::bench(args = FILTERS, consts = [0, 1])]
fn walk_of_trees<const SHAPE: usize>(b: Bencher<'_, '_>, name: &str) {
    let (docs, f) = (documents(SHAPES[SHAPE]), Plain::new(&filter(name)));
    b.counter(ItemsCount::new(DOCS))
        .bench_local(|| docs.iter().filter(|d| f.matches(black_box(d))).count());
}

#[divan::bench(args = FILTERS, consts = [0, 1])]
fn decode_and_walk<const SHAPE: usize>(b: Bencher<'_, '_>, name: &str) {
    let docs: Vec<Vec<u8>> = documents(SHAPES[SHAPE])
        .iter()
        .map(|d| d.to_vec().unwrap())
        .collect();
    let f = Plain::new(&filter(name));
    b.counter(ItemsCount::new(DOCS)).bench_local(|| {
        docs.iter()
            .filter(|d| f.matches(&Document::from_reader(&black_box(d)[..]).unwrap()))
            .count()
    });
}
