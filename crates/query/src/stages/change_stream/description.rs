//! `updateDescription`: makes paths from the log's difference of two documents. Must not know:
//! events.

use model::{Doc, DocBuf, DocWriter, Value};

#[derive(Default)]
struct UpdateDescription {
    updated: DocBuf,
    removed: Vec<String>,
    /// Path and new length.
    truncated: Vec<(String, i32)>,
    /// Paths that can be read in several ways: with a dot in a name, or a name that is a number.
    ambiguous: Vec<(String, Vec<Part>)>,
}

/// A component of a path: a name, or a position in an array.
#[derive(Clone)]
enum Part {
    Name(String),
    Position(i32),
}

/// Writes `updateDescription`; `paths` adds `disambiguatedPaths`.
pub(super) fn write(w: &mut DocWriter<'_>, diff: Doc<'_>, paths: bool) {
    let mut found = UpdateDescription::default();
    describe_diff(diff, &mut Vec::new(), &mut found);
    let mut d = w.doc("updateDescription");
    d.put("updatedFields", &found.updated);
    let mut removed = d.array("removedFields");
    found.removed.iter().for_each(|p| _ = removed.push(p));
    drop(removed);
    let mut truncated = d.array("truncatedArrays");
    for (path, size) in &found.truncated {
        truncated.doc().put("field", path).put("newSize", *size);
    }
    drop(truncated);
    if paths {
        let mut all = d.doc("disambiguatedPaths");
        for (path, parts) in &found.ambiguous {
            let mut list = all.array(path);
            for part in parts {
                match part {
                    Part::Name(name) => _ = list.push(name),
                    Part::Position(n) => _ = list.push(*n),
                }
            }
        }
    }
}

fn describe_diff(diff: Doc<'_>, path: &mut Vec<Part>, found: &mut UpdateDescription) {
    let array = diff.field("a").truthy() && diff.first().is_some_and(|(n, _)| n == "a");
    if array {
        if let Some(size) = diff.field("l").as_i64_exact() {
            let text = found.text(path);
            let size = i32::try_from(size).unwrap_or(i32::MAX);
            found.truncated.push((text, size));
        }
        for (name, value) in diff.iter().skip(1) {
            let Some(n) = name.get(1..).and_then(|n| n.parse().ok()) else {
                continue;
            };
            path.push(Part::Position(n));
            found.change(name.starts_with('s'), value, path);
            path.pop();
        }
        return;
    }
    for (section, value) in diff.iter() {
        let fields = value.as_doc().unwrap_or(Doc::EMPTY);
        match section {
            "d" => {
                for (name, _) in fields.iter() {
                    path.push(Part::Name(name.to_owned()));
                    let text = found.text(path);
                    found.removed.push(text);
                    path.pop();
                }
            }
            "u" | "i" => {
                for (name, value) in fields.iter() {
                    path.push(Part::Name(name.to_owned()));
                    found.change(false, value, path);
                    path.pop();
                }
            }
            _ => {
                let name = section.get(1..).unwrap_or_default();
                path.push(Part::Name(name.to_owned()));
                found.change(true, value, path);
                path.pop();
            }
        }
    }
}

impl UpdateDescription {
    fn change(&mut self, inner: bool, value: Value<'_>, path: &mut Vec<Part>) {
        if inner {
            describe_diff(value.as_doc().unwrap_or(Doc::EMPTY), path, self);
            return;
        }
        let text = self.text(path);
        self.updated.put(&text, value);
    }

    /// The path with dots; an ambiguous one is noted.
    fn text(&mut self, path: &[Part]) -> String {
        let parts: Vec<String> = path
            .iter()
            .map(|p| match p {
                Part::Name(name) => name.clone(),
                Part::Position(n) => n.to_string(),
            })
            .collect();
        let text = parts.join(".");
        let number = |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
        let ambiguous = |(n, p): (usize, &Part)| match p {
            // The first component cannot be a position, so a number there is a name.
            Part::Name(name) => name.contains('.') || number(name) && n > 0,
            Part::Position(_) => false,
        };
        if path.iter().enumerate().any(ambiguous) {
            self.ambiguous.push((text.clone(), path.to_vec()));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::extjson::parse_document;

    #[test]
    fn differences_become_paths() {
        let diff = r#"{"d": {"x": false}, "u": {"a": 1}, "i": {"b.c": 2},
            "sd": {"u": {"0": 3}, "se": {"a": true, "l": 2, "u0": 4, "s1": {"d": {"f": false}}}}}"#;
        let shown = DocBuf::build(|w| write(w, parse_document(diff).unwrap().doc(), true));
        let expected = r#"{"updateDescription": {
            "updatedFields": {"a": 1, "b.c": 2, "d.0": 3, "d.e.0": 4},
            "removedFields": ["x", "d.e.1.f"],
            "truncatedArrays": [{"field": "d.e", "newSize": 2}],
            "disambiguatedPaths": {"b.c": ["b.c"], "d.0": ["d", "0"]}}}"#;
        assert_eq!(shown.doc(), parse_document(expected).unwrap().doc());
    }
}
