//! Which of some paths' fields a document has, and in which order: with it and the values of the
//! paths, the document can be rebuilt at these paths. Must not know: where shapes and values are
//! kept.

use super::column::Column;
use super::paths::{Name, Paths};
use model::{Doc, DocWriter, FieldPath, Tag};
use rustc_hash::FxHashMap;

/// The end of the last begun embedded document.
const END: u16 = 0;
/// The start of an embedded document through which paths lead; the number of one of these paths
/// follows.
const INSIDE: u16 = 1;
/// The word for path 0 with a value; paths are numbered from here.
const FIRST: u16 = 2;

impl Paths {
    /// Appends the shape of a document.
    ///
    /// # Output
    /// False when the document has no shape: a path leads through an array, or a name occurs twice.
    pub fn put_shape(&self, doc: Doc<'_>, out: &mut Vec<u8>) -> bool {
        put_level(self.roots(), doc, out)
    }
}

fn put_level(names: &[Name], doc: Doc<'_>, out: &mut Vec<u8>) -> bool {
    let mut found = 0u64;
    for e in doc.elements() {
        let mut all = names.iter().enumerate();
        let Some((at, name)) = all.find(|(_, n)| n.name.as_bytes() == e.name) else {
            continue;
        };
        if found & 1 << at != 0 {
            return false;
        }
        found |= 1 << at;
        if let Some(column) = name.column {
            let Ok(column) = u16::try_from(column) else {
                return false;
            };
            put(column.saturating_add(FIRST), out);
        }
        if name.below.is_empty() {
            continue;
        }
        match (e.tag, find_column(&name.below)) {
            (Tag::DOCUMENT, Some(some)) => {
                put(INSIDE, out);
                put(some, out);
                if !put_level(&name.below, Doc::from_prefix(e.payload), out) {
                    return false;
                }
                put(END, out);
            }
            (Tag::ARRAY | Tag::DOCUMENT, _) => return false,
            _ => {}
        }
    }
    true
}

fn put(number: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// The number of any path that leads through one of these names.
fn find_column(names: &[Name]) -> Option<u16> {
    let first = names.first()?;
    match first.column {
        Some(column) => u16::try_from(column).ok(),
        None => find_column(&first.below),
    }
}

/// Rebuilds documents from their shapes and the values of some paths.
pub struct Assembly {
    /// All paths of the shapes; for the wanted ones the number of the column of their values.
    paths: Vec<(FieldPath, Option<usize>)>,
    /// The steps for each shape already seen, by its words.
    known: FxHashMap<u64, Vec<ShapeToken>>,
}

enum ShapeToken {
    /// Writes the value of this column.
    Value(usize, Box<str>),
    /// Begins an embedded document.
    Open(Box<str>),
    /// Ends it.
    Close,
}

impl Assembly {
    /// For shapes of these paths, in their order; each wanted path names its column.
    pub fn new(paths: Vec<(FieldPath, Option<usize>)>) -> Assembly {
        Assembly {
            paths,
            known: FxHashMap::default(),
        }
    }

    /// Writes the wanted paths of the document in a row. `shapes` and `columns` belong to the same
    /// documents.
    pub fn write(
        &mut self,
        shapes: &Column,
        columns: &[Option<Column>],
        row: usize,
        w: &mut DocWriter<'_>,
    ) {
        let Some(word) = shapes.words().get(row) else {
            return;
        };
        let paths = &self.paths;
        let steps = self.known.entry(*word).or_insert_with(|| {
            let (mut room, mut steps) = ([0; 8], Vec::new());
            let (_, mut shape) = shapes.payload(row, &mut room);
            compile(paths, &mut shape, 0, &mut steps);
            steps
        });
        write_steps(&mut steps.iter(), columns, row, w);
    }
}

fn next(shape: &mut &[u8]) -> Option<u16> {
    let (number, rest) = shape.split_first_chunk::<2>()?;
    *shape = rest;
    Some(u16::from_le_bytes(*number))
}

fn compile(
    paths: &[(FieldPath, Option<usize>)],
    shape: &mut &[u8],
    depth: usize,
    steps: &mut Vec<ShapeToken>,
) {
    let name_of = |number: u16| {
        let (path, place) = paths.get(usize::from(number))?;
        Some((path, path.parts().get(depth)?.name.as_str(), *place))
    };
    // The last name whose whole value was written; paths below it are part of that value.
    let mut whole = None;
    while let Some(number) = next(shape).filter(|n| *n != END) {
        if number != INSIDE {
            if let Some((_, name, Some(place))) = name_of(number - FIRST) {
                steps.push(ShapeToken::Value(place, name.into()));
                whole = Some(name);
            }
            continue;
        }
        let through = next(shape).and_then(name_of);
        let mut below = Vec::new();
        compile(paths, shape, depth + 1, &mut below);
        if let Some((path, name, _)) = through
            && whole != Some(name)
            && wants_below(paths, path, depth)
        {
            steps.push(ShapeToken::Open(name.into()));
            steps.append(&mut below);
            steps.push(ShapeToken::Close);
        }
    }
}

/// Whether a wanted path continues below the first `depth + 1` parts of `path`.
fn wants_below(paths: &[(FieldPath, Option<usize>)], path: &FieldPath, depth: usize) -> bool {
    let parts = path.parts().iter().take(depth + 1);
    let goes = |p: &FieldPath| {
        let mut same = p.parts().iter().zip(parts.clone());
        p.parts().len() > depth + 1 && same.all(|(a, b)| a.name == b.name)
    };
    paths.iter().any(|(p, place)| place.is_some() && goes(p))
}

fn write_steps(
    steps: &mut std::slice::Iter<'_, ShapeToken>,
    columns: &[Option<Column>],
    row: usize,
    w: &mut DocWriter<'_>,
) {
    while let Some(step) = steps.next() {
        match step {
            ShapeToken::Close => return,
            ShapeToken::Open(name) => write_steps(steps, columns, row, &mut w.doc(name)),
            ShapeToken::Value(place, name) => {
                let Some(Some(column)) = columns.get(*place) else {
                    continue;
                };
                let mut room = [0; 8];
                let (tag, payload) = column.payload(row, &mut room);
                if tag != Tag::MISSING {
                    w.put_raw(name.as_bytes(), tag, payload);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    /// The document rebuilt through its shape at the wanted paths among all paths.
    fn rebuild_document(doc: Doc<'_>, all: &[&str], wanted: &[&str]) -> Option<String> {
        let mut paths = Paths::default();
        let mut asked = Vec::new();
        for path in all {
            let at = paths.add(&FieldPath::new(path));
            asked.push((FieldPath::new(path), at.filter(|_| wanted.contains(path))));
        }
        let mut columns = Vec::new();
        columns.resize_with(all.len(), Column::default);
        paths.take(doc, &mut columns);
        let mut shape = Vec::new();
        if !paths.put_shape(doc, &mut shape) {
            return None;
        }
        let mut shapes = Column::default();
        shapes.push_raw(Tag::STRING, &shape);
        let columns: Vec<_> = columns.into_iter().map(Some).collect();
        let mut assembly = Assembly::new(asked);
        let put = |assembly: &mut Assembly| {
            DocBuf::build(|w| assembly.write(&shapes, &columns, 0, w)).to_string()
        };
        let first = put(&mut assembly);
        assert_eq!(put(&mut assembly), first);
        Some(first)
    }

    #[test]
    fn fields_come_in_the_order_of_the_document() {
        let all = ["a", "b.x", "b.y.z", "c", "b.w"];
        let one = doc! { "c": 1i32, "b": { "y": { "z": 2i64, "u": 9i32 }, "x": "t" }, "a": 0.5 };
        let given = |wanted: &[&str]| rebuild_document(one.doc(), &all, wanted).expect("a shape");
        assert_eq!(
            given(&all),
            "{ c: 1, b: { y: { z: 2 }, x: \"t\" }, a: 0.5 }"
        );
        assert_eq!(given(&["a", "c"]), "{ c: 1, a: 0.5 }");
        assert_eq!(given(&["b.x"]), "{ b: { x: \"t\" } }");
        assert_eq!(given(&["b.w"]), "{ b: {} }");
        assert_eq!(given(&[]), "{}");
    }

    #[test]
    fn what_is_absent_and_what_is_empty_stay_apart() {
        let all = ["b.x", "b", "d.e.f"];
        let given = |d: DocBuf, wanted: &[&str]| rebuild_document(d.doc(), &all, wanted);
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(given(doc! { "d": {} }, &["d.e.f"]), text("{ d: {} }"));
        assert_eq!(given(doc! { "d": 5i32 }, &["d.e.f"]), text("{}"));
        let deep = doc! { "d": { "e": {} } };
        assert_eq!(given(deep, &["d.e.f"]), text("{ d: { e: {} } }"));
        let both = || doc! { "b": { "x": 1i32, "y": 2i32 } };
        assert_eq!(given(both(), &["b"]), text("{ b: { x: 1, y: 2 } }"));
        assert_eq!(given(both(), &["b", "b.x"]), text("{ b: { x: 1, y: 2 } }"));
        assert_eq!(given(both(), &["b.x"]), text("{ b: { x: 1 } }"));
        assert_eq!(given(doc! { "b": [1i32] }, &["b"]), None);
        let twice = DocBuf::build(|w| _ = w.put("b", 1i32).put("b", 2i32));
        assert_eq!(given(twice, &["b"]), None);
    }
}
