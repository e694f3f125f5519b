//! Repairs the rows of `meta`: catalog, identifiers, settings. Promises: afterwards every catalog
//! row can be opened, every document has an owner, and no identifier in use will be given again.
//! Must not know: documents, entries.

use super::mender::{RepairContext, Row};
use super::{apart, salvage};
use crate::catalog::{CatalogRow, IndexRow, Kind};
use crate::error;
use crate::format::log::TIMES_END;
use crate::format::references::IMAGES;
use crate::format::{LAYOUT_VERSION, bucket, meta, record};
use crate::hooks::Hooks;
use crate::index::Index;
use model::{DocBuf, MongoError, Namespace, Result, code};
use std::collections::{BTreeMap, BTreeSet};
use storage::{CursorOpts, Engine, IDENT_BYTES, KeyRange, MAX_KEY, Table, WriteBatch};

/// Database for documents whose collection is unknown.
const FOUND: &str = "lost_and_found";

/// The owner of each identifier.
#[derive(Default)]
struct Owners {
    collections: BTreeSet<u32>,
    indexes: BTreeSet<u32>,
    /// Dropped identifiers; their remaining keys are deleted by the sweeps.
    dropped: BTreeSet<u32>,
    log: Option<u32>,
    /// The highest identifier in use.
    highest: u32,
}

impl Owners {
    fn owns(&self, ident: u32) -> bool {
        self.collections.contains(&ident)
            || self.indexes.contains(&ident)
            || self.dropped.contains(&ident)
            || self.log == Some(ident)
    }

    /// Whether a collection of this name cannot have the identifier. Only the row that shows the
    /// log may have the log's identifier.
    fn is_taken(&self, ident: u32, ns: &Namespace) -> bool {
        let shows_log = self.log == Some(ident) && ns.db() == "local" && ns.coll() == "oplog.rs";
        let is_free = shows_log && !self.collections.contains(&ident);
        self.owns(ident) && !is_free
    }

    fn add(&mut self, row: &CatalogRow) {
        if row.kind == Kind::Collection {
            self.collections.insert(row.ident);
        }
        self.indexes.extend(row.indexes.iter().map(|i| i.ident));
    }
}

/// A catalog row that is not readable in full.
struct DamagedRow {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// All readable rows of the catalog.
pub(super) fn rows(engine: &dyn Engine) -> Result<Vec<(Namespace, CatalogRow)>> {
    let mut found = Vec::new();
    let range = KeyRange::new(b"c", b"d");
    let mut cursor = engine
        .cursor(Table::Meta, range, CursorOpts::default())
        .map_err(error::storage)?;
    let each = &mut |key: &[u8], value: &[u8]| {
        let ns = meta::split_catalog(key).and_then(|(db, coll)| Namespace::new(db, coll).ok());
        if let (Some(ns), Ok(row)) = (ns, CatalogRow::decode(value)) {
            found.push((ns, row));
        }
        true
    };
    while cursor.visit(1024, each).map_err(error::storage)? {}
    Ok(found)
}

/// Repairs the rows.
///
/// # Errors
/// 12 UnsupportedFormat for a newer layout.
pub(super) fn mend(m: &mut RepairContext<'_>, hooks: &dyn Hooks) -> Result<()> {
    mend_layout(m)?;
    let mut owners = Owners::default();
    mend_others(m, &mut owners)?;
    let damaged = mend_catalog(m, hooks, &mut owners)?;
    let nameless = give_back(m, damaged, &mut owners)?;
    let unowned = find_unowned(m, &mut owners)?;
    give_names(m, nameless, unowned, &mut owners)?;
    mend_ident_mark(m, &owners)
}

fn mend_layout(m: &mut RepairContext<'_>) -> Result<()> {
    let stored = m.get(Table::Meta, meta::FORMAT_VERSION)?;
    let version = stored.as_deref().and_then(|b| b.try_into().ok());
    match version.map(u32::from_be_bytes) {
        Some(v) if v > LAYOUT_VERSION => Err(MongoError::new(
            code::UNSUPPORTED_FORMAT,
            format!(
                "the data has layout version {v}, this program reads up to {LAYOUT_VERSION}: use a \
                 newer one"
            ),
        )),
        Some(_) => Ok(()),
        None => {
            if stored.is_some() {
                m.report_mended("the layout version is damaged");
            } else if !is_empty(m.engine)? {
                m.report_mended("the layout version is missing");
            }
            let mut batch = WriteBatch::new();
            let now = LAYOUT_VERSION.to_be_bytes();
            batch.put(Table::Meta, meta::FORMAT_VERSION, &now);
            m.apply(&mut batch)
        }
    }
}

fn is_empty(engine: &dyn Engine) -> Result<bool> {
    let mut any = false;
    let mut cursor = engine
        .cursor(Table::Meta, KeyRange::ALL, CursorOpts::default())
        .map_err(error::storage)?;
    let first = &mut |_: &[u8], _: &[u8]| {
        any = true;
        false
    };
    cursor.visit(1, first).map_err(error::storage)?;
    Ok(!any)
}

/// Repairs the rows that belong neither to the catalog nor to a collection.
fn mend_others(m: &mut RepairContext<'_>, owners: &mut Owners) -> Result<()> {
    let range = KeyRange::new(b"d", MAX_KEY);
    m.each_row(Table::Meta, range, &mut |m, key, value| {
        let ident = key.get(1..).and_then(|k| <[u8; 4]>::try_from(k).ok());
        let right = match key.first() {
            Some(b'd') => {
                owners.dropped.extend(ident.map(u32::from_be_bytes));
                ident.is_some()
            }
            Some(b'f' | b'h' | b'j') => value.len() == 8,
            Some(b'l') if key == meta::LOG => {
                owners.log = value.first_chunk::<4>().map(|b| u32::from_be_bytes(*b));
                let oldest = value.get(4..12).and_then(|b| b.try_into().ok());
                let oldest = oldest.map_or(u64::MAX, u64::from_be_bytes);
                matches!(value.len(), 28 | 29) && oldest <= TIMES_END
            }
            Some(b'w') => model::validate(value).is_ok(),
            // A collection cannot be opened without the number.
            Some(b'o') if meta::read_unordered(value).is_none() => match ident {
                Some(ident) => return mend_unordered(m, ident),
                None => false,
            },
            // The other rows are checked with their collections.
            _ => true,
        };
        if right {
            return Ok(());
        }
        m.take_row(None, Row::of_meta(key, value), "a damaged row of settings")?;
        let mut batch = WriteBatch::new();
        batch.delete(Table::Meta, key);
        m.apply(&mut batch)
    })
}

/// Replaces a damaged mark of the order of insertion with one behind all documents.
fn mend_unordered(m: &mut RepairContext<'_>, ident: [u8; 4]) -> Result<()> {
    let number = u32::from_be_bytes(ident);
    let end = number.saturating_add(1).to_be_bytes();
    let mut next = 1;
    m.each_row(
        Table::Doc,
        KeyRange::new(&ident, &end),
        &mut |_, _, value| {
            next = next.max(record::read_seq(value).map_or(0, |seq| seq + 1));
            Ok(())
        },
    )?;
    m.report_mended(&format!(
        "the mark of the order of insertion of {number} was damaged"
    ));
    let mut batch = WriteBatch::new();
    let key = meta::unordered(number);
    batch.put(Table::Meta, &key, &u64::to_be_bytes(next));
    m.apply(&mut batch)
}

/// Checks the catalog rows; returns those that are not readable.
fn mend_catalog(
    m: &mut RepairContext<'_>,
    hooks: &dyn Hooks,
    owners: &mut Owners,
) -> Result<Vec<DamagedRow>> {
    let mut damaged = Vec::new();
    let range = KeyRange::new(b"c", b"d");
    m.each_row(Table::Meta, range, &mut |m, key, value| {
        let ns = meta::split_catalog(key).and_then(|(db, coll)| Namespace::new(db, coll).ok());
        let whole = model::validate(value).is_ok();
        let row = CatalogRow::decode(value).ok().filter(|_| whole);
        let (Some(ns), Some(mut row)) = (ns, row) else {
            damaged.push(DamagedRow {
                key: key.to_vec(),
                value: value.to_vec(),
            });
            return Ok(());
        };
        let mut batch = WriteBatch::new();
        if row.kind == Kind::Collection && owners.is_taken(row.ident, &ns) {
            m.take_row(None, Row::of_meta(key, value), "another has its identifier")?;
            batch.delete(Table::Meta, key);
            return m.apply(&mut batch);
        }
        if drop_unusable(m, hooks, &ns, &mut row)? {
            batch.put(Table::Meta, key, row.encode().as_bytes());
            m.apply(&mut batch)?;
        }
        owners.add(&row);
        Ok(())
    })?;
    Ok(damaged)
}

/// Removes indexes that cannot be opened from a row; true when there were some.
fn drop_unusable(
    m: &mut RepairContext<'_>,
    hooks: &dyn Hooks,
    ns: &Namespace,
    row: &mut CatalogRow,
) -> Result<bool> {
    let before = row.indexes.len();
    let mut kept: Vec<IndexRow> = Vec::with_capacity(before);
    for index in std::mem::take(&mut row.indexes) {
        let why = match Index::open(index.ident, index.spec.clone(), true, 0, hooks) {
            Err(e) => format!("the index cannot be opened: {e}"),
            Ok(_) if kept.iter().any(|k| k.ident == index.ident) => {
                "another index has its identifier".to_owned()
            }
            Ok(_) => {
                kept.push(index);
                continue;
            }
        };
        apart::take_index(m, ns, index.spec.doc(), &why)?;
    }
    row.indexes = kept;
    Ok(row.indexes.len() != before)
}

/// Identifiers that have documents and no owner. Index entries and places without an owner are
/// dropped.
fn find_unowned(m: &mut RepairContext<'_>, owners: &mut Owners) -> Result<BTreeMap<u32, bool>> {
    let mut documents = BTreeMap::new();
    for table in [Table::Doc, Table::Idx, Table::Cap, Table::Log] {
        for ident in idents(m.engine, table)? {
            owners.highest = owners.highest.max(ident);
            let is_images = table == Table::Log && ident == IMAGES && owners.log.is_some();
            if owners.owns(ident) || is_images {
                continue;
            }
            match table {
                Table::Doc => {
                    let has_buckets = has_buckets(m.engine, ident)?;
                    documents.insert(ident, has_buckets);
                }
                Table::Cap if documents.contains_key(&ident) => {}
                _ => {
                    let name = table.name();
                    m.report_mended(&format!(
                        "table {name} has keys of {ident}, which nothing owns"
                    ));
                    apart::drop_keys(m, table, ident)?;
                }
            }
        }
    }
    Ok(documents)
}

/// The identifiers that have keys in a table.
fn idents(engine: &dyn Engine, table: Table) -> Result<Vec<u32>> {
    let (mut found, mut lower) = (Vec::new(), [0; IDENT_BYTES]);
    let opts = CursorOpts {
        keys_only: true,
        fill_cache: false,
        limit_hint: 1,
        ..CursorOpts::default()
    };
    loop {
        let mut ident = None;
        let range = KeyRange::new(&lower, MAX_KEY);
        let mut cursor = engine.cursor(table, range, opts).map_err(error::storage)?;
        let first = &mut |key: &[u8], _: &[u8]| {
            ident = key.first_chunk::<IDENT_BYTES>().copied();
            false
        };
        cursor.visit(1, first).map_err(error::storage)?;
        let next = ident.and_then(|i| u32::from_be_bytes(i).checked_add(1));
        match (ident, next) {
            (Some(ident), Some(next)) => {
                found.push(u32::from_be_bytes(ident));
                lower = next.to_be_bytes();
            }
            _ => return Ok(found),
        }
    }
}

fn has_buckets(engine: &dyn Engine, ident: u32) -> Result<bool> {
    let lower = ident.to_be_bytes();
    let range = KeyRange::new(&lower, MAX_KEY);
    let mut is_one = false;
    let mut cursor = engine
        .cursor(Table::Doc, range, CursorOpts::default())
        .map_err(error::storage)?;
    let first = &mut |key: &[u8], _: &[u8]| {
        is_one = bucket::of(key).is_some();
        false
    };
    cursor.visit(1, first).map_err(error::storage)?;
    Ok(is_one)
}

/// Stores the readable part of damaged rows; returns those without an identifier.
fn give_back(
    m: &mut RepairContext<'_>,
    damaged: Vec<DamagedRow>,
    owners: &mut Owners,
) -> Result<Vec<DamagedRow>> {
    let mut nameless = Vec::new();
    for row in damaged {
        let salvaged = salvaged_row(m, &row.value);
        let is_free = |s: &CatalogRow| {
            let ns = name_of(&row.key);
            ns.is_some_and(|ns| s.kind == Kind::View || !owners.is_taken(s.ident, &ns))
        };
        match salvaged.filter(is_free) {
            Some(salvaged) => put_row(m, &row, &salvaged, owners)?,
            _ => nameless.push(row),
        }
    }
    Ok(nameless)
}

/// Finds names for documents without a catalog row; `left` says which of them have buckets.
fn give_names(
    m: &mut RepairContext<'_>,
    mut nameless: Vec<DamagedRow>,
    mut left: BTreeMap<u32, bool>,
    owners: &mut Owners,
) -> Result<()> {
    // One row without an identifier and one identifier without a row belong together.
    let only = (left.len() == 1).then(|| left.first_key_value().map(|(i, b)| (*i, *b)));
    if let (1, Some(Some((ident, false)))) = (nameless.len(), only)
        && nameless.iter().all(|row| name_of(&row.key).is_some())
    {
        for row in nameless.drain(..) {
            left.remove(&ident);
            let of = plain_row(ident, m.aside.new_uuid());
            put_row(m, &row, &of, owners)?;
        }
    }
    for row in nameless {
        let at = Row::of_meta(&row.key, &row.value);
        m.take_row(None, at, "a damaged row of the catalog")?;
        let mut batch = WriteBatch::new();
        batch.delete(Table::Meta, &row.key);
        m.apply(&mut batch)?;
    }
    for (ident, has_buckets) in left {
        let ns = Namespace::new(FOUND, &format!("collection_{ident}"))?;
        match has_buckets {
            true => take_measurements(m, &ns, ident)?,
            false => {
                m.report_mended(&format!(
                    "documents of {ident}, which nothing owned, are {ns} now"
                ));
                let of = plain_row(ident, m.aside.new_uuid());
                let mut batch = WriteBatch::new();
                let key = meta::catalog(ns.db(), ns.coll());
                batch.put(Table::Meta, &key, of.encode().as_bytes());
                m.apply(&mut batch)?;
                owners.add(&of);
            }
        }
    }
    Ok(())
}

fn name_of(key: &[u8]) -> Option<Namespace> {
    let (db, coll) = meta::split_catalog(key)?;
    Namespace::new(db, coll).ok()
}

fn plain_row(ident: u32, uuid: [u8; 16]) -> CatalogRow {
    CatalogRow {
        kind: Kind::Collection,
        ident,
        uuid,
        options: DocBuf::new(),
        indexes: Vec::new(),
        search: Vec::new(),
    }
}

/// Replaces a damaged row with its readable part; hands the row itself to the caller.
fn put_row(
    m: &mut RepairContext<'_>,
    damaged: &DamagedRow,
    row: &CatalogRow,
    owners: &mut Owners,
) -> Result<()> {
    let at = Row::of_meta(&damaged.key, &damaged.value);
    m.take_row(None, at, "a damaged row of the catalog")?;
    if let Some(ns) = name_of(&damaged.key) {
        let (names, indexes) = (&row.options, row.indexes.len());
        m.report_mended(&format!(
            "{ns} has again what could be read of its row: options {}, {indexes} indexes",
            names.doc()
        ));
    }
    let mut batch = WriteBatch::new();
    batch.put(Table::Meta, &damaged.key, row.encode().as_bytes());
    owners.add(row);
    m.apply(&mut batch)
}

/// The readable part of a catalog row; `None` without its identifier.
fn salvaged_row(m: &mut RepairContext<'_>, value: &[u8]) -> Option<CatalogRow> {
    let readable = salvage::readable(value);
    let d = readable.doc();
    let ident = |v: model::Value<'_>| v.as_i64_exact().and_then(|n| u32::try_from(n).ok());
    let is_view = d.field("kind").as_str() == Some("view");
    let uuid = match d.field("uuid") {
        model::Value::Binary(b) => b.bytes.try_into().ok(),
        _ => None,
    };
    let index = |v: model::Value<'_>| {
        let i = v.as_doc()?;
        Some(IndexRow {
            ident: ident(i.field("ident"))?,
            spec: i.field("spec").as_doc()?.to_buf(),
            ready: i.field("ready").truthy(),
            keyed: i.field("keyed").truthy(),
            marked: i.field("marked").truthy(),
            builder: None,
        })
    };
    let indexes = d.field("indexes").as_array();
    let options = d.field("options").as_doc().map(|d| d.to_buf());
    // A view cannot be restored without its pipeline.
    if is_view && options.is_none() {
        return None;
    }
    Some(CatalogRow {
        kind: if is_view {
            Kind::View
        } else {
            Kind::Collection
        },
        ident: ident(d.field("ident"))?,
        uuid: uuid.unwrap_or_else(|| m.aside.new_uuid()),
        options: options.unwrap_or_default(),
        indexes: indexes.map_or_else(Vec::new, |list| list.iter().filter_map(index).collect()),
        search: Vec::new(),
    })
}

/// Hands over as documents the measurements of a time series whose catalog row is lost: without the
/// row's options their buckets cannot be read in place.
fn take_measurements(m: &mut RepairContext<'_>, ns: &Namespace, ident: u32) -> Result<()> {
    const WHY: &str = "nothing says which time series it is of";
    let (lower, upper) = (ident.to_be_bytes(), (ident + 1).to_be_bytes());
    m.each_row(
        Table::Doc,
        KeyRange::new(&lower, &upper),
        &mut |m, key, value| {
            let is_head = bucket::of(key).is_some() && bucket::row_seq(key).is_none();
            match bucket::read(value).filter(|_| is_head) {
                Some(head) => {
                    let packed = head.closed.and_then(|c| c.measurements(&|_| true));
                    for one in packed.iter().flatten() {
                        m.take_document(ns, one.doc.doc(), WHY)?;
                    }
                    if head.closed.is_some() && packed.is_none() {
                        m.take_row(Some(ns), Row::of_documents(key, value), WHY)?;
                    }
                }
                None => match record::read(value) {
                    Some((_, doc)) => m.take_document(ns, doc, WHY)?,
                    None => m.take_row(Some(ns), Row::of_documents(key, value), WHY)?,
                },
            }
            let mut batch = WriteBatch::new();
            batch.delete(Table::Doc, key);
            m.apply(&mut batch)
        },
    )?;
    apart::drop_keys(m, Table::Cap, ident)
}

/// Raises the mark of identifiers, so that no identifier in use is given again.
fn mend_ident_mark(m: &mut RepairContext<'_>, owners: &Owners) -> Result<()> {
    let all = owners.collections.iter().chain(&owners.indexes);
    let all = all.chain(&owners.dropped).chain(&owners.log).copied();
    let highest = all.max().unwrap_or(0).max(owners.highest);
    let stored = m.get(Table::Meta, meta::IDENT_MARK)?;
    let mark = stored.as_deref().and_then(|b| b.try_into().ok());
    let mark = mark.map_or(0, u32::from_be_bytes);
    if mark > highest || (highest == 0 && stored.is_none()) {
        return Ok(());
    }
    m.report_mended(&format!(
        "the mark of identifiers is {mark}, and {highest} is in use"
    ));
    let mut batch = WriteBatch::new();
    let next = highest.saturating_add(1).to_be_bytes();
    batch.put(Table::Meta, meta::IDENT_MARK, &next);
    m.apply(&mut batch)
}
