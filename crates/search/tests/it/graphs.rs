//! Approximate vector searches: how much of an exact search's result they find, without and with
//! filters, for every similarity and every quantization; graphs in files.

use crate::nearest;
use model::{Binary, DocBuf, Value, doc};
use search::{Definition, Index, IndexLocation};
use std::collections::BTreeSet;
use std::sync::Arc;

const DIMENSIONS: usize = 48;
/// More than a graph needs, also for packed bits, many of which are equal.
const VECTORS: usize = 1500;
const QUERIES: usize = 10;

/// Pseudo-random numbers with a fixed seed.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Approximately normally distributed.
    fn bell(&mut self) -> f64 {
        (0..6).map(|_| self.next()).sum::<f64>() - 3.0
    }

    /// In one of forty clusters, in a space of eight dimensions.
    fn vector(&mut self) -> Vec<f32> {
        let crowd = (self.next() * 40.0) as u64;
        let mut base = Rng(crowd * 7919 + 17);
        let place: Vec<f64> = (0..8).map(|_| base.bell()).collect();
        let mut axes = Rng(99);
        let mut vector: Vec<f64> = (0..DIMENSIONS)
            .map(|_| place.iter().map(|p| p * axes.bell()).sum::<f64>() + self.bell() * 0.5)
            .collect();
        let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
        vector.iter_mut().for_each(|v| *v /= length);
        vector.iter().map(|v| *v as f32).collect()
    }
}

/// As a client sends it: subtype 9, numbers of four bytes or of one.
fn binary(numbers: &[f32], bytes: bool) -> Vec<u8> {
    let mut out = vec![if bytes { 0x03 } else { 0x27 }, 0];
    for n in numbers {
        match bytes {
            true => out.push((n * 127.0).round() as i8 as u8),
            false => out.extend_from_slice(&n.to_le_bytes()),
        }
    }
    out
}

/// The signs as packed bits.
fn pack_signs(numbers: &[f32]) -> Vec<u8> {
    let mut out = vec![0x10, 0];
    for chunk in numbers.chunks(8) {
        let bit = |(n, v): (usize, &f32)| u8::from(*v > 0.0) << (7 - n);
        out.push(chunk.iter().enumerate().map(bit).sum());
    }
    out
}

fn value(bytes: &[u8]) -> Value<'_> {
    Value::Binary(Binary { subtype: 9, bytes })
}

fn definition(similarity: &str, quantization: &str) -> DocBuf {
    doc! { "fields": [
        { "type": "vector", "path": "v", "numDimensions": DIMENSIONS as i32,
        "similarity": similarity, "quantization": quantization },
        { "type": "filter", "path": "k" }
    ] }
}

fn fill_index(
    spec: &DocBuf,
    place: IndexLocation<'_>,
    encode: &dyn Fn(&[f32]) -> Vec<u8>,
) -> Arc<Index> {
    let definition = Definition::parse("vectorSearch", spec.doc()).expect("a definition");
    let index = Arc::new(Index::create(definition, place).expect("an index"));
    let mut writer = index.writer().expect("a writer");
    let mut chance = Rng(5);
    for n in 0..VECTORS {
        let vector = encode(&chance.vector());
        let k = (chance.next() * 100.0) as i32;
        let doc = doc! { "v": value(&vector), "k": k };
        writer
            .add(&(n as u16).to_be_bytes(), doc.doc())
            .expect("a document");
    }
    writer.commit(1).expect("a commit");
    writer.finish().expect("merged");
    index
}

fn build(index: &Index) {
    while index.build_graphs(500, &mut |_| true).expect("no failure") {}
    assert!(index.graph_bytes() > 0, "there is a graph");
}

fn search_vectors(
    index: &Index,
    query: &[u8],
    below: Option<i32>,
    exact: bool,
) -> BTreeSet<Vec<u8>> {
    let spec = DocBuf::build(|w| {
        w.put("index", "v").put("path", "v").put("limit", 10i32);
        w.put("queryVector", value(query));
        match exact {
            true => _ = w.put("exact", true),
            false => _ = w.put("numCandidates", 150i32),
        }
        if let Some(below) = below {
            w.put("filter", &doc! { "k": { "$lt": below } });
        }
    });
    let parsed = search::VectorSearch::parse(spec.doc()).expect("a specification");
    let mut hits = parsed.run(index, &mut || Ok(())).expect("hits");
    let mut ids = BTreeSet::new();
    while let Some(hit) = hits.pop().expect("no failure") {
        ids.insert(hit.id);
    }
    ids
}

/// The fraction of an exact search's result that is found.
fn recall(index: &Index, below: Option<i32>, encode: &dyn Fn(&[f32]) -> Vec<u8>) -> f64 {
    let mut chance = Rng(77);
    let (mut hit, mut all) = (0, 0);
    for _ in 0..QUERIES {
        let query = encode(&chance.vector());
        let wanted = search_vectors(index, &query, below, true);
        let given = search_vectors(index, &query, below, false);
        hit += wanted.intersection(&given).count();
        all += wanted.len();
    }
    assert!(all > 0);
    hit as f64 / all as f64
}

#[test]
fn an_approximate_search_finds_nearly_all() {
    let floats: &dyn Fn(&[f32]) -> Vec<u8> = &|v| binary(v, false);
    let bytes: &dyn Fn(&[f32]) -> Vec<u8> = &|v| binary(v, true);
    for (similarity, quantization, encode) in [
        ("cosine", "none", floats),
        ("euclidean", "scalar", floats),
        ("dotProduct", "scalar", floats),
        ("cosine", "none", bytes),
        ("euclidean", "none", &pack_signs),
    ] {
        let index = fill_index(
            &definition(similarity, quantization),
            IndexLocation::Memory,
            encode,
        );
        build(&index);
        for below in [None, Some(1), Some(10), Some(50)] {
            let recall = recall(&index, below, encode);
            // Many packed vectors have the same distance: which of them comes last is random.
            let least = if similarity == "euclidean" && quantization == "none" {
                0.8
            } else {
                0.95
            };
            assert!(
                recall >= least,
                "{similarity} {quantization} {below:?}: {recall}"
            );
        }
    }
}

/// One bit per number is coarse for so few numbers; results are compared in full.
#[test]
fn signs_find_most_and_scores_are_exact() {
    let floats: &dyn Fn(&[f32]) -> Vec<u8> = &|v| binary(v, false);
    let index = fill_index(
        &definition("cosine", "binary"),
        IndexLocation::Memory,
        floats,
    );
    build(&index);
    assert!(recall(&index, None, floats) >= 0.8);
    let query = floats(&Rng(5).vector());
    let spec = doc! { "index": "v", "path": "v", "limit": 1i32, "numCandidates": 10i32,
    "queryVector": value(&query) };
    let first = nearest(&index, spec.doc()).expect("hits");
    assert!((first[0].1 - 1.0).abs() < 1e-6, "the same vector");
}

#[test]
fn a_document_that_is_gone_is_not_found_by_a_graph() {
    let floats: &dyn Fn(&[f32]) -> Vec<u8> = &|v| binary(v, false);
    let index = fill_index(&definition("cosine", "none"), IndexLocation::Memory, floats);
    build(&index);
    let query = floats(&Rng(5).vector());
    let first = 0u16.to_be_bytes().to_vec();
    assert!(search_vectors(&index, &query, None, false).contains(&first));
    let mut writer = index.writer().expect("a writer");
    writer.remove(&first);
    writer.commit(2).expect("a commit");
    let left = search_vectors(&index, &query, None, false);
    assert!(left.len() == 10 && !left.contains(&first));
}

#[test]
fn a_graph_in_a_file_is_read_again_and_a_damaged_one_is_built_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let floats: &dyn Fn(&[f32]) -> Vec<u8> = &|v| binary(v, false);
    let spec = definition("cosine", "none");
    let index = fill_index(&spec, IndexLocation::Folder(folder.path()), floats);
    build(&index);
    drop(index);
    let file = std::fs::read_dir(folder.path())
        .expect("the folder")
        .flatten()
        .map(|e| e.path())
        .find(|p| p.extension().is_some_and(|e| e == "graph"))
        .expect("a graph");
    let written = std::fs::read(&file).expect("a file");
    let open = || {
        let definition = Definition::parse("vectorSearch", spec.doc()).expect("a definition");
        Index::open(&definition, folder.path()).expect("an index").0
    };
    // One step reads the file; building would take one step per vector.
    let index = open();
    assert!(index.build_graphs(1, &mut |_| true).expect("no failure"));
    assert!(index.graph_bytes() > 0);
    drop(index);
    let mut damaged = written.clone();
    damaged[5000] ^= 1;
    std::fs::write(&file, &damaged).expect("written");
    let index = open();
    assert!(index.build_graphs(1, &mut |_| true).expect("no failure"));
    assert_eq!(index.graph_bytes(), 0, "it is being built");
    build(&index);
    assert_eq!(std::fs::read(&file).expect("a file"), written);
}

#[test]
fn without_room_every_vector_is_compared() {
    let floats: &dyn Fn(&[f32]) -> Vec<u8> = &|v| binary(v, false);
    let index = fill_index(&definition("cosine", "none"), IndexLocation::Memory, floats);
    let mut asked = 0;
    let more = index.build_graphs(500, &mut |bytes| {
        asked = bytes;
        false
    });
    assert!(!more.expect("no failure") && asked > VECTORS * DIMENSIONS);
    assert_eq!(index.graph_bytes(), 0);
    assert!(recall(&index, None, floats) >= 1.0);
}
