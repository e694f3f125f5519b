//! One secondary index: its specification, and the keys a document has in it. Must not know:
//! collections, the engine.

mod carried;
mod cells;
mod changed;
mod columns;
mod entry;
mod field;
mod field_keys;
mod interval;
mod key_set;
mod marks;
mod reach;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod touches;
mod usage;
mod wildcard;

pub use cells::encode_cell;
pub use entry::EntryParts;
pub use field::{FieldKind, IndexField};
pub use interval::KeyInterval;
pub use key_set::{Key, KeySet};
pub use marks::WantedFields;
pub use text::TextPart;
pub use usage::Usage;
pub use wildcard::{Coverage, WildcardPart};

use crate::format::keys;
use crate::hooks::{CellExtractor, Hooks, Predicate};
use crate::log::Waker;
use crate::released::{Registration, Waiters};
use arc_swap::ArcSwapOption;
use carried::IncludedFields;
use changed::ChangeSet;
use field::encode_component;
use model::{Collate, Doc, DocBuf, FieldPath, MongoError, Result, Value, bail, code};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use storage::CommitPos;
use touches::WriteNumbers;

/// Bytes of all keys one document may have in an index.
const KEYS_BYTES_MAX: usize = 64 << 20;
/// The event for which a waker can be registered: the build has ended.
const BUILT: u64 = 0;
/// CannotBuildIndexKeys.
const CANNOT_BUILD_INDEX_KEYS: i32 = 201;

/// A secondary index of an open collection.
pub struct Index {
    ident: u32,
    builder: Option<u64>,
    name: String,
    spec: DocBuf,
    fields: Vec<IndexField>,
    form: EntryKind,
    unique: bool,
    sparse: bool,
    partial: Option<Predicate>,
    places: Option<Arc<dyn CellExtractor>>,
    collate: Option<Arc<dyn Collate>>,
    /// Its entries have marks, or store fields of documents.
    marked: bool,
    /// The fields of documents that its entries store instead of marks.
    carried: Option<IncludedFields>,
    state: Arc<IndexState>,
}

/// The kind of its entries.
enum EntryKind {
    /// One component for each field.
    Fields,
    /// Entries of a text index; `fields` are the fields without text.
    Text(TextPart),
    /// One component for each field; the component of a place is a cell. Documents without a place
    /// have no entries.
    Cells,
    /// Entries of a wildcard index; `fields` are the other fields and, in its place, the wildcard.
    Wildcard(WildcardPart),
    /// No entries; it has segments of columns, see [`columns`].
    Columns,
    /// No entries; no plan reads it.
    Nothing,
}

/// State that changes while an index is in use; kept when its specification is replaced.
#[derive(Default)]
struct IndexState {
    /// One bit for each field on whose path an array was seen; never unset. A bit is set on disk
    /// before it is set here, and here before an entry that needs it is visible: a reader that
    /// checks the bits after taking its view never misses one.
    multikey: AtomicU32,
    /// Held while a bit is added on disk.
    marking: Mutex<()>,
    /// False during the build: writers maintain the index, readers do not use it.
    ready: AtomicBool,
    /// Views of this position and later ones see all its entries.
    ready_at: AtomicU64,
    /// It was dropped; its entries are being deleted.
    dropped: AtomicBool,
    /// Its build has failed, and so has its removal.
    abandoned: AtomicBool,
    /// Documents that were changed since its build began; `None` when it is not being built.
    changed: ArcSwapOption<ChangeSet>,
    /// Number of documents that its build has read.
    read: AtomicU64,
    /// Operations that wait for the end of its build.
    waiters: Arc<Waiters>,
    usage: Usage,
    /// Numbers for the notes of writers, in a column index.
    touches: WriteNumbers,
}

/// Writes its key pattern.
impl std::fmt::Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.key_pattern())
    }
}

impl Index {
    /// Parses a specification document (`key`, `name`, `unique`, ...).
    ///
    /// # Errors
    /// 67 CannotCreateIndex for a key this store cannot build; those of the hooks for filter and
    /// collation.
    pub fn open(
        ident: u32,
        spec: DocBuf,
        ready: bool,
        multikey: u32,
        hooks: &dyn Hooks,
    ) -> Result<Index> {
        let d = spec.doc();
        let cannot = |why| MongoError::new(code::CANNOT_CREATE_INDEX, why);
        let name = d.field("name").as_str().unwrap_or_default().to_owned();
        let key = d
            .field("key")
            .as_doc()
            .ok_or_else(|| cannot("index specification has no key"))?;
        let (fields, form, places) = understand(d, key, hooks)?;
        let collation = d.field("collation").as_doc();
        let partial = d.field("partialFilterExpression").as_doc();
        let partial = partial.map(|f| hooks.predicate(f, collation)).transpose()?;
        let collate = match collation {
            Some(c) => hooks.collator(c)?,
            None => None,
        };
        let carried = IncludedFields::parse(d, &fields);
        Ok(Index {
            ident,
            builder: None,
            name,
            fields,
            unique: d.field("unique").truthy(),
            sparse: d.field("sparse").truthy(),
            partial,
            places,
            marked: matches!(form, EntryKind::Fields) && (collate.is_none() || carried.is_some()),
            carried: carried.filter(|_| matches!(form, EntryKind::Fields)),
            form,
            collate,
            state: Arc::new(IndexState {
                multikey: AtomicU32::new(multikey),
                ready: AtomicBool::new(ready),
                ..IndexState::default()
            }),
            spec,
        })
    }

    /// This index with another specification that has the same entries.
    ///
    /// # Errors
    /// As [`Index::open`].
    pub(crate) fn with_spec(&self, spec: DocBuf, hooks: &dyn Hooks) -> Result<Index> {
        let new = Index::open(self.ident, spec, false, 0, hooks)?;
        let new = new.with_format(self.has_entries(), self.marked);
        Ok(Index {
            state: self.state.clone(),
            builder: self.builder,
            ..new
        })
    }

    /// This index in the format of the server that created it: before version 3 of the layout
    /// geospatial and wildcard indexes had no entries, before version 4 no entries had marks.
    pub(crate) fn with_format(self, has_entries: bool, has_marks: bool) -> Index {
        let form = match has_entries || matches!(self.form, EntryKind::Fields | EntryKind::Text(_))
        {
            true => self.form,
            false => EntryKind::Nothing,
        };
        Index {
            form,
            marked: self.marked && has_marks,
            ..self
        }
    }

    /// This index with the number of the server that builds it.
    pub(crate) fn with_builder(self, builder: Option<u64>) -> Index {
        Index { builder, ..self }
    }

    /// The number of the server that builds it beside others.
    pub(crate) fn builder(&self) -> Option<u64> {
        self.builder
    }

    /// Whether its entries have marks, so that values can be restored from them.
    pub(crate) fn has_marks(&self) -> bool {
        self.marked
    }

    /// Whether it has entries of documents.
    pub(crate) fn has_entries(&self) -> bool {
        !matches!(self.form, EntryKind::Nothing)
    }

    /// The identifier at the beginning of its keys.
    pub fn ident(&self) -> u32 {
        self.ident
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// The specification as listIndexes shows it.
    pub fn spec(&self) -> Doc<'_> {
        self.spec.doc()
    }
    /// The key pattern.
    pub fn key_pattern(&self) -> Doc<'_> {
        self.spec.doc().field("key").as_doc().unwrap_or(Doc::EMPTY)
    }
    /// Its fields.
    pub fn fields(&self) -> &[IndexField] {
        &self.fields
    }
    /// Whether its entries have one component for each field.
    pub fn is_keyed(&self) -> bool {
        matches!(self.form, EntryKind::Fields)
    }
    /// Whether it is geospatial: one component for each field, for documents with a place.
    pub fn has_cells(&self) -> bool {
        matches!(self.form, EntryKind::Cells)
    }
    /// The text part of a text index with entries.
    pub fn text(&self) -> Option<&TextPart> {
        match &self.form {
            EntryKind::Text(text) => Some(text),
            _ => None,
        }
    }
    /// The wildcard part of a wildcard index with entries.
    pub fn wildcard(&self) -> Option<&WildcardPart> {
        match &self.form {
            EntryKind::Wildcard(part) => Some(part),
            _ => None,
        }
    }
    /// Whether no two documents may share a key.
    pub fn is_unique(&self) -> bool {
        self.unique
    }
    /// Whether documents without any of the fields are left out.
    pub fn is_sparse(&self) -> bool {
        self.sparse
    }
    /// Whether it has a partial filter.
    pub fn is_partial(&self) -> bool {
        self.partial.is_some()
    }
    /// Whether it is hidden from the planner.
    pub fn is_hidden(&self) -> bool {
        self.spec.doc().field("hidden").truthy()
    }
    /// The order of its strings.
    pub fn collate(&self) -> Option<&dyn Collate> {
        self.collate.as_deref()
    }
    /// The collation specification.
    pub fn collation(&self) -> Option<Doc<'_>> {
        self.spec.doc().field("collation").as_doc()
    }
    /// Bits of the fields that have seen an array.
    pub fn multikey_bits(&self) -> u32 {
        self.state.multikey.load(Ordering::Acquire)
    }
    /// Whether some document may have several entries.
    pub fn is_multikey(&self) -> bool {
        self.multikey_bits() != 0
    }
    /// Whether readers may use it.
    pub fn is_ready(&self) -> bool {
        self.state.ready.load(Ordering::Acquire)
    }
    /// Views of this position and later ones see all its entries.
    pub fn ready_at(&self) -> CommitPos {
        CommitPos(self.state.ready_at.load(Ordering::Acquire))
    }
    pub(crate) fn set_ready(&self, at: CommitPos) {
        self.state.ready_at.store(at.0, Ordering::Release);
        self.state.ready.store(true, Ordering::Release);
        self.state.changed.store(None);
        self.wake_build_waiters();
    }
    /// Documents its build has read so far.
    pub fn documents_read(&self) -> u64 {
        self.state.read.load(Ordering::Relaxed)
    }
    pub(crate) fn add_documents_read(&self, number: u64) {
        self.state.read.fetch_add(number, Ordering::Relaxed);
    }
    /// Records changed documents from now on, for a build of about this many documents.
    pub(crate) fn watch_changes(&self, documents: u64) {
        let changed = Arc::new(ChangeSet::new(documents));
        self.state.changed.store(Some(changed));
    }
    /// Records that entries of the document with this encoded id will be deleted or replaced; to be
    /// called before the commit that does it.
    pub(crate) fn note_change(&self, id: &[u8]) {
        if !self.is_ready()
            && let Some(changed) = &*self.state.changed.load()
        {
            changed.add(id);
        }
    }
    /// False when no commit before the caller's last one has deleted or replaced entries of the
    /// document with this encoded id.
    pub(crate) fn may_have_changed(&self, id: &[u8]) -> bool {
        let changed = self.state.changed.load();
        changed.as_ref().is_none_or(|c| c.may_hold(id))
    }
    /// Has `waker` called when the build has ended, with or without success; `None` when it has
    /// ended already.
    pub(crate) fn wake_when_built(&self, waker: Waker) -> Option<Registration> {
        let registered = self.state.waiters.register(BUILT, waker);
        let ended = self.is_ready() || self.is_dropped() || self.is_abandoned();
        (!ended).then_some(registered)
    }
    /// Calls the operations that wait for its build.
    pub(crate) fn wake_build_waiters(&self) {
        // A waiter checks the state after it registers, and this looks for waiters after the state
        // has changed: neither misses the other.
        fence(Ordering::SeqCst);
        self.state.waiters.wake_waiters(BUILT);
    }
    /// Locks the addition of bits on disk and here.
    pub(crate) fn lock_marks(&self) -> MutexGuard<'_, ()> {
        self.state.marking.lock()
    }
    /// Whether it was dropped: then entries that a scan does not find may have been deleted by the
    /// drop.
    pub(crate) fn is_dropped(&self) -> bool {
        self.state.dropped.load(Ordering::Acquire)
    }
    /// Marks it as dropped; to be called after the commit of the drop and before entries are
    /// deleted.
    pub(crate) fn set_dropped(&self) {
        self.state.dropped.store(true, Ordering::Release);
        self.wake_build_waiters();
    }
    /// Whether its build has failed, and so has its removal.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.abandoned.load(Ordering::Acquire)
    }
    pub(crate) fn abandon(&self) {
        self.state.abandoned.store(true, Ordering::Release);
        self.wake_build_waiters();
    }
    /// The number of scans, and the time since which they are counted.
    pub fn usage(&self) -> &Usage {
        &self.state.usage
    }
    pub(crate) fn add_multikey(&self, bits: u32) {
        self.state.multikey.fetch_or(bits, Ordering::AcqRel);
    }

    /// Appends the encoded component of a bound value for field number `field`.
    pub fn encode_bound(&self, field: usize, v: &Value<'_>, out: &mut Vec<u8>) {
        if let Some(f) = self.fields.get(field) {
            encode_component(f.kind, v, self.collate(), out);
        }
    }

    /// The key of the entry of one document for `components`: `ident components END` in a unique
    /// index, whose value is the id; `ident components END id tail` in others.
    pub(crate) fn entry_key(&self, components: &[u8], id: &[u8], out: &mut Vec<u8>) {
        if self.unique {
            return self.unique_entry(components, out);
        }
        out.clear();
        out.extend_from_slice(&self.ident.to_be_bytes());
        out.extend_from_slice(components);
        keys::append_id_tail(out, id);
    }

    /// The whole key of an entry of a unique index.
    pub(crate) fn unique_entry(&self, components: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.ident.to_be_bytes());
        out.extend_from_slice(components);
        out.push(keys::END);
    }

    /// As [`Index::keys_of`], for a document that is about to be written: one that the index cannot
    /// hold is refused, while an existing document may stay.
    ///
    /// # Errors
    /// As [`Index::keys_of`]; those of [`CellExtractor::check`].
    pub fn keys_of_new(&self, doc: Doc<'_>, set: &mut KeySet) -> Result<()> {
        if let Some(places) = &self.places
            && self.partial.as_ref().is_none_or(|p| p(doc))
        {
            places.check(doc)?;
        }
        if let EntryKind::Wildcard(part) = &self.form {
            self.check_others(part, doc)?;
        }
        self.keys_of(doc, set)
    }

    /// Whether the index can hold a measurement of a time-series collection.
    ///
    /// # Errors
    /// Those of [`CellExtractor::check_measurement`].
    pub fn check_measurement(&self, doc: Doc<'_>) -> Result<()> {
        match &self.places {
            Some(places) if self.partial.as_ref().is_none_or(|p| p(doc)) => {
                places.check_measurement(doc)
            }
            _ => Ok(()),
        }
    }

    /// Fills `set` with the encoded keys of `doc`, sorted and distinct.
    ///
    /// # Errors
    /// 171 when two fields are arrays at once, 201 when the keys together are too large, 16746 when
    /// a numeric component is a position and a field name at once. For text indexes 201 when a
    /// field beside the text is an array, and those of the terms.
    pub fn keys_of(&self, doc: Doc<'_>, set: &mut KeySet) -> Result<()> {
        set.clear();
        if self.partial.as_ref().is_some_and(|p| !p(doc)) {
            return Ok(());
        }
        match &self.form {
            EntryKind::Fields => self.field_keys(doc, set),
            EntryKind::Text(text) => self.text_keys(text, doc, set),
            EntryKind::Cells => match self.places.as_deref() {
                Some(places) => self.cell_keys(places, doc, set),
                None => Ok(()),
            },
            EntryKind::Wildcard(part) => self.wildcard_keys(part, doc, set),
            EntryKind::Columns | EntryKind::Nothing => Ok(()),
        }
    }

    fn keys_too_large(&self) -> MongoError {
        MongoError::new(
            CANNOT_BUILD_INDEX_KEYS,
            format!(
                "index key generation exceeded the memory limit: the keys of one document in index \
                    {} have more than {KEYS_BYTES_MAX} bytes",
                self.name
            ),
        )
    }

    /// Whether two versions of a document certainly have the same keys and marks.
    pub(crate) fn sees_same(&self, old: Doc<'_>, new: Doc<'_>) -> bool {
        if let Some(carried) = &self.carried
            && !carried.is_same(old, new)
        {
            return false;
        }
        let same = |name: &str| match (old.get_element(name), new.get_element(name)) {
            (None, None) => true,
            (Some(a), Some(b)) => a.tag == b.tag && a.payload == b.payload,
            _ => false,
        };
        self.partial.is_none()
            && (!self.marked || same("_id") && self.has_same_layout(old, new))
            && self.fields.iter().all(|f| same(f.path.first()))
            && self.text().is_none_or(|t| t.terms.same(old, new))
            && self.wildcard().is_none_or(|w| w.same(&same))
    }
}

/// The fields of a key pattern, the kind of its entries, and its requirements on places.
type ParsedKeyPattern = (Vec<IndexField>, EntryKind, Option<Arc<dyn CellExtractor>>);

fn understand(spec: Doc<'_>, key: Doc<'_>, hooks: &dyn Hooks) -> Result<ParsedKeyPattern> {
    let mut fields = Vec::new();
    let (mut form, mut places) = (EntryKind::Fields, None);
    for (path, v) in key.iter() {
        let kind = match v {
            Value::String("text") if path == "_fts" => {
                form = EntryKind::Text(TextPart {
                    at: fields.len(),
                    terms: hooks.terms(spec)?,
                });
                continue;
            }
            _ if path == "_ftsx" && matches!(form, EntryKind::Text(_)) => continue,
            Value::String("hashed") => FieldKind::Hashed,
            Value::String("columnstore") => {
                form = EntryKind::Columns;
                FieldKind::Cells
            }
            Value::String(kind @ ("2d" | "2dsphere" | "text")) => {
                form = EntryKind::Nothing;
                if kind != "text" {
                    places = hooks.places(spec);
                }
                FieldKind::Cells
            }
            Value::String(other) => {
                bail!(
                    code::CANNOT_CREATE_INDEX,
                    "index type '{other}' is not known; 2d, 2dsphere, columnstore, hashed and \
                        text are"
                );
            }
            v => match v.as_f64() {
                Some(n) if n < 0.0 => FieldKind::Descending,
                _ => FieldKind::Ascending,
            },
        };
        fields.push(IndexField {
            path: FieldPath::new(path),
            kind,
        });
    }
    let parts = || fields.iter().flat_map(|f| f.path.parts());
    // A query finds places at a position of an array by more paths than entries are made from.
    if places.is_some() && !parts().any(|p| p.index.is_some()) {
        form = EntryKind::Cells;
    }
    let is_wildcard = parts().any(|p| p.name == "$**");
    if is_wildcard && !matches!(form, EntryKind::Columns) {
        form = WildcardPart::of(spec).map_or(EntryKind::Nothing, EntryKind::Wildcard);
    }
    Ok((fields, form, places))
}
