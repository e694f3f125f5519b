//! The components of a text index's entries (`docs/on-disk.md`): the term and its score. The terms
//! of a document come from [`crate::hooks::Terms`].

use super::field::encode_component;
use super::interval::KeyInterval;
use super::key_set::KeySet;
use super::reach::{PathEnd, reach};
use super::{CANNOT_BUILD_INDEX_KEYS, Index, KEYS_BYTES_MAX};
use crate::format::keys;
use crate::hooks::Terms;
use model::{Doc, MongoError, Result, Value};
use std::sync::Arc;

/// Terms longer than this are cut and end in a hash.
const TERM_MAX: usize = 64;
const SCORE_LEN: usize = 8;

/// The text part of an index key.
pub struct TextPart {
    /// Number of fields before the term; the others come after its score.
    pub at: usize,
    pub(crate) terms: Arc<dyn Terms>,
}

/// Whether the term is cut, so that other terms may have the same component.
pub(crate) fn is_cut(term: &str) -> bool {
    term.len() > TERM_MAX
}

/// Appends the component of a term.
pub(crate) fn encode_term(term: &str, out: &mut Vec<u8>) {
    if !is_cut(term) {
        return keys::encode(&Value::String(term), None, out);
    }
    // FNV-1a is implemented here and not taken from a library, because the hash is stored on disk.
    let hash = term.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    });
    // A cut term is longer than any term stored whole, so never equal to one.
    let cut = format!("{}{hash:016x}", &term[..term.floor_char_boundary(TERM_MAX)]);
    keys::encode(&Value::String(&cut), None, out);
}

/// Appends a score: the bits of positive binary64 numbers sort as the numbers do, and none begins
/// with the byte of an end or bound.
pub(crate) fn encode_score(score: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(&score.to_be_bytes());
}

/// All entries of a term, after the encoded values of the fields before the text.
fn term_interval(before: &[u8], term: &str) -> KeyInterval {
    let mut lower = before.to_vec();
    encode_term(term, &mut lower);
    let mut upper = lower.clone();
    lower.push(keys::BEFORE);
    upper.push(keys::AFTER);
    KeyInterval { lower, upper }
}

/// The score in the components of an entry that was found in an interval of a term.
pub(crate) fn score_of(interval: &KeyInterval, components: &[u8]) -> f64 {
    let at = interval.lower.len().saturating_sub(1);
    let bytes = components
        .get(at..at + SCORE_LEN)
        .and_then(|b| b.try_into().ok());
    bytes.map_or(0.0, f64::from_be_bytes)
}

impl Index {
    /// All entries of a term of a text index, after encoded values of the fields before the text.
    pub fn term_interval(&self, before: &[u8], term: &str) -> KeyInterval {
        term_interval(before, term)
    }

    /// One key for each term: the fields before the text, the term, its score, the fields after.
    pub(super) fn text_keys(&self, text: &TextPart, doc: Doc<'_>, set: &mut KeySet) -> Result<()> {
        let (mut before, mut behind) = (Vec::new(), Vec::new());
        for (n, f) in self.fields.iter().enumerate() {
            let PathEnd::At(v) = reach(Value::Document(doc), f.path.parts())? else {
                let path = f.path.as_str();
                return Err(MongoError::new(
                    CANNOT_BUILD_INDEX_KEYS,
                    format!("Field '{path}' of text index contains an array in document"),
                ));
            };
            encode_component(
                f.kind,
                &v,
                None,
                if n < text.at {
                    &mut before
                } else {
                    &mut behind
                },
            );
        }
        let mut put = |term: &[u8], score: f64| {
            if set.bytes.len() > KEYS_BYTES_MAX {
                return;
            }
            let start = set.begin();
            set.bytes.extend_from_slice(&before);
            set.bytes.extend_from_slice(term);
            encode_score(score, &mut set.bytes);
            set.bytes.extend_from_slice(&behind);
            set.end(start);
        };
        // A document has one entry for each component, so that a walk over a component meets each
        // document once.
        let (mut cut, mut encoded) = (
            std::collections::BTreeMap::<Vec<u8>, f64>::new(),
            Vec::new(),
        );
        text.terms.visit_terms(doc, &mut |term, score| {
            encoded.clear();
            encode_term(term, &mut encoded);
            match is_cut(term) {
                true => *cut.entry(encoded.clone()).or_insert(0.0) += score,
                false => put(&encoded, score),
            }
        })?;
        cut.iter().for_each(|(term, score)| put(term, *score));
        if set.bytes.len() > KEYS_BYTES_MAX {
            return Err(self.keys_too_large());
        }
        if set.len() > 1 {
            set.multikey |= 1 << text.at.min(31);
        }
        set.sort();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::{Hooks, Predicate};
    use model::{Collate, doc};

    /// A test splitter: words at spaces, each with its length as score.
    struct Words;

    impl Terms for Words {
        fn visit_terms(&self, doc: Doc<'_>, show: &mut dyn FnMut(&str, f64)) -> Result<()> {
            doc.field("a")
                .as_str()
                .unwrap_or_default()
                .split(' ')
                .filter(|w| !w.is_empty())
                .for_each(|w| show(w, w.len() as f64));
            Ok(())
        }
        fn same(&self, _: Doc<'_>, _: Doc<'_>) -> bool {
            false
        }
    }

    struct WordHooks;

    impl Hooks for WordHooks {
        fn predicate(&self, _: Doc<'_>, _: Option<Doc<'_>>) -> Result<Predicate> {
            Err(MongoError::internal("not asked"))
        }
        fn collator(&self, _: Doc<'_>) -> Result<Option<Arc<dyn Collate>>> {
            Ok(None)
        }
        fn terms(&self, _: Doc<'_>) -> Result<Arc<dyn Terms>> {
            Ok(Arc::new(Words))
        }
    }

    fn index() -> Index {
        let spec =
            doc! { "key": { "p": -1i32, "_fts": "text", "_ftsx": 1i32, "s": 1i32 }, "name": "t" };
        Index::open(1, spec, true, 0, &WordHooks).unwrap()
    }

    #[test]
    fn an_entry_is_the_fields_before_the_term_its_score_and_the_fields_behind() {
        let (index, mut set) = (index(), KeySet::default());
        index
            .keys_of(
                doc! { "p": false, "a": "ab tea", "s": true }.doc(),
                &mut set,
            )
            .unwrap();
        // The example of docs/on-disk.md.
        let ab = [
            &[!0x78][..],
            b"\x50ab\0",
            &[0x40, 0, 0, 0, 0, 0, 0, 0],
            &[0x79],
        ]
        .concat();
        assert_eq!(
            (set.iter().next(), set.len(), set.multikey),
            (Some(ab.as_slice()), 2, 2)
        );
        let interval = index.term_interval(&[!0x78], "tea");
        let found: Vec<_> = set
            .iter()
            .filter(|k| *k >= interval.lower.as_slice() && *k < interval.upper.as_slice())
            .collect();
        assert_eq!((found.len(), score_of(&interval, found[0])), (1, 3.0));
    }

    #[test]
    fn a_document_without_terms_has_no_entry_and_arrays_beside_text_are_refused() {
        let (index, mut set) = (index(), KeySet::default());
        index.keys_of(doc! { "p": 1i32 }.doc(), &mut set).unwrap();
        assert!(set.is_empty());
        let e = index
            .keys_of(doc! { "a": "x", "s": [1i32] }.doc(), &mut set)
            .unwrap_err();
        assert_eq!(e.code(), 201);
    }

    #[test]
    fn long_terms_are_cut_and_told_apart() {
        let encoded = |t: &str| {
            let mut out = Vec::new();
            encode_term(t, &mut out);
            out
        };
        let (x, y) = ("é".repeat(40) + "x", "é".repeat(40) + "y");
        assert!(encoded(&x) != encoded(&y) && encoded(&x).len() == 82);
        assert_eq!(encoded(&"a".repeat(64)).len(), 66);
        // A word that looks like a cut term is longer than the limit, so it is cut itself.
        let shown = String::from_utf8(encoded(&x)[1..81].to_vec()).unwrap();
        assert_ne!(encoded(&shown), encoded(&x));
    }
}
