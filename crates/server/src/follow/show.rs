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

/// Characters of a progress bar.
const BAR_WIDTH: usize = 30;

/// One line of JSON.
pub(super) fn json(status: &Document) -> String {
    object(status).to_string()
}

fn object(d: &Document) -> Value {
    let fields = d.iter().map(|(name, value)| (name.clone(), as_json(value)));
    Value::Object(fields.collect())
}

/// The value as relaxed extended JSON; types that a state never has are shown as text.
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

fn mebibytes(d: &Document, name: &str) -> f64 {
    number(d, name) as f64 / f64::from(1 << 20)
}

/// How much of the copy is done, and the estimated time for the rest.
fn bar(d: &Document) -> String {
    let total = number(d, "bytesTotal");
    let part = match total {
        0 => 0.0,
        total => (number(d, "bytesCopied") as f64 / total as f64).min(1.0),
    };
    let full = (part * BAR_WIDTH as f64) as usize;
    let left = match d.get("secondsLeft") {
        Some(_) => format!("about {} s left", number(d, "secondsLeft")),
        None => "time left unknown".to_owned(),
    };
    let bound = match number(d, "bound") {
        0 => String::new(),
        _ => format!(
            ", limited to {:.1} MiB to spare the source",
            mebibytes(d, "bound")
        ),
    };
    format!(
        "[{}{}] {:.0} % of {:.1} MiB, {:.1} MiB a second{bound}, {left}",
        "#".repeat(full),
        ".".repeat(BAR_WIDTH - full),
        part * 100.0,
        mebibytes(d, "bytesTotal"),
        mebibytes(d, "bytesPerSecond")
    )
}

/// Lines about the state.
pub(super) fn status(d: &Document) -> Vec<String> {
    let at_work = match d.get_bool("running").unwrap_or(false) {
        true => "",
        false => ", no quarry follow is running",
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
            mebibytes(d, "bytesCopied")
        ),
    ];
    if text(d, "phase") == "copying" {
        lines.push(bar(d));
    }
    if d.contains_key("applied") {
        lines.push(format!(
            "applied {} changes since its start, {} a second; {} are waiting, {} s behind ({} ms \
             when the last was applied)",
            number(d, "applied"),
            number(d, "appliedPerSecond"),
            number(d, "waiting"),
            number(d, "lagSeconds"),
            number(d, "lagMillis")
        ));
    }
    if d.get_bool("standby").unwrap_or(false) && text(d, "phase") != "done" {
        let ready = d.get_bool("ready").unwrap_or(false);
        let what = if ready {
            "may be promoted"
        } else {
            "not complete yet"
        };
        lines.push(format!("a standby: {what}"));
    }
    if let Ok(verified) = d.get_document("verified") {
        lines.push(format!(
            "last compared {} documents: {} differed, {} changed too fast",
            number(verified, "documents"),
            number(verified, "differences"),
            number(verified, "unsettled")
        ));
    }
    let findings = d.get_array("findings").map(Vec::as_slice);
    for finding in findings
        .unwrap_or_default()
        .iter()
        .filter_map(Bson::as_document)
    {
        let id = finding
            .get("id")
            .map(ToString::to_string)
            .unwrap_or_default();
        let (ns, what) = (text(finding, "namespace"), text(finding, "what"));
        lines.push(format!("found: {ns} {id} {what}"));
    }
    if let Ok(why) = d.get_document("answer").and_then(|a| a.get_str("why")) {
        lines.push(format!("the last cut-over failed: {why}"));
    }
    lines
}

/// A line about a promotion.
pub(super) fn promotion(d: &Document) -> String {
    let time = |name: &str| match d.get_timestamp(name) {
        Ok(t) => format!("{}.{}", t.time, t.increment),
        Err(_) => "an unknown time".to_owned(),
    };
    let left = match d.get_bool("sourceSteppedDown").unwrap_or(false) {
        true => "nothing is lost; the source accepts no more writes".to_owned(),
        false => format!(
            "later writes of the source may be lost; its last known time is {}",
            time("sourceTime")
        ),
    };
    format!(
        "promoted in {} ms: everything up to {} is there, {left}",
        number(d, "millis"),
        time("upTo")
    )
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
            n => format!("{n} of them differed and were corrected (see the findings)"),
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
