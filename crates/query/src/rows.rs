//! Rows to sort: a key and a document each, in one buffer; and sorted runs of them, in memory or in temporary files.

use crate::pipeline::{Batch, Rt};
use crate::stages::sort_pattern::SortPattern;
use model::{Collate, Doc, DocWriter, MongoError, Result, Value, code};
use operators::Env;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};

/// 292, what a stage says when it may not spill.
pub(crate) fn memory_exceeded(stage: &str, budget: usize) -> MongoError {
    MongoError::new(
        292,
        format!("{stage} exceeded the memory limit of {budget} bytes, and temporary files are off. Pass allowDiskUse:true to opt in"),
    )
}

/// An input or output failure on a temporary file.
pub(crate) fn spill_failed(e: std::io::Error) -> MongoError {
    MongoError::new(code::FILE_STREAM_FAILED, format!("temporary file of a spilling stage: {e}"))
}

#[derive(Clone, Copy)]
struct Row {
    start: usize,
    key_len: u32,
    doc_len: u32,
    meta_len: u32,
}

/// Unsorted or sorted rows in memory.
#[derive(Default)]
pub(crate) struct Rows {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    next: usize,
}

impl Rows {
    /// Appends a document under its key.
    pub(crate) fn push(&mut self, pattern: &SortPattern, doc: Doc<'_>, meta: Option<Doc<'_>>, env: &Env) -> Result<()> {
        let start = self.bytes.len();
        pattern.key_into(doc, meta, env, &mut self.bytes)?;
        let key_len = (self.bytes.len() - start) as u32;
        self.bytes.extend_from_slice(doc.as_bytes());
        let meta_len = meta.map_or(0, |m| {
            self.bytes.extend_from_slice(m.as_bytes());
            m.len_bytes()
        });
        self.rows.push(Row { start, key_len, doc_len: doc.len_bytes() as u32, meta_len: meta_len as u32 });
        Ok(())
    }

    /// Appends a document under a key of one value.
    pub(crate) fn push_keyed(&mut self, key: Value<'_>, doc: Doc<'_>) {
        let start = self.bytes.len();
        DocWriter::new(&mut self.bytes).put("", key);
        let key_len = (self.bytes.len() - start) as u32;
        self.bytes.extend_from_slice(doc.as_bytes());
        self.rows.push(Row { start, key_len, doc_len: doc.len_bytes() as u32, meta_len: 0 });
    }
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes.len() + self.rows.len() * size_of::<Row>()
    }
    fn part(&self, start: usize, len: u32) -> &[u8] {
        self.bytes.get(start..start + len as usize).unwrap_or(&[])
    }
    fn key(&self, row: Row) -> Doc<'_> {
        Doc::new(self.part(row.start, row.key_len)).unwrap_or(Doc::EMPTY)
    }
    fn doc(&self, row: Row) -> Doc<'_> {
        Doc::new(self.part(row.start + row.key_len as usize, row.doc_len)).unwrap_or(Doc::EMPTY)
    }
    fn meta(&self, row: Row) -> Option<Doc<'_>> {
        Doc::new(self.part(row.start + (row.key_len + row.doc_len) as usize, row.meta_len))
    }

    /// Sorts, keeping the order of equal rows. Keys are decoded once, not at every comparison.
    pub(crate) fn sort(&mut self, pattern: &SortPattern, collate: Option<&dyn Collate>) {
        let width = pattern.parts().len();
        let mut keys: Vec<Value<'_>> = Vec::with_capacity(self.rows.len() * width);
        for row in &self.rows {
            keys.extend(self.key(*row).iter().map(|(_, v)| v).take(width));
        }
        let key = |i: u32| keys.get(i as usize * width..(i as usize + 1) * width).unwrap_or(&[]);
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        order.sort_by(|a, b| pattern.compare(key(*a), key(*b), collate));
        let sorted = order.iter().filter_map(|i| self.rows.get(*i as usize).copied()).collect();
        self.rows = sorted;
    }

    /// Keeps the first `n` rows and gives the memory of the others back.
    pub(crate) fn truncate(&mut self, n: usize) {
        if self.rows.len() <= n {
            return;
        }
        self.rows.truncate(n);
        let mut bytes = Vec::new();
        for row in &mut self.rows {
            let len = (row.key_len + row.doc_len + row.meta_len) as usize;
            let start = bytes.len();
            bytes.extend_from_slice(self.bytes.get(row.start..row.start + len).unwrap_or(&[]));
            row.start = start;
        }
        self.bytes = bytes;
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }
}

/// Rows in order: some in temporary files, the last of them in memory.
pub(crate) struct Run {
    files: Vec<SpilledRun>,
    memory: Rows,
    left: usize,
}

impl Run {
    /// No rows yet; at most `limit` will be given.
    pub(crate) fn new(limit: usize) -> Run {
        Run { files: Vec::new(), memory: Rows::default(), left: limit }
    }

    /// Writes sorted rows to a temporary file and empties them.
    pub(crate) fn spill(&mut self, rows: &mut Rows, rt: &Rt<'_>) -> Result<()> {
        let mut file = BufWriter::new(rt.host.spill_file()?);
        for row in &rows.rows {
            let len = (row.key_len + row.doc_len + row.meta_len) as usize;
            let mut head = [0u8; 12];
            head[..4].copy_from_slice(&row.key_len.to_le_bytes());
            head[4..8].copy_from_slice(&row.doc_len.to_le_bytes());
            head[8..].copy_from_slice(&row.meta_len.to_le_bytes());
            file.write_all(&head).map_err(spill_failed)?;
            file.write_all(rows.bytes.get(row.start..row.start + len).unwrap_or(&[])).map_err(spill_failed)?;
        }
        let mut file = file.into_inner().map_err(|e| spill_failed(e.into_error()))?;
        file.seek(SeekFrom::Start(0)).map_err(spill_failed)?;
        let mut run = SpilledRun { file: BufReader::with_capacity(256 * 1024, file), head: Rows::default() };
        run.advance()?;
        self.files.push(run);
        rows.clear();
        Ok(())
    }

    /// The last, sorted rows.
    pub(crate) fn finish(&mut self, rows: Rows) {
        self.memory = rows;
    }

    /// Gives the next rows in order.
    pub(crate) fn next_batch(
        &mut self,
        pattern: &SortPattern,
        collate: Option<&dyn Collate>,
        out: &mut Batch,
    ) -> Result<bool> {
        while self.left > 0 && !out.is_full() {
            let Some(source) = self.least(pattern, collate) else { return Ok(false) };
            self.left -= 1;
            if source == self.files.len() {
                let rows = &mut self.memory;
                let Some(row) = rows.rows.get(rows.next).copied() else { return Ok(false) };
                out.push_with_meta(rows.doc(row), rows.meta(row));
                rows.next += 1;
            } else if let Some(file) = self.files.get_mut(source) {
                if let Some(row) = file.head.rows.first().copied() {
                    out.push_with_meta(file.head.doc(row), file.head.meta(row));
                }
                file.advance()?;
            }
        }
        Ok(self.left > 0)
    }

    /// Gives the next rows in the order they were written, when there is no other.
    pub(crate) fn next_unordered(&mut self, out: &mut Batch) -> Result<bool> {
        while !out.is_full() {
            if let Some(file) = self.files.iter_mut().find(|f| !f.head.rows.is_empty()) {
                if let Some(row) = file.head.rows.first().copied() {
                    out.push_with_meta(file.head.doc(row), file.head.meta(row));
                }
                file.advance()?;
                continue;
            }
            let rows = &mut self.memory;
            let Some(row) = rows.rows.get(rows.next).copied() else { return Ok(false) };
            out.push_with_meta(rows.doc(row), rows.meta(row));
            rows.next += 1;
        }
        Ok(true)
    }

    /// The source whose next row comes first; of equal ones the earliest, for stability.
    fn least(&self, pattern: &SortPattern, collate: Option<&dyn Collate>) -> Option<usize> {
        let in_memory = self.memory.rows.get(self.memory.next).map(|r| self.memory.key(*r));
        if self.files.is_empty() {
            return in_memory.map(|_| 0);
        }
        let mut best: Option<(usize, SmallVec<[Value<'_>; 4]>)> = None;
        let keys = self.files.iter().map(|f| f.head.rows.first().map(|r| f.head.key(*r))).chain([in_memory]);
        for (i, key) in keys.enumerate() {
            let Some(key) = key else { continue };
            let key: SmallVec<[Value<'_>; 4]> = key.iter().map(|(_, v)| v).collect();
            if best.as_ref().is_none_or(|(_, b)| pattern.compare(&key, b, collate) == Ordering::Less) {
                best = Some((i, key));
            }
        }
        best.map(|(i, _)| i)
    }
}

/// A sorted run in a temporary file, with its next row read.
struct SpilledRun {
    file: BufReader<File>,
    head: Rows,
}

impl SpilledRun {
    fn advance(&mut self) -> Result<()> {
        self.head.clear();
        let mut lens = [0u8; 12];
        match self.file.read_exact(&mut lens) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(e) => return Err(spill_failed(e)),
        }
        let at = |i: usize| u32::from_le_bytes([lens[i], lens[i + 1], lens[i + 2], lens[i + 3]]);
        let row = Row { start: 0, key_len: at(0), doc_len: at(4), meta_len: at(8) };
        self.head.bytes.resize((row.key_len + row.doc_len + row.meta_len) as usize, 0);
        self.file.read_exact(&mut self.head.bytes).map_err(spill_failed)?;
        self.head.rows.push(row);
        Ok(())
    }
}
