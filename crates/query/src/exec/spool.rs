//! Documents that are read several times: in memory up to the budget, the rest in a temporary file.

use super::batch::DocBatch;
use super::host::{BatchStream, ExecContext};
use super::rows::spill_error;
use cipher::Scratch;
use model::{Doc, Result};
use std::io::{BufReader, BufWriter, Read, Write};
use std::sync::Arc;

/// A spool being written. Metadata of documents stays only in memory.
#[derive(Default)]
pub(crate) struct Spool {
    batches: Vec<DocBatch>,
    memory_bytes: usize,
    file: Option<BufWriter<Scratch>>,
    spilled: u64,
}

impl Spool {
    /// Appends a document.
    pub(crate) fn push(
        &mut self,
        doc: Doc<'_>,
        meta: Option<Doc<'_>>,
        exec: &ExecContext<'_>,
    ) -> Result<()> {
        if let Some(file) = &mut self.file {
            self.spilled += 1;
            return file.write_all(doc.as_bytes()).map_err(spill_error);
        }
        if self.memory_bytes > exec.host.memory_limit_bytes() {
            self.file = Some(BufWriter::new(exec.host.spill_file()?));
            return self.push(doc, meta, exec);
        }
        if self.batches.last().is_none_or(DocBatch::is_full) {
            self.batches.push(DocBatch::new());
        }
        if let Some(batch) = self.batches.last_mut() {
            batch.push_with_meta(doc, meta);
        }
        self.memory_bytes += doc.len_bytes();
        Ok(())
    }

    /// Ends writing.
    pub(crate) fn finish(self) -> Result<FinishedSpool> {
        let file = self
            .file
            .map(|f| f.into_inner().map_err(|e| spill_error(e.into_error())))
            .transpose()?;
        Ok(FinishedSpool(Arc::new(SpoolState {
            batches: self.batches,
            file,
            spilled: self.spilled,
        })))
    }
}

struct SpoolState {
    batches: Vec<DocBatch>,
    file: Option<Scratch>,
    spilled: u64,
}

/// A finished spool. It may be read any number of times, by several readers at once.
#[derive(Clone)]
pub(crate) struct FinishedSpool(Arc<SpoolState>);

impl FinishedSpool {
    /// Reads from the start.
    pub(crate) fn reader(&self) -> Result<SpoolStream> {
        let file = BufReader::with_capacity(
            256 * 1024,
            SpoolReader {
                spool: self.0.clone(),
                offset: 0,
            },
        );
        Ok(SpoolStream {
            next: 0,
            left: self.0.spilled,
            file,
            buf: Vec::new(),
        })
    }
}

/// The file read at a position of its own, so that readers do not disturb one another.
struct SpoolReader {
    spool: Arc<SpoolState>,
    offset: u64,
}

impl Read for SpoolReader {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let Some(file) = &self.spool.file else {
            return Ok(0);
        };
        let n = file.read_at(buf, self.offset)?;
        self.offset += n as u64;
        Ok(n)
    }
}

/// One pass over a spool.
pub(crate) struct SpoolStream {
    next: usize,
    left: u64,
    file: BufReader<SpoolReader>,
    buf: Vec<u8>,
}

impl BatchStream for SpoolStream {
    fn next_batch(&mut self, _: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        let spool = self.file.get_ref().spool.clone();
        if let Some(batch) = spool.batches.get(self.next) {
            batch
                .iter_meta()
                .for_each(|(doc, meta)| out.push_with_meta(doc, meta));
            self.next += 1;
            return Ok(self.next < spool.batches.len() || self.left > 0);
        }
        while self.left > 0 && !out.is_full() {
            let mut len = [0u8; 4];
            self.file.read_exact(&mut len).map_err(spill_error)?;
            self.buf.clear();
            self.buf.extend_from_slice(&len);
            self.buf
                .resize((u32::from_le_bytes(len) as usize).max(4), 0);
            self.file
                .read_exact(self.buf.get_mut(4..).unwrap_or_default())
                .map_err(spill_error)?;
            out.push(Doc::new(&self.buf).unwrap_or(Doc::EMPTY));
            self.left -= 1;
        }
        Ok(self.left > 0)
    }
}
