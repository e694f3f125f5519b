//! Rows to sort: a key and a document each, in chunks of memory; and sorted runs of rows, in memory
//! or in temporary files. Keys are bytes in the order of the index format, so keys compare as
//! bytes, the first eight as one integer.

use super::batch::DocBatch;
use super::host::ExecContext;
use super::sort_pattern::SortPattern;
use cipher::Scratch;
use model::{Collate, Doc, MongoError, Result, Value, code};
use operators::Env;
use std::cmp::Ordering;
use std::io::{BufReader, BufWriter, Read, Write};
use store::format::keys;

/// Error 292: a stage exceeds its memory and may not spill.
pub(crate) fn memory_error(stage: &str, budget: usize) -> MongoError {
    MongoError::new(
        292,
        format!(
            "{stage} exceeded the memory limit of {budget} bytes, and temporary files are off. \
                Pass allowDiskUse:true to opt in"
        ),
    )
}

/// An input or output failure on a temporary file.
pub(crate) fn spill_error(e: std::io::Error) -> MongoError {
    MongoError::new(
        code::FILE_STREAM_FAILED,
        format!("temporary file of a spilling stage: {e}"),
    )
}

/// Rows are stored in chunks of this size, so that growing never copies stored rows.
const CHUNK_BYTES: usize = 1 << 20;
/// A larger row that does not fit into the open chunk gets a chunk of its own: opening a new common
/// chunk would waste much of the last one.
const OWN_CHUNK_BYTES: usize = CHUNK_BYTES / 8;

#[derive(Clone, Copy)]
struct SortRow {
    /// The first bytes of the key, padded with zeros, as one number.
    prefix: u64,
    chunk: u32,
    start: u32,
    key_len: u32,
    doc_len: u32,
    meta_len: u32,
    /// Order of arrival, which decides between equal keys.
    arrived: u32,
}

impl SortRow {
    fn len(&self) -> usize {
        (self.key_len + self.doc_len + self.meta_len) as usize
    }
}

fn prefix_of(key: &[u8]) -> u64 {
    let mut first = [0u8; 8];
    let n = key.len().min(8);
    first[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(first)
}

/// Unsorted or sorted rows in memory.
#[derive(Default)]
pub(crate) struct SortBuffer {
    chunks: Vec<Vec<u8>>,
    /// The chunk that gets new rows.
    open: usize,
    /// Capacity of all chunks.
    bytes: usize,
    rows: Vec<SortRow>,
    next: usize,
    arrived: u32,
    scratch: Vec<u8>,
    /// Rows whose key is not below this one are not needed.
    bound: Option<Vec<u8>>,
    /// Bytes of all documents ever pushed.
    pushed_bytes: u64,
}

impl SortBuffer {
    /// Appends a document under its key.
    pub(crate) fn push(
        &mut self,
        pattern: &SortPattern,
        doc: Doc<'_>,
        meta: Option<Doc<'_>>,
        env: &Env,
    ) -> Result<()> {
        let mut key = std::mem::take(&mut self.scratch);
        key.clear();
        self.pushed_bytes += doc.len_bytes() as u64;
        let made = pattern.key_into(doc, meta, env, &mut key);
        if made.is_ok() && self.bound.as_ref().is_none_or(|b| key < *b) {
            self.append(&key, doc, meta);
        }
        self.scratch = key;
        made
    }

    /// Appends a document under a key of one value.
    pub(crate) fn push_keyed(
        &mut self,
        key: Value<'_>,
        doc: Doc<'_>,
        collate: Option<&dyn Collate>,
    ) {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        keys::encode(&key, collate, &mut bytes);
        self.append(&bytes, doc, None);
        self.scratch = bytes;
    }

    fn append(&mut self, key: &[u8], doc: Doc<'_>, meta: Option<Doc<'_>>) {
        let meta = meta.map_or(&[][..], |m| m.as_bytes());
        let len = key.len() + doc.len_bytes() + meta.len();
        let (chunk, start) = self.place(len);
        if let Some(to) = self.chunks.get_mut(chunk as usize) {
            to.extend_from_slice(key);
            to.extend_from_slice(doc.as_bytes());
            to.extend_from_slice(meta);
        }
        self.rows.push(SortRow {
            prefix: prefix_of(key),
            chunk,
            start,
            key_len: key.len() as u32,
            doc_len: doc.len_bytes() as u32,
            meta_len: meta.len() as u32,
            arrived: self.arrived,
        });
        self.arrived += 1;
    }

    /// Reserves room for a row at the end of a chunk; returns the chunk's number and the row's
    /// offset in it.
    fn place(&mut self, len: usize) -> (u32, u32) {
        let fits = |c: &Vec<u8>| c.capacity() - c.len() >= len;
        // The first chunk grows like any vector, because most sorts are small.
        if let [only] = self.chunks.as_mut_slice()
            && !fits(only)
            && only.len() + len <= CHUNK_BYTES
        {
            let before = only.capacity();
            only.reserve(len);
            self.bytes += only.capacity() - before;
        }
        let at = match self.chunks.get(self.open) {
            Some(open) if fits(open) => self.open,
            Some(_) if len >= OWN_CHUNK_BYTES => self.add_chunk(len),
            Some(_) => {
                self.open = self.add_chunk(CHUNK_BYTES);
                self.open
            }
            None => {
                self.open = self.add_chunk(len);
                self.open
            }
        };
        (at as u32, self.chunks.get(at).map_or(0, Vec::len) as u32)
    }

    fn add_chunk(&mut self, bytes: usize) -> usize {
        self.chunks.push(Vec::with_capacity(bytes));
        self.bytes += bytes;
        self.chunks.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
    /// Bytes held in memory.
    pub(crate) fn len_bytes(&self) -> usize {
        self.bytes + self.rows.capacity() * size_of::<SortRow>()
    }
    fn part(&self, row: SortRow, from: u32, len: u32) -> &[u8] {
        let start = (row.start + from) as usize;
        self.chunks
            .get(row.chunk as usize)
            .and_then(|c| c.get(start..start + len as usize))
            .unwrap_or(&[])
    }
    fn all(&self, row: SortRow) -> &[u8] {
        self.part(row, 0, row.len() as u32)
    }
    fn key(&self, row: SortRow) -> &[u8] {
        self.part(row, 0, row.key_len)
    }
    fn doc(&self, row: SortRow) -> Doc<'_> {
        Doc::new(self.part(row, row.key_len, row.doc_len)).unwrap_or(Doc::EMPTY)
    }
    fn meta(&self, row: SortRow) -> Option<Doc<'_>> {
        Doc::new(self.part(row, row.key_len + row.doc_len, row.meta_len))
    }

    /// Sorts, keeping the order of equal rows.
    pub(crate) fn sort(&mut self) {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_unstable_by(|a, b| {
            a.prefix.cmp(&b.prefix).then_with(|| {
                let rest = if a.key_len > 8 && b.key_len > 8 {
                    self.key(*a)[8..].cmp(&self.key(*b)[8..])
                } else {
                    a.key_len.cmp(&b.key_len)
                };
                rest.then(a.arrived.cmp(&b.arrived))
            })
        });
        self.rows = rows;
    }

    /// Keeps the first `n` of sorted rows and frees the memory of the others. From then on rows
    /// that sort after them are rejected.
    pub(crate) fn truncate(&mut self, n: usize) {
        if self.rows.len() < n {
            return;
        }
        self.bound = n
            .checked_sub(1)
            .and_then(|last| self.rows.get(last))
            .map(|last| self.key(*last).to_vec());
        if self.rows.len() == n {
            return;
        }
        let mut rows = std::mem::take(&mut self.rows);
        rows.truncate(n);
        let old = SortBuffer {
            chunks: std::mem::take(&mut self.chunks),
            ..SortBuffer::default()
        };
        (self.open, self.bytes) = (0, 0);
        let total: usize = rows.iter().map(SortRow::len).sum();
        if total <= CHUNK_BYTES {
            self.add_chunk(total);
        }
        for row in &mut rows {
            let (chunk, start) = self.place(row.len());
            if let Some(to) = self.chunks.get_mut(chunk as usize) {
                to.extend_from_slice(old.all(*row));
            }
            (row.chunk, row.start) = (chunk, start);
        }
        self.rows = rows;
    }

    /// Removes the rows; the first chunk is kept for the next ones.
    fn clear(&mut self) {
        self.chunks.truncate(1);
        self.chunks.retain(|c| c.capacity() <= CHUNK_BYTES);
        self.chunks.iter_mut().for_each(Vec::clear);
        self.open = 0;
        self.bytes = self.chunks.iter().map(Vec::capacity).sum();
        self.arrived = 0;
        self.rows.clear();
    }
}

/// Sorted rows: runs in temporary files, and the last run in memory.
pub(crate) struct Run {
    files: Vec<SpilledRun>,
    memory: SortBuffer,
    left: usize,
    /// Bytes in the files.
    spilled_bytes: u64,
    /// A heap of the sources with rows left; the source with the least row is on top. Source
    /// `files.len()` is the memory.
    heap: Vec<usize>,
}

impl Run {
    /// Without rows; it gives at most `limit`.
    pub(crate) fn new(limit: usize) -> Run {
        Run {
            files: Vec::new(),
            memory: SortBuffer::default(),
            left: limit,
            spilled_bytes: 0,
            heap: Vec::new(),
        }
    }

    /// Bytes of all documents that were sorted.
    pub(crate) fn sorted_bytes(&self) -> u64 {
        self.memory.pushed_bytes
    }

    /// Temporary files written.
    pub(crate) fn spills(&self) -> u64 {
        self.files.len() as u64
    }

    /// Bytes of these files.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.spilled_bytes
    }

    /// Writes sorted rows to a temporary file and clears the buffer.
    pub(crate) fn spill(&mut self, rows: &mut SortBuffer, exec: &ExecContext<'_>) -> Result<()> {
        let mut file = BufWriter::with_capacity(256 * 1024, exec.host.spill_file()?);
        for row in &rows.rows {
            let mut head = [0u8; 12];
            head[..4].copy_from_slice(&row.key_len.to_le_bytes());
            head[4..8].copy_from_slice(&row.doc_len.to_le_bytes());
            head[8..].copy_from_slice(&row.meta_len.to_le_bytes());
            file.write_all(&head).map_err(spill_error)?;
            file.write_all(rows.all(*row)).map_err(spill_error)?;
            self.spilled_bytes += (head.len() + row.len()) as u64;
        }
        let file = file.into_inner().map_err(|e| spill_error(e.into_error()))?;
        let file = BufReader::with_capacity(256 * 1024, file);
        let mut run = SpilledRun {
            file,
            head: Vec::new(),
            key_len: 0,
            doc_len: 0,
            ended: false,
        };
        run.advance()?;
        self.files.push(run);
        rows.clear();
        Ok(())
    }

    /// Adds the last run, which stays in memory.
    pub(crate) fn finish(&mut self, rows: SortBuffer) {
        self.memory = rows;
        self.heap = (0..=self.files.len())
            .filter(|s| self.head(*s).is_some())
            .collect();
        for at in (0..self.heap.len() / 2).rev() {
            self.sift(at);
        }
    }

    /// Gives the next rows in order.
    pub(crate) fn next_batch(&mut self, out: &mut DocBatch) -> Result<bool> {
        while self.left > 0 && !out.is_full() {
            let Some(source) = self.heap.first().copied() else {
                return Ok(false);
            };
            self.left -= 1;
            self.give(source, out)?;
            if self.head(source).is_none() {
                self.heap.swap_remove(0);
            }
            self.sift(0);
        }
        Ok(self.left > 0)
    }

    /// Gives the next rows in the order in which they were written, for unsorted rows.
    pub(crate) fn next_unordered(&mut self, out: &mut DocBatch) -> Result<bool> {
        while !out.is_full() {
            let Some(source) = (0..=self.files.len()).find(|s| self.head(*s).is_some()) else {
                return Ok(false);
            };
            self.give(source, out)?;
        }
        Ok(true)
    }

    /// Gives the next row of a source.
    fn give(&mut self, source: usize, out: &mut DocBatch) -> Result<()> {
        if let Some(file) = self.files.get_mut(source) {
            out.push_with_meta(file.doc(), file.meta());
            return file.advance();
        }
        let rows = &mut self.memory;
        if let Some(row) = rows.rows.get(rows.next).copied() {
            out.push_with_meta(rows.doc(row), rows.meta(row));
            rows.next += 1;
        }
        Ok(())
    }

    /// The key of the next row of a source.
    fn head(&self, source: usize) -> Option<&[u8]> {
        match self.files.get(source) {
            Some(file) => file.key(),
            None => self
                .memory
                .rows
                .get(self.memory.next)
                .map(|r| self.memory.key(*r)),
        }
    }

    /// Of equal rows, that of the earlier source comes first, so the sort is stable.
    fn is_before(&self, a: usize, b: usize) -> bool {
        self.head(a).cmp(&self.head(b)).then(a.cmp(&b)) == Ordering::Less
    }

    fn sift(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if let (Some(c), Some(l)) = (self.heap.get(child), self.heap.get(least))
                    && self.is_before(*c, *l)
                {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }
}

/// A sorted run in a temporary file, with its next row read.
struct SpilledRun {
    file: BufReader<Scratch>,
    head: Vec<u8>,
    key_len: usize,
    doc_len: usize,
    ended: bool,
}

impl SpilledRun {
    fn key(&self) -> Option<&[u8]> {
        if self.ended {
            None
        } else {
            self.head.get(..self.key_len)
        }
    }
    fn doc(&self) -> Doc<'_> {
        self.head
            .get(self.key_len..self.key_len + self.doc_len)
            .and_then(Doc::new)
            .unwrap_or(Doc::EMPTY)
    }
    fn meta(&self) -> Option<Doc<'_>> {
        self.head
            .get(self.key_len + self.doc_len..)
            .and_then(Doc::new)
    }

    fn advance(&mut self) -> Result<()> {
        self.head.clear();
        let mut lens = [0u8; 12];
        match self.file.read_exact(&mut lens) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
                self.ended = true;
                return Ok(());
            }
            Err(e) => return Err(spill_error(e)),
        }
        let at = |i: usize| {
            u32::from_le_bytes([lens[i], lens[i + 1], lens[i + 2], lens[i + 3]]) as usize
        };
        (self.key_len, self.doc_len) = (at(0), at(4));
        self.head.resize(self.key_len + self.doc_len + at(8), 0);
        self.file.read_exact(&mut self.head).map_err(spill_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{DocBuf, doc};

    fn rows_of(pattern: &SortPattern, docs: &[DocBuf], env: &Env) -> SortBuffer {
        let mut rows = SortBuffer::default();
        for d in docs {
            rows.push(pattern, d.doc(), None, env).unwrap();
        }
        rows
    }

    fn collect_rows(run: &mut Run) -> Vec<DocBuf> {
        let (mut out, mut all) = (DocBatch::new(), Vec::new());
        loop {
            out.clear();
            let more = run.next_batch(&mut out).unwrap();
            all.extend(out.iter().map(|d| d.to_buf()));
            if !more {
                return all;
            }
        }
    }

    /// Keys of every length and type, against comparing the values; equal keys keep their order of
    /// arrival.
    #[test]
    fn order_of_bytes_is_the_order_of_values_and_stable() {
        let env = Env::new(0, 1);
        let values = [
            Value::Null,
            Value::Int32(3),
            Value::Double(3.0),
            Value::Int64(-1),
            Value::String(""),
            Value::String("abcdefg"),
            Value::String("abcdefg\0"),
            Value::String("abcdefgh"),
            Value::String("abcdefghi"),
            Value::Bool(true),
            Value::Double(3.5),
            Value::MinKey,
            Value::Double(f64::NAN),
        ];
        let mut docs = Vec::new();
        for (i, a) in values.iter().enumerate() {
            for b in &values {
                docs.push(doc! { "a": *a, "b": *b, "n": i as i32 });
            }
        }
        for spec in [doc! { "a": 1i32, "b": -1i32 }, doc! { "b": -1i32 }] {
            let pattern = SortPattern::parse(spec.doc()).unwrap();
            let mut want = docs.clone();
            let key = |d: &DocBuf| {
                let mut out = smallvec::SmallVec::new();
                pattern
                    .key_values(Doc::from_prefix(d.as_bytes()), None, &env, &mut out)
                    .map(|()| out.iter().map(|v| v.to_owned_value()).collect::<Vec<_>>())
                    .unwrap()
            };
            want.sort_by(|x, y| {
                let (x, y) = (key(x), key(y));
                let (x, y): (Vec<_>, Vec<_>) = (
                    x.iter().map(|v| v.get()).collect(),
                    y.iter().map(|v| v.get()).collect(),
                );
                pattern.compare(&x, &y, None)
            });
            let mut rows = rows_of(&pattern, &docs, &env);
            rows.sort();
            let mut run = Run::new(usize::MAX);
            run.finish(rows);
            assert_eq!(collect_rows(&mut run), want, "{spec:?}");
        }
    }

    #[test]
    fn large_rows_leave_no_chunk_half_empty() {
        let env = Env::new(0, 1);
        let pattern = SortPattern::parse(doc! { "a": 1i32 }.doc()).unwrap();
        let (mut rows, mut documents) = (SortBuffer::default(), 0);
        for i in 0..100i32 {
            let d =
                doc! { "a": -i, "pad": "x".repeat(if i % 3 == 0 { 40 } else { 600_000 }).as_str() };
            documents += d.as_bytes().len();
            rows.push(&pattern, d.doc(), None, &env).unwrap();
        }
        let held: usize = rows.chunks.iter().map(Vec::capacity).sum();
        assert_eq!(
            rows.len_bytes(),
            held + rows.rows.capacity() * size_of::<SortRow>()
        );
        assert!(
            held < documents + 3 * CHUNK_BYTES,
            "{held} bytes for documents of {documents}"
        );
        rows.sort();
        let mut run = Run::new(usize::MAX);
        run.finish(rows);
        let order: Vec<_> = collect_rows(&mut run)
            .iter()
            .map(|d| d.doc().field("a").as_i64_exact())
            .collect();
        assert_eq!(order, (-99..=0).map(Some).collect::<Vec<_>>());
    }

    #[test]
    fn truncated_rows_want_nothing_behind_them() {
        let env = Env::new(0, 1);
        let pattern = SortPattern::parse(doc! { "a": 1i32 }.doc()).unwrap();
        let docs: Vec<DocBuf> = (0..100i32)
            .map(|i| doc! { "a": (i * 37) % 100, "pad": "x".repeat(30_000).as_str() })
            .collect();
        let mut rows = rows_of(&pattern, &docs, &env);
        rows.sort();
        rows.truncate(3);
        assert!(rows.len_bytes() < 100_000);
        rows.push(&pattern, doc! { "a": 2i32, "late": true }.doc(), None, &env)
            .unwrap();
        rows.push(&pattern, doc! { "a": 1i32, "late": true }.doc(), None, &env)
            .unwrap();
        assert_eq!(rows.len(), 4, "an equal key that comes later is behind");
        rows.sort();
        rows.truncate(3);
        let mut run = Run::new(3);
        run.finish(rows);
        let got: Vec<_> = collect_rows(&mut run)
            .iter()
            .map(|d| (d.doc().field("a").as_i64_exact(), d.doc().contains("late")))
            .collect();
        assert_eq!(got, [(Some(0), false), (Some(1), false), (Some(1), true)]);
    }
}
