//! Documents kept in a temporary file, read back in the order they were written.

use super::batch::DocBatch;
use super::host::{BatchStream, ExecContext};
use super::rows::spill_error;
use cipher::Scratch;
use model::{Doc, Result};
use std::io::{BufReader, BufWriter, Read, Write};

/// A file being written.
pub(crate) struct SpillFile {
    file: BufWriter<Scratch>,
    documents: u64,
}

impl SpillFile {
    /// An empty file.
    pub(crate) fn create(exec: &ExecContext<'_>) -> Result<SpillFile> {
        Ok(SpillFile {
            file: BufWriter::new(exec.host.spill_file()?),
            documents: 0,
        })
    }
    /// Appends a document.
    pub(crate) fn write(&mut self, doc: Doc<'_>) -> Result<()> {
        self.documents += 1;
        self.file.write_all(doc.as_bytes()).map_err(spill_error)
    }
    /// True while nothing was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.documents == 0
    }
    /// Ends writing and starts reading.
    pub(crate) fn into_docs(self) -> Result<SpillStream> {
        let file = self
            .file
            .into_inner()
            .map_err(|e| spill_error(e.into_error()))?;
        Ok(SpillStream {
            file: BufReader::with_capacity(256 * 1024, file),
            left: self.documents,
            buf: Vec::new(),
        })
    }
}

/// A file being read.
pub(crate) struct SpillStream {
    file: BufReader<Scratch>,
    left: u64,
    buf: Vec<u8>,
}

impl BatchStream for SpillStream {
    fn next_batch(&mut self, _: &ExecContext<'_>, out: &mut DocBatch) -> Result<bool> {
        while self.left > 0 && !out.is_full() {
            let mut len = [0u8; 4];
            self.file.read_exact(&mut len).map_err(spill_error)?;
            self.buf.clear();
            self.buf.extend_from_slice(&len);
            self.buf
                .resize((u32::from_le_bytes(len) as usize).max(4), 0);
            let rest = self.buf.get_mut(4..).unwrap_or_default();
            self.file.read_exact(rest).map_err(spill_error)?;
            out.push(Doc::new(&self.buf).unwrap_or(Doc::EMPTY));
            self.left -= 1;
        }
        Ok(self.left > 0)
    }
}
