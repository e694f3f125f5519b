//! Search indexes through their public interface: documents in, `_id`s and scores out.

mod analyzers;
mod embedded;
mod facets;
mod files;
mod graphs;
mod operators;
mod places;
mod scores;
mod shown;
mod synonyms;
mod vectors;

use model::{Doc, DocBuf};
use search::{Definition, Index, IndexLocation, Search, VectorSearch};
use std::sync::Arc;

/// An index in memory over documents, whose `_id` is their position in the list.
fn index_of(kind: &str, definition: &DocBuf, docs: &[DocBuf]) -> Arc<Index> {
    let definition = Definition::parse(kind, definition.doc()).expect("a definition");
    let index = Arc::new(Index::create(definition, IndexLocation::Memory).expect("an index"));
    let mut writer = index.writer().expect("a writer");
    for (n, doc) in docs.iter().enumerate() {
        writer.put(&[n as u8], doc.doc()).expect("a document");
    }
    writer.commit(1).expect("a commit");
    index
}

fn dynamic(docs: &[DocBuf]) -> Arc<Index> {
    let definition = model::doc! { "mappings": { "dynamic": true } };
    index_of("search", &definition, docs)
}

/// Positions and scores of the found documents, best first.
fn search(index: &Index, spec: Doc<'_>) -> model::Result<Vec<(u8, f32)>> {
    let mut hits = Search::parse("$search", spec)?.run(index, &mut || Ok(()))?;
    let mut found = Vec::new();
    while let Some(hit) = hits.pop()? {
        found.push((hit.id[0], hit.score));
    }
    Ok(found)
}

/// Positions of the found documents, ascending.
fn search_positions(index: &Index, spec: &DocBuf) -> Vec<u8> {
    let mut found: Vec<u8> = search(index, spec.doc())
        .unwrap_or_else(|e| panic!("{spec:?}: {}", e.message()))
        .into_iter()
        .map(|(n, _)| n)
        .collect();
    found.sort_unstable();
    found
}

fn nearest(index: &Index, spec: Doc<'_>) -> model::Result<Vec<(u8, f32)>> {
    let mut hits = VectorSearch::parse(spec)?.run(index, &mut || Ok(()))?;
    let mut found = Vec::new();
    while let Some(hit) = hits.pop()? {
        found.push((hit.id[0], hit.score));
    }
    Ok(found)
}
