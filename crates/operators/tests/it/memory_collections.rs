//! Collections in memory that execute the few commands used in recorded cases of filters, updates
//! and projections.

use model::{Bump, Doc, DocBuf, MongoError, Result, Value, compare, doc};
use operators::expr::ParseCx;
use operators::filter::Filter;
use operators::project::Projection;
use operators::update::{Update, UpdateCx, UpdateResult, upsert_base};
use operators::{Cx, Env};
use std::cmp::Ordering;
use std::collections::HashMap;

/// The result of a command.
pub(crate) enum Reply {
    Documents(Vec<DocBuf>),
    Fields(DocBuf),
}

/// The collections of one case.
#[derive(Default)]
pub(crate) struct Collections {
    collections: HashMap<String, Vec<DocBuf>>,
    has_geo_index: bool,
    has_text_index: bool,
}

fn env(command: Doc<'_>) -> Env {
    let mut env = Env::new(1_767_225_600_000, 7);
    if let Value::Document(vars) = command.field("let") {
        env.let_vars = vars
            .iter()
            .map(|(n, v)| (n.to_owned(), v.to_owned_value()))
            .collect();
    }
    env
}

fn require_known_fields(command: Doc<'_>, fields: &[&str]) -> Option<()> {
    command
        .iter()
        .skip(1)
        .all(|(k, _)| fields.contains(&k) || matches!(k, "$db" | "lsid" | "comment" | "maxTimeMS"))
        .then_some(())
}

impl Collections {
    /// Runs a command; `None` when this harness does not support it.
    pub(crate) fn run(&mut self, command: Doc<'_>) -> Option<Result<Reply>> {
        let (name, target) = command.first()?;
        let coll = target.as_str().unwrap_or("").to_owned();
        match name {
            "listCollections" => Some(Ok(Reply::Documents(Vec::new()))),
            "insert" => {
                require_known_fields(command, &["documents", "ordered"])?;
                let docs = command.field("documents").as_array()?;
                let list = self.collections.entry(coll).or_default();
                if docs.is_empty() || docs.iter().any(|d| d.as_doc().is_none()) {
                    return None;
                }
                let n = docs.len() as i32;
                for d in docs.iter().filter_map(|d| d.as_doc()) {
                    if d.field("_id").is_missing() {
                        return None;
                    }
                    list.push(with_id_first(d));
                }
                Some(Ok(Reply::Fields(doc! { "n": n, "ok": 1.0 })))
            }
            "create" => {
                require_known_fields(command, &[])?;
                Some(Ok(Reply::Fields(doc! { "ok": 1.0 })))
            }
            "createIndexes" => {
                let plain = command.field("indexes").as_array()?.iter().all(|i| {
                    i.as_doc().is_some_and(|i| {
                        i.iter().all(|(k, _)| matches!(k, "name" | "key"))
                            && i.field("key").as_doc().is_some()
                    })
                });
                self.has_text_index |= format!("{command:?}").contains("\"text\"");
                self.has_geo_index |= format!("{command:?}").contains("\"2d");
                plain.then(|| Ok(Reply::Fields(doc! { "ok": 1.0 })))
            }
            "find" => {
                require_known_fields(
                    command,
                    &[
                        "filter",
                        "projection",
                        "sort",
                        "limit",
                        "skip",
                        "let",
                        "hint",
                        "batchSize",
                        "singleBatch",
                    ],
                )?;
                let found = self.find(&coll, command);
                // Text indexes work only in the server.
                if self.has_text_index && matches!(&found, Err(e) if e.code() == 27) {
                    return None;
                }
                Some(found.map(Reply::Documents))
            }
            "count" => {
                require_known_fields(command, &["query"])?;
                Some(
                    self.find_matching(&coll, command.field("query"), command)
                        .map(|d| Reply::Fields(doc! { "n": d.len() as i32, "ok": 1.0 })),
                )
            }
            "delete" => self.delete(&coll, command),
            "update" => self.update(&coll, command),
            "aggregate" => self.aggregate(&coll, command),
            _ => None,
        }
    }

    fn find_matching(
        &self,
        coll: &str,
        filter: Value<'_>,
        command: Doc<'_>,
    ) -> Result<Vec<DocBuf>> {
        let env = env(command);
        let filter = Filter::parse(
            &mut ParseCx::new(&env),
            filter.as_doc().unwrap_or(Doc::EMPTY),
        )?;
        let mut out = Vec::new();
        for d in self.collections.get(coll).map_or(&[][..], Vec::as_slice) {
            if filter.matches(d.doc(), &Bump::new(), &env)? {
                out.push(d.clone());
            }
        }
        Ok(out)
    }

    fn find(&self, coll: &str, command: Doc<'_>) -> Result<Vec<DocBuf>> {
        let mut docs = self.find_matching(coll, command.field("filter"), command)?;
        let env = env(command);
        let filter = Filter::parse(
            &mut ParseCx::new(&env),
            command.field("filter").as_doc().unwrap_or(Doc::EMPTY),
        )?;
        if let Some((path, near)) = filter.near() {
            if !self.has_geo_index {
                return Err(MongoError::new(
                    291,
                    "unable to find index for $geoNear query",
                ));
            }
            docs.sort_by(|a, b| {
                near.least(path, a.doc())
                    .partial_cmp(&near.least(path, b.doc()))
                    .unwrap_or(Ordering::Equal)
            });
        }
        if let Value::Document(order) = command.field("sort") {
            sort(&mut docs, order);
        }
        let limit = command
            .field("limit")
            .as_i64_exact()
            .unwrap_or(0)
            .unsigned_abs() as usize;
        let skip = command
            .field("skip")
            .as_i64_exact()
            .unwrap_or(0)
            .unsigned_abs() as usize;
        let docs: Vec<DocBuf> = docs
            .into_iter()
            .skip(skip)
            .take(if limit == 0 { usize::MAX } else { limit })
            .collect();
        match command.field("projection") {
            Value::Document(p) if !p.is_empty() => project(docs, p, command),
            _ => Ok(docs),
        }
    }

    fn delete(&mut self, coll: &str, command: Doc<'_>) -> Option<Result<Reply>> {
        require_known_fields(command, &["deletes", "ordered"])?;
        let mut n = 0;
        for d in command.field("deletes").as_array()?.iter() {
            let d = d.as_doc()?;
            let limit = d.field("limit").as_i64_exact()?;
            let found = match self.find_matching(coll, d.field("q"), command) {
                Ok(found) => found,
                Err(e) => return Some(Err(e)),
            };
            for gone in found.iter().take(if limit == 0 { usize::MAX } else { 1 }) {
                self.collections.get_mut(coll)?.retain(|d| d != gone);
                n += 1;
            }
        }
        Some(Ok(Reply::Fields(doc! { "n": n, "ok": 1.0 })))
    }

    fn update(&mut self, coll: &str, command: Doc<'_>) -> Option<Result<Reply>> {
        require_known_fields(command, &["updates", "ordered", "let"])?;
        if command.contains("let") && command.field("let").as_doc().is_none()
            || command.field("updates").as_array()?.is_empty()
        {
            return None;
        }
        let (mut n, mut modified) = (0, 0);
        for u in command.field("updates").as_array()?.iter() {
            let u = u.as_doc()?;
            let plain = u.iter().all(|(k, _)| {
                matches!(
                    k,
                    "q" | "u" | "upsert" | "multi" | "arrayFilters" | "hint" | "c"
                )
            });
            if !plain || u.field("q").as_doc().is_none() {
                return None;
            }
            match self.update_one(coll, u, command) {
                Ok((a, b)) => {
                    n += a;
                    modified += b;
                }
                Err(e) => return Some(Err(e)),
            }
        }
        Some(Ok(Reply::Fields(
            doc! { "n": n, "nModified": modified, "ok": 1.0 },
        )))
    }

    fn update_one(&mut self, coll: &str, u: Doc<'_>, command: Doc<'_>) -> Result<(i32, i32)> {
        let mut env = env(command);
        let update_env = {
            if let Value::Document(c) = u.field("c") {
                env.let_vars
                    .extend(c.iter().map(|(n, v)| (n.to_owned(), v.to_owned_value())));
            }
            env
        };
        let env = &update_env;
        let mut pcx = ParseCx::new(env);
        let filter = Filter::parse(&mut pcx, u.field("q").as_doc().unwrap_or(Doc::EMPTY))?;
        let array_filters = Some(u.field("arrayFilters")).filter(|v| !v.is_missing());
        let update = Update::parse(&mut pcx, u.field("u"), array_filters)?;
        if !u.field("c").is_missing() && !update.is_pipeline() {
            return Err(MongoError::new(51198, "constants are for pipelines"));
        }
        let (multi, upsert) = (u.field("multi").truthy(), u.field("upsert").truthy());
        let docs = self.collections.entry(coll.to_owned()).or_default();
        let (mut n, mut modified) = (0, 0);
        for d in docs.iter_mut() {
            let arena = Bump::new();
            let (matched, position) = filter.matches_with_position(d.doc(), &arena, env)?;
            if !matched {
                continue;
            }
            n += 1;
            let cx = UpdateCx {
                arena: &arena,
                env,
                inserting: false,
                position,
            };
            let new = match update.apply(d.doc(), &cx)? {
                UpdateResult::Changed(new) => Some(new.to_buf()),
                UpdateResult::Unchanged => None,
            };
            if let Some(new) = new {
                modified += 1;
                *d = new;
            }
            if !multi {
                break;
            }
        }
        if n == 0 && upsert {
            let base = upsert_base(&filter, update.is_replacement())?;
            let arena = Bump::new();
            let cx = UpdateCx {
                arena: &arena,
                env,
                inserting: true,
                position: None,
            };
            let new = match update.apply(base.doc(), &cx)? {
                UpdateResult::Changed(new) => new.to_buf(),
                UpdateResult::Unchanged => base.clone(),
            };
            let mut new = with_id_first(new.doc());
            if new.doc().field("_id").is_missing() {
                new = DocBuf::build(|w| {
                    w.put("_id", model::ObjectId([7; 12]));
                    w.put_all(new.doc());
                });
            }
            docs.push(new);
            n = 1;
        }
        Ok((n, modified))
    }

    fn aggregate(&self, coll: &str, command: Doc<'_>) -> Option<Result<Reply>> {
        require_known_fields(command, &["pipeline", "cursor", "let"])?;
        let stages: Vec<(&str, Value<'_>)> = command
            .field("pipeline")
            .as_array()?
            .iter()
            .map(|s| s.as_doc()?.first())
            .collect::<Option<_>>()?;
        let mut docs = self.collections.get(coll).cloned().unwrap_or_default();
        for (name, spec) in stages {
            let next = match name {
                "$documents" => documents(spec, command),
                "$match" => match_stage(docs, spec, command),
                "$project" | "$addFields" | "$set" | "$unset" => {
                    project_stage(docs, name, spec, command)
                }
                "$limit" => Ok(docs
                    .into_iter()
                    .take(usize::try_from(spec.as_i64_exact()?).ok()?)
                    .collect()),
                "$sort" => {
                    sort(&mut docs, spec.as_doc()?);
                    Ok(docs)
                }
                _ => return None,
            };
            match next {
                Ok(d) => docs = d,
                Err(e) => return Some(Err(e)),
            }
        }
        Some(Ok(Reply::Documents(docs)))
    }
}

fn match_stage(docs: Vec<DocBuf>, spec: Value<'_>, command: Doc<'_>) -> Result<Vec<DocBuf>> {
    let Value::Document(spec) = spec else {
        return Err(MongoError::new(15959, "the match filter must be an object"));
    };
    let env = env(command);
    let filter = Filter::parse_without_near(&mut ParseCx::new(&env), spec)?;
    let mut out = Vec::new();
    for d in docs {
        if filter.matches(d.doc(), &Bump::new(), &env)? {
            out.push(d);
        }
    }
    Ok(out)
}

fn documents(spec: Value<'_>, command: Doc<'_>) -> Result<Vec<DocBuf>> {
    let env = env(command);
    let e = operators::expr::parse(&mut ParseCx::new(&env), spec)?;
    let arena = Bump::new();
    let v = e.eval(&Cx::new(&arena, Value::Missing, &env))?;
    Ok(v.as_array()
        .into_iter()
        .flat_map(|a| a.iter())
        .filter_map(|d| d.as_doc())
        .map(DocBuf::from_doc)
        .collect())
}

fn project_stage(
    docs: Vec<DocBuf>,
    name: &str,
    spec: Value<'_>,
    command: Doc<'_>,
) -> Result<Vec<DocBuf>> {
    let env = env(command);
    let mut pcx = ParseCx::new(&env);
    let p = match name {
        "$project" => Projection::parse_project(&mut pcx, spec)?,
        "$unset" => Projection::parse_unset(spec)?,
        _ => Projection::parse_add_fields(&mut pcx, name, spec)?,
    };
    let mut out = Vec::new();
    for d in docs {
        let arena = Bump::new();
        out.push(
            p.apply(&Cx::new(&arena, Value::Missing, &env), d.doc())?
                .to_buf(),
        );
    }
    Ok(out)
}

fn project(docs: Vec<DocBuf>, spec: Doc<'_>, command: Doc<'_>) -> Result<Vec<DocBuf>> {
    let env = env(command);
    let mut pcx = ParseCx::new(&env);
    let p = Projection::parse_find(&mut pcx, spec)?;
    let filter = Filter::parse(
        &mut pcx,
        command.field("filter").as_doc().unwrap_or(Doc::EMPTY),
    )?;
    let mut out = Vec::new();
    for d in docs {
        let arena = Bump::new();
        let (_, position) = filter.matches_with_position(d.doc(), &arena, &env)?;
        out.push(
            p.apply_at(&Cx::new(&arena, Value::Missing, &env), d.doc(), position)?
                .to_buf(),
        );
    }
    Ok(out)
}

fn with_id_first(d: Doc<'_>) -> DocBuf {
    DocBuf::build(|w| {
        w.put("_id", d.field("_id"));
        for e in d.elements().filter(|e| e.name != b"_id") {
            w.put_element(&e);
        }
    })
}

fn sort(docs: &mut [DocBuf], order: Doc<'_>) {
    let key = |d: &DocBuf, path: &str| -> model::OwnedValue {
        path.split('.')
            .fold(Value::Document(d.doc()), |v, part| {
                v.as_doc().map_or(Value::Missing, |d| d.field(part))
            })
            .to_owned_value()
    };
    docs.sort_by(|a, b| {
        order
            .iter()
            .fold(Ordering::Equal, |so_far, (path, direction)| {
                let o = compare(&key(a, path).get(), &key(b, path).get());
                so_far.then(if direction.as_f64().unwrap_or(1.0) < 0.0 {
                    o.reverse()
                } else {
                    o
                })
            })
    });
}
