//! Pieces of a line of the log, appended as JSON. Promises: the text is one line of valid JSON.

use model::Doc;
use model::extjson::{Mode, from_document};
use std::fmt::Write as _;

/// Appends a document as a JSON object.
pub fn append_document(out: &mut String, doc: Doc<'_>) {
    let _ = write!(out, "{}", from_document(doc, Mode::Log));
}

/// Appends a string with its quotes.
pub(crate) fn string(out: &mut String, text: &str) {
    let _ = write!(out, "{}", serde_json::Value::from(text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Value;

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
