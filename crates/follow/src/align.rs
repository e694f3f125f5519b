//! Brings the collections and views of the target in line with those that the source has now. It
//! compares identities, not the order of changes, so repeating it, or doing it later, has the same
//! result.
//!
//! Promises: only what a migration made is dropped or renamed. Must not know: documents, changes.

use crate::error::{FollowError, Result, code};
use crate::indexes;
use crate::names::{Names, Ns, OWN};
use crate::server::Server;
use crate::state::{Entry, State, text};
use crate::survey::{SourceCollection, Survey, survey};
use mongodb::bson::{Bson, Document, Timestamp, doc};

/// Source, target and state of an alignment.
#[derive(Clone)]
pub(crate) struct Aligner {
    pub(crate) source: Server,
    pub(crate) target: Server,
    pub(crate) state: State,
    pub(crate) names: Names,
}

/// Options of a collection that are set when it is created in the target. The source's other
/// options describe its storage engine or its creation.
const MADE_WITH: &[&str] = &[
    "capped",
    "size",
    "max",
    "validator",
    "validationLevel",
    "validationAction",
    "collation",
    "clusteredIndex",
    "changeStreamPreAndPostImages",
    "encryptedFields",
    "viewOn",
    "pipeline",
];

/// Options that can be changed later.
const CHANGED: &[&str] = &[
    "validator",
    "validationLevel",
    "validationAction",
    "changeStreamPreAndPostImages",
];

/// The result of an alignment.
pub(crate) struct AlignResult {
    /// A time of the source before its collections were listed.
    pub(crate) time: Timestamp,
    pub(crate) entries: Vec<Entry>,
    /// New collections and views that cannot be followed.
    pub(crate) refused: Vec<String>,
}

impl Aligner {
    /// Aligns the target with the source.
    pub(crate) async fn align(&self) -> Result<AlignResult> {
        let found = survey(&self.source, &self.names).await?;
        let mut entries = self.state.entries().await?;
        self.finish_moves(&mut entries).await?;
        // Views and collections are dropped first, so that their names are free.
        self.drop_views(&found).await?;
        self.drop_gone(&found, &mut entries).await?;
        self.rename_moved(&found, &mut entries).await?;
        self.change_options(&found, &mut entries).await?;
        self.add_new(&found, &mut entries).await?;
        self.add_views(&found).await?;
        Ok(AlignResult {
            time: found.time,
            entries,
            refused: found.refused,
        })
    }

    /// Finishes renames that were interrupted; the target shows whether each was done.
    async fn finish_moves(&self, entries: &mut [Entry]) -> Result<()> {
        for entry in entries {
            let Some(to) = entry.moving.take() else {
                continue;
            };
            if !self.has_target(&entry.target).await? {
                entry.target = to;
            }
            self.state.put_entry(entry).await?;
        }
        Ok(())
    }

    async fn has_target(&self, ns: &Ns) -> Result<bool> {
        let filter = doc! { "name": &ns.coll };
        let list = doc! { "listCollections": 1, "filter": filter, "nameOnly": true };
        Ok(!self.target.list(&ns.db, list).await?.is_empty())
    }

    async fn drop_gone(&self, found: &Survey, entries: &mut Vec<Entry>) -> Result<()> {
        let mut kept = Vec::new();
        for entry in entries.drain(..) {
            if found.find_by_key(&entry.key).is_some() {
                kept.push(entry);
                continue;
            }
            self.drop_target(&entry.target).await?;
            self.state.remove_entry(&entry.key).await?;
        }
        *entries = kept;
        Ok(())
    }

    /// Drops a collection of the target.
    pub(crate) async fn drop_target(&self, ns: &Ns) -> Result<()> {
        let dropped = self.target.run(&ns.db, doc! { "drop": &ns.coll }).await;
        match dropped {
            Err(e) if !e.is(code::NAMESPACE_NOT_FOUND) => {
                Err(e.in_step(&format!("{ns} of the target cannot be dropped")))
            }
            _ => Ok(()),
        }
    }

    /// Collections that exchange names are first renamed to temporary names.
    async fn rename_moved(&self, found: &Survey, entries: &mut [Entry]) -> Result<()> {
        let wanted = |entry: &Entry| found.find_by_key(&entry.key).map(|f| f.target.clone());
        let taken: Vec<Ns> = entries.iter().map(|e| e.target.clone()).collect();
        for (number, entry) in entries.iter_mut().enumerate() {
            let to = wanted(entry).unwrap_or_else(|| entry.target.clone());
            if to != entry.target && taken.contains(&to) {
                let aside = Ns::new(&to.db, &format!("{OWN}.aside.{number}"));
                self.rename(entry, aside).await?;
            }
        }
        for entry in entries.iter_mut() {
            let to = wanted(entry).unwrap_or_else(|| entry.target.clone());
            if to != entry.target {
                self.rename(entry, to).await?;
            }
            if let Some(now) = found.find_by_key(&entry.key)
                && now.source != entry.source
            {
                entry.source = now.source.clone();
                self.state.put_entry(entry).await?;
            }
        }
        Ok(())
    }

    async fn rename(&self, entry: &mut Entry, to: Ns) -> Result<()> {
        entry.moving = Some(to.clone());
        self.state.put_entry(entry).await?;
        let command = doc! { "renameCollection": entry.target.to_string(), "to": to.to_string() };
        match self.target.run("admin", command).await {
            // The rename was done but not noted before an interruption, or the collection does not
            // exist yet.
            Err(e) if e.is(code::NAMESPACE_NOT_FOUND) => {}
            Err(e) => {
                let what = format!("{} of the target cannot become {to}", entry.target);
                return Err(e.in_step(&what));
            }
            Ok(_) => {}
        }
        entry.target = to;
        entry.moving = None;
        self.state.put_entry(entry).await
    }

    async fn change_options(&self, found: &Survey, entries: &mut [Entry]) -> Result<()> {
        for entry in entries {
            let Some(now) = found.find_by_key(&entry.key) else {
                continue;
            };
            if now.options == entry.options {
                continue;
            }
            if entry.planned {
                self.modify(&entry.target, &entry.options, &now.options)
                    .await?;
            }
            entry.options = now.options.clone();
            self.state.put_entry(entry).await?;
        }
        Ok(())
    }

    async fn modify(&self, target: &Ns, was: &Document, now: &Document) -> Result<()> {
        let mut change = doc! { "collMod": &target.coll };
        for name in CHANGED.iter().filter(|name| was.get(name) != now.get(name)) {
            let none = match *name {
                "validationLevel" => Bson::from("strict"),
                "validationAction" => Bson::from("error"),
                "validator" => Bson::Document(doc! {}),
                _ => Bson::Document(doc! { "enabled": false }),
            };
            change.insert(*name, now.get(name).cloned().unwrap_or(none));
        }
        let sizes = [("size", "cappedSize"), ("max", "cappedMax")];
        for (option, field) in sizes {
            match now.get(option) {
                Some(value) if was.get(option) != Some(value) => {
                    change.insert(field, value.clone());
                }
                _ => {}
            }
        }
        if change.len() > 1 {
            let done = self.target.run(&target.db, change).await;
            done.map_err(|e| e.in_step(&format!("{target} of the target cannot be changed")))?;
        }
        Ok(())
    }

    async fn add_new(&self, found: &Survey, entries: &mut Vec<Entry>) -> Result<()> {
        for new in &found.collections {
            if entries.iter().any(|entry| entry.key == new.key) {
                continue;
            }
            self.refuse_present(new).await?;
            let entry = Entry {
                key: new.key.clone(),
                source: new.source.clone(),
                target: new.target.clone(),
                moving: None,
                options: new.options.clone(),
                indexes: Vec::new(),
                planned: false,
                copied: false,
                indexed: false,
            };
            self.state.put_entry(&entry).await?;
            entries.push(entry);
        }
        Ok(())
    }

    /// Refuses a collection that exists in the target already: it belongs to somebody else.
    pub(crate) async fn refuse_present(&self, new: &SourceCollection) -> Result<()> {
        match self.has_target(&new.target).await? {
            false => Ok(()),
            true => Err(FollowError::of_options(format!(
                "the target has {} already: drop it there, --rename it or --exclude it",
                new.target
            ))),
        }
    }

    /// Creates a collection whose entry exists; it may exist in the target already.
    pub(crate) async fn make(&self, entry: &Entry) -> Result<()> {
        make(&self.target, &entry.target, &entry.options).await
    }

    async fn drop_views(&self, found: &Survey) -> Result<()> {
        for view in self.state.views().await? {
            let name = text(&view, "_id");
            let wanted = found.views.iter().find(|v| v.target.to_string() == name);
            let same = wanted.map(|v| &v.options) == view.get_document("options").ok();
            if let (false, Some(ns)) = (same, Ns::parse(name)) {
                self.drop_target(&ns).await?;
                self.state.remove_view(name).await?;
            }
        }
        Ok(())
    }

    async fn add_views(&self, found: &Survey) -> Result<()> {
        let kept = self.state.views().await?;
        for view in &found.views {
            let name = view.target.to_string();
            let known = kept.iter().find(|k| {
                text(k, "_id") == name && k.get_document("options").ok() == Some(&view.options)
            });
            match known {
                Some(known) if known.get_bool("made").unwrap_or(true) => continue,
                // The view was made but not noted before an interruption.
                Some(_) => self.drop_target(&view.target).await?,
                None => self.refuse_present(view).await?,
            }
            self.state
                .put_view(&view.target, &view.options, false)
                .await?;
            make(&self.target, &view.target, &view.options).await?;
            self.state
                .put_view(&view.target, &view.options, true)
                .await?;
        }
        Ok(())
    }

    /// Tests whether the target accepts all collections, with their indexes, and views: each is
    /// created empty in the migration's own database.
    pub(crate) async fn try_all(&self, found: &Survey) -> Result<Vec<String>> {
        let trial = Ns::new(OWN, "trial");
        let mut refused = Vec::new();
        for one in found.collections.iter().chain(&found.views) {
            let is_plain = !one.options.keys().any(|k| MADE_WITH.contains(&k.as_str()));
            let specs = match one.options.contains_key("viewOn") {
                true => Vec::new(),
                false => indexes::list_indexes(&self.source, &one.source).await?,
            };
            if is_plain && specs.is_empty() {
                continue;
            }
            self.drop_target(&trial).await?;
            let made = match make(&self.target, &trial, &one.options).await {
                Ok(()) => indexes::make(&self.target, &trial, &specs).await,
                not => not,
            };
            match made {
                Err(e) if e.code.is_some() => refused.push(format!("{}: {e}", one.source)),
                made => made?,
            }
        }
        self.drop_target(&trial).await?;
        Ok(refused)
    }
}

async fn make(target: &Server, ns: &Ns, options: &Document) -> Result<()> {
    let mut create = doc! { "create": &ns.coll };
    for (name, value) in options {
        if MADE_WITH.contains(&name.as_str()) {
            create.insert(name.clone(), value.clone());
        }
    }
    match target.run(&ns.db, create).await {
        Err(e) if !e.is(code::NAMESPACE_EXISTS) => {
            Err(e.in_step(&format!("{ns} cannot be made in the target")))
        }
        _ => Ok(()),
    }
}
