//! Graph files. A damaged file counts as absent: the graph is built again.

use super::codes::{CodeKind, Codes, Coding};
use super::{Graph, NEIGHBOURS, NONE};
use std::hash::Hasher;
use std::path::Path;

const MAGIC: &[u8; 8] = b"QGRAPH01";
/// Bytes of the header: magic, kind, dimensions, nodes, checksum.
const HEAD: usize = 8 + 4 * 4 + 8;

impl Graph {
    /// Writes the file; after a crash it is complete or absent.
    ///
    /// # Errors
    /// The errors of the file system.
    pub(crate) fn save(&self, path: &Path) -> std::io::Result<()> {
        let coding = self.codes.coding();
        let mut body = self.codes.bytes.clone();
        let floats = self.codes.scales.iter().chain(&self.codes.lengths);
        floats.for_each(|f| body.extend_from_slice(&f.to_le_bytes()));
        let edges = self.edges.iter();
        edges.for_each(|e| body.extend_from_slice(&e.to_le_bytes()));
        let kind = match coding.kind {
            CodeKind::Byte => 0u32,
            CodeKind::Sign => 1,
            CodeKind::Bit => 2,
        };
        let mut file = MAGIC.to_vec();
        let head = [
            kind,
            u32::from(coding.directions),
            u32::try_from(coding.dimensions).unwrap_or(0),
            u32::try_from(self.len()).unwrap_or(0),
        ];
        head.iter()
            .for_each(|n| file.extend_from_slice(&n.to_le_bytes()));
        file.extend_from_slice(&sum(&body).to_le_bytes());
        file.append(&mut body);
        let new = path.with_extension("new");
        std::fs::write(&new, &file)?;
        std::fs::rename(&new, path)
    }

    /// Reads a graph with this coding and number of nodes.
    pub(crate) fn load(path: &Path, coding: Coding, nodes: usize) -> Option<Graph> {
        let file = std::fs::read(path).ok()?;
        let (head, body) = (file.get(..HEAD)?, file.get(HEAD..)?);
        let number = |at: usize| {
            let bytes = head.get(at..at + 4)?.first_chunk::<4>()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let kind = match number(8)? {
            0 => CodeKind::Byte,
            1 => CodeKind::Sign,
            _ => CodeKind::Bit,
        };
        let stored = Coding {
            kind,
            directions: number(12)? == 1,
            dimensions: number(16)? as usize,
        };
        let found = (head.starts_with(MAGIC), stored, number(20)? as usize);
        let sum_of = head.get(24..)?.first_chunk::<8>()?;
        let sound = sum(body) == u64::from_le_bytes(*sum_of);
        if found != (true, coding, nodes) || !sound {
            return None;
        }
        let (codes, rest) = body.split_at_checked(nodes * coding.bytes())?;
        let (floats, edges) = rest.split_at_checked(nodes * 8)?;
        let words = |bytes: &[u8]| -> Vec<u32> {
            let each = bytes.chunks_exact(4).filter_map(|c| c.first_chunk::<4>());
            each.map(|c| u32::from_le_bytes(*c)).collect()
        };
        let floats: Vec<f32> = words(floats).into_iter().map(f32::from_bits).collect();
        let (scales, lengths) = floats.split_at_checked(nodes)?;
        let edges = words(edges);
        let inside = |e: &u32| *e == NONE || (*e as usize) < nodes;
        let whole = edges.len() == nodes * NEIGHBOURS && edges.iter().all(inside);
        whole.then(|| {
            let mut all = Codes::new(coding);
            all.bytes = codes.to_vec();
            (all.scales, all.lengths) = (scales.to_vec(), lengths.to_vec());
            Graph { codes: all, edges }
        })
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
