//! Applies a tree of modifiers to a document: one pass over each level with changes.

use super::array_filters::ArrayFilters;
use super::modifier::{Outcome, Site, UpdateCx, UpdateResult};
use super::tree::{Branch, Node, conflict};
use model::{Array, Doc, Edit, Element, Result, Value, bail, code};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Most nulls written to reach an array index.
const MAX_BACKFILL: usize = 1_500_000;

/// From this many names on they are looked up in a hash map instead of searched.
const MANY: usize = 16;

type Nodes<'n> = SmallVec<[&'n Node; 2]>;

struct Applier<'s, 'a> {
    at: Site<'s, 'a>,
    filters: &'a ArrayFilters,
}

pub(super) fn apply<'a>(
    root: &'a Branch,
    filters: &'a ArrayFilters,
    doc: Doc<'a>,
    cx: &UpdateCx<'_, 'a>,
) -> Result<UpdateResult<'a>> {
    let applier = Applier {
        at: Site { cx, root: doc },
        filters,
    };
    Ok(match applier.document(&[root], doc, &Path::ROOT)? {
        Outcome::Set(Value::Document(d)) => UpdateResult::Changed(d),
        _ => UpdateResult::Unchanged,
    })
}

/// The current path; formatted only for messages.
#[derive(Clone, Copy)]
struct Path<'p> {
    above: Option<&'p Path<'p>>,
    name: Part<'p>,
}

#[derive(Clone, Copy)]
enum Part<'p> {
    Root,
    Name(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    const ROOT: Path<'static> = Path {
        above: None,
        name: Part::Root,
    };

    fn field(&'p self, name: &'p str) -> Path<'p> {
        Path {
            above: Some(self),
            name: Part::Name(name),
        }
    }
    fn element(&'p self, index: usize) -> Path<'p> {
        Path {
            above: Some(self),
            name: Part::Index(index),
        }
    }
}

impl std::fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(above) = self.above.filter(|a| !matches!(a.name, Part::Root)) {
            write!(f, "{above}.")?;
        }
        match self.name {
            Part::Root => Ok(()),
            Part::Name(n) => f.write_str(n),
            Part::Index(i) => write!(f, "{i}"),
        }
    }
}

/// The first field of each name.
fn fields_by_name(d: Doc<'_>) -> FxHashMap<&str, Element<'_>> {
    let mut map = FxHashMap::default();
    for e in d.elements() {
        map.entry(e.name_str()).or_insert(e);
    }
    map
}

impl<'a> Applier<'_, 'a> {
    /// Applies all nodes at the same path to one value.
    fn value(
        &self,
        nodes: &[&'a Node],
        current: Value<'a>,
        path: &Path<'_>,
    ) -> Result<Outcome<'a>> {
        if let [Node::Leaf(m)] = nodes {
            return m.apply(current, &self.at);
        }
        let mut branches: SmallVec<[&'a Branch; 2]> = SmallVec::new();
        for n in nodes {
            match n {
                Node::Leaf(_) => return Err(conflict(&path.to_string(), &path.to_string())),
                Node::Branch(b) => branches.push(b),
            }
        }
        match current {
            Value::Document(d) => {
                self.refuse_array_updates(&branches, &current, path)?;
                self.document(&branches, d, path)
            }
            Value::Array(a) => self.array(&branches, a, path),
            Value::Missing => {
                self.refuse_array_updates(&branches, &current, path)?;
                match self.document(&branches, Doc::EMPTY, path)? {
                    Outcome::Set(v) => Ok(Outcome::Set(v)),
                    _ => Ok(Outcome::Keep),
                }
            }
            scalar => {
                self.refuse_array_updates(&branches, &current, path)?;
                match self.document(&branches, Doc::EMPTY, path)? {
                    Outcome::Set(_) => Err(not_viable_error(&branches, &scalar, path)),
                    _ if branches.iter().any(|b| b.wants_viable_path()) => {
                        Err(not_viable_error(&branches, &scalar, path))
                    }
                    _ => Ok(Outcome::Keep),
                }
            }
        }
    }

    fn refuse_array_updates(
        &self,
        branches: &[&'a Branch],
        v: &Value<'a>,
        path: &Path<'_>,
    ) -> Result<()> {
        if !branches.iter().any(|b| b.wants_array()) {
            return Ok(());
        }
        if v.is_missing() {
            bail!(
                code::BAD_VALUE,
                "The path '{path}' must exist in the document in order to apply array updates."
            );
        }
        let shown = v;
        bail!(
            code::BAD_VALUE,
            "Cannot apply array updates to non-array element {path}: {shown}"
        )
    }

    /// The positional `$` as a field name or index.
    fn position(&self, branches: &[&'a Branch]) -> Result<Option<usize>> {
        if branches.iter().all(|b| b.positional.is_none()) {
            return Ok(None);
        }
        match self.at.cx.position {
            Some(i) => Ok(Some(i)),
            None => bail!(
                code::BAD_VALUE,
                "The positional operator did not find the match needed from the query."
            ),
        }
    }

    fn document(
        &self,
        branches: &[&'a Branch],
        d: Doc<'a>,
        path: &Path<'_>,
    ) -> Result<Outcome<'a>> {
        let position = self.position(branches)?.map(|i| i.to_string());
        let mut names: SmallVec<[&str; 8]> = SmallVec::new();
        for b in branches {
            names.extend(b.fields.iter().map(|(n, _)| n.as_str()));
        }
        names.extend(
            position
                .as_deref()
                .filter(|_| branches.iter().any(|b| b.positional.is_some())),
        );
        if branches.len() > 1 || position.is_some() {
            names.sort_by(|a, b| super::path::field_order(a, b));
            names.dedup();
        }
        let by_name = (names.len() > MANY).then(|| fields_by_name(d));
        // In the order of names; the flag says whether the field is new.
        let mut outcomes: SmallVec<[(&str, Outcome<'a>, bool); 8]> = SmallVec::new();
        let mut changed = false;
        for name in names {
            let mut nodes = Nodes::new();
            for b in branches {
                nodes.extend(b.field(name));
                nodes.extend(
                    b.positional
                        .as_deref()
                        .filter(|_| position.as_deref() == Some(name)),
                );
            }
            let current = match &by_name {
                Some(m) => m.get(name).map_or(Value::Missing, Element::value),
                None => d.field(name),
            };
            let outcome = self.value(&nodes, current, &path.field(name))?;
            changed |= match outcome {
                Outcome::Keep => false,
                Outcome::Set(_) => true,
                Outcome::Remove => !current.is_missing(),
            };
            outcomes.push((name, outcome, current.is_missing()));
        }
        if !changed {
            return Ok(Outcome::Keep);
        }
        // There are few new values, and most are small.
        let bytes = d.len_bytes() + 64;
        Ok(Outcome::Set(Value::Document(Doc::build_sized_in(
            self.at.cx.arena,
            bytes,
            |w| {
                w.put_edited(d, |e| {
                    let found = match outcomes.len() > MANY {
                        true => {
                            let name = e.name_str();
                            outcomes
                                .binary_search_by(|o| super::path::field_order(o.0, name))
                                .ok()
                                .and_then(|i| outcomes.get(i))
                        }
                        false => outcomes.iter().find(|o| o.0.as_bytes() == e.name),
                    };
                    match found {
                        Some((_, Outcome::Set(v), _)) => Edit::Set(*v),
                        Some((_, Outcome::Remove, _)) => Edit::Drop,
                        _ => Edit::Keep,
                    }
                });
                for (name, outcome, is_new) in &outcomes {
                    if let (Outcome::Set(v), true) = (outcome, is_new) {
                        w.put(name, *v);
                    }
                }
            },
        ))))
    }

    fn array(&self, branches: &[&'a Branch], a: Array<'a>, path: &Path<'_>) -> Result<Outcome<'a>> {
        let position = self.position(branches)?;
        let mut items: Vec<Value<'a>> = a.iter().collect();
        let mut changed = false;
        let indexed = branches.iter().flat_map(|b| &b.fields);
        let mut by_index: FxHashMap<usize, Nodes<'a>> = FxHashMap::default();
        for (index, node) in
            indexed.filter_map(|(n, node)| Some((model::path::array_index(n)?, node)))
        {
            by_index.entry(index).or_default().push(node);
        }
        for (i, item) in items.iter_mut().enumerate() {
            let named = by_index.remove(&i).unwrap_or_default();
            let nodes = self.nodes_of_element(branches, named, i, *item, position)?;
            if nodes.is_empty() {
                continue;
            }
            match self.value(&nodes, *item, &path.element(i))? {
                Outcome::Keep => {}
                Outcome::Set(v) => {
                    changed = true;
                    *item = v;
                }
                Outcome::Remove => {
                    changed |= !matches!(item, Value::Null);
                    *item = Value::Null;
                }
            }
        }
        changed |= self.append_beyond(branches, a, &mut items, position, path)?;
        if !changed {
            return Ok(Outcome::Keep);
        }
        Ok(Outcome::Set(Value::Array(Array::from_values_in(
            self.at.cx.arena,
            items,
        ))))
    }

    fn nodes_of_element(
        &self,
        branches: &[&'a Branch],
        mut nodes: Nodes<'a>,
        index: usize,
        item: Value<'a>,
        position: Option<usize>,
    ) -> Result<Nodes<'a>> {
        for b in branches {
            nodes.extend(b.positional.as_deref().filter(|_| position == Some(index)));
            nodes.extend(b.all.as_deref());
            for (id, n) in &b.filtered {
                if self.filters.matches(id, item, self.at.cx)? {
                    nodes.push(n);
                }
            }
        }
        Ok(nodes)
    }

    /// Appends elements at indexes past the end, with nulls before them; refuses names that are no
    /// indexes.
    fn append_beyond(
        &self,
        branches: &[&'a Branch],
        a: Array<'a>,
        items: &mut Vec<Value<'a>>,
        position: Option<usize>,
        path: &Path<'_>,
    ) -> Result<bool> {
        let mut changed = false;
        let len = items.len();
        for b in branches {
            let named = b
                .fields
                .iter()
                .map(|(n, node)| (n.clone(), model::path::array_index(n), node));
            let positional = b
                .positional
                .as_deref()
                .zip(position)
                .map(|(n, i)| (i.to_string(), Some(i), n));
            for (name, index, node) in named.chain(positional) {
                if index.is_some_and(|i| i < len) {
                    continue;
                }
                let Outcome::Set(v) = self.value(&[node], Value::Missing, &path.field(&name))?
                else {
                    if index.is_none() && node.wants_viable_path() {
                        return Err(not_viable_error(branches, &Value::Array(a), path));
                    }
                    continue;
                };
                let Some(i) = index else {
                    return Err(not_viable_error(branches, &Value::Array(a), path));
                };
                if i - len > MAX_BACKFILL {
                    bail!(
                        code::CANNOT_BACKFILL_ARRAY,
                        "can't backfill more than {MAX_BACKFILL} elements to reach index {i} of \
                            '{path}'"
                    );
                }
                if items.len() <= i {
                    items.resize(i + 1, Value::Null);
                }
                if let Some(slot) = items.get_mut(i) {
                    *slot = v;
                }
                changed = true;
            }
        }
        Ok(changed)
    }
}

fn not_viable_error(branches: &[&Branch], v: &Value<'_>, path: &Path<'_>) -> model::MongoError {
    let name = branches
        .iter()
        .flat_map(|b| b.fields.iter())
        .map(|(n, _)| n.as_str())
        .next()
        .unwrap_or("$");
    let shown = v;
    let last = Path {
        above: None,
        ..*path
    };
    model::MongoError::new(
        code::PATH_NOT_VIABLE,
        format!("Cannot create field '{name}' in element {{{last}: {shown}}}"),
    )
}
