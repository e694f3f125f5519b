//! Replaces the texts and binary values of a command by keyed hashes of equal length, in place.
//!
//! Promises: equal values stay equal within a recording; lengths, numbers, dates, ids and field
//! names are kept; the key is never written. The parts that control a command (its collection,
//! operators' options, field paths in pipelines) are kept, so that the command can be run again. A
//! command nested deeper than a server allows is refused.

use sha2::{Digest, Sha256};

/// The largest depth; servers allow 100 to 180 levels.
const DEPTH_MAX: u32 = 200;
/// Letters and digits for hashes of texts.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Top-level fields of commands that contain user data.
const DATA: [&str; 14] = [
    "documents",
    "filter",
    "query",
    "q",
    "u",
    "c",
    "updates",
    "deletes",
    "update",
    "arrayFilters",
    "let",
    "comment",
    "ops",
    "min",
];
/// Top-level fields of commands that contain expressions.
const EXPRESSIONS: [&str; 1] = ["pipeline"];
/// Fields whose texts are options and not data, at any place.
const OPTIONS: [&str; 8] = [
    "$type",
    "$options",
    "$bsonType",
    "$language",
    "collation",
    "hint",
    "$geometry",
    "$meta",
];
/// Fields whose texts are names and options inside pipelines.
const NAMES: [&str; 24] = [
    "from",
    "localField",
    "foreignField",
    "as",
    "into",
    "db",
    "coll",
    "connectFromField",
    "connectToField",
    "depthField",
    "path",
    "includeArrayIndex",
    "format",
    "timezone",
    "unit",
    "startOfWeek",
    "distanceField",
    "includeLocs",
    "key",
    "whenMatched",
    "whenNotMatched",
    "granularity",
    "on",
    "to",
];
/// Stages and operators whose texts are names of fields or collections.
const NAMING: [&str; 4] = ["$count", "$unset", "$out", "$merge"];
/// Names of GeoJSON shapes, which are kept because an index refuses other names.
const SHAPES: [&str; 7] = [
    "Point",
    "LineString",
    "Polygon",
    "MultiPoint",
    "MultiLineString",
    "MultiPolygon",
    "GeometryCollection",
];

/// The meaning of texts at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextMeaning {
    /// No user data.
    Kept,
    /// User data.
    Data,
    /// An expression: texts that begin with a dollar sign are field paths.
    Expression,
}

/// Hashes texts with a key that exists only during the recording.
pub(crate) struct Anonymiser {
    key: [u8; 32],
}

impl Anonymiser {
    /// An anonymiser with a random key that is never stored.
    pub(crate) fn new() -> Self {
        Self {
            key: rand::random(),
        }
    }

    /// Changes a command in place. `None` if it cannot be parsed to its end; then it must not be
    /// recorded.
    pub(crate) fn apply(&self, command: &mut [u8]) -> Option<()> {
        let end = self.document(command, 0, TextMeaning::Kept, 0)?;
        (end == command.len()).then_some(())
    }

    /// Processes the document at `at`; returns the position after it.
    fn document(
        &self,
        bytes: &mut [u8],
        at: usize,
        meaning: TextMeaning,
        depth: u32,
    ) -> Option<usize> {
        if depth > DEPTH_MAX {
            return None;
        }
        let end = at.checked_add(length(bytes, at)?)?;
        let mut place = at + 4;
        // The first field of a command names the command and its collection, even if fields with
        // data have the same name (update).
        let mut is_first = depth == 0;
        loop {
            let kind = *bytes.get(place)?;
            place += 1;
            if kind == 0 {
                return (place == end).then_some(end);
            }
            let name_end = place + bytes.get(place..end)?.iter().position(|byte| *byte == 0)?;
            let name = std::str::from_utf8(bytes.get(place..name_end)?).ok()?;
            let inside = if is_first {
                TextMeaning::Kept
            } else {
                nested_meaning(meaning, name, depth)
            };
            let is_shape = name == "type";
            is_first = false;
            place = self.value(bytes, kind, name_end + 1, inside, is_shape, depth)?;
            if place >= end {
                return None;
            }
        }
    }

    /// Changes the value at `at`; returns the position after it.
    fn value(
        &self,
        bytes: &mut [u8],
        kind: u8,
        at: usize,
        meaning: TextMeaning,
        is_shape: bool,
        depth: u32,
    ) -> Option<usize> {
        let text = |bytes: &[u8]| at.checked_add(4)?.checked_add(length(bytes, at)?);
        Some(match kind {
            0x01 | 0x09 | 0x11 | 0x12 => at + 8,
            0x02 | 0x0d | 0x0e => {
                let end = text(bytes)?;
                self.text(
                    bytes.get_mut(at + 4..end.checked_sub(1)?)?,
                    meaning,
                    is_shape,
                );
                end
            }
            0x03 | 0x04 => self.document(bytes, at, meaning, depth + 1)?,
            0x05 => {
                let end = text(bytes)?.checked_add(1)?;
                // The old binary subtype and vectors have a header before their bytes.
                let head = match bytes.get(at + 4)? {
                    2 => 4,
                    9 => 2,
                    _ => 0,
                };
                if meaning != TextMeaning::Kept {
                    let begin = (at + 5 + head).min(end);
                    self.replace(bytes.get_mut(begin..end)?, false);
                }
                end
            }
            0x06 | 0x0a | 0xff | 0x7f => at,
            0x07 => at + 12,
            0x08 => at + 1,
            0x0b => {
                let pattern = bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
                self.text(bytes.get_mut(at..at + pattern)?, meaning, false);
                let options = at + pattern + 1;
                options + bytes.get(options..)?.iter().position(|byte| *byte == 0)? + 1
            }
            0x0c => text(bytes)?.checked_add(12)?,
            0x0f => at.checked_add(length(bytes, at)?)?,
            0x10 => at + 4,
            0x13 => at + 16,
            _ => return None,
        })
    }

    fn text(&self, text: &mut [u8], meaning: TextMeaning, is_shape: bool) {
        let is_path = meaning == TextMeaning::Expression && text.first() == Some(&b'$');
        let is_shape = is_shape && SHAPES.iter().any(|shape| shape.as_bytes() == text);
        if meaning != TextMeaning::Kept && !is_path && !is_shape {
            self.replace(text, true);
        }
    }

    /// Replaces a value by bytes of the same length, generated from its hash.
    fn replace(&self, value: &mut [u8], as_letters: bool) {
        let mut seed = Sha256::new_with_prefix(self.key);
        seed.update([u8::from(as_letters)]);
        seed.update(&*value);
        seed.update(self.key);
        let mut hash = seed.finalize();
        for piece in value.chunks_mut(32) {
            for (to, from) in piece.iter_mut().zip(&hash) {
                *to = if as_letters {
                    LETTERS
                        .get(usize::from(*from) % LETTERS.len())
                        .copied()
                        .unwrap_or(b'a')
                } else {
                    *from
                };
            }
            hash = Sha256::digest(hash);
        }
    }
}

/// The meaning of texts below the field `name`.
fn nested_meaning(meaning: TextMeaning, name: &str, depth: u32) -> TextMeaning {
    let is_one_of = |names: &[&str]| names.contains(&name);
    match meaning {
        _ if is_one_of(&OPTIONS) => TextMeaning::Kept,
        TextMeaning::Kept if depth == 0 && is_one_of(&DATA) => TextMeaning::Data,
        TextMeaning::Kept if depth == 0 && is_one_of(&EXPRESSIONS) => TextMeaning::Expression,
        TextMeaning::Kept => TextMeaning::Kept,
        TextMeaning::Data if name == "$expr" => TextMeaning::Expression,
        TextMeaning::Expression if name == "$match" || name == "$literal" => TextMeaning::Data,
        TextMeaning::Expression if is_one_of(&NAMES) || is_one_of(&NAMING) => TextMeaning::Kept,
        same => same,
    }
}

fn length(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(super::frames::number(bytes, at)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mongodb::bson::{Binary, Bson, Document, Regex, doc, oid::ObjectId, spec::BinarySubtype};

    fn apply_to(anonymiser: &Anonymiser, command: &Document) -> Document {
        let mut bytes = command.to_vec().unwrap();
        anonymiser.apply(&mut bytes).unwrap();
        Document::from_reader(bytes.as_slice()).unwrap()
    }

    #[test]
    fn anonymising_removes_texts_and_keeps_command_structure() {
        let id = ObjectId::new();
        let secret = "Jean-Luc Pïcard";
        let command = doc! {
            "insert": "people", "$db": "crew", "ordered": true,
            "documents": [
                { "_id": id, "name": secret, "age": 59, "from": secret,
                    "photo": Binary { subtype: BinarySubtype::Generic, bytes: vec![1, 2, 3] } },
                { "again": secret, "at": { "type": "Point", "coordinates": [1.5, 2.5] },
                    "tag": Regex { pattern: "^Jean".try_into().unwrap(),
                        options: "i".try_into().unwrap() } },
            ],
        };
        let anonymiser = Anonymiser::new();
        let out = apply_to(&anonymiser, &command);
        let text = format!("{out:?}");
        assert!(!text.contains("Jean") && !text.contains("card"), "{text}");
        assert_eq!(
            (out.get_str("insert").unwrap(), out.get_str("$db").unwrap()),
            ("people", "crew")
        );
        let documents = out.get_array("documents").unwrap();
        let (first, second) = (
            documents[0].as_document().unwrap(),
            documents[1].as_document().unwrap(),
        );
        assert_eq!(
            (
                first.get_object_id("_id").unwrap(),
                first.get_i32("age").unwrap()
            ),
            (id, 59)
        );
        let name = first.get_str("name").unwrap();
        assert_eq!(name.len(), secret.len());
        assert_eq!(
            (
                first.get_str("from").unwrap(),
                second.get_str("again").unwrap()
            ),
            (name, name),
            "equal values stay equal"
        );
        assert!(matches!(first.get("photo"),
                Some(Bson::Binary(photo)) if photo.bytes.len() == 3 && photo.bytes != [1, 2, 3]));
        assert_eq!(
            second.get_document("at").unwrap().get_str("type").unwrap(),
            "Point"
        );
        assert_eq!(apply_to(&anonymiser, &command), out);
        assert_ne!(
            apply_to(&Anonymiser::new(), &command),
            out,
            "another key, other values"
        );
    }

    #[test]
    fn pipelines_keep_their_paths_and_names_but_not_their_data() {
        let pipeline = doc! { "aggregate": "a", "$db": "d", "pipeline": [
            { "$match": { "from": "alice", "$expr": { "$eq": ["$city", "Paris"] },
                "price": "$5" } },
            { "$lookup": { "from": "b", "localField": "x", "foreignField": "y", "as": "z" } },
            { "$group": { "_id": "$city", "n": { "$sum": 1 } } },
        ] };
        let text = format!("{:?}", apply_to(&Anonymiser::new(), &pipeline));
        for kept in ["\"b\"", "\"x\"", "\"y\"", "\"z\"", "$city", "$sum"] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        for gone in ["alice", "Paris", "$5"] {
            assert!(!text.contains(gone), "{gone}: {text}");
        }
        let update = doc! { "update": "c", "$db": "d",
        "updates": [{ "q": { "a": { "$type": "string" } },
            "u": { "$set": { "b": "secret" } } }] };
        let text = format!("{:?}", apply_to(&Anonymiser::new(), &update));
        assert!(
            text.contains("\"string\"")
                && text.contains("$set")
                && !text.contains("secret")
                && text.contains("\"c\""),
            "{text}"
        );
    }

    #[test]
    fn hostile_documents_are_refused_and_do_no_harm() {
        let anonymiser = Anonymiser::new();
        let mut deep = doc! {};
        for _ in 0..DEPTH_MAX + 5 {
            deep = doc! { "q": deep };
        }
        assert_eq!(anonymiser.apply(&mut deep.to_vec().unwrap()), None);
        let good = doc! { "insert": "c", "documents": [{ "a": "b", "c": [1, { "d": 1.5 }],
        "e": null }], "$db": "d" }
        .to_vec()
        .unwrap();
        for at in 0..good.len() {
            for value in [0, 1, 3, 5, 11, 0x7f, 0x80, 0xff] {
                let mut changed = good.clone();
                changed[at] = value;
                let _ = anonymiser.apply(&mut changed);
                let _ = anonymiser.apply(&mut changed[..at]);
            }
        }
    }
}
