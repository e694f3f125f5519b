//! The order of the hits, and the tokens with which a client continues after a hit. Must not know:
//! how documents are found.

use crate::args::Args;
use crate::error::{index_error, invalid};
use crate::index::{Index, View, is_alive};
use crate::schema::ColumnKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Binary, Doc, DocBuf, Result, Value};
use std::cmp::Ordering;
use tantivy::columnar::DynamicColumn;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, SegmentReader, TERMINATED, Term};

/// Most fields to sort by.
const PARTS_MAX: usize = 32;

/// Column kinds for sorting, in the order of their types.
const SORTED: [(ColumnKind, i32); 6] = [
    (ColumnKind::Number, 1),
    (ColumnKind::Token, 2),
    (ColumnKind::Uuid, 3),
    (ColumnKind::ObjectId, 4),
    (ColumnKind::Boolean, 5),
    (ColumnKind::Date, 6),
];

/// A sort key.
#[derive(Clone, Debug, PartialEq)]
enum Key {
    Missing,
    /// The position of its type among the types, and the number.
    Number(i32, f64),
    Integer(i32, i64),
    Text(i32, String),
}

/// The `sort` option; empty for descending scores.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    /// `None` for the score.
    path: Option<String>,
    descending: bool,
    missing_highest: bool,
}

/// A document, its score and its position in the index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hit {
    pub(crate) score: f32,
    pub(crate) segment: u32,
    pub(crate) doc: DocId,
}

/// A document and its sort keys.
#[derive(Clone, Debug)]
pub(crate) struct SortedHit {
    keys: Vec<Key>,
    pub(crate) hit: Hit,
}

impl Key {
    fn rank(&self) -> i32 {
        match self {
            Key::Missing => 0,
            Key::Number(rank, _) | Key::Integer(rank, _) | Key::Text(rank, _) => *rank,
        }
    }

    fn compare(&self, other: &Key) -> Ordering {
        let by_type = self.rank().cmp(&other.rank());
        by_type.then_with(|| match (self, other) {
            (Key::Number(_, a), Key::Number(_, b)) => a.total_cmp(b),
            (Key::Integer(_, a), Key::Integer(_, b)) => a.cmp(b),
            (Key::Text(_, a), Key::Text(_, b)) => a.cmp(b),
            _ => Ordering::Equal,
        })
    }
}

impl Order {
    /// Reads `sort`.
    ///
    /// # Errors
    /// 8 UnknownError for an order that is neither 1 nor -1, unknown fields, none or too many
    /// fields.
    pub(crate) fn parse(v: Value<'_>) -> Result<Order> {
        let Value::Document(spec) = v else {
            return Err(invalid(format!(
                "\"sort\" must be a document, not {}",
                v.type_name()
            )));
        };
        let parts = spec.iter().map(|(path, v)| parse_part(path, v));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        if parts.is_empty() || parts.len() > PARTS_MAX {
            return Err(invalid(format!(
                "\"sort\" must name 1 to {PARTS_MAX} fields, not {}",
                parts.len()
            )));
        }
        Ok(Order { parts })
    }

    pub(crate) fn is_by_score(&self) -> bool {
        self.parts.is_empty()
    }

    /// Refuses fields that are not indexed for sorting.
    pub(crate) fn check(&self, index: &Index) -> Result<()> {
        let paths = self.parts.iter().filter_map(|p| p.path.as_deref());
        for path in paths {
            let kinds = index.definition().kinds_at(path);
            if !kinds.iter().any(|k| k.is_sorted()) {
                return Err(invalid(format!(
                    "\"sort.{path}\": the field is not indexed as token, number, date, boolean, \
                     objectId or uuid"
                )));
            }
        }
        Ok(())
    }

    /// The sort keys of a document.
    pub(crate) fn rank(&self, segment: &SegmentReader, hit: Hit) -> Result<SortedHit> {
        let mut keys = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            keys.push(match &part.path {
                None => Key::Number(0, f64::from(hit.score)),
                Some(path) => key_of(segment, path, hit.doc, part.descending)
                    .map_err(|e| index_error("sort", &e))?,
            });
        }
        Ok(SortedHit { keys, hit })
    }

    /// Which of two documents comes first. Equal ones are in index order.
    pub(crate) fn compare(&self, a: &SortedHit, b: &SortedHit) -> Ordering {
        let mut found = Ordering::Equal;
        for (part, (a, b)) in self.parts.iter().zip(a.keys.iter().zip(&b.keys)) {
            let missing = (*a == Key::Missing, *b == Key::Missing);
            found = found.then_with(|| match missing {
                (true, true) => Ordering::Equal,
                // `noData` defines whether documents without a value come before or after all
                // others.
                (true, false) if part.missing_highest => Ordering::Greater,
                (false, true) if part.missing_highest => Ordering::Less,
                _ => a.compare(b),
            });
            if part.descending && found != Ordering::Equal {
                found = found.reverse();
            }
            if found != Ordering::Equal {
                return found;
            }
        }
        if self.is_by_score() {
            found = b.hit.score.total_cmp(&a.hit.score);
        }
        let place = |r: &SortedHit| (r.hit.segment, r.hit.doc);
        found.then_with(|| place(a).cmp(&place(b)))
    }
}

fn parse_part(path: &str, v: Value<'_>) -> Result<Part> {
    let descending = |args: &Args<'_>, field: &str, v: Value<'_>| match v.as_i64_exact() {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => Err(invalid(format!(
            "\"{}\" must be 1 or -1, not {v}",
            if field.is_empty() {
                args.path.clone()
            } else {
                args.name(field)
            }
        ))),
    };
    let named = format!("sort.{path}");
    let Value::Document(d) = v else {
        let args = Args {
            path: named,
            doc: Doc::EMPTY,
        };
        return Ok(Part {
            path: Some(path.to_owned()),
            descending: descending(&args, "", v)?,
            missing_highest: false,
        });
    };
    let by_score = d.contains("$meta");
    let allowed: &[&str] = match by_score {
        true => &["$meta", "order"],
        false => &["order", "noData"],
    };
    let args = Args::new(&named, v, allowed)?;
    let order = args.get("order");
    if by_score {
        args.word("$meta", &["searchScore"])?;
        // By default the best score first.
        let descending = order.map(|v| descending(&args, "order", v)).transpose()?;
        return Ok(Part {
            path: None,
            descending: descending.unwrap_or(true),
            missing_highest: false,
        });
    }
    let order = descending(&args, "order", args.required("order")?)?;
    Ok(Part {
        path: Some(path.to_owned()),
        descending: order,
        missing_highest: args.word("noData", &["lowest", "highest"])? == Some("highest"),
    })
}

/// The least or the greatest of the values at a path.
fn key_of(segment: &SegmentReader, path: &str, doc: DocId, greatest: bool) -> tantivy::Result<Key> {
    let mut best: Option<Key> = None;
    let mut take = |key: Key| {
        let better = best.as_ref().is_none_or(|b| match greatest {
            true => key.compare(b) == Ordering::Greater,
            false => key.compare(b) == Ordering::Less,
        });
        if better {
            best = Some(key);
        }
    };
    for (kind, rank) in SORTED {
        for handle in segment
            .fast_fields()
            .dynamic_column_handles(&kind.name(path))?
        {
            match handle.open()? {
                DynamicColumn::F64(c) => c
                    .values_for_doc(doc)
                    .for_each(|v| take(Key::Number(rank, v))),
                DynamicColumn::I64(c) => c
                    .values_for_doc(doc)
                    .for_each(|v| take(Key::Integer(rank, v))),
                DynamicColumn::Str(c) => {
                    let ords: Vec<u64> = c.ords().values_for_doc(doc).collect();
                    for ord in ords {
                        let mut text = String::new();
                        c.ord_to_str(ord, &mut text)?;
                        take(Key::Text(rank, text));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(best.unwrap_or(Key::Missing))
}

/// The token for the position of a document; `id` is its encoded `_id`.
pub(crate) fn token_of(ranked: &SortedHit, id: &[u8]) -> String {
    let id = Binary {
        subtype: 0,
        bytes: id,
    };
    let doc = DocBuf::build(|w| {
        w.put("i", Value::Binary(id))
            .put("s", f64::from(ranked.hit.score))
            .put("g", i64::from(ranked.hit.segment))
            .put("d", i64::from(ranked.hit.doc));
        let mut keys = w.array("k");
        for key in &ranked.keys {
            let mut pair = keys.array();
            pair.push(key.rank());
            match key {
                Key::Missing => _ = pair.push(Value::Null),
                Key::Number(_, v) => _ = pair.push(*v),
                Key::Integer(_, v) => _ = pair.push(*v),
                Key::Text(_, v) => _ = pair.push(v.as_str()),
            }
        }
    });
    STANDARD.encode(doc.as_bytes())
}

/// The position of a token, in the current state of the index.
///
/// # Errors
/// 8 UnknownError for an invalid token, or one of another order.
pub(crate) fn place_of(
    token: &str,
    order: &Order,
    index: &Index,
    view: &View,
) -> Result<SortedHit> {
    let bad = || {
        invalid(format!(
            "\"{token}\" is no searchSequenceToken of a search in the same order"
        ))
    };
    let bytes = STANDARD.decode(token).map_err(|_| bad())?;
    let doc = DocBuf::from_bytes(bytes).ok_or_else(bad)?;
    let doc = doc.doc();
    let number = |field: &str| {
        let n = doc.field(field).as_i64_exact();
        n.and_then(|n| u32::try_from(n).ok()).ok_or_else(bad)
    };
    let Value::Binary(id) = doc.field("i") else {
        return Err(bad());
    };
    let keys = doc.field("k").as_array().ok_or_else(bad)?;
    let keys: Option<Vec<Key>> = keys.iter().map(read_key).collect();
    let keys = keys
        .filter(|k| k.len() == order.parts.len())
        .ok_or_else(bad)?;
    let mut hit = Hit {
        score: doc.field("s").as_f64().ok_or_else(bad)? as f32,
        segment: number("g")?,
        doc: number("d")?,
    };
    if let Some((segment, doc)) = find(index, view, id.bytes)? {
        (hit.segment, hit.doc) = (segment, doc);
    }
    Ok(SortedHit { keys, hit })
}

fn read_key(v: Value<'_>) -> Option<Key> {
    let mut pair = v.as_array()?.iter();
    let rank = i32::try_from(pair.next()?.as_i64_exact()?).ok()?;
    Some(match pair.next()? {
        Value::Null => Key::Missing,
        Value::Double(v) => Key::Number(rank, v),
        Value::Int64(v) => Key::Integer(rank, v),
        Value::String(v) => Key::Text(rank, v.to_owned()),
        _ => return None,
    })
}

/// The current position of a document.
fn find(index: &Index, view: &View, id: &[u8]) -> Result<Option<(u32, DocId)>> {
    let term = Term::from_field_bytes(index.fields().id, id);
    for (n, segment) in (0u32..).zip(view.searcher.segment_readers()) {
        let looked = segment
            .inverted_index(term.field())
            .and_then(|i| Ok(i.read_postings(&term, IndexRecordOption::Basic)?));
        let Some(mut postings) = looked.map_err(|e| index_error("find a document", &e))? else {
            continue;
        };
        let (mut doc, mut found) = (postings.doc(), None);
        while doc != TERMINATED {
            // The whole document comes after its elements.
            if is_alive(segment, doc) {
                found = Some((n, doc));
            }
            doc = postings.advance();
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
