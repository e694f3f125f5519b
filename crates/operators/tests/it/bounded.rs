//! Expressions and filters that need too much memory or time end with an error code, in bounded
//! memory and time, and every long loop checks the interrupt.

use model::{Bump, Doc, DocBuf, Value, extjson};
use operation::{Clock, Operation};
use operators::expr::{ParseCx, parse};
use operators::filter::Filter;
use operators::update::{Update, UpdateCx, UpdateResult};
use operators::{Cx, Env};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// These tests measure the process, so they run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// CPU time of this thread, so that a busy machine does not matter. Debug builds are slow; without
/// bounds these tests would take minutes to years.
const TIME_MAX: Duration = Duration::from_secs(30);
/// Twice the bound of one evaluation, plus lists of values.
const PEAK_KIB_MAX: usize = 900 << 10;

/// CPU time of this thread.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has this file");
    let nanos = stat.split_whitespace().next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.expect("nanoseconds"))
}

fn peak_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

fn run(spec: &str, env: &Env) -> Result<usize, i32> {
    let spec = extjson::parse_document(&format!("{{\"e\": {spec}}}")).unwrap();
    let text = "x".repeat(1 << 20);
    let root = model::doc! { "s": text.as_str(), "n": 1i32 };
    let arena = Bump::new();
    let e = parse(&mut ParseCx::new(env), spec.doc().field("e")).map_err(|e| e.code())?;
    let v = e
        .eval(&Cx::new(&arena, Value::Document(root.doc()), env))
        .map_err(|e| e.code())?;
    Ok(v.payload_bytes())
}

#[test]
fn memory_and_time_are_bounded() {
    let _alone = ALONE.lock();
    let (before, began) = (peak_kib(), cpu());
    let twice = |op: &str, start: &str| {
        format!(
            r#"{{"$reduce": {{"input": {{"$range": [0, 60]}}, "initialValue": {start},
                "in": {{"{op}": ["$$value", "$$value"]}}}}}}"#
        )
    };
    let thousand = |e: &str| vec![e; 1000].join(", ");
    for (spec, wanted) in [
        (twice("$concat", "\"$s\""), 16493),
        (twice("$concatArrays", "[\"$n\"]"), 146),
        (r#"{"$range": [0, 2147483647]}"#.to_owned(), 146),
        (r#"{"$map": {"input": {"$range": [0, 1000]}, "in": "$$ROOT"}}"#.to_owned(), 146),
        (r#"{"$map": {"input": {"$range": [0, 100000]}, "in": {"$range": [0,
            100000]}}}"#.to_owned(), 146),
        (r#"{"$reduce": {"input": {"$range": [0, 60]}, "initialValue": {}, "in": {"a": "$$value",
            "b": "$$value", "s": "$s"}}}"#.to_owned(), 146),
        (
            format!(
                r#"{{"$replaceAll": {{"input": "$s", "find": "x", "replacement": "{}"}}}}"#,
                "0123456789".repeat(10) + "abcdef"
            ),
            13548,
        ),
        (r#"{"$split": ["$s", "x"]}"#.to_owned(), 0),
        (r#"{"$zip": {"inputs": [{"$range": [0, 1000000]}, {"$range": [0, 1000000]},
            {"$range": [0, 1000000]}]}}"#.to_owned(), 146),
        (format!("[{}]", thousand("\"$s\"")), 146),
        (format!("[{}]", thousand(r#"{"$range": [0, 100000]}"#)), 146),
        (format!("[{}]", thousand(r#"{"$toUpper": "$s"}"#)), 146),
        (format!(r#"{{"$concat": [{}]}}"#, thousand("\"$s\"")), 13548),
    ] {
        let code = run(&spec, &Env::new(0, 1)).err().unwrap_or(0);
        assert_eq!(code, wanted, "{}", &spec[..spec.len().min(200)]);
    }
    assert!(cpu() - began < TIME_MAX, "{:?}", cpu() - began);
    let grown = peak_kib().saturating_sub(before);
    assert!(grown < PEAK_KIB_MAX, "the peak grew by {grown} KiB");
}

#[test]
fn garbage_of_a_fold_is_swept() {
    // 3000 steps allocate 3 MB each, 9 GB in total; the result is small.
    let spec = r#"{"$reduce": {"input": {"$range": [0, 3000]}, "initialValue": 0,
        "in": {"$add": ["$$value", {"$strLenBytes": {"$concat": ["$s", "$s", "$s"]}}]}}}"#;
    assert_eq!(run(spec, &Env::new(0, 1)), Ok(8));
}

/// A clock that stands still for a number of reads, and then passes every deadline.
struct CountingClock {
    looks: AtomicUsize,
    after: usize,
}

impl Clock for CountingClock {
    fn now_ms(&self) -> i64 {
        0
    }
    fn monotonic_us(&self) -> u64 {
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if looks <= self.after { 0 } else { u64::MAX }
    }
}

/// An environment in which this many checks of the interrupt succeed.
fn interrupt_after(after: usize) -> Env {
    let mut env = Env::new(0, 1);
    let looks = AtomicUsize::new(0);
    let operation = Operation::new_detached(Arc::new(CountingClock { looks, after }));
    operation.allow_us(1);
    env.operation = Some(Arc::new(operation));
    env
}

#[test]
fn long_loops_hear_the_interrupt() {
    let endless = |one: &str| {
        format!(
            r#"{{"$reduce": {{"input": {{"$range": [0, 1000000]}}, "initialValue": 0,
                "in": {{"$add": ["$$value", {one}]}}}}}}"#
        )
    };
    let list = r#"{"$range": ["$n", 100000]}"#;
    for one in [
        format!(r#"{{"$size": {list}}}"#),
        format!(r#"{{"$size": {{"$map": {{"input": {list}, "in": "$$this"}}}}}}"#),
        format!(r#"{{"$size": {{"$filter": {{"input": {list}, "cond": "$$this"}}}}}}"#),
        format!(r#"{{"$size": {{"$setUnion": [{list}]}}}}"#),
        format!(r#"{{"$size": {{"$reverseArray": {list}}}}}"#),
        r#"{"$strLenBytes": {"$toUpper": "$s"}}"#.to_owned(),
        r#"{"$cond": [{"$regexMatch": {"input": {"$toUpper": "$s"}, "regex": "y$"}}, 1, 0]}"#
            .to_owned(),
    ] {
        let began = cpu();
        assert_eq!(run(&endless(&one), &interrupt_after(3)), Err(50), "{one}");
        assert!(cpu() - began < TIME_MAX, "{one}: {:?}", cpu() - began);
    }
}

fn long_array() -> DocBuf {
    DocBuf::build(|w| {
        let mut a = w.array("a");
        (0..300_000i32).for_each(|n| _ = a.push(n));
    })
}

#[test]
fn filters_over_long_arrays_hear_the_interrupt() {
    let d = long_array();
    let spec = DocBuf::build(|w| {
        let mut list = w.array("$or");
        (0..5000).for_each(|n| _ = list.doc().put(&format!("a.{n}"), -5i32));
    });
    let env = interrupt_after(3);
    let f = Filter::parse(&mut ParseCx::new(&env), spec.doc()).unwrap();
    let began = cpu();
    assert_eq!(
        f.matches(d.doc(), &Bump::new(), &env).map_err(|e| e.code()),
        Err(50)
    );
    assert!(cpu() - began < TIME_MAX);
}

#[test]
fn updates_of_many_fields_are_not_quadratic() {
    let (env, arena, d) = (Env::new(0, 1), Bump::new(), long_array());
    let began = cpu();
    let mut doc: Doc<'_> = d.doc();
    let many = |each: &dyn Fn(usize) -> String| {
        DocBuf::build(|w| {
            let mut set = w.doc("$set");
            (0..50_000).for_each(|n| _ = set.put(&each(n), n as i32));
        })
    };
    let unwanted = DocBuf::build(|w| {
        let mut pull = w.doc("$pullAll");
        let mut list = pull.array("a");
        (0..50_000).for_each(|n| _ = list.push(n * 10));
    });
    let specs = [
        many(&|n| format!("f{n}")),
        many(&|n| format!("g.f{n}.x")),
        many(&|n| format!("a.{}", n * 5)),
    ];
    let updates: Vec<Update> = specs
        .iter()
        .chain([&unwanted])
        .map(|s| Update::parse(&mut ParseCx::new(&env), Value::Document(s.doc()), None).unwrap())
        .collect();
    for u in &updates {
        let cx = UpdateCx {
            arena: &arena,
            env: &env,
            inserting: false,
            position: None,
        };
        let Ok(UpdateResult::Changed(new)) = u.apply(doc, &cx) else {
            panic!("it changes")
        };
        doc = new;
    }
    assert_eq!(doc.field("f49999").as_i64_exact(), Some(49_999));
    assert!(cpu() - began < TIME_MAX, "{:?}", cpu() - began);
}
