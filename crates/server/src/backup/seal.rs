//! The log as a repository stores it: plain, or encrypted with a key of its own if the data are
//! encrypted. Promises: a log is encrypted as a whole or not at all; an encrypted segment can be
//! decrypted under its own name only. Must not know: what the entries are.

use crate::config::{KeySource, VaultArgs, VaultSection};
use crate::failure::Failure;
use ::backup::{Repository, Segment};
use cipher::{DataKey, FileKey, KEYS_FILE, Kind, PIECE_MAX, PieceReader};
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

/// How segments of the log are encrypted and decrypted; `None` for a plain log.
pub(super) struct SegmentCipher(Option<DataKey>);

/// Where the master key is.
pub(super) fn key_source(
    file: Option<&PathBuf>,
    vault: &VaultArgs,
) -> Result<Option<KeySource>, Failure> {
    let key = KeySource::of(file.cloned(), vault, &VaultSection::default());
    key.map_err(Failure::of_options)
}

/// A local folder with the encrypted key of the log, if the repository has one.
fn key_folder(repository: &Repository) -> Result<PathBuf, Failure> {
    let Some(folder) = repository.folder() else {
        let folder = repository.incoming().to_owned();
        let (file, sealed) = (folder.join(KEYS_FILE), repository.log_key()?);
        let written = match sealed {
            Some(sealed) => fs::create_dir_all(&folder).and_then(|()| fs::write(&file, sealed)),
            None => match fs::remove_file(&file) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
                _ => Ok(()),
            },
        };
        return match written {
            Ok(()) => Ok(folder),
            Err(e) => Err(Failure::of_data(format!(
                "cannot write {}: {e}",
                file.display()
            ))),
        };
    };
    Ok(folder.join("log"))
}

impl SegmentCipher {
    /// For reading a log.
    pub(super) fn to_read(
        repository: &Repository,
        source: Option<&KeySource>,
    ) -> Result<SegmentCipher, Failure> {
        let folder = key_folder(repository)?;
        if !cipher::is_encrypted(&folder) {
            return Ok(SegmentCipher(None));
        }
        let Some(source) = source else {
            return Err(Failure::of_options(format!(
                "the log in {} is encrypted: give --encryptionKeyFile",
                repository.location()
            )));
        };
        let master = source.key_of(&folder).map_err(Failure::of_data)?;
        let opened = cipher::open(&folder, &master);
        Ok(SegmentCipher(Some(
            opened.map_err(|e| Failure::of_data(e.to_string()))?,
        )))
    }

    /// For adding to a log. The key is stored before the first segment. The log of encrypted data
    /// is not shipped without a key.
    pub(super) fn to_write(
        repository: &Repository,
        source: Option<&KeySource>,
    ) -> Result<SegmentCipher, Failure> {
        let (folder, shown) = (key_folder(repository)?, repository.location());
        let is_begun = !repository.segments()?.is_empty();
        match source {
            _ if cipher::is_encrypted(&folder) => SegmentCipher::to_read(repository, source),
            Some(_) if is_begun => Err(Failure::of_options(format!(
                "the log in {shown} is not encrypted, which cannot be changed: leave \
                 --encryptionKeyFile out, or ship into a new folder"
            ))),
            Some(source) => {
                let master = source.key_of(&folder).map_err(Failure::of_data)?;
                let fail = |e: &dyn std::fmt::Display| Failure::of_data(e.to_string());
                fs::create_dir_all(&folder).map_err(|e| fail(&e))?;
                let made = cipher::create(&folder, &master).map_err(|e| fail(&e))?;
                if repository.folder().is_none() {
                    let sealed = fs::read(folder.join(KEYS_FILE)).map_err(|e| fail(&e))?;
                    repository.set_log_key(&sealed)?;
                }
                Ok(SegmentCipher(Some(made)))
            }
            None => {
                let newest = match repository.ids()?.is_empty() {
                    true => None,
                    false => Some(repository.manifest(None)?),
                };
                let is_secret =
                    |m: &::backup::Manifest| m.files.iter().any(|f| f.path == KEYS_FILE);
                match newest.filter(is_secret) {
                    Some(_) if !is_begun => Err(Failure::of_options(format!(
                        "the backups in {shown} are encrypted, so their log must be, too: give \
                         --encryptionKeyFile"
                    ))),
                    _ => Ok(SegmentCipher(None)),
                }
            }
        }
    }

    /// The bytes to store for a segment.
    pub(super) fn close(&self, name: &str, bytes: Vec<u8>) -> Vec<u8> {
        let Some(data) = &self.0 else {
            return bytes;
        };
        let (key, header) = FileKey::begin(data, Kind::Pieces, name.as_bytes());
        let mut sealed = header.to_vec();
        for (number, piece) in (0..).zip(bytes.chunks(PIECE_MAX)) {
            let length = u32::try_from(piece.len()).unwrap_or(0);
            sealed.extend_from_slice(&length.to_le_bytes());
            let mut text = piece.to_vec();
            let tag = key.seal(number, 0, &mut text);
            sealed.extend_from_slice(&text);
            sealed.extend_from_slice(&tag);
        }
        sealed
    }

    /// The plain bytes of a segment; `None` when the segment is gone.
    pub(super) fn open(
        &self,
        repository: &Repository,
        segment: &Segment,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let Some(bytes) = repository.read_segment(segment)? else {
            return Ok(None);
        };
        let Some(data) = &self.0 else {
            return Ok(Some(bytes));
        };
        let shown = repository.shelf().full_name(&segment.path());
        let path = match repository.folder() {
            Some(folder) => folder.join(segment.path()),
            None => {
                let path = repository.incoming().join("segment");
                let fail = |e| Failure::of_data(format!("cannot write {}: {e}", path.display()));
                fs::create_dir_all(repository.incoming()).map_err(fail)?;
                fs::write(&path, &bytes).map_err(fail)?;
                path
            }
        };
        let name = Segment::name(segment.after, segment.to);
        let mut plain = Vec::with_capacity(bytes.len());
        let read = File::open(&path)
            .and_then(|file| PieceReader::new(file, data, name.as_bytes()))
            .and_then(|mut reader| {
                reader.read_to_end(&mut plain)?;
                reader.trailing_bytes()
            });
        match read {
            Ok(0) => Ok(Some(plain)),
            Ok(_) => Err(Failure::of_data(format!(
                "{shown} is not the segment that was encrypted under its name"
            ))),
            Err(e) => Err(Failure::of_data(format!("cannot read {shown}: {e}"))),
        }
    }
}
