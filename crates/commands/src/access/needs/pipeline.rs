//! What pipelines need: of the collection they read, of those their stages read, and of those they
//! write. Looks at the stages as they were written, before anything of them is opened; the stages
//! of a view are not among them, because who may read a view may read what it shows.

use super::asked::{Asked, fields};
use auth::Action::{self, *};
use auth::Target;
use model::{Array, Doc, Result, Value};

/// Stages that see nothing but the documents that come to them.
const PURE: &[&str] = &[
    "$_internalUnpackBucket",
    "$addFields",
    "$bucket",
    "$bucketAuto",
    "$count",
    "$densify",
    "$documents",
    "$fill",
    "$geoNear",
    "$group",
    "$limit",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$set",
    "$setWindowFields",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unset",
    "$unwind",
    "$changeStreamSplitLargeEvent",
    "$search",
    "$searchMeta",
    "$vectorSearch",
    "$score",
];

/// Stages that make documents themselves, so that a pipeline which begins with one reads no
/// collection.
const SOURCES: &[&str] = &[
    "$changeStream",
    "$collStats",
    "$currentOp",
    "$documents",
    "$indexStats",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSearchIndexes",
    "$listSessions",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
];

/// `aggregate`.
pub(crate) fn aggregate(asked: &Asked<'_>) -> Result<()> {
    let own = asked.value().as_str();
    for pipeline in asked.all("pipeline") {
        source_and_stages(asked, own, pipeline.as_array().unwrap_or(Array::EMPTY))?;
    }
    Ok(())
}

/// A pipeline over a collection (`None`: over the database).
///
/// # Errors
/// 13 Unauthorized.
pub(crate) fn source_and_stages(
    asked: &Asked<'_>,
    coll: Option<&str>,
    pipeline: Array<'_>,
) -> Result<()> {
    let walk = Walk {
        asked,
        db: asked.db,
        coll,
    };
    walk.source(pipeline)?;
    walk.stages(pipeline, 0)
}

/// Nested deeper, a pipeline is refused by its parser.
const DEPTH_MAX: usize = 64;

#[derive(Clone, Copy)]
struct Walk<'w, 'a> {
    asked: &'w Asked<'a>,
    db: &'w str,
    coll: Option<&'w str>,
}

fn first_stage<'a>(pipeline: Array<'a>) -> Option<&'a str> {
    Some(pipeline.get(0)?.as_doc()?.first()?.0)
}

/// `"c"`, or `{db, coll}`; every name that stands there.
fn namespaces<'a>(value: &Value<'a>, db: &'a str) -> Vec<(&'a str, &'a str)> {
    match value {
        Value::String(coll) => vec![(db, coll)],
        Value::Document(d) => {
            let dbs: Vec<&str> = fields(*d, "db").filter_map(|v| v.as_str()).collect();
            let dbs = if dbs.is_empty() { vec![db] } else { dbs };
            let colls = fields(*d, "coll").filter_map(|v| v.as_str());
            colls
                .flat_map(|c| dbs.iter().map(move |db| (*db, c)).collect::<Vec<_>>())
                .collect()
        }
        _ => Vec::new(),
    }
}

impl Walk<'_, '_> {
    fn needs(&self, (db, coll): (&str, &str), actions: &[Action]) -> Result<()> {
        self.asked.needs(Target::Collection(db, coll), actions)
    }

    /// What the stages run over: the collection, or the database.
    fn needs_here(&self, actions: &[Action]) -> Result<()> {
        match self.coll {
            Some(coll) => self.needs((self.db, coll), actions),
            None => self.asked.needs(Target::Database(self.db), actions),
        }
    }

    fn source(&self, pipeline: Array<'_>) -> Result<()> {
        let makes = first_stage(pipeline).is_some_and(|s| SOURCES.contains(&s));
        match self.coll {
            Some(coll) if !makes => self.needs((self.db, coll), &[Find]),
            _ => Ok(()),
        }
    }

    fn stages(&self, pipeline: Array<'_>, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Ok(());
        }
        for stage in pipeline.iter().filter_map(|s| s.as_doc()) {
            for (name, value) in stage.iter() {
                self.stage(name, value, depth)?;
            }
        }
        Ok(())
    }

    fn stage(&self, name: &str, value: Value<'_>, depth: usize) -> Result<()> {
        let spec = value.as_doc().unwrap_or(Doc::EMPTY);
        match name {
            "$lookup" | "$graphLookup" => self.joins(spec, "from", depth),
            "$unionWith" => match value {
                Value::String(coll) => self.needs((self.db, coll), &[Find]),
                _ => self.joins(spec, "coll", depth),
            },
            "$facet" => spec
                .iter()
                .filter_map(|(_, v)| v.as_array())
                .try_for_each(|p| self.stages(p, depth + 1)),
            "$rankFusion" | "$scoreFusion" => fields(spec, "input")
                .filter_map(|v| v.as_doc())
                .flat_map(|d| fields(d, "pipelines").filter_map(|v| v.as_doc()))
                .flat_map(|d| d.iter().filter_map(|(_, v)| v.as_array()))
                .try_for_each(|p| self.stages(p, depth + 1)),
            "$out" => self.writes(&value, &[Insert, Remove]),
            "$merge" => self.merges(value, spec),
            "$changeStream" => self.changes(spec),
            "$collStats" => self.needs_here(&[CollStats]),
            "$indexStats" => self.needs_here(&[IndexStats]),
            "$planCacheStats" => self.needs_here(&[PlanCacheRead]),
            "$listSearchIndexes" => self.needs_here(&[ListSearchIndexes]),
            "$listClusterCatalog" if self.db == "admin" => {
                self.asked.needs(Target::Any, &[ListCollections])
            }
            "$listClusterCatalog" => self
                .asked
                .needs(Target::Database(self.db), &[ListCollections]),
            "$currentOp" if fields(spec, "allUsers").any(|v| v.truthy()) => {
                self.asked.needs(Target::Cluster, &[Inprog])
            }
            "$currentOp" => Ok(()),
            "$listSessions" | "$listLocalSessions" => self.sessions(spec),
            "$listSampledQueries" => self.asked.needs(Target::Cluster, &[ListSampledQueries]),
            "$querySettings" => self.asked.needs(Target::Cluster, &[QuerySettings]),
            "$queryStats" => self.asked.needs(Target::Cluster, &[QueryStatsRead]),
            _ if PURE.contains(&name) => Ok(()),
            // The parser refuses a name that there is no stage for. A stage of which nobody has
            // said here what it needs is for nobody but internal users.
            _ if query::stages::TABLE.find(name).is_none() => Ok(()),
            _ => self.asked.needs(Target::Any, &[Internal]),
        }
    }

    /// A stage that reads another collection, with a pipeline or without.
    fn joins(&self, spec: Doc<'_>, field: &str, depth: usize) -> Result<()> {
        let mut inner = *self;
        let mut named = None;
        for (name, value) in spec.iter() {
            if name == field || name == "db" && field == "coll" {
                let at = if field == "coll" {
                    Value::Document(spec)
                } else {
                    value
                };
                for ns in namespaces(&at, self.db) {
                    self.needs(ns, &[Find])?;
                    named = Some((ns.0.to_owned(), ns.1.to_owned()));
                }
            }
        }
        if let Some((db, coll)) = &named {
            inner = Walk {
                asked: self.asked,
                db,
                coll: Some(coll),
            };
        }
        fields(spec, "pipeline")
            .filter_map(|v| v.as_array())
            .try_for_each(|p| inner.stages(p, depth + 1))
    }

    fn writes(&self, to: &Value<'_>, actions: &[Action]) -> Result<()> {
        let bypass = self.asked.is("bypassDocumentValidation");
        for ns in namespaces(to, self.db) {
            self.needs(ns, actions)?;
            if bypass {
                self.needs(ns, &[BypassDocumentValidation])?;
            }
        }
        Ok(())
    }

    fn merges(&self, value: Value<'_>, spec: Doc<'_>) -> Result<()> {
        let inserts =
            !fields(spec, "whenNotMatched").any(|v| matches!(v.as_str(), Some("discard" | "fail")));
        let updates = !fields(spec, "whenMatched").any(|v| v.as_str() == Some("fail"));
        let actions: &[Action] = match (inserts, updates) {
            (true, true) => &[Insert, Update],
            (true, false) => &[Insert],
            (false, _) => &[Update],
        };
        if value.as_str().is_some() {
            return self.writes(&value, actions);
        }
        fields(spec, "into").try_for_each(|into| self.writes(&into, actions))
    }

    fn changes(&self, spec: Doc<'_>) -> Result<()> {
        let needed = &[ChangeStream, Find];
        if fields(spec, "allChangesForCluster").any(|v| v.truthy()) {
            return self.asked.needs(Target::AnyNormal, needed);
        }
        self.needs_here(needed)
    }

    /// Own sessions are for everybody.
    fn sessions(&self, spec: Doc<'_>) -> Result<()> {
        let own = |v: Value<'_>| {
            let (Some(d), Some(user)) = (v.as_doc(), self.asked.user) else {
                return false;
            };
            let is = |field: &str, own: &str| fields(d, field).all(|v| v.as_str() == Some(own));
            is("user", &user.name.name) && is("db", &user.name.db)
        };
        let users = fields(spec, "users").filter_map(|v| v.as_array());
        let others = users.flat_map(|list| list.iter()).any(|v| !own(v));
        if others || fields(spec, "allUsers").any(|v| v.truthy()) {
            return self.asked.needs(Target::Cluster, &[ListSessions]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_is_said_to_need_something_or_nothing() {
        let named = [
            "$lookup",
            "$graphLookup",
            "$unionWith",
            "$facet",
            "$rankFusion",
            "$scoreFusion",
            "$out",
            "$merge",
        ];
        for name in query::stages::names() {
            assert!(
                PURE.contains(&name) || SOURCES.contains(&name) || named.contains(&name),
                "{name}: say in this file what it needs"
            );
        }
    }
}
