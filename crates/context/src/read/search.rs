//! Reads of search indexes by pipelines: hits are replaced by the current documents, and hits whose
//! documents were deleted are left out.

use model::{DocBuf, MongoError, Namespace, Result, code};
use query::exec::{BatchStream, DocBatch, ExecContext, ReadyBatch};
use search::{Hits, Search, VectorSearch};
use state::search::SearchDefinition;
use state::service::Service;
use std::sync::Arc;
use std::time::Instant;
use store::{Collection, ReadView};

/// How many hits are looked up at a time.
const FETCH: usize = 128;
/// Most documents in a synonym collection.
const SYNONYMS_MAX: usize = 10_000;

/// The error on a server without a log, which has no search indexes.
pub fn no_search_error() -> MongoError {
    MongoError::new(
        code::SEARCH_NOT_ENABLED,
        "search needs a log of changes, which this store does not keep",
    )
}

/// The documents of `$search`, `$searchMeta` or `$vectorSearch` over a collection; `None` is a
/// collection that does not exist. The search is counted.
pub(super) fn open(
    service: &Service,
    coll: Option<Arc<Collection>>,
    view: ReadView,
    exec: &ExecContext<'_>,
    stage: &str,
    spec: model::Doc<'_>,
) -> Result<Box<dyn BatchStream>> {
    let began = Instant::now();
    let found = find(service, coll, view, exec, stage, spec);
    service.search.count(began.elapsed(), found.is_err());
    found
}

fn find(
    service: &Service,
    coll: Option<Arc<Collection>>,
    view: ReadView,
    exec: &ExecContext<'_>,
    stage: &str,
    spec: model::Doc<'_>,
) -> Result<Box<dyn BatchStream>> {
    if !service.has_search() {
        return Err(no_search_error());
    }
    let mut check = || exec.env.check_interrupt();
    if stage == "$vectorSearch" {
        let wanted = VectorSearch::parse(spec)?;
        let found = index_of(service, coll.as_ref(), wanted.index());
        let hits = found
            .map(|index| wanted.run(&index, &mut check))
            .transpose()?;
        return Ok(stream(coll, view, hits, HitOutput::Vectors));
    }
    let mut wanted = Search::parse(stage, spec)?;
    let found = index_of(service, coll.as_ref(), wanted.index());
    if let Some(index) = &found
        && index.definition().is_vector()
    {
        return Err(MongoError::new(
            code::UNKNOWN_ERROR,
            format!(
                "Cannot execute {stage} over vectorSearch index '{}'",
                wanted.index()
            ),
        ));
    }
    if let (Some(index), Some(coll)) = (&found, &coll) {
        for name in wanted.synonym_collections(index) {
            let docs = synonyms(service, coll, &name, &mut check)?;
            wanted.give_synonyms(name, docs);
        }
    }
    if stage == "$searchMeta" {
        let counted = match &found {
            Some(index) => wanted.count(index, &mut check)?,
            None => wanted.count_document(0),
        };
        let mut batch = DocBatch::new();
        batch.push(counted.doc());
        return Ok(Box::new(ReadyBatch(batch)));
    }
    let hits = found
        .as_ref()
        .map(|index| wanted.run(index, &mut check))
        .transpose()?;
    let stored = found.filter(|_| wanted.returns_stored());
    Ok(stream(coll, view, hits, HitOutput::Search { stored }))
}

/// The documents of a synonym collection in the same database.
fn synonyms(
    service: &Service,
    coll: &Collection,
    name: &str,
    check: &mut search::Check<'_>,
) -> Result<Vec<DocBuf>> {
    let ns = Namespace::new(coll.ns().db(), name)?;
    let mut docs = Vec::new();
    let Some(source) = service.store.collection(&ns)? else {
        return Ok(docs);
    };
    let mut scan = source.scan(&ReadView::LATEST, false);
    while scan.visit(FETCH, &mut |row| {
        docs.push(row.doc.to_buf());
        true
    })? {
        check()?;
        if docs.len() > SYNONYMS_MAX {
            return Err(MongoError::new(
                code::UNKNOWN_ERROR,
                format!("{ns} has more than {SYNONYMS_MAX} documents with synonyms"),
            ));
        }
    }
    Ok(docs)
}

fn index_of(
    service: &Service,
    coll: Option<&Arc<Collection>>,
    name: &str,
) -> Option<Arc<search::Index>> {
    service.search.find(coll?, name)
}

/// The documents of `$listSearchIndexes` for a collection.
pub fn list(
    service: &Service,
    coll: Option<&Arc<Collection>>,
    spec: model::Doc<'_>,
) -> Result<Vec<DocBuf>> {
    let text = |field: &str| spec.field(field).as_str().map(str::to_owned);
    let (id, name) = (text("id"), text("name"));
    let described = |coll: &Arc<Collection>| {
        service
            .search
            .describe(coll, id.as_deref(), name.as_deref())
    };
    coll.map_or(Ok(Vec::new()), described)
}

/// Whether a definition has this name or this id.
pub fn is_named(definition: &SearchDefinition, id: Option<&str>, name: Option<&str>) -> bool {
    match (id, name) {
        (Some(id), _) => definition.id() == id,
        (None, Some(name)) => definition.name() == name,
        (None, None) => false,
    }
}

fn stream(
    coll: Option<Arc<Collection>>,
    view: ReadView,
    hits: Option<Hits>,
    shown: HitOutput,
) -> Box<dyn BatchStream> {
    match coll.zip(hits) {
        Some((coll, hits)) => Box::new(HitStream {
            coll,
            view,
            hits,
            shown,
        }),
        None => Box::new(query::exec::EmptyStream),
    }
}

/// The documents of hits, best hits first.
struct HitStream {
    coll: Arc<Collection>,
    view: ReadView,
    hits: Hits,
    shown: HitOutput,
}

/// What is returned for each document.
enum HitOutput {
    /// The document and the score of `$vectorSearch`.
    Vectors,
    /// The document and all metadata of `$search`. With `stored`, only the fields of the document
    /// that the index stores.
    Search { stored: Option<Arc<search::Index>> },
}

impl HitStream {
    /// Adds a document with its metadata to a batch.
    fn give(&self, hit: &search::SearchHit, doc: model::Doc<'_>, out: &mut DocBatch) {
        let score = f64::from(hit.score);
        let HitOutput::Search { stored } = &self.shown else {
            let meta = model::doc! { "vectorSearchScore": score, "score": score };
            return out.push_with_meta(doc, Some(meta.doc()));
        };
        let meta = DocBuf::build(|w| {
            w.put("searchScore", score).put("score", score);
            w.put("searchSequenceToken", hit.token.as_str());
            if let Some(details) = &hit.details {
                w.put("searchScoreDetails", details);
            }
            if let Some(found) = self.hits.highlights(doc) {
                w.put("searchHighlights", found.doc().field("v"));
            }
            w.put("SEARCH_META", self.hits.meta());
        });
        let stored = stored.as_ref();
        match stored.and_then(|index| index.definition().stored_source(doc)) {
            Some(cut) => out.push_with_meta(cut.doc(), Some(meta.doc())),
            None => out.push_with_meta(doc, Some(meta.doc())),
        }
    }
}

impl BatchStream for HitStream {
    fn next_batch(&mut self, exec: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        while !out.is_full() && !self.hits.is_empty() {
            exec.env.check_interrupt()?;
            let room = out.max_docs().saturating_sub(out.len()).clamp(1, FETCH);
            let mut found = Vec::with_capacity(room);
            while found.len() < room
                && let Some(hit) = self.hits.pop()?
            {
                found.push(hit);
            }
            let ids: Vec<&[u8]> = found.iter().map(|hit| hit.id.as_slice()).collect();
            // Documents come in the order of the hits, without deleted ones.
            let mut rest = found.iter();
            self.coll.get_encoded(&self.view, &ids, &mut |row| {
                let id = row.key.get(4..).unwrap_or_default();
                if let Some(hit) = rest.find(|hit| hit.id == id) {
                    self.give(hit, row.doc, out);
                }
                true
            })?;
        }
        Ok(!self.hits.is_empty())
    }
}
