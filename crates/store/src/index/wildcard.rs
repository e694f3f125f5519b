//! The components of a wildcard index's entries (`docs/on-disk.md`, ADR 0055): the path of a value
//! and the value, between the components of the other fields. Must not know: filters.

use super::field::{FieldKind, encode_component};
use super::interval::KeyInterval;
use super::key_set::KeySet;
use super::reach::{PathEnd, reach};
use super::{Index, KEYS_BYTES_MAX};
use crate::format::{decode, keys};
use model::{Array, Collate, Doc, MongoError, Result, Value};

/// The suffix of a key pattern's field that stands for all paths below a name.
const WILDCARD: &str = "$**";
/// The first byte of the component of a string.
const STRING: u8 = 0x50;

/// The wildcard part of an index key.
pub struct WildcardPart {
    /// Place of the wildcard among the fields.
    pub at: usize,
    scope: Scope,
}

/// Which parts of a subtree of a document are indexed.
struct Scope {
    /// Whether children that are not listed are indexed.
    rest: bool,
    children: Vec<(String, Scope)>,
}

static WHOLE: Scope = Scope {
    rest: true,
    children: Vec::new(),
};

/// Which values at and below a path have entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coverage {
    /// The values at the path have no entries.
    Nothing,
    /// The values at the path have entries, those below it perhaps not all.
    Values,
    /// All values at and below the path have entries.
    Subtree,
}

impl Scope {
    fn new(rest: bool) -> Scope {
        Scope {
            rest,
            children: Vec::new(),
        }
    }

    /// The scope below a name; `None` when nothing below it is indexed.
    fn child(&self, name: &str) -> Option<&Scope> {
        let named = self.children.iter().find(|(n, _)| n == name);
        match named {
            Some((_, scope)) => (scope.rest || !scope.children.is_empty()).then_some(scope),
            None => self.rest.then_some(&WHOLE),
        }
    }

    /// Includes or excludes the subtree at `path`.
    fn set(&mut self, path: &str, inside: bool) {
        let (name, below) = match path.split_once('.') {
            Some((name, below)) => (name, Some(below)),
            None => (path, None),
        };
        let at = self.children.iter().position(|(n, _)| n == name);
        let at = at.unwrap_or_else(|| {
            self.children.push((name.to_owned(), Scope::new(!inside)));
            self.children.len() - 1
        });
        if let Some((_, scope)) = self.children.get_mut(at) {
            match below {
                Some(below) => scope.set(below, inside),
                None => *scope = Scope::new(inside),
            }
        }
    }
}

/// Calls `each` with each path of a projection (documents inside it are parts of paths) and whether
/// it is included.
fn visit_paths<'d>(prefix: &str, d: Doc<'d>, each: &mut dyn FnMut(&str, bool)) {
    for (name, v) in d.iter() {
        let path = match prefix {
            "" => name.to_owned(),
            _ => format!("{prefix}.{name}"),
        };
        match v {
            Value::Document(inner) => visit_paths(&path, inner, each),
            v => each(&path, v.truthy()),
        }
    }
}

impl WildcardPart {
    /// The wildcard part of an index specification; `None` when its key has no wildcard, or one
    /// beside fields of other kinds.
    pub(super) fn of(spec: Doc<'_>) -> Option<WildcardPart> {
        let key = spec.field("key").as_doc()?;
        let below = |name: &'_ str| name == WILDCARD || name.ends_with(".$**");
        let at = key.iter().position(|(name, _)| below(name))?;
        if !key.iter().all(|(_, v)| v.is_number()) {
            return None;
        }
        let (name, _) = key.iter().nth(at)?;
        let scope = match name.strip_suffix(".$**") {
            Some(root) => {
                let mut scope = Scope::new(false);
                scope.set(root, true);
                scope
            }
            None => WildcardPart::scope_of(spec.field("wildcardProjection").as_doc()),
        };
        Some(WildcardPart { at, scope })
    }

    /// `_id` is not indexed unless it is named; it may be included in a projection that excludes.
    fn scope_of(projection: Option<Doc<'_>>) -> Scope {
        let (mut includes, mut others, mut id) = (false, false, None);
        visit_paths("", projection.unwrap_or(Doc::EMPTY), &mut |path, inside| {
            if path == "_id" {
                id = Some(inside);
            } else {
                others = true;
                includes = inside;
            }
        });
        let mut scope = Scope::new(match others {
            true => !includes,
            false => id != Some(true),
        });
        visit_paths("", projection.unwrap_or(Doc::EMPTY), &mut |path, inside| {
            scope.set(path, inside);
        });
        if !scope.children.iter().any(|(name, _)| name == "_id") {
            scope.set("_id", false);
        }
        scope
    }

    /// Which values at and below a path have entries; numbers in the path are names of fields.
    pub fn covers(&self, path: &str) -> Coverage {
        let mut scope = &self.scope;
        for name in path.split('.') {
            match scope.child(name) {
                Some(child) => scope = child,
                None => return Coverage::Nothing,
            }
        }
        match (scope.rest, scope.children.is_empty()) {
            (false, _) => Coverage::Nothing,
            (true, false) => Coverage::Values,
            (true, true) => Coverage::Subtree,
        }
    }

    /// The multikey bit that all paths with the same first field share. Other fields may have the
    /// same bit.
    pub fn array_bit(path: &str) -> u32 {
        let first = path.split_once('.').map_or(path, |(first, _)| first);
        // FNV-1a is implemented here and not taken from a library, because the hash is stored on
        // disk.
        let hash = first.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        1 << (hash % 32)
    }

    /// Whether two versions of a document certainly have the same values under the projection.
    pub(super) fn same(&self, same: &dyn Fn(&str) -> bool) -> bool {
        !self.scope.rest && self.scope.children.iter().all(|(name, _)| same(name))
    }
}

/// The walk over one document that makes its entries.
struct EntryBuilder<'w> {
    path: String,
    kind: FieldKind,
    collate: Option<&'w dyn Collate>,
    out: &'w mut KeySet,
}

impl EntryBuilder<'_> {
    fn document(&mut self, d: Doc<'_>, scope: &Scope, below: bool) {
        for (name, v) in d.iter() {
            let Some(child) = scope.child(name) else {
                continue;
            };
            let len = self.path.len();
            if below {
                self.path.push('.');
            }
            self.path.push_str(name);
            match v {
                Value::Document(d) if !d.is_empty() => self.document(d, child, true),
                Value::Array(a) => self.array(a, child),
                v => self.leaf(&v, child),
            }
            self.path.truncate(len);
        }
    }

    /// Elements have the path of their array; an array inside an array is a value.
    fn array(&mut self, a: Array<'_>, scope: &Scope) {
        self.out.multikey |= WildcardPart::array_bit(&self.path);
        if a.is_empty() {
            return self.leaf(&Value::Array(a), scope);
        }
        for v in a.iter() {
            match v {
                Value::Document(d) if !d.is_empty() => self.document(d, scope, true),
                v => self.leaf(&v, scope),
            }
        }
    }

    fn leaf(&mut self, v: &Value<'_>, scope: &Scope) {
        if !scope.rest || self.out.bytes.len() > KEYS_BYTES_MAX {
            return;
        }
        let start = self.out.begin();
        keys::encode(&Value::String(&self.path), None, &mut self.out.bytes);
        encode_component(self.kind, v, self.collate, &mut self.out.bytes);
        self.out.end(start);
    }
}

/// The path at the beginning of a component, and its length; `None` when there is none.
fn path_of(component: &[u8]) -> Option<(&str, usize)> {
    let rest = component.strip_prefix(&[STRING])?;
    let len = rest.iter().position(|b| *b == 0)?;
    Some((std::str::from_utf8(rest.get(..len)?).ok()?, len + 2))
}

impl Index {
    /// An entry for each path and value below the root, combined with each key of the other fields.
    /// In a compound index a document without such values has one entry, with MinKey for path and
    /// value.
    pub(super) fn wildcard_keys(
        &self,
        part: &WildcardPart,
        doc: Doc<'_>,
        set: &mut KeySet,
    ) -> Result<()> {
        let kind = self
            .fields
            .get(part.at)
            .map_or(FieldKind::Ascending, |f| f.kind);
        let mut walk = EntryBuilder {
            path: String::new(),
            kind,
            collate: self.collate(),
            out: set,
        };
        walk.document(doc, &part.scope, false);
        if set.bytes.len() > KEYS_BYTES_MAX {
            return Err(self.keys_too_large());
        }
        set.sort();
        mark_repeated(set);
        match self.fields.len() {
            1 => Ok(()),
            _ => self.surround_with_others(part, doc, kind, set),
        }
    }

    /// Checks that the other fields of a compound index have one value each. Documents written
    /// before this check existed keep their entries.
    ///
    /// # Errors
    /// 7246301 where one of them is an array.
    pub(super) fn check_others(&self, part: &WildcardPart, doc: Doc<'_>) -> Result<()> {
        if self.fields.len() == 1 || self.partial.as_ref().is_some_and(|p| !p(doc)) {
            return Ok(());
        }
        let mut others = KeySet::default();
        self.expand(&mut self.reach_others(part, doc)?, None, &mut others)?;
        if others.multikey != 0 {
            return Err(MongoError::new(
                7_246_301,
                format!(
                    "a field beside the wildcard of index {} holds an array",
                    self.name
                ),
            ));
        }
        Ok(())
    }

    /// The values of the other fields, with MinKey in the place of the wildcard.
    fn reach_others<'d>(
        &'d self,
        part: &WildcardPart,
        doc: Doc<'d>,
    ) -> Result<smallvec::SmallVec<[PathEnd<'d>; 4]>> {
        self.fields
            .iter()
            .enumerate()
            .map(|(n, f)| match n == part.at {
                true => Ok(PathEnd::At(Value::MinKey)),
                false => reach(Value::Document(doc), f.path.parts()),
            })
            .collect()
    }

    /// Puts the components of the other fields around each path and value.
    fn surround_with_others(
        &self,
        part: &WildcardPart,
        doc: Doc<'_>,
        kind: FieldKind,
        set: &mut KeySet,
    ) -> Result<()> {
        let mut states = self.reach_others(part, doc)?;
        let (leaves, mut others) = (std::mem::take(set), KeySet::default());
        self.expand(&mut states, None, &mut others)?;
        others.sort();
        let mut nothing = Vec::new();
        encode_component(FieldKind::Ascending, &Value::MinKey, None, &mut nothing);
        encode_component(kind, &Value::MinKey, None, &mut nothing);
        let nothing = [nothing.as_slice()];
        for other in others.iter() {
            // The wildcard's own component is one byte in these keys.
            let at = self.components_len(other, part.at).unwrap_or_default();
            let (before, behind) = (other.get(..at), other.get(at + 1..));
            let mut put = |leaf: &[u8]| {
                let start = set.begin();
                set.bytes.extend_from_slice(before.unwrap_or_default());
                set.bytes.extend_from_slice(leaf);
                set.bytes.extend_from_slice(behind.unwrap_or_default());
                set.end(start);
                set.bytes.len() <= KEYS_BYTES_MAX
            };
            let whole = match leaves.is_empty() {
                true => nothing.iter().all(|leaf| put(leaf)),
                false => leaves.iter().all(&mut put),
            };
            if !whole {
                return Err(self.keys_too_large());
            }
        }
        set.multikey = leaves.multikey | others.multikey;
        set.sort();
        Ok(())
    }

    /// The length of the components of the first `count` fields.
    fn components_len(&self, key: &[u8], count: usize) -> Option<usize> {
        self.fields.iter().take(count).try_fold(0, |at, f| {
            let descending = f.kind == FieldKind::Descending;
            Some(at + decode::component_len(key.get(at..)?, descending)?)
        })
    }

    /// Whether a scan of intervals may meet a document more than once; `bits` are the multikey
    /// bits.
    pub(crate) fn may_repeat(&self, intervals: &[KeyInterval], bits: u32) -> bool {
        let Some(part) = self.wildcard() else {
            return bits != 0;
        };
        let others = (0..self.fields.len()).filter(|n| *n != part.at);
        if others.fold(0, |all, n| all | 1 << n.min(31)) & bits != 0 {
            return true;
        }
        let mut only: Option<&str> = None;
        for i in intervals {
            let Some(at) = self.components_len(&i.lower, part.at) else {
                return true;
            };
            let Some((path, len)) = i.lower.get(at..).and_then(path_of) else {
                return true;
            };
            let within = i
                .lower
                .get(..at + len)
                .is_some_and(|p| i.upper.starts_with(p));
            if !within || *only.get_or_insert(path) != path {
                return true;
            }
        }
        only.is_none_or(|path| bits & WildcardPart::array_bit(path) != 0)
    }
}

/// Marks paths with several values as multikey, whatever the reason: a field may occur twice in a
/// document, or have a dot in its name.
fn mark_repeated(set: &mut KeySet) {
    let (mut bits, mut last) = (0, None);
    for key in set.iter() {
        let path = path_of(key).map(|(path, _)| path);
        if let (Some(path), true) = (path, path == last) {
            bits |= WildcardPart::array_bit(path);
        }
        last = path;
    }
    set.multikey |= bits;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::NoHooks;
    use model::{DocBuf, doc};

    fn index(spec: DocBuf) -> Index {
        Index::open(1, spec, true, 0, &NoHooks).unwrap()
    }

    /// The entries as text: `path=value` between the components of the other fields.
    fn entries(spec: DocBuf, d: &DocBuf) -> Vec<String> {
        let (i, mut set) = (index(spec), KeySet::default());
        i.keys_of(d.doc(), &mut set).unwrap();
        let shown = |key: &[u8]| {
            let (mut at, mut out) = (0, Vec::new());
            while at < key.len() {
                let (v, len) = decode::component(&key[at..]).unwrap();
                out.push(v.get().to_string());
                at += len;
            }
            out.join("=").replace('"', "")
        };
        set.iter().map(shown).collect()
    }

    fn all() -> DocBuf {
        doc! { "key": { "$**": 1i32 }, "name": "w" }
    }

    #[test]
    fn every_leaf_below_the_root_has_an_entry_and_arrays_have_no_positions() {
        let d = doc! { "_id": 1i32, "a": { "b": 1i32, "c": {} }, "d": [1i32, 2i32, 2i32, [3i32],
        { "e": 4i32 }, {}], "f": [], "g": Value::Null };
        assert_eq!(
            entries(all(), &d),
            [
                "a.b=1", "a.c={}", "d=1", "d=2", "d={}", "d=[ 3 ]", "d.e=4", "f=[]", "g=null"
            ]
        );
        assert!(entries(all(), &doc! { "_id": 1i32 }).is_empty());
    }

    #[test]
    fn projections_say_what_is_inside() {
        let d = doc! { "_id": 7i32, "a": { "b": 1i32, "c": 2i32 }, "d": [{ "b": 3i32 }] };
        let with =
            |p: DocBuf| doc! { "key": { "$**": 1i32 }, "name": "w", "wildcardProjection": &p };
        let only = |p: DocBuf| entries(with(p), &d).join(" ");
        assert_eq!(only(doc! { "a": 1i32 }), "a.b=1 a.c=2");
        assert_eq!(only(doc! { "a.b": 1i32, "_id": 1i32 }), "_id=7 a.b=1");
        assert_eq!(only(doc! { "a": { "c": true } }), "a.c=2");
        assert_eq!(only(doc! { "a.b": 0i32 }), "a.c=2 d.b=3");
        assert_eq!(only(doc! { "a": 0i32, "_id": 1i32 }), "_id=7 d.b=3");
        assert_eq!(only(doc! { "_id": 1i32 }), "_id=7");
        assert_eq!(only(doc! { "_id": 0i32 }), "a.b=1 a.c=2 d.b=3");
        let below = doc! { "key": { "d.$**": 1i32 }, "name": "w" };
        assert_eq!(entries(below, &d), ["d.b=3"]);
    }

    #[test]
    fn coverage_follows_the_projection() {
        let part = |p: DocBuf| {
            let spec = doc! { "key": { "$**": 1i32 }, "name": "w", "wildcardProjection": &p };
            WildcardPart::of(spec.doc()).unwrap()
        };
        let p = part(doc! { "a.b": 0i32 });
        assert_eq!(p.covers("a"), Coverage::Values);
        assert_eq!(p.covers("a.b.c"), Coverage::Nothing);
        assert_eq!(p.covers("a.c"), Coverage::Subtree);
        assert_eq!(p.covers("_id"), Coverage::Nothing);
        let p = part(doc! { "a.b": 1i32 });
        assert_eq!(p.covers("a"), Coverage::Nothing);
        assert_eq!(p.covers("a.b.c"), Coverage::Subtree);
    }

    #[test]
    fn compound_indexes_have_other_fields_around_and_every_document() {
        let spec = || {
            doc! { "key": { "t": 1i32, "$**": 1i32, "u": -1i32 }, "name": "w",
            "wildcardProjection": { "t": 0i32, "u": 0i32 } }
        };
        let i = index(spec());
        let mut set = KeySet::default();
        // The example of docs/on-disk.md.
        i.keys_of(doc! { "t": false, "a": "b", "u": true }.doc(), &mut set)
            .unwrap();
        let expected = [&[0x78][..], b"\x50a\0", b"\x50b\0", &[!0x79]].concat();
        assert_eq!(set.iter().next(), Some(expected.as_slice()));
        i.keys_of(doc! { "t": 1i32 }.doc(), &mut set).unwrap();
        assert_eq!(
            set.iter().next(),
            Some(&[0x42, 1, 0, 0x0A, 0x0A, !0x14][..])
        );
        i.keys_of(
            doc! { "t": [1i32, 2i32], "a": [3i32, 4i32] }.doc(),
            &mut set,
        )
        .unwrap();
        assert_eq!(set.len(), 4);
        assert_eq!(set.multikey, 1 | WildcardPart::array_bit("a"));
    }

    #[test]
    fn a_path_with_several_values_is_marked() {
        let marks = |d: DocBuf| {
            let mut set = KeySet::default();
            index(all()).keys_of(d.doc(), &mut set).unwrap();
            set.multikey
        };
        let a = WildcardPart::array_bit("a");
        assert_eq!(marks(doc! { "a": { "b": 1i32, "c": 2i32 } }), 0);
        assert_eq!(marks(doc! { "a": { "b": [] } }), a);
        assert_eq!(marks(doc! { "a.b": 1i32, "a": { "b": 2i32 } }), a);
    }

    #[test]
    fn scans_of_one_path_without_arrays_meet_a_document_once() {
        let i = index(all());
        let path = |p: &str| {
            let mut c = Vec::new();
            keys::encode(&Value::String(p), None, &mut c);
            c
        };
        let within = |p: &str| KeyInterval {
            lower: [&path(p)[..], &[keys::BEFORE]].concat(),
            upper: [&path(p)[..], &[keys::AFTER]].concat(),
        };
        let below = KeyInterval {
            lower: path("a."),
            upper: path("a/"),
        };
        let a = WildcardPart::array_bit("a.x");
        assert!(!i.may_repeat(&[within("a.x")], !a));
        assert!(i.may_repeat(&[within("a.x")], a));
        assert!(i.may_repeat(&[within("a"), within("a.x")], 0));
        assert!(i.may_repeat(&[below], 0));
    }
}
