//! Lists what a source has of the followed namespaces. Must not know: what is done with it.

use crate::error::Result;
use crate::names::{Names, Ns};
use crate::server::Server;
use mongodb::bson::{Bson, Document, Timestamp, doc};
use std::collections::BTreeMap;

/// A collection or view of the source.
#[derive(Clone, Debug)]
pub(crate) struct SourceCollection {
    /// The identity that the source gives it.
    pub(crate) key: Bson,
    pub(crate) source: Ns,
    pub(crate) target: Ns,
    pub(crate) options: Document,
}

/// The collections and views of the source at a time or later.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) time: Timestamp,
    pub(crate) collections: Vec<SourceCollection>,
    pub(crate) views: Vec<SourceCollection>,
    /// Time-series collections, whose changes no stream reports.
    pub(crate) series: Vec<SourceCollection>,
    /// What cannot be followed, each with the reason.
    pub(crate) refused: Vec<String>,
}

/// Lists them.
pub(crate) async fn survey(source: &Server, names: &Names) -> Result<Survey> {
    let mut survey = Survey {
        time: source.time().await?,
        collections: Vec::new(),
        views: Vec::new(),
        series: Vec::new(),
        refused: Vec::new(),
    };
    let command = doc! { "listDatabases": 1, "nameOnly": true };
    let reply = source.run("admin", command).await?;
    let databases = reply.get_array("databases").map(Vec::as_slice);
    for db in databases.unwrap_or_default() {
        let db = db.as_document().and_then(|d| d.get_str("name").ok());
        let Some(db) = db.filter(|db| names.may_have(db)) else {
            continue;
        };
        for listed in source.list(db, doc! { "listCollections": 1 }).await? {
            let name = listed.get_str("name").unwrap_or_default();
            let ns = Ns::new(db, name);
            if names.has(&ns) {
                survey.add(names, ns, &listed);
            }
        }
    }
    survey.refuse_shared_names();
    Ok(survey)
}

impl Survey {
    fn add(&mut self, names: &Names, source: Ns, listed: &Document) {
        let options = listed.get_document("options").cloned().unwrap_or_default();
        let uuid = listed
            .get_document("info")
            .ok()
            .and_then(|info| info.get("uuid"));
        let key = uuid.cloned();
        let found = SourceCollection {
            key: key.unwrap_or_else(|| Bson::String(source.to_string())),
            target: names.target(&source),
            source,
            options,
        };
        match listed.get_str("type") {
            Ok("timeseries") => self.series.push(found),
            Ok("view") => match refuse_view(names, &found) {
                None => self.views.push(found),
                Some(why) => self.refused.push(why),
            },
            _ => self.collections.push(found),
        }
    }

    fn refuse_shared_names(&mut self) {
        let mut first = BTreeMap::new();
        let all = self.collections.iter().chain(&self.views);
        for found in all.chain(&self.series) {
            if let Some(other) = first.insert(&found.target, &found.source) {
                self.refused.push(format!(
                    "{other} and {} would both be {} in the target",
                    found.source, found.target
                ));
            }
        }
    }

    pub(crate) fn find_by_key(&self, key: &Bson) -> Option<&SourceCollection> {
        self.collections.iter().find(|found| &found.key == key)
    }
}

/// Refuses a view whose underlying collection has another name in the target.
fn refuse_view(names: &Names, view: &SourceCollection) -> Option<String> {
    let on = Ns::new(&view.source.db, view.options.get_str("viewOn").ok()?);
    let to = names.target(&on);
    (to.coll != on.coll || to.db != view.target.db).then(|| {
        format!(
            "{} is a view on {on}, which would be {to} in the target: a view's definition is not \
             renamed; --exclude it",
            view.source
        )
    })
}
