//! The catalog row of a collection: one BSON document under `c db \0 coll`. A collection or index
//! exists if and only if a row names it.

use crate::error;
use model::{Binary, Doc, DocBuf, Result, Value};
use storage::SPREAD;

/// Added to identifiers with [`SPREAD`]: versions that do not know them refuse the row, instead of
/// looking for the documents where they are not.
const SPREAD_MARK: i64 = 1 << 32;

/// The kind of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Documents of its own.
    Collection,
    /// A pipeline over another namespace.
    View,
}

/// A parsed catalog row.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogRow {
    /// Collection or view.
    pub kind: Kind,
    /// Prefix of the documents' keys; 0 for a view.
    pub ident: u32,
    /// UUID, which a rename does not change.
    pub uuid: [u8; 16],
    /// The options given to `create`, as listCollections shows them.
    pub options: DocBuf,
    /// Secondary indexes in order of creation.
    pub indexes: Vec<IndexRow>,
    /// Definitions of search indexes, which the store keeps without interpreting them.
    pub search: Vec<DocBuf>,
}

/// One index in a catalog row.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexRow {
    /// Prefix of the index's keys.
    pub ident: u32,
    /// Specification of the index.
    pub spec: DocBuf,
    /// False while it is being built; an index that is not ready at open is removed.
    pub ready: bool,
    /// Indexes of its kind have entries in the layout in which it was created.
    pub keyed: bool,
    /// Its entries have marks, if its kind has them.
    pub marked: bool,
    /// While it is being built beside other processes: the number of the builder's
    /// [`crate::Peer`].
    pub builder: Option<u64>,
}

impl CatalogRow {
    /// Encodes the row for storage.
    pub fn encode(&self) -> DocBuf {
        DocBuf::build(|w| {
            w.put(
                "kind",
                if self.kind == Kind::View {
                    "view"
                } else {
                    "collection"
                },
            );
            w.put("ident", stored_ident(self.ident));
            w.put(
                "uuid",
                Binary {
                    subtype: 4,
                    bytes: &self.uuid,
                },
            );
            w.put("options", &self.options);
            let mut list = w.array("indexes");
            for i in &self.indexes {
                let mut d = list.doc();
                d.put("ident", i64::from(i.ident))
                    .put("ready", i.ready)
                    .put("keyed", i.keyed)
                    .put("marked", i.marked)
                    .put("spec", &i.spec);
                if let Some(builder) = i.builder {
                    d.put("builder", builder as i64);
                }
            }
            drop(list);
            if !self.search.is_empty() {
                let mut list = w.array("search");
                self.search.iter().for_each(|d| _ = list.push(d));
            }
        })
    }

    /// Decodes a stored row.
    ///
    /// # Errors
    /// 1 InternalError when the row is damaged.
    pub fn decode(bytes: &[u8]) -> Result<CatalogRow> {
        let bad = || error::corrupt("catalog row");
        let d = Doc::new(bytes).ok_or_else(bad)?;
        let ident = |v: Value<'_>| v.as_i64_exact().and_then(parse_ident).ok_or_else(bad);
        let Value::Binary(uuid) = d.field("uuid") else {
            return Err(bad());
        };
        let mut indexes = Vec::new();
        for v in d.field("indexes").as_array().ok_or_else(bad)?.iter() {
            let i = v.as_doc().ok_or_else(bad)?;
            indexes.push(IndexRow {
                ident: ident(i.field("ident"))?,
                spec: i.field("spec").as_doc().ok_or_else(bad)?.to_buf(),
                ready: i.field("ready").truthy(),
                keyed: i.field("keyed").truthy(),
                marked: i.field("marked").truthy(),
                builder: i.field("builder").as_i64_exact().map(|n| n as u64),
            });
        }
        Ok(CatalogRow {
            kind: if d.field("kind").as_str() == Some("view") {
                Kind::View
            } else {
                Kind::Collection
            },
            ident: ident(d.field("ident"))?,
            uuid: uuid.bytes.try_into().map_err(|_| bad())?,
            options: d.field("options").as_doc().ok_or_else(bad)?.to_buf(),
            indexes,
            search: match d.field("search") {
                Value::Array(list) => list
                    .iter()
                    .filter_map(|v| Some(v.as_doc()?.to_buf()))
                    .collect(),
                _ => Vec::new(),
            },
        })
    }
}

fn stored_ident(ident: u32) -> i64 {
    let mark = if ident & SPREAD == 0 { 0 } else { SPREAD_MARK };
    mark + i64::from(ident)
}

fn parse_ident(stored: i64) -> Option<u32> {
    let ident = stored.checked_sub(if stored < SPREAD_MARK { 0 } else { SPREAD_MARK })?;
    let ident = u32::try_from(ident).ok()?;
    (stored_ident(ident) == stored).then_some(ident)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_without_spread_documents_refuse_their_rows() {
        for ident in [1, SPREAD - 1, SPREAD | 7] {
            let row = CatalogRow {
                kind: Kind::Collection,
                ident,
                uuid: [3; 16],
                options: DocBuf::default(),
                indexes: Vec::new(),
                search: Vec::new(),
            };
            let stored = row.encode();
            assert_eq!(CatalogRow::decode(stored.as_bytes()).unwrap(), row);
            // They read a number of 32 bits.
            let number = stored.doc().field("ident").as_i64_exact().unwrap();
            assert_eq!(
                u32::try_from(number).is_ok(),
                ident & SPREAD == 0,
                "{number}"
            );
        }
        for number in [i64::from(SPREAD), SPREAD_MARK + 1, i64::MAX, -1] {
            assert_eq!(parse_ident(number), None, "{number}");
        }
    }
}
