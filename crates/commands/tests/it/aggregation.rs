//! Pipelines through the command: what the recorded cases leave open.

use crate::behaviour::send;
use commands::Service;
use model::{DocBuf, Value, extjson};
use std::sync::Arc;

/// Sends a command given as extended JSON to the database `db` and returns the reply.
pub(crate) fn ask(s: &Arc<Service>, command: &str) -> DocBuf {
    ask_on(s, "db", command)
}

fn ask_on(s: &Arc<Service>, db: &str, command: &str) -> DocBuf {
    let json = serde_json::from_str(command).unwrap_or_else(|e| panic!("{e}: {command}"));
    let command = extjson::document(&json).unwrap_or_else(|e| panic!("{e:?}: {command}"));
    send(s, &mut s.connect("127.0.0.1:1"), db, command.doc())
}

/// The code of the error, also of a write error; 0 for success.
pub(crate) fn code(s: &Arc<Service>, command: &str) -> i64 {
    code_of(&ask(s, command))
}

fn code_of(reply: &DocBuf) -> i64 {
    let d = reply.doc();
    let first = d.field("writeErrors").as_array().and_then(|a| a.get(0)).and_then(|v| v.as_doc()).map(|d| d.field("code"));
    first.unwrap_or(d.field("code")).as_i64_exact().unwrap_or(0)
}

fn batch(reply: &DocBuf) -> Vec<DocBuf> {
    let cursor = reply.doc().field("cursor").as_doc().unwrap_or_else(|| panic!("{reply:?}"));
    cursor.field("firstBatch").as_array().unwrap().iter().filter_map(|v| v.as_doc().map(|d| d.to_buf())).collect()
}

/// The names in a listing, sorted.
pub(crate) fn names(reply: &DocBuf) -> Vec<String> {
    let mut all: Vec<String> = batch(reply).iter().map(|d| d.doc().field("name").as_str().unwrap().to_owned()).collect();
    all.sort();
    all
}

/// The documents of a first batch as text; an error as its code.
pub(crate) fn found(s: &Arc<Service>, command: &str) -> Vec<String> {
    let reply = ask(s, command);
    match code_of(&reply) {
        0 => batch(&reply).iter().map(|d| format!("{d:?}")).collect(),
        n => vec![n.to_string()],
    }
}

/// [`found`] of a pipeline over `c`.
fn over(s: &Arc<Service>, pipeline: &str) -> Vec<String> {
    found(s, &format!(r#"{{"aggregate": "c", "pipeline": {pipeline}, "cursor": {{}}}}"#))
}
