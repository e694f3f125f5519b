//! Appends values to a log line as JSON. Promises: the text is one line of valid JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::extjson::{Mode, from_document, from_value};
use model::{Doc, Value};
use std::fmt::Write as _;

/// Appends a document as a JSON object.
pub fn append_document(out: &mut String, doc: Doc<'_>) {
    let _ = write!(out, "{}", from_document(doc, Mode::Log));
}

/// Appends a string with its quotes.
pub(crate) fn string(out: &mut String, text: &str) {
    let _ = write!(out, "{}", serde_json::Value::from(text));
}

/// Appends a value.
pub(crate) fn value(out: &mut String, v: &Value<'_>) {
    let _ = write!(out, "{}", from_value(v, Mode::Log));
}

/// Appends binary data in the form of the first version of extended JSON.
pub(crate) fn old_binary(out: &mut String, subtype: u8, bytes: &[u8]) {
    let text = STANDARD.encode(bytes);
    let _ = write!(
        out,
        "{{\"$binary\":\"{text}\",\"$type\":\"{subtype:02x}\"}}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_one_line_and_numbers_keep_their_kind() {
        let mut out = String::new();
        let d = model::doc! { "a\"\n\u{1}": "x\ty\\", "n": 1i32, "d": 2.0, "e": 0.25,
        "in": { "list": [true, Value::Null] } };
        append_document(&mut out, d.doc());
        assert_eq!(
            out,
            r#"{"a\"\n\u0001":"x\ty\\","n":1,"d":2.0,"e":0.25,"in":{"list":[true,null]}}"#
        );
    }
}
