//! `serverStatus.quarry.follow`: the state of a follower in its target, as numbers.

use model::{Doc, DocBuf, Value, doc};

use crate::backup::{TestFolder, connect, ok};
use crate::client::Client;
use crate::driver::Process;

fn follow(client: &mut Client) -> DocBuf {
    let status = ok(client, &doc! { "serverStatus": 1i32, "$db": "admin" });
    let quarry = status.doc().field("quarry").as_doc().unwrap();
    quarry.field("follow").as_doc().unwrap().to_buf()
}

fn number(d: Doc<'_>, name: &str) -> f64 {
    d.field(name).as_f64().unwrap()
}

fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(now.unwrap().as_millis()).unwrap()
}

fn keep(client: &mut Client, beat: i64, phase: &str) {
    let kept = doc! { "_id": "migration", "phase": phase, "running": true, "standby": true,
    "heartbeat": Value::Date(beat), "progress": { "lagMillis": 1500i64, "waiting": 7i64,
    "applied": 90i64, "appliedPerSecond": 30i64, "documents": 5i64,
    "bytesPerSecond": 1024i64 } };
    let one = doc! { "q": { "_id": "migration" }, "u": kept.doc(), "upsert": true };
    let update = DocBuf::build(|w| {
        w.put("update", "state");
        w.array("updates").push(one.doc());
        w.put("$db", "quarry_follow");
    });
    ok(client, &update);
}

#[test]
fn what_a_follower_keeps_is_told() {
    let place = TestFolder::new();
    let server = Process::start_with(&place.at("data"), &[]);
    let mut client = connect(server.address());
    let nothing = follow(&mut client);
    assert_eq!(nothing.doc().field("phase").as_str(), Some("none"));
    assert!(!nothing.doc().field("running").truthy());
    keep(&mut client, now_ms(), "following");
    let insert = DocBuf::build(|w| {
        w.put("insert", "findings");
        w.array("documents")
            .push(doc! { "what": "different" }.doc());
        w.put("$db", "quarry_follow");
    });
    ok(&mut client, &insert);
    let told = follow(&mut client);
    let told = told.doc();
    assert!(told.field("running").truthy() && told.field("standby").truthy());
    for (name, value) in [
        ("lagSeconds", 1.5f64),
        ("lagOperations", 7.0),
        ("applied", 90.0),
        ("appliedPerSecond", 30.0),
        ("bytesPerSecond", 1024.0),
        ("documents", 5.0),
        ("findings", 1.0),
    ] {
        assert_eq!(number(told, name).to_bits(), value.to_bits(), "{name}");
    }
    // The lag of a follower that has ended grows with time.
    keep(&mut client, now_ms() - 60_000, "following");
    let told = follow(&mut client);
    assert!(!told.doc().field("running").truthy());
    assert!(number(told.doc(), "lagSeconds") >= 61.0);
    keep(&mut client, now_ms() - 60_000, "done");
    let over = number(follow(&mut client).doc(), "lagSeconds");
    assert_eq!(over.to_bits(), 0.0f64.to_bits());
}
