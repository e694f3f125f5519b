//! Every access path gives the documents of a full scan, and a plan that claims an order gives that
//! order.

use model::{DocBuf, Namespace, Value, doc};
use operation::{Operation, SystemClock};
use operators::Env;
use operators::expr::ParseCx;
use proptest::prelude::*;
use query::exec::MatchFilter;
use query::exec::SortPattern;
use query::physical::each_match;
use query::plan::{Access, PlanRequest, plan_read};
use std::sync::Arc;
use storage::MemoryEngine;
use store::{Collection, NoHooks, Store};

fn collection(indexes: &[DocBuf]) -> Arc<Collection> {
    let store = Store::open(Arc::new(MemoryEngine::new()), Arc::new(NoHooks)).unwrap();
    let operation = Operation::new_detached(Arc::new(SystemClock::default()));
    let c = store
        .writer(&operation)
        .create_collection(&Namespace::new("db", "c").unwrap(), DocBuf::new(), [0; 16])
        .unwrap();
    for i in indexes {
        c.writer(&operation).create_index(i.clone()).unwrap();
    }
    c
}

#[derive(Clone, Debug)]
enum V {
    Missing,
    Null,
    Int(i32),
    Double(i32),
    Text(String),
    List(Vec<i32>),
    Bool(bool),
}

fn value() -> impl Strategy<Value = V> {
    prop_oneof![
        1 => Just(V::Missing),
        1 => Just(V::Null),
        5 => (-3i32..6).prop_map(V::Int),
        2 => (-6i32..12).prop_map(V::Double),
        3 => "[ab\0]{0,2}".prop_map(V::Text),
        2 => proptest::collection::vec(-2i32..5, 0..3).prop_map(V::List),
        1 => any::<bool>().prop_map(V::Bool),
    ]
}

fn put(d: &mut DocBuf, name: &str, v: &V) {
    match v {
        V::Missing => {}
        V::Null => drop(d.put(name, Value::Null)),
        V::Int(n) => drop(d.put(name, *n)),
        V::Double(n) => drop(d.put(name, f64::from(*n) / 2.0)),
        V::Text(s) => drop(d.put(name, s.as_str())),
        V::List(l) => drop(d.append(|w| {
            let mut a = w.array(name);
            for x in l {
                a.push(*x);
            }
        })),
        V::Bool(b) => drop(d.put(name, *b)),
    }
}

fn condition() -> impl Strategy<Value = (String, Vec<V>)> {
    let op = prop_oneof![
        Just("$eq"),
        Just("$gt"),
        Just("$gte"),
        Just("$lt"),
        Just("$lte"),
        Just("$in"),
        Just("$ne")
    ];
    (
        op.prop_map(str::to_owned),
        proptest::collection::vec(value(), 1..4),
    )
}

fn filter(parts: &[(usize, (String, Vec<V>))]) -> DocBuf {
    DocBuf::build(|w| {
        let mut list = w.array("$and");
        for (field, (op, values)) in parts {
            let mut inner = DocBuf::new();
            if op == "$in" {
                let mut all = DocBuf::new();
                for (i, v) in values.iter().enumerate() {
                    put(&mut all, &i.to_string(), v);
                }
                inner.put("$in", all.doc().as_array());
            } else {
                let v = if matches!(values[0], V::Missing) {
                    &V::Null
                } else {
                    &values[0]
                };
                put(&mut inner, op, v);
            }
            let mut d = list.doc();
            d.put(["a", "b", "_id"][*field], &inner);
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn access_paths_agree(
        docs in proptest::collection::vec((value(), value()), 0..40),
        parts in proptest::collection::vec((0usize..3, condition()), 1..4),
        sort in proptest::option::of((0usize..3, any::<bool>(), 0usize..3, any::<bool>())),
    ) {
        let index = |name: &str, key: DocBuf| doc! { "key": &key, "name": name };
        let sets: Vec<Vec<DocBuf>> = vec![
            vec![],
            vec![index("a", doc! { "a": 1i32 })],
            vec![index("a_-1_b", doc! { "a": -1i32, "b": 1i32 })],
            vec![index("b_a", doc! { "b": 1i32, "a": 1i32 }), index("a_h", doc! { "b": -1i32 })],
            vec![index("id_b", doc! { "_id": 1i32, "b": -1i32 })],
        ];
        let env = Env::new(0, 1);
        let spec = filter(&parts);
        let f = MatchFilter::parse(&mut ParseCx::new(&env), spec.doc()).unwrap();
        let order = sort.map(|(x, up, y, down)| {
            let names = ["a", "b", "_id"];
            let mut d = DocBuf::new();
            d.put(names[x], if up { 1i32 } else { -1 });
            if x != y {
                d.put(names[y], if down { 1i32 } else { -1 });
            }
            SortPattern::parse(d.doc()).unwrap()
        });
        let mut answers = Vec::new();
        for set in &sets {
            let c = collection(set);
            for (n, (a, b)) in docs.iter().enumerate() {
                let mut d = doc! { "_id": n as i32 };
                put(&mut d, "a", a);
                put(&mut d, "b", b);
                // Two arrays in one compound index are refused; all collections must have the same
                // documents.
                if matches!((a, b), (V::List(_), V::List(_))) {
                    continue;
                }
                let operation = Operation::new_detached(Arc::new(SystemClock::default()));
                prop_assert_eq!(c.writer(&operation).insert(&[d.doc()], true).unwrap().count, 1);
            }
            let want = PlanRequest { filter: Some(&f), sort: order.as_ref(),
                ..PlanRequest::default() };
            let plan = plan_read(&c, &want).unwrap();
            let mut found = Vec::new();
            each_match(&c, &plan, Some(&f), &env, &mut |row| {
                found.push(row.doc.to_buf());
                Ok(true)
            }).unwrap();
            if let (true, Some(order)) = (plan.sorted, &order) {
                for w in found.windows(2) {
                    let (mut x, mut y) = (Default::default(), Default::default());
                    order.key_values(w[0].doc(), None, &env, &mut x).unwrap();
                    order.key_values(w[1].doc(), None, &env, &mut y).unwrap();
                    prop_assert!(order.compare(&x, &y, None).is_le(),
                        "{:?} before {:?} under {:?}", w[0], w[1], order.spec());
                }
            }
            let mut ids: Vec<_> = found.iter().map(|d|
                d.doc().field("_id").as_i64_exact()).collect();
            ids.sort();
            answers.push(ids);
        }
        for (n, a) in answers.iter().enumerate() {
            prop_assert_eq!(a, &answers[0], "index set {} with filter {:?}", n, spec);
        }
    }
}

#[test]
fn plans_use_what_is_there() {
    let c = collection(&[doc! { "key": { "a": 1i32, "b": -1i32 }, "name": "a_b" }]);
    let env = Env::new(0, 1);
    let plan = |spec: DocBuf, sort: Option<DocBuf>| {
        let f = MatchFilter::parse(&mut ParseCx::new(&env), spec.doc()).unwrap();
        let s = sort.map(|s| SortPattern::parse(s.doc()).unwrap());
        plan_read(
            &c,
            &PlanRequest {
                filter: Some(&f),
                sort: s.as_ref(),
                ..PlanRequest::default()
            },
        )
        .unwrap()
    };
    assert!(
        matches!(plan(doc! { "_id": 5i32 }, None).access, Access::Ids { ref ids, .. }
            if ids.len() == 1)
    );
    assert!(matches!(
        plan(doc! { "a": 5i32 }, None).access,
        Access::Index { .. }
    ));
    assert!(matches!(
        plan(doc! { "b": 5i32 }, None).access,
        Access::Collection { .. }
    ));
    let p = plan(doc! { "a": 5i32 }, Some(doc! { "b": 1i32 }));
    assert!(p.sorted && matches!(p.access, Access::Index { reverse: true, .. }));
    let p = plan(doc! {}, Some(doc! { "a": 1i32, "b": 1i32 }));
    assert!(!p.sorted);
    let p = plan(doc! { "_id": { "$gt": 3i32 } }, Some(doc! { "_id": -1i32 }));
    assert!(p.sorted && matches!(p.access, Access::IdRange { reverse: true, .. }));
    assert!(matches!(
        plan(doc! { "a": { "$gt": 5i32, "$lt": 3i32 } }, None).access,
        Access::Nothing
    ));
}
