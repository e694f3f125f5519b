//! The file of a recording: a header, then blocks of BSON records, each block compressed and with a
//! checksum. docs/lab/recordings.md describes it.
//!
//! Promises: reading and writing need constant memory; a file whose writer was killed is read up to
//! its last complete block; other bytes give an error or an early end, never a panic.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use mongodb::bson::{self, RawDocument, RawDocumentBuf};
use serde::{Deserialize, Serialize};

use crate::errors::LabError;

/// First bytes of each file.
const MAGIC: [u8; 8] = *b"QLABREC\0";
/// The version of the format; it grows whenever a record changes its meaning.
pub(crate) const VERSION: i32 = 1;
/// The size at which a block is written.
const BLOCK: usize = 64 * 1_024;
/// The largest block; a record is at most a little larger than a message of the protocol.
const BLOCK_MAX: usize = 64 * 1_024 * 1_024;

/// Why a recording cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordingError {
    /// An error of the system.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is not a recording.
    #[error("{} is not a recording: {reason}", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl From<RecordingError> for LabError {
    fn from(error: RecordingError) -> Self {
        Self::RecordingFile(error.to_string())
    }
}

/// The first record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// [`VERSION`] of the program that wrote it.
    pub(crate) version: i32,
    /// RFC 3339 with offset.
    pub(crate) started_at: String,
    /// Version of the lab.
    pub(crate) lab_version: String,
    /// The address of the recorded server, without a password.
    pub(crate) upstream: String,
    /// Whether strings and binary values are hashes.
    pub(crate) anonymised: bool,
}

/// A command that was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CommandRecord {
    /// Its number, from 0.
    pub(crate) op: i64,
    /// Number of its connection, from 1.
    pub(crate) connection: i64,
    /// When the first bytes of the command came, by a monotonic clock since the recording began.
    pub(crate) at_ns: i64,
    /// Database.
    pub(crate) database: String,
    /// Collection, if the command has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) collection: Option<String>,
    /// First key of the command.
    pub(crate) name: String,
    /// Whether the command asked for no reply.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unacknowledged: bool,
    /// The command with its document sequences as arrays.
    pub(crate) command: RawDocumentBuf,
}

/// The facts of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplyFacts {
    /// Code of the error, or of the first write error; 0 for an error without a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<i64>,
    /// Write errors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) write_errors: Option<i64>,
    /// Documents of this batch, values of a distinct, or 1 if findAndModify found a document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) returned: Option<i64>,
    /// Documents inserted, matched, deleted or counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) n: Option<i64>,
    /// Documents changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) modified: Option<i64>,
    /// Cursor left open; 0 if it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<i64>,
}

/// A reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplyRecord {
    /// Number of the command.
    pub(crate) reply_to: i64,
    /// From the first bytes of the command to the last of the reply.
    pub(crate) took_ns: i64,
    /// Size of the message.
    pub(crate) bytes: i64,
    /// The facts of the reply.
    #[serde(flatten)]
    pub(crate) facts: ReplyFacts,
}

/// The last record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct EndRecord {
    /// Commands recorded.
    pub(crate) ops: i64,
    /// Replies recorded.
    pub(crate) replies: i64,
    /// Why the recording ended early; empty if it ended as requested.
    pub(crate) reason: String,
    /// Traffic that passed without being recorded, by kind.
    pub(crate) left_out: BTreeMap<String, i64>,
}

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// A command.
    Command(Box<CommandRecord>),
    /// A reply.
    Reply(ReplyRecord),
    /// A connection that was closed.
    Closed(i64),
    /// The end of a recording that was closed in order.
    End(EndRecord),
}

#[derive(Serialize, Deserialize)]
struct CloseRecord {
    closed: i64,
}

/// Writes a recording.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    to: W,
    block: Vec<u8>,
    encoder: snap::raw::Encoder,
    /// Bytes written so far.
    pub(crate) written: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn begin(mut to: W, header: &Header) -> io::Result<Self> {
        to.write_all(&MAGIC)?;
        let mut out = Self {
            to,
            block: Vec::new(),
            encoder: snap::raw::Encoder::new(),
            written: MAGIC.len() as u64,
        };
        out.push(header)?;
        out.flush()?;
        Ok(out)
    }

    /// Adds a record; it is in the file after [`Self::flush`].
    ///
    /// # Errors
    /// A full block cannot be written.
    pub(crate) fn push(&mut self, record: &impl Serialize) -> io::Result<()> {
        let bytes = bson::serialize_to_vec(record).map_err(io::Error::other)?;
        if !self.block.is_empty() && self.block.len() + bytes.len() > BLOCK {
            self.flush()?;
        }
        self.block.extend_from_slice(&bytes);
        Ok(())
    }

    /// Marks a connection as closed.
    ///
    /// # Errors
    /// A full block cannot be written.
    pub(crate) fn write_close(&mut self, connection: i64) -> io::Result<()> {
        self.push(&CloseRecord { closed: connection })
    }

    /// Writes the buffered records.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        let packed = self
            .encoder
            .compress_vec(&self.block)
            .map_err(io::Error::other)?;
        let mut head = [0; 12];
        let size = |length: usize| u32::try_from(length).map_err(io::Error::other);
        for (place, number) in head.chunks_mut(4).zip([
            size(packed.len())?,
            size(self.block.len())?,
            crc32c::crc32c(&packed),
        ]) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        self.to.write_all(&head)?;
        self.to.write_all(&packed)?;
        self.written += (head.len() + packed.len()) as u64;
        self.block.clear();
        Ok(())
    }

    /// Writes the last record.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn finish(mut self, end: &EndRecord) -> io::Result<W> {
        self.push(&bson::doc! { "end": bson::serialize_to_bson(end).map_err(io::Error::other)? })?;
        self.flush()?;
        Ok(self.to)
    }
}

/// Reads a recording.
#[derive(Debug)]
pub(crate) struct Reader {
    from: BufReader<File>,
    path: PathBuf,
    block: Vec<u8>,
    at: usize,
    /// The first record.
    pub(crate) header: Header,
    /// Why the file ended before its last record, if it did.
    pub(crate) cut: Option<String>,
    /// Checksum over the checksums of all blocks so far; it identifies the recording.
    pub(crate) fingerprint: u32,
    is_over: bool,
}

impl Reader {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, or is no recording of a known version.
    pub(crate) fn open(path: &Path) -> Result<Self, RecordingError> {
        let foreign = |reason: String| RecordingError::Foreign {
            path: path.to_owned(),
            reason,
        };
        let failed = |source| RecordingError::Io {
            path: path.to_owned(),
            source,
        };
        let mut from = BufReader::with_capacity(256 * 1_024, File::open(path).map_err(failed)?);
        let mut magic = [0; MAGIC.len()];
        let found = from.read_exact(&mut magic);
        if found.is_err() || magic != MAGIC {
            return Err(foreign(
                "its first bytes are not those of a recording".to_owned(),
            ));
        }
        let mut out = Self {
            from,
            path: path.to_owned(),
            block: Vec::new(),
            at: 0,
            header: Header::default(),
            cut: None,
            fingerprint: 0,
            is_over: false,
        };
        let header = out
            .document()?
            .and_then(|bytes| bson::deserialize_from_slice::<Header>(&bytes).ok());
        let Some(header) = header else {
            return Err(foreign("its header cannot be read".to_owned()));
        };
        if header.version != VERSION {
            return Err(foreign(format!(
                "it has version {}, this program reads version {VERSION}",
                header.version
            )));
        }
        out.header = header;
        Ok(out)
    }

    /// The next record; `None` at the end. If the file ended before its last record, `cut` then has
    /// the reason.
    ///
    /// # Errors
    /// The system cannot read the file.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, RecordingError> {
        if self.is_over {
            return Ok(None);
        }
        let Some(bytes) = self.document()? else {
            self.cut
                .get_or_insert_with(|| "its last record is missing".to_owned());
            self.is_over = true;
            return Ok(None);
        };
        let Some(record) = parse(&bytes) else {
            self.cut = Some("a record cannot be parsed".to_owned());
            self.is_over = true;
            return Ok(None);
        };
        if let Record::End(_) = record {
            self.is_over = true;
        }
        Ok(Some(record))
    }

    fn document(&mut self) -> Result<Option<Vec<u8>>, RecordingError> {
        if self.at >= self.block.len() && !self.next_block()? {
            return Ok(None);
        }
        let rest = self.block.get(self.at..).unwrap_or_default();
        let length = super::frames::number(rest, 0)
            .and_then(|length| usize::try_from(length).ok())
            .filter(|length| *length >= 5);
        let Some(found) = length.and_then(|length| rest.get(..length)) else {
            self.cut = Some("a block holds no records".to_owned());
            return Ok(None);
        };
        let found = found.to_vec();
        self.at += found.len();
        Ok(Some(found))
    }

    fn next_block(&mut self) -> Result<bool, RecordingError> {
        let mut head = [0; 12];
        let (mut packed, mut number) = (Vec::new(), [0_u32; 3]);
        let mut read = || -> io::Result<Option<&str>> {
            self.from.read_exact(&mut head)?;
            for (number, bytes) in number.iter_mut().zip(head.chunks(4)) {
                *number = u32::from_le_bytes(bytes.try_into().unwrap_or_default());
            }
            if number[0] as usize > snap::raw::max_compress_len(BLOCK_MAX)
                || number[1] as usize > BLOCK_MAX
            {
                return Ok(Some("a block is larger than the limit"));
            }
            packed.resize(number[0] as usize, 0);
            self.from.read_exact(&mut packed)?;
            Ok(None)
        };
        let wrong = match read() {
            Ok(wrong) => wrong,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Some("it ends within a block or without its last record")
            }
            Err(source) => {
                return Err(RecordingError::Io {
                    path: self.path.clone(),
                    source,
                });
            }
        };
        let wrong = wrong.or_else(|| {
            (crc32c::crc32c(&packed) != number[2]).then_some("the checksum of a block is wrong")
        });
        if let Some(wrong) = wrong {
            self.cut = Some(wrong.to_owned());
            return Ok(false);
        }
        self.fingerprint = crc32c::crc32c_append(self.fingerprint, &number[2].to_le_bytes());
        match snap::raw::Decoder::new().decompress_vec(&packed) {
            Ok(block) if block.len() == number[1] as usize && !block.is_empty() => {
                (self.block, self.at) = (block, 0);
                Ok(true)
            }
            _ => {
                self.cut = Some("a block cannot be decompressed".to_owned());
                Ok(false)
            }
        }
    }
}

fn parse(bytes: &[u8]) -> Option<Record> {
    let document = RawDocument::from_bytes(bytes).ok()?;
    Some(match super::frames::command_name(document)? {
        "op" => Record::Command(Box::new(bson::deserialize_from_slice(bytes).ok()?)),
        "reply_to" => Record::Reply(bson::deserialize_from_slice(bytes).ok()?),
        "closed" => Record::Closed(
            bson::deserialize_from_slice::<CloseRecord>(bytes)
                .ok()?
                .closed,
        ),
        "end" => Record::End(
            bson::deserialize_from_slice(document.get_document("end").ok()?.as_bytes()).ok()?,
        ),
        _ => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use mongodb::bson::rawdoc;

    pub(crate) fn command_record(op: i64, connection: i64) -> CommandRecord {
        CommandRecord {
            op,
            connection,
            at_ns: op * 1_000_000,
            database: "d".to_owned(),
            collection: Some("c".to_owned()),
            name: "find".to_owned(),
            unacknowledged: false,
            command: rawdoc! { "find": "c", "filter": { "_id": op }, "$db": "d" },
        }
    }

    fn recording() -> Vec<u8> {
        let header = Header {
            version: VERSION,
            ..Header::default()
        };
        let mut writer = Writer::begin(Vec::new(), &header).unwrap();
        for op in 0..2_000 {
            writer.push(&command_record(op, op % 3)).unwrap();
            let facts = ReplyFacts {
                returned: Some(1),
                cursor: Some(0),
                ..ReplyFacts::default()
            };
            writer
                .push(&ReplyRecord {
                    reply_to: op,
                    took_ns: 5,
                    bytes: 100,
                    facts,
                })
                .unwrap();
        }
        writer.write_close(1).unwrap();
        writer
            .finish(&EndRecord {
                ops: 2_000,
                replies: 2_000,
                ..EndRecord::default()
            })
            .unwrap()
    }

    fn read(bytes: &[u8]) -> Result<(Vec<Record>, Option<String>), RecordingError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let mut reader = Reader::open(file.path())?;
        let mut out = Vec::new();
        while let Some(record) = reader.next()? {
            out.push(record);
        }
        Ok((out, reader.cut))
    }

    #[test]
    fn what_is_written_is_read() {
        let (records, cut) = read(&recording()).unwrap();
        assert_eq!((records.len(), cut), (4_002, None));
        assert_eq!(records[0], Record::Command(Box::new(command_record(0, 0))));
        assert!(matches!(&records[1],
                Record::Reply(reply)
                    if reply.facts.returned == Some(1) && reply.facts.n.is_none()));
        assert_eq!(records[4_000], Record::Closed(1));
        assert!(matches!(&records[4_001], Record::End(end) if end.ops == 2_000));
    }

    #[test]
    fn a_killed_writer_leaves_whole_records() {
        let whole = recording();
        for end in [whole.len() - 1, whole.len() / 2, 600] {
            let (records, cut) = read(&whole[..end]).unwrap();
            assert!(cut.is_some() && records.len() < 4_002, "{end}");
            assert!(
                records
                    .iter()
                    .all(|record| !matches!(record, Record::End(_)))
            );
        }
        let half = read(&whole[..whole.len() / 2]).unwrap().0.len();
        assert!(half > 500, "{half}");
    }

    #[test]
    fn invalid_recordings_are_refused_or_end_early() {
        for bytes in [
            &b""[..],
            b"QLABREC",
            b"{\"a\": 1}",
            b"QLABREC\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert!(matches!(read(bytes), Err(RecordingError::Foreign { .. })));
        }
        let whole = recording();
        for at in (0..whole.len()).step_by(97) {
            let mut changed = whole.clone();
            changed[at] ^= 0x55;
            if let Ok((records, cut)) = read(&changed) {
                assert!(
                    cut.is_some() && records.len() < 4_002,
                    "a changed byte at {at} was not seen"
                );
            }
        }
        let newer = Writer::begin(
            Vec::new(),
            &Header {
                version: 2,
                ..Header::default()
            },
        )
        .unwrap();
        let error = read(&newer.finish(&EndRecord::default()).unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains("version 2"), "{error}");
    }
}
