//! Truncates attributes that are too long for a line, each individually, as mongod does: the
//! beginning is kept, and the line says where the attribute was cut and how long it was.
//!
//! Promises: what remains is a valid value; all other attributes are unchanged. Must not know: what
//! attributes mean.

use model::{Array, ArrayWriter, Doc, DocBuf, DocWriter, Value};

/// Longest attribute in bytes of BSON; mongod's `maxLogSizeKB`.
const ATTRIBUTE_BYTES_MAX: usize = 10 * 1024;
/// Bytes of BSON for an element, besides its name and value.
const ELEMENT_BYTES: usize = 2;

/// Where attributes were truncated.
#[derive(Clone, Debug)]
pub(crate) struct Truncation {
    /// For each attribute, the path to the place of the cut, with type and size of the value there.
    pub(crate) truncated: DocBuf,
    /// The number of bytes of each attribute.
    pub(crate) size: DocBuf,
}

/// Truncates attributes that are too long; `None` if there are none.
pub(crate) fn shorten(attr: Doc<'_>) -> Option<(DocBuf, Truncation)> {
    let is_long = |value: &Value<'_>| value.payload_bytes() > ATTRIBUTE_BYTES_MAX;
    if !attr.iter().any(|(_, value)| is_long(&value)) {
        return None;
    }
    let (mut truncated, mut size) = (DocBuf::new(), DocBuf::new());
    let short = DocBuf::build(|w| {
        for (name, value) in attr.iter() {
            if !is_long(&value) {
                w.put(name, value);
                continue;
            }
            size.put(name, byte_count(&value));
            let mut scissors = ValueShortener::new();
            scissors.put(name, value, ValueSlot::Field(w, name));
            if !scissors.path.is_empty() {
                truncated.append(|cut| scissors.write_place(&scissors.path, cut));
            }
        }
    });
    Some((short, Truncation { truncated, size }))
}

fn byte_count(value: &Value<'_>) -> i64 {
    i64::try_from(value.payload_bytes()).unwrap_or(i64::MAX)
}

/// Where a value is written.
enum ValueSlot<'p, 'w> {
    Field(&'p mut DocWriter<'w>, &'p str),
    Item(&'p mut ArrayWriter<'w>),
}

impl ValueSlot<'_, '_> {
    fn put(self, value: Value<'_>) {
        match self {
            ValueSlot::Field(w, name) => _ = w.put(name, value),
            ValueSlot::Item(w) => _ = w.push(value),
        }
    }

    fn doc(&mut self) -> DocWriter<'_> {
        match self {
            ValueSlot::Field(w, name) => w.doc(name),
            ValueSlot::Item(w) => w.doc(),
        }
    }

    fn array(&mut self) -> ArrayWriter<'_> {
        match self {
            ValueSlot::Field(w, name) => w.array(name),
            ValueSlot::Item(w) => w.array(),
        }
    }
}

/// Copies values as long as bytes are left.
struct ValueShortener {
    left: usize,
    /// The path to the value being copied; after the cut, the path to the cut.
    path: Vec<String>,
    /// Type and size of the value that was cut.
    kind: &'static str,
    size: i64,
}

impl ValueShortener {
    fn new() -> ValueShortener {
        ValueShortener {
            left: ATTRIBUTE_BYTES_MAX,
            path: Vec::new(),
            kind: "",
            size: 0,
        }
    }

    /// Copies a value, or the part of it that fits. Returns whether it was copied completely.
    fn put(&mut self, name: &str, value: Value<'_>, mut place: ValueSlot<'_, '_>) -> bool {
        self.path.push(name.to_owned());
        let bytes = value.payload_bytes() + name.len() + ELEMENT_BYTES;
        let is_whole = match value {
            value if bytes <= self.left => {
                self.left -= bytes;
                place.put(value);
                true
            }
            Value::Document(doc) => self.put_fields(&mut place.doc(), doc),
            Value::Array(items) => self.put_items(&mut place.array(), items),
            other => {
                if let Value::String(text) = other {
                    let end = text.floor_char_boundary(self.left.min(text.len()));
                    place.put(Value::String(text.get(..end).unwrap_or("")));
                }
                (self.kind, self.size) = (other.type_name(), byte_count(&other));
                false
            }
        };
        if is_whole {
            self.path.pop();
        }
        is_whole
    }

    fn put_fields(&mut self, w: &mut DocWriter<'_>, doc: Doc<'_>) -> bool {
        doc.iter()
            .all(|(name, value)| self.put(name, value, ValueSlot::Field(w, name)))
    }

    fn put_items(&mut self, w: &mut ArrayWriter<'_>, items: Array<'_>) -> bool {
        let mut items = items.iter().enumerate();
        items.all(|(index, value)| self.put(&index.to_string(), value, ValueSlot::Item(w)))
    }

    /// Writes the rest of the path as nested documents, with type and size in the innermost.
    fn write_place(&self, path: &[String], w: &mut DocWriter<'_>) {
        match path.split_first() {
            Some((name, rest)) => self.write_place(rest, &mut w.doc(name)),
            None => _ = w.put("type", self.kind).put("size", self.size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_cut_and_everything_else_stays() {
        let updates = DocBuf::build(|w| {
            w.put("update", "c");
            let mut all = w.array("updates");
            for n in 0..1000 {
                let mut one = all.doc();
                one.doc("q").put("_id", n);
                one.doc("u").put("pad", "x".repeat(100).as_str());
            }
        });
        let attr = DocBuf::build(|w| {
            w.put("ns", "a.c")
                .put("command", &updates)
                .put("durationMillis", 950);
        });
        let (short, cut) = shorten(attr.doc()).unwrap();
        let shown = short.doc();
        assert!(shown.len_bytes() < 11 * 1024, "{}", shown.len_bytes());
        assert_eq!(shown.field("ns").as_str(), Some("a.c"));
        assert!(matches!(shown.field("durationMillis"), Value::Int32(950)));
        let truncated = cut.truncated.to_string();
        assert!(
            truncated.starts_with("{ command: { updates: { 7")
                && truncated.contains("u: { pad: { type: \"string\", size: 105 } }"),
            "{truncated}"
        );
        let size = cut.size.doc().field("command");
        assert!(matches!(size, Value::Int64(n) if n == updates.doc().len_bytes() as i64));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = "ä".repeat(20_000);
        let attr = model::doc! { "error": text.as_str() };
        let (short, cut) = shorten(attr.doc()).unwrap();
        let shown = short.doc().field("error").as_str().unwrap().len();
        assert!((10_000..=ATTRIBUTE_BYTES_MAX).contains(&shown), "{shown}");
        assert_eq!(
            cut.truncated.to_string(),
            "{ error: { type: \"string\", size: 40005 } }"
        );
    }

    #[test]
    fn what_fits_is_left_alone() {
        let attr = model::doc! { "error": "x".repeat(10_000).as_str() };
        assert!(shorten(attr.doc()).is_none());
    }
}
