//! The exact neighbours of vectors, found by comparing every vector, and how many of them an
//! approximate search finds.
//!
//! Promises: memory does not grow with the number of vectors; of several neighbours at the same
//! distance as the last one, any counts as found. Must not know: targets.

use serde::{Deserialize, Serialize};

/// Distances that differ by a smaller share are equal up to rounding.
const ROUNDING: f64 = 1e-6;

/// The measure of similarity of two vectors.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub enum Similarity {
    /// The distance between them.
    Euclidean,
    /// The angle between them.
    Cosine,
    /// Their dot product.
    DotProduct,
}

impl Similarity {
    /// A distance; smaller is nearer.
    fn distance(self, one: &[f64], other: &[f64]) -> f64 {
        let product = |one: &[f64], other: &[f64]| -> f64 {
            one.iter().zip(other).map(|(one, other)| one * other).sum()
        };
        match self {
            Self::Euclidean => {
                let pairs = one.iter().zip(other);
                pairs.map(|(one, other)| (one - other).powi(2)).sum()
            }
            Self::Cosine => {
                let lengths = (product(one, one) * product(other, other)).sqrt();
                1.0 - product(one, other) / lengths.max(f64::MIN_POSITIVE)
            }
            Self::DotProduct => -product(one, other),
        }
    }
}

/// A search and the ids that the target found.
#[derive(Clone, Debug)]
pub struct NearestSearch {
    /// The vector whose neighbours are sought.
    pub vector: Vec<f64>,
    /// The number of neighbours.
    pub wanted: usize,
    /// Ids that the target returned, as text.
    pub found: Vec<String>,
}

/// Compares every vector with several searches at once.
#[derive(Debug)]
pub struct Comparison {
    similarity: Similarity,
    searches: Vec<Search>,
}

#[derive(Debug)]
struct Search {
    sought: NearestSearch,
    /// The smallest distances so far, in ascending order.
    nearest: Vec<f64>,
    /// Distances of the vectors that the target returned, as far as they were seen.
    distances: Vec<f64>,
}

/// The recall of searches: the share of the exact neighbours that they found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recall {
    /// Searches that were compared.
    pub searches: u64,
    /// Neighbours that each search asked for.
    pub neighbours: u64,
    /// Vectors that were compared.
    pub vectors: u64,
    /// Mean recall over all searches, in percent.
    pub percent: f64,
    /// Recall of the worst search, in percent.
    pub percent_min: f64,
    /// Whether the target also compares every vector.
    pub is_exact: bool,
}

impl Comparison {
    /// A comparison for these searches.
    pub fn new(similarity: Similarity, searches: Vec<NearestSearch>) -> Self {
        let searches = searches.into_iter().map(|sought| Search {
            sought,
            nearest: Vec::new(),
            distances: Vec::new(),
        });
        Self {
            similarity,
            searches: searches.collect(),
        }
    }

    /// Compares a vector of the target.
    pub fn take(&mut self, id: &str, vector: &[f64]) {
        for search in &mut self.searches {
            let wanted = search.sought.wanted;
            if vector.len() != search.sought.vector.len() {
                continue;
            }
            let distance = self.similarity.distance(&search.sought.vector, vector);
            if search.sought.found.iter().any(|found| found == id) {
                search.distances.push(distance);
            }
            let at = search.nearest.partition_point(|other| *other <= distance);
            if at < wanted {
                search.nearest.insert(at, distance);
                search.nearest.truncate(wanted);
            }
        }
    }

    /// The recall, once all vectors were compared.
    pub fn recall(&self, vectors: u64) -> Recall {
        let mut out = Recall {
            searches: self.searches.len() as u64,
            vectors,
            percent_min: if self.searches.is_empty() { 0.0 } else { 100.0 },
            ..Recall::default()
        };
        let mut sum = 0.0;
        for search in &self.searches {
            out.neighbours = out.neighbours.max(search.sought.wanted as u64);
            let percent = search.percent();
            sum += percent;
            out.percent_min = out.percent_min.min(percent);
        }
        out.percent = sum / (self.searches.len().max(1)) as f64;
        out
    }
}

impl Search {
    fn percent(&self) -> f64 {
        let Some(last) = self.nearest.last() else {
            return 100.0;
        };
        let bound = last + last.abs() * ROUNDING + f64::EPSILON;
        let near = self.distances.iter().filter(|one| **one <= bound).count();
        let all = self.nearest.len();
        100.0 * near.min(all) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recall(similarity: Similarity, found: &[&str], wanted: usize) -> Recall {
        let mut comparison = Comparison::new(
            similarity,
            vec![NearestSearch {
                vector: vec![1.0, 0.0],
                wanted,
                found: found.iter().map(|id| (*id).to_owned()).collect(),
            }],
        );
        for (id, vector) in [
            ("a", [1.0, 0.1]),
            ("b", [10.0, 0.1]),
            ("c", [0.0, 1.0]),
            ("d", [0.9, 0.5]),
            ("e", [0.9, -0.5]),
        ] {
            comparison.take(id, &vector);
        }
        comparison.recall(5)
    }

    #[test]
    fn recall_is_the_share_of_nearest_neighbours_found_and_counts_ties() {
        let all = recall(Similarity::Euclidean, &["a", "d"], 2);
        assert_eq!((all.percent, all.neighbours, all.vectors), (100.0, 2, 5));
        // `e` is as near as the last neighbour, so it counts as found.
        assert_eq!(recall(Similarity::Euclidean, &["a", "e"], 2).percent, 100.0);
        assert_eq!(recall(Similarity::Euclidean, &["a", "b"], 2).percent, 50.0);
        assert_eq!(recall(Similarity::Euclidean, &["b", "c"], 2).percent, 0.0);
        assert_eq!(recall(Similarity::Cosine, &["b", "a"], 2).percent, 100.0);
        assert_eq!(recall(Similarity::DotProduct, &["b"], 1).percent, 100.0);
        assert_eq!(recall(Similarity::DotProduct, &["a"], 1).percent, 0.0);
    }

    #[test]
    fn recall_is_full_if_all_vectors_are_found_and_zero_without_a_search() {
        let found = recall(Similarity::Euclidean, &["a", "b", "c", "d", "e"], 9);
        assert_eq!(found.percent, 100.0);
        let nothing = Comparison::new(Similarity::Cosine, Vec::new()).recall(0);
        assert_eq!((nothing.searches, nothing.percent), (0, 0.0));
    }

    #[test]
    fn a_document_found_twice_counts_once() {
        let found = recall(Similarity::Euclidean, &["a", "a"], 2);
        assert_eq!(found.percent, 50.0);
    }
}
