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
use crate::hooks::{Hooks, Places, Predicate};
use crate::log::Waker;
use crate::released::{Registered, Waiters};
use arc_swap::ArcSwapOption;
use carried::Carried;
use changed::Changed;
use field::encode_component;
use model::{Collate, Doc, DocBuf, FieldPath, MongoError, Result, Value, bail, code};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use storage::CommitPos;
use touches::TouchNumbers;

/// Bytes of all keys one document may have in an index.
const KEYS_BYTES_MAX: usize = 64 << 20;
/// What is waited for without a thread: that the build ends.
const BUILT: u64 = 0;
/// CannotBuildIndexKeys.
const CANNOT_BUILD_INDEX_KEYS: i32 = 201;

/// A secondary index of an open collection.
pub struct Index {
    ident: u32,
    name: String,
    spec: DocBuf,
    fields: Vec<IndexField>,
    form: Form,
    unique: bool,
    sparse: bool,
    partial: Option<Predicate>,
    places: Option<Arc<dyn Places>>,
    collate: Option<Arc<dyn Collate>>,
    /// Its entries have marks, or carry documents.
    marked: bool,
    /// What its entries carry in place of marks.
    carried: Option<Carried>,
    state: Arc<IndexState>,
}

/// What its entries are.
enum Form {
    /// One component a field.
    Fields,
    /// Those of a text index; `fields` are the others.
    Text(TextPart),
    /// One component a field; of places it is a cell. Documents without a place have none.
    Cells,
    /// Those of a wildcard index; `fields` are the others and, in its place, the wildcard.
    Wildcard(WildcardPart),
    /// Segments beside the documents, see [`columns`].
    Columns,
    /// There are none, and no plan reads it.
    Nothing,
}

/// What changes while an index is in use; kept when its specification is replaced.
#[derive(Default)]
struct IndexState {
    /// Bit per field that has seen an array on its way; never unset. On disk before it is here, and
    /// here before an entry that needs it is visible: a reader that asks after it has taken its
    /// view never misses one.
    multikey: AtomicU32,
    /// Held while a bit is added on disk.
    marking: Mutex<()>,
    /// False while it is being built: maintained by writers, not used by readers.
    ready: AtomicBool,
    /// Views from here on have all its entries.
    ready_at: AtomicU64,
    /// It was dropped; its entries are going.
    dropped: AtomicBool,
    /// Its build has failed, and removing it, too.
    abandoned: AtomicBool,
    /// Documents that were changed since it is built; `None` when it is not.
    changed: ArcSwapOption<Changed>,
    /// Documents its build has read.
    read: AtomicU64,
    /// Who waits until its build has ended.
    waiters: Arc<Waiters>,
    usage: Usage,
    /// Numbers of what writers note for a column index.
    touches: TouchNumbers,
}

/// Its key pattern.
impl std::fmt::Display for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.key_pattern())
    }
}

impl Index {
    /// Understands a specification document (`key`, `name`, `unique`, ...).
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
        let carried = Carried::parse(d, &fields);
        Ok(Index {
            ident,
            name,
            fields,
            unique: d.field("unique").truthy(),
            sparse: d.field("sparse").truthy(),
            partial,
            places,
            marked: matches!(form, Form::Fields) && (collate.is_none() || carried.is_some()),
            carried: carried.filter(|_| matches!(form, Form::Fields)),
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

    /// The same index under another specification, whose entries are the same.
    ///
    /// # Errors
    /// As [`Index::open`].
    pub(crate) fn respecified(&self, spec: DocBuf, hooks: &dyn Hooks) -> Result<Index> {
        let new = Index::open(self.ident, spec, false, 0, hooks)?;
        let new = new.with_format(self.has_entries(), self.marked);
        Ok(Index {
            state: self.state.clone(),
            ..new
        })
    }

    /// The same index, as a server has made it that gave entries to its kind, or none: before
    /// version 3 of the layout geospatial and wildcard indexes had none. Before version 4 no
    /// entries had marks.
    pub(crate) fn with_format(self, has_entries: bool, has_marks: bool) -> Index {
        let form = match has_entries || matches!(self.form, Form::Fields | Form::Text(_)) {
            true => self.form,
            false => Form::Nothing,
        };
        Index {
            form,
            marked: self.marked && has_marks,
            ..self
        }
    }

    /// Its entries have marks: what they say of their documents is all there is to say.
    pub(crate) fn has_marks(&self) -> bool {
        self.marked
    }

    /// It has entries of the documents.
    pub(crate) fn has_entries(&self) -> bool {
        !matches!(self.form, Form::Nothing)
    }

    /// Prefix of its keys.
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
    /// Its entries are one component a field.
    pub fn is_keyed(&self) -> bool {
        matches!(self.form, Form::Fields)
    }
    /// Its entries are those of places: one component a field, of documents with a place.
    pub fn has_cells(&self) -> bool {
        matches!(self.form, Form::Cells)
    }
    /// The text part of a text index with entries.
    pub fn text(&self) -> Option<&TextPart> {
        match &self.form {
            Form::Text(text) => Some(text),
            _ => None,
        }
    }
    /// The wildcard part of a wildcard index with entries.
    pub fn wildcard(&self) -> Option<&WildcardPart> {
        match &self.form {
            Form::Wildcard(part) => Some(part),
            _ => None,
        }
    }
    /// No two documents share a key.
    pub fn is_unique(&self) -> bool {
        self.unique
    }
    /// Documents without any of the fields are left out.
    pub fn is_sparse(&self) -> bool {
        self.sparse
    }
    /// Has a partial filter.
    pub fn is_partial(&self) -> bool {
        self.partial.is_some()
    }
    /// Hidden from the planner.
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
    /// Bits of fields that have seen an array.
    pub fn multikey_bits(&self) -> u32 {
        self.state.multikey.load(Ordering::Acquire)
    }
    /// Some document has several entries.
    pub fn is_multikey(&self) -> bool {
        self.multikey_bits() != 0
    }
    /// Usable by readers.
    pub fn is_ready(&self) -> bool {
        self.state.ready.load(Ordering::Acquire)
    }
    /// The position from which on views have all its entries.
    pub fn ready_at(&self) -> CommitPos {
        CommitPos(self.state.ready_at.load(Ordering::Acquire))
    }
    pub(crate) fn set_ready(&self, at: CommitPos) {
        self.state.ready_at.store(at.0, Ordering::Release);
        self.state.ready.store(true, Ordering::Release);
        self.state.changed.store(None);
        self.build_ended();
    }
    /// Documents its build has read so far.
    pub fn documents_read(&self) -> u64 {
        self.state.read.load(Ordering::Relaxed)
    }
    pub(crate) fn add_documents_read(&self, number: u64) {
        self.state.read.fetch_add(number, Ordering::Relaxed);
    }
    /// Has documents that are changed noted from here on, for a build of about so many.
    pub(crate) fn watch_changes(&self, documents: u64) {
        let changed = Arc::new(Changed::new(documents));
        self.state.changed.store(Some(changed));
    }
    /// Notes that entries of the document with this encoded id are deleted or replaced; to be
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
    /// Has `waker` called when its build has ended, well or not; `None` when it has.
    pub(crate) fn when_built(&self, waker: Waker) -> Option<Registered> {
        let registered = self.state.waiters.register(BUILT, waker);
        let ended = self.is_ready() || self.is_dropped() || self.is_abandoned();
        (!ended).then_some(registered)
    }
    /// Calls who waits for its build.
    pub(crate) fn build_ended(&self) {
        // Who registers looks behind its registration, and is looked for behind the end.
        fence(Ordering::SeqCst);
        self.state.waiters.released(BUILT);
    }
    /// Held while bits are added on disk and here.
    pub(crate) fn marking(&self) -> MutexGuard<'_, ()> {
        self.state.marking.lock()
    }
    /// It was dropped: entries that a scan does not find may be gone with it.
    pub(crate) fn is_dropped(&self) -> bool {
        self.state.dropped.load(Ordering::Acquire)
    }
    /// To be called when the drop is committed and before entries go.
    pub(crate) fn set_dropped(&self) {
        self.state.dropped.store(true, Ordering::Release);
        self.build_ended();
    }
    /// Its build has failed, and so has removing it.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.state.abandoned.load(Ordering::Acquire)
    }
    pub(crate) fn abandon(&self) {
        self.state.abandoned.store(true, Ordering::Release);
        self.build_ended();
    }
    /// Scans, and since when they are counted.
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

    /// As [`Index::keys_of`], for a document that is written: one that the index cannot hold is
    /// refused, while one that is there already may go on being there.
    ///
    /// # Errors
    /// As [`Index::keys_of`]; those of [`Places::check`].
    pub fn keys_of_new(&self, doc: Doc<'_>, set: &mut KeySet) -> Result<()> {
        if let Some(places) = &self.places
            && self.partial.as_ref().is_none_or(|p| p(doc))
        {
            places.check(doc)?;
        }
        if let Form::Wildcard(part) = &self.form {
            self.check_others(part, doc)?;
        }
        self.keys_of(doc, set)
    }

    /// Whether the index can hold a measurement of a time-series collection.
    ///
    /// # Errors
    /// Those of [`Places::check_measurement`].
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
            Form::Fields => self.field_keys(doc, set),
            Form::Text(text) => self.text_keys(text, doc, set),
            Form::Cells => match self.places.as_deref() {
                Some(places) => self.cell_keys(places, doc, set),
                None => Ok(()),
            },
            Form::Wildcard(part) => self.wildcard_keys(part, doc, set),
            Form::Columns | Form::Nothing => Ok(()),
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

    /// Whether two versions of a document certainly have the same keys, with the same marks.
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

/// The fields of a key pattern, what its entries are, and what it demands of places.
type Understood = (Vec<IndexField>, Form, Option<Arc<dyn Places>>);

fn understand(spec: Doc<'_>, key: Doc<'_>, hooks: &dyn Hooks) -> Result<Understood> {
    let mut fields = Vec::new();
    let (mut form, mut places) = (Form::Fields, None);
    for (path, v) in key.iter() {
        let kind = match v {
            Value::String("text") if path == "_fts" => {
                form = Form::Text(TextPart {
                    at: fields.len(),
                    terms: hooks.terms(spec)?,
                });
                continue;
            }
            _ if path == "_ftsx" && matches!(form, Form::Text(_)) => continue,
            Value::String("hashed") => FieldKind::Hashed,
            Value::String("columnstore") => {
                form = Form::Columns;
                FieldKind::Cells
            }
            Value::String(kind @ ("2d" | "2dsphere" | "text")) => {
                form = Form::Nothing;
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
    // A test finds places at a position in an array by more paths than entries are made by.
    if places.is_some() && !parts().any(|p| p.index.is_some()) {
        form = Form::Cells;
    }
    let is_wildcard = parts().any(|p| p.name == "$**");
    if is_wildcard && !matches!(form, Form::Columns) {
        form = WildcardPart::of(spec).map_or(Form::Nothing, Form::Wildcard);
    }
    Ok((fields, form, places))
}
