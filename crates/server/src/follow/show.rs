//! How a migration's state is shown: to people, and as JSON. Must not know: where it comes from.

use ::follow::{Bson, Document};
use serde_json::{Value, json};

fn text<'d>(d: &'d Document, name: &str) -> &'d str {
    d.get_str(name).unwrap_or_default()
}

fn number(d: &Document, name: &str) -> i64 {
    match d.get(name) {
        Some(Bson::Int32(n)) => i64::from(*n),
        Some(Bson::Int64(n)) => *n,
        Some(Bson::Double(n)) => *n as i64,
        _ => 0,
    }
}

/// One line of JSON.
pub(super) fn json(status: &Document) -> String {
    object(status).to_string()
}

fn object(d: &Document) -> Value {
    let fields = d.iter().map(|(name, value)| (name.clone(), as_json(value)));
    Value::Object(fields.collect())
}

/// As relaxed extended JSON has it; what a state has none of is shown as text.
fn as_json(value: &Bson) -> Value {
    match value {
        Bson::Null => Value::Null,
        Bson::Boolean(b) => json!(b),
        Bson::Int32(n) => json!(n),
        Bson::Int64(n) => json!(n),
        Bson::Double(n) => json!(n),
        Bson::String(s) => json!(s),
        Bson::Array(all) => all.iter().map(as_json).collect(),
        Bson::Document(d) => object(d),
        Bson::ObjectId(id) => json!({ "$oid": id.to_hex() }),
        Bson::Timestamp(t) => json!({ "$timestamp": { "t": t.time, "i": t.increment } }),
        Bson::DateTime(at) => match at.try_to_rfc3339_string() {
            Ok(text) => json!({ "$date": text }),
            Err(_) => json!({ "$date": at.timestamp_millis() }),
        },
        other => json!(other.to_string()),
    }
}

/// Lines about the state.
pub(super) fn status(d: &Document) -> Vec<String> {
    let at_work = match d.get_bool("running").unwrap_or(false) {
        true => "",
        false => ", nobody is at work on it",
    };
    let mut lines = vec![
        format!(
            "{}{at_work}: {} into {}",
            text(d, "phase"),
            text(d, "source"),
            text(d, "target")
        ),
        format!(
            "copied {} of {} collections, {} documents, {:.1} MiB",
            number(d, "collectionsCopied"),
            number(d, "collections"),
            number(d, "documentsCopied"),
            number(d, "bytesCopied") as f64 / f64::from(1 << 20)
        ),
    ];
    if d.contains_key("applied") {
        lines.push(format!(
            "applied {} changes since its start, {} wait, {} s behind",
            number(d, "applied"),
            number(d, "waiting"),
            number(d, "lagSeconds")
        ));
    }
    if let Ok(why) = d.get_document("answer").and_then(|a| a.get_str("why")) {
        lines.push(format!("the last cut-over was not done: {why}"));
    }
    lines
}

/// Lines about a cut-over.
pub(super) fn report(d: &Document) -> Vec<String> {
    let all = d.get_array("collections").map(Vec::as_slice);
    let all = all.unwrap_or_default().iter().filter_map(Bson::as_document);
    let mut lines: Vec<String> = { all.clone() }
        .map(|c| {
            let (source, target) = (text(c, "source"), text(c, "target"));
            let documents = number(c, "documents");
            match source == target {
                true => format!("{source}: {documents} documents"),
                false => format!("{source} as {target}: {documents} documents"),
            }
        })
        .collect();
    let collections = lines.len();
    let documents: i64 = all.map(|c| number(c, "documents")).sum();
    let (compared, mended) = (number(d, "compared"), number(d, "mended"));
    if compared > 0 {
        let differed = match mended {
            0 => "all are the same".to_owned(),
            n => format!("{n} of them differed and were put right (see the findings)"),
        };
        lines.push(format!(
            "{compared} documents compared at the end: {differed}"
        ));
    }
    lines.push(format!(
        "cut over: {collections} collections, {documents} documents"
    ));
    lines
}
