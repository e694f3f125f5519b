//! Scripts alone: conversion of values in both directions, limits, isolation of operations.

use crate::{Engine, Limits};
use model::{Bump, Doc, DocBuf, OwnedValue, Result, Value, doc};
use operation::Operation;
use operators::script::{Call, CallResult, Script};
use operators::{Cx, Env};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn engine() -> Arc<Engine> {
    Arc::new(Engine::new("8.2.0", Box::new(|_, _| {})))
}

fn env(engine: &Arc<Engine>) -> Env {
    let mut env = Env::new(0, 1);
    env.scripts = Some(engine.clone());
    env
}

fn call(env: &Env, source: &str, this: Option<Doc<'_>>, args: &[Value<'_>]) -> Result<OwnedValue> {
    call_script(env, source, this, args, CallResult::Value)
}

fn call_script(
    env: &Env,
    source: &str,
    this: Option<Doc<'_>>,
    args: &[Value<'_>],
    wants: CallResult,
) -> Result<OwnedValue> {
    let (arena, script) = (Bump::new(), Script::new(source));
    let call = Call {
        script: &script,
        this: this.map(Value::Document),
        args,
        wants,
    };
    let cx = Cx::new(&arena, Value::Missing, env);
    env.scripts()?.call(&cx, &call).map(|v| v.to_owned_value())
}

/// Equal by bytes.
fn same(got: Value<'_>, want: Value<'_>, what: &str) {
    assert_eq!(got.to_owned_value(), want.to_owned_value(), "{what}");
}

/// A document with a field of each type.
fn every_type() -> DocBuf {
    doc! {
        "double": 1.5, "int": 7i32, "long": Value::Int64(i64::MAX), "text": "h\u{e9}\u{1F600}\0x",
        "doc": { "n": 1i32, "10": 2i32, "__proto__": 3i32 }, "list": [1i32, 2.0, "x", [3i32]],
        "bin": Value::Binary(model::Binary { subtype: 4, bytes: &[7; 16] }),
        "short": Value::Binary(model::Binary { subtype: 0, bytes: &[1, 2] }),
        "id": model::ObjectId([9; 12]), "yes": true, "date": Value::Date(1_234_567_890_123),
        "none": Value::Null, "re": Value::Regex(model::Regex { pattern: "^a/b", options: "im" }),
        "ts": Value::Timestamp(model::Timestamp { time: 4_000_000_000, increment: 2 }),
        "dec": model::Decimal128::parse("1.50").unwrap(), "min": Value::MinKey,
        "max": Value::MaxKey, "code": Value::Code("x => x"),
        "scoped": Value::CodeWithScope("x", doc! { "x": 1.0 }.as_bytes()),
        "pointer": Value::DbPointer("a.b", model::ObjectId([3; 12])),
        "undefined": Value::Undefined
    }
}

#[test]
fn every_type_goes_through_and_back() {
    let engine = engine();
    let env = env(&engine);
    let d = every_type();
    let back = call(
        &env,
        "function(d) { return d }",
        None,
        &[Value::Document(d.doc())],
    )
    .unwrap();
    let back = back.get().as_doc().unwrap();
    for (name, v) in d.doc().iter() {
        let got = back.field(name);
        if name == "doc" {
            // JavaScript moves names that are numbers to the front.
            let inner = got.as_doc().unwrap();
            same(inner.field("__proto__"), Value::Int32(3), "__proto__");
            assert_eq!(inner.count(), 3);
            continue;
        }
        assert_eq!(got.tag(), v.tag(), "{name}: {got:?}");
        same(got, v, name);
    }
    assert_eq!(back.count(), d.doc().count());
}

#[test]
fn numbers_from_scripts_are_doubles_except_typed_ones_and_unchanged_fields() {
    let engine = engine();
    let env = env(&engine);
    let number = |source: &str| call(&env, source, None, &[Value::Int32(5)]).unwrap();
    assert_eq!(number("x => x + 1").get().tag(), model::Tag::DOUBLE);
    assert_eq!(number("x => x").get().tag(), model::Tag::DOUBLE);
    assert_eq!(number("x => NumberInt(x)").get().tag(), model::Tag::INT32);
    assert_eq!(number("x => NumberLong(x)").get().tag(), model::Tag::INT64);
    assert_eq!(
        number("x => NumberDecimal(x)").get().tag(),
        model::Tag::DECIMAL128
    );
    let d = doc! { "a": 1i32, "b": 2i32, "c": { "d": 3i32 } };
    let changed = call(
        &env,
        "function(d) { d.b++; d.e = d.c.d; return d }",
        None,
        &[Value::Document(d.doc())],
    )
    .unwrap();
    let changed = changed.get().as_doc().unwrap();
    let tags: Vec<_> = changed.iter().map(|(_, v)| v.type_name()).collect();
    assert_eq!(tags, ["int", "double", "object", "double"]);
    assert_eq!(
        changed.field("c").as_doc().unwrap().field("d").tag(),
        model::Tag::INT32
    );
}

#[test]
fn what_scripts_may_be_and_what_truth_is() {
    let engine = engine();
    let env = env(&engine);
    let d = doc! { "a": 2i32, "s": "x" };
    let truth = |source: &str| {
        let v = call_script(&env, source, Some(d.doc()), &[], CallResult::Truth);
        v.map(|v| v.get().as_bool() == Some(true))
            .map_err(|e| e.code())
    };
    for (source, want) in [
        ("this.a == 2", Ok(true)),
        ("obj.a == 2 && fullObject", Ok(true)),
        ("return this.a > 5", Ok(false)),
        ("function() { return this.s == 'x' }", Ok(true)),
        ("var n = this.a; n == 2", Ok(false)),
        ("var n = this.a; return n == 2;", Ok(true)),
        ("function() { return this.s }", Ok(true)),
        ("0/0", Ok(false)),
        ("''", Ok(false)),
        ("/* nothing */", Ok(false)),
        ("this.hasOwnProperty('s') && !('t' in this)", Ok(true)),
        ("Object.keys(this).length == 2", Ok(true)),
        ("this.none.deep", Err(139)),
        ("this.a ==", Err(139)),
        ("throw 'up'", Err(139)),
        ("nothing_here", Err(139)),
    ] {
        assert_eq!(truth(source), want, "{source}");
    }
}

#[test]
fn helpers_of_the_shell() {
    let engine = engine();
    let env = env(&engine);
    for (source, want) in [
        (
            "tojson({a: 1, b: [ObjectId('0123456789abcdef01234567')]}, '', true)",
            "{ \"a\" : 1, \"b\" : [ ObjectId(\"0123456789abcdef01234567\") ] }",
        ),
        (
            "tojsononeline(NumberLong('9223372036854775807'))",
            "NumberLong(\"9223372036854775807\")",
        ),
        ("'' + NumberLong(5)", "5"),
        ("NumberLong(5).toString()", "NumberLong(5)"),
        (
            "tojsononeline(ISODate('2020-02-03T04:05:06.007+01:30'))",
            "ISODate(\"2020-02-03T02:35:06.007Z\")",
        ),
        ("'' + Array.sum([1, NumberLong(2), NumberInt(3)])", "6"),
        ("'' + Array.avg([1, 2])", "1.5"),
        ("tojsononeline(Array.unique([1, 1, 2]))", "[ 1, 2 ]"),
        (
            "UUID('00112233-4455-6677-8899-aabbccddeeff').toString()",
            "UUID(\"00112233-4455-6677-8899-aabbccddeeff\")",
        ),
        ("HexData(0, 'ff00').base64()", "/wA="),
        (
            "MD5('d41d8cd98f00b204e9800998ecf8427e').hex()",
            "d41d8cd98f00b204e9800998ecf8427e",
        ),
        ("hex_md5('')", "d41d8cd98f00b204e9800998ecf8427e"),
        (
            "ObjectId('5e0be100deadbeefdeadbeef').getTimestamp().toISOString()",
            "2020-01-01T00:00:00.000Z",
        ),
        (
            "tojsononeline([MinKey, MaxKey, Timestamp(1, 2)])",
            "[ { \"$minKey\" : 1 }, { \"$maxKey\" : 1 }, Timestamp(1, 2) ]",
        ),
        (
            "'' + (NumberDecimal('1.10') instanceof NumberDecimal)",
            "true",
        ),
        ("version()", "8.2.0"),
        (
            "typeof Atomics + typeof SharedArrayBuffer + typeof require",
            "undefinedundefinedundefined",
        ),
        ("'\u{D7FF}' + '\\ud800'", "\u{D7FF}\u{FFFD}"),
        (
            "isString('') + ' ' + isNumber(NumberLong(1)) + ' ' + isObject({})",
            "true true true",
        ),
    ] {
        let got = call(&env, source, None, &[]);
        assert_eq!(
            got.as_ref().ok().and_then(|v| v.get().as_str()),
            Some(want),
            "{source}: {got:?}"
        );
    }
}

#[test]
fn values_that_are_no_bson_are_refused() {
    let engine = engine();
    let env = env(&engine);
    for (source, want) in [
        ("let o = {}; o.o = o; return o", 17279),
        ("let o = []; o[0] = o; return o", 17279),
        ("return Symbol()", 139),
        ("return 2n ** 64n", 139),
        ("return 'x'.repeat(20e6)", 17260),
        ("let a = []; a.length = 4294967295; return a", 17260),
        ("return {['a\\0b']: 1}", 139),
        ("return {get a() { throw new Error('x') }}", 139),
        ("return new Proxy({}, {ownKeys() { while (true); }})", 11601),
    ] {
        engine.set_limits(Limits {
            call: Duration::from_millis(300),
            ..Limits::default()
        });
        let got = call(&env, source, None, &[]).map_err(|e| e.code());
        assert_eq!(got.err(), Some(want), "{source}");
    }
}

/// Longest uninterruptible step of the engine: converting a number of a million bits to text takes
/// six seconds in a debug build on a busy machine.
const STEP_MAX: Duration = Duration::from_secs(20);

/// Scripts that would run for ever, take all memory or all stack.
const HOSTILE: &[&str] = &[
    "while (true);",
    "for (;;) { try { while (true); } catch (e) {} finally { continue } }",
    "function f() { f() } f()",
    "function f() { try { f() } catch (e) { f() } } f()",
    "let a = []; while (true) a.push(a.slice())",
    "let s = 'x'; while (true) s += s",
    "let a = []; for (;;) a.push(new Array(1e6).fill(1))",
    "let a = []; for (;;) { try { a.push('y'.repeat(1e6)) } catch (e) { } }",
    "/(a+)+$/.test('a'.repeat(40) + 'b')",
    "new Array(4294967295).join('xxxxxxxx')",
    "let a = []; a.length = 4294967295; a.indexOf(1); a.includes(1); a.sort(); a.reverse()",
    "[].indexOf.call({ length: 2 ** 53 - 1 }, 1)",
    "[].fill.call({ length: 2 ** 53 - 1 }, 1)",
    "[].lastIndexOf.call(new Proxy({ length: 2 ** 53 - 1 }, {}), 1)",
    "Array.from({ length: 2 ** 53 - 1 })",
    "JSON.parse('['.repeat(1e6))",
    "JSON.stringify((function n(d) { return d ? [n(d - 1)] : [] })(2000))",
    "let n = 3n; while (true) n = n * n",
    "(2n ** 1000000n).toString()",
    "sleep(1e9)",
    "new RegExp('(' .repeat(1e5) + ')'.repeat(1e5))",
    "eval('('.repeat(1e6))",
    "eval('x='.repeat(1e6) + '1')",
    "let o = {}; for (let i = 0; ; i++) o['k' + i] = i",
    "const p = new Proxy({}, { get(t, k, r) { return r[k] } }); p.x",
    "'a'.repeat(4e6).indexOf('a'.repeat(2e6) + 'b')",
    "'a'.repeat(4e6).lastIndexOf('b' + 'a'.repeat(2e6))",
    "'a'.repeat(4e6).split('a'.repeat(2e6) + 'b')",
    "'a'.repeat(4e6).replaceAll('a'.repeat(2e6) + 'b', '')",
    "new Set('ab'.repeat(1e6)); new Map(); new Uint8Array(2 ** 33)",
    "(async function f() { for (;;) await f() })()",
    "function* g() { for (;;) yield* g() } [...g()]",
    "'x'.padEnd(2 ** 30).normalize('NFD')",
    "'a'.repeat(5e7).replace(/a/g, 'b')",
    "'a'.repeat(2e7).split('')",
    "'ab'.repeat(2e7).match(/a/g)",
    "let a = []; a.length = 4294967295; JSON.stringify(a)",
    "let a = []; a.length = 4294967295; [a, a].flat(); ''.concat(a)",
    "let a = []; a.length = 4294967295; [...a]",
    "let a = []; a.length = 4294967295; a.forEach(x => x); for (const k in a);",
    "let a = []; a.length = 4294967295; Object.entries(a); structuredClone(a)",
    "String.raw({ raw: { length: 2 ** 53 - 1 } })",
    "Math.max.apply(null, { length: 2 ** 53 - 1 })",
    "[...Array(1e6).keys()].map(x => 'k' + x % 7).sort()",
    "new Uint8Array(6e7).join()",
    "let s = 'x'.repeat(2e7); for (;;) s.toUpperCase().normalize().localeCompare(s)",
    "Object.defineProperty(Object.prototype, 'x', { get() { return this.x } }); ({}).x",
];

#[test]
fn hostile_scripts_end_in_bounded_time_and_memory() {
    let engine = engine();
    engine.set_limits(Limits {
        call: Duration::from_millis(300),
        heap_bytes: 64 << 20,
        ..Limits::default()
    });
    for source in HOSTILE {
        let env = env(&engine);
        let begun = Instant::now();
        let got = call(&env, &format!("function() {{ {source} }}"), None, &[]);
        let took = begun.elapsed();
        if let Err(e) = &got {
            assert!(matches!(e.code(), 139 | 11601), "{source}: {e:?}");
        }
        println!(
            "{took:?} {source} {:?}",
            got.as_ref().map_err(|e| e.code()).err()
        );
        assert!(took < STEP_MAX, "{source}: {took:?}");
    }
    assert!(
        call(&env(&engine), "1 + 1", None, &[]).is_ok(),
        "the thread goes on"
    );
}

#[test]
fn operations_do_not_see_each_other_and_the_interrupt_ends_them() {
    let engine = engine();
    let (first, mut second) = (env(&engine), env(&engine));
    let count = "function() { n = (typeof n == 'undefined' ? 0 : n) + 1; return n }";
    for want in [1.0, 2.0] {
        same(
            call(&first, count, None, &[]).unwrap().get(),
            Value::Double(want),
            "first",
        );
    }
    assert!(
        call(
            &first,
            "Array.prototype.map = Object.keys = null",
            None,
            &[]
        )
        .is_ok()
    );
    same(
        call(&second, count, None, &[]).unwrap().get(),
        Value::Double(1.0),
        "second",
    );
    assert!(call(&second, "Object.keys([1].map(x => x)).length", None, &[]).is_ok());
    second.script_scope = Some(doc! { "factor": 3i32 });
    let third = {
        let mut e = env(&engine);
        e.script_scope = Some(doc! { "factor": 3i32 });
        e
    };
    same(
        call(&third, "factor * 2", None, &[]).unwrap().get(),
        Value::Double(6.0),
        "third",
    );
    let mut killed = env(&engine);
    let operation = Operation::new_detached(Arc::new(operation::SystemClock::default()));
    operation.kill(model::MongoError::new(50, "too late"));
    killed.operation = Some(Arc::new(operation));
    let e = call(&killed, "while (true);", None, &[]).unwrap_err();
    assert_eq!(e.code(), 50);
}

#[test]
fn emit_and_fold() {
    let engine = engine();
    let e = env(&engine);
    let d = doc! { "k": "a", "n": 4i32, "list": [1i32, 2i32] };
    let map = "function() { for (const x of this.list) emit(this.k, x); emit(undefined, this) }";
    let got = call_script(&e, map, Some(d.doc()), &[], CallResult::Emitted).unwrap();
    let want = doc! { "": [{ "k": "a", "v": 1.0 }, { "k": "a", "v": 2.0 },
    { "k": Value::Null, "v": { "k": "a", "n": 4i32, "list": [1i32, 2i32] } }] };
    same(got.get(), want.doc().field(""), map);
    for (source, code) in [("emit(1)", 31220), ("emit(1, 2, 3)", 31220)] {
        let got = call_script(&e, source, Some(d.doc()), &[], CallResult::Emitted);
        assert_eq!(got.map_err(|e| e.code()).err(), Some(code));
    }
    let misplaced = call(&e, "emit(1, 2)", None, &[]).map_err(|e| e.code());
    assert_eq!(misplaced.err(), Some(9712400));
    engine.set_limits(Limits {
        emitted_bytes: 1000,
        ..Limits::default()
    });
    let e = env(&engine);
    let much = "while (true) { try { emit(1, 'x'.repeat(100)) } catch (e) {} }";
    let got = call_script(&e, much, Some(d.doc()), &[], CallResult::Emitted);
    assert_eq!(got.map_err(|e| e.code()).err(), Some(31292));
    let calls = doc! { "": [[1i32, 2i32], [3i32, 4i32]] };
    let args = [Value::Double(10.0), calls.doc().field("")];
    let got = call_script(&e, "(s, a, b) => s + a * b", None, &args, CallResult::Fold).unwrap();
    same(got.get(), Value::Double(24.0), "fold");
}

#[test]
fn what_is_printed_reaches_the_log() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = lines.clone();
    let print = Box::new(move |_, line: &str| seen.lock().unwrap().push(line.to_owned()));
    let engine = Arc::new(Engine::new("8.2.0", print));
    let e = env(&engine);
    call(
        &e,
        "print('a', 1, {b: 2}); printjsononeline([1]); throw 1",
        None,
        &[],
    )
    .unwrap_err();
    assert_eq!(*lines.lock().unwrap(), ["a 1 { \"b\" : 2 }", "[ 1 ]"]);
}

/// Environment variable with the release for a second run of this program in a time zone other than
/// UTC.
const RELEASE: &str = "QUARRY_TEST_LOCAL_DATES";

/// Local time is the host's in 8.2, and UTC since 9.0. The time zone belongs to the process, so the
/// test runs itself again in another zone.
#[test]
fn local_dates_are_utc_since_9_0() {
    let Ok(release) = std::env::var(RELEASE) else {
        for profile in operators::Profile::ALL {
            let ran = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tests::local_dates_are_utc_since_9_0"])
                .env("TZ", "XST5")
                .env(RELEASE, profile.name())
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success(), "{}: {said}", profile.name());
        }
        return;
    };
    let engine = engine();
    let mut env = env(&engine);
    env.profile = operators::Profile::find(&release).unwrap();
    let is_utc = env.profile.has_utc_scripts();
    for (expression, local, utc) in [
        ("d.getHours()", "8", "13"),
        ("d.getTimezoneOffset()", "300", "0"),
        ("d.getUTCHours()", "13", "13"),
        ("d.getTime()", "1705325400000", "1705325400000"),
        (
            "d.toString()",
            "\"Mon Jan 15 2024 08:30:00 GMT-0500\"",
            "\"Mon Jan 15 2024 13:30:00 GMT+0000\"",
        ),
        (
            "d.toTimeString()",
            "\"08:30:00 GMT-0500\"",
            "\"13:30:00 GMT+0000\"",
        ),
        (
            "d.toLocaleString()",
            "\"01/15/2024, 08:30:00 AM\"",
            "\"01/15/2024, 01:30:00 PM\"",
        ),
        (
            "new Date(2024, 0, 15, 13, 30).getTime()",
            "1705343400000",
            "1705325400000",
        ),
        (
            "new Date('2024-01-15T13:30:00').getTime()",
            "1705343400000",
            "1705325400000",
        ),
        (
            "new Date('2024-01-15T13:30:00+01:00').getTime()",
            "1705321800000",
            "1705321800000",
        ),
        (
            "new Date('2024-01-15').getTime()",
            "1705276800000",
            "1705276800000",
        ),
        ("(d.setHours(1), d.getUTCHours())", "6", "1"),
        ("new Date(d) instanceof Date", "true", "true"),
    ] {
        let source = format!("function (d) {{ return {expression}; }}");
        let given = [Value::Date(1_705_325_400_000)];
        let got = call(&env, &source, None, &given).expect(expression);
        let number = got.get().as_f64().map(|n| n.to_string());
        let shown = number.unwrap_or_else(|| got.get().to_string());
        assert_eq!(shown, if is_utc { utc } else { local }, "{expression}");
    }
}
