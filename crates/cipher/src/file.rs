//! The key of one file, and sealing with it. Promises: a header has new random bytes, so two files
//! never share a key. Must not know: where a file is stored.

use crate::secret::{DataKey, TAG, fill_random};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};

/// Bytes of a header.
pub const HEADER: usize = 64;
/// Plain bytes of a page.
pub const PAGE: usize = 4096;
/// Additional bytes of a sealed page or piece: turn or length, and tag.
pub const OVERHEAD: usize = 4 + TAG;
/// Bytes of a sealed page.
pub const PAGE_STRIDE: usize = PAGE + OVERHEAD;

const MAGIC: [u8; 8] = *b"QRYSEAL1";
const KIND_AT: usize = 8;
const SALT_AT: usize = 16;
const TAG_AT: usize = HEADER - TAG;
/// The number of the header; no page or piece has it.
const HEADER_NUMBER: u64 = u64::MAX;
const HEADER_TURN: u32 = u32::MAX;

/// The layout of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pages of equal length, which can be read in any order.
    Pages,
    /// Pieces in the order in which they were appended, which are read from the start.
    Pieces,
}

/// The key of one file.
pub struct FileKey {
    key: LessSafeKey,
    /// The name of a file that keeps its name; it is authenticated, too.
    name: Box<[u8]>,
}

impl FileKey {
    /// The key of a new file, and the header that the file must begin with. An empty name binds the
    /// file to no name.
    pub fn begin(data: &DataKey, kind: Kind, name: &[u8]) -> (FileKey, [u8; HEADER]) {
        let mut header = [0; HEADER];
        header[..KIND_AT].copy_from_slice(&MAGIC);
        header[KIND_AT] = match kind {
            Kind::Pages => 1,
            Kind::Pieces => 2,
        };
        fill_random(&mut header[SALT_AT..TAG_AT]);
        let key = FileKey::derive(data, &header[SALT_AT..TAG_AT], name);
        let tag = key.tag_of(&header[..TAG_AT]);
        header[TAG_AT..].copy_from_slice(&tag);
        (key, header)
    }

    /// The key of a file with this header. `None` when the header was changed, belongs to a file of
    /// another name, or was made with another data key.
    pub fn resume(data: &DataKey, header: &[u8], name: &[u8]) -> Option<(FileKey, Kind)> {
        let header: &[u8; HEADER] = header.get(..HEADER)?.try_into().ok()?;
        if !has_magic(header) {
            return None;
        }
        let kind = match header[KIND_AT] {
            1 => Kind::Pages,
            2 => Kind::Pieces,
            _ => return None,
        };
        let key = FileKey::derive(data, &header[SALT_AT..TAG_AT], name);
        let mut tag: [u8; TAG] = header[TAG_AT..].try_into().ok()?;
        let aad = key.aad(&header[..TAG_AT]);
        let opened = key
            .key
            .open_in_place(nonce(HEADER_NUMBER, HEADER_TURN), aad, &mut tag);
        opened.is_ok().then_some((key, kind))
    }

    fn derive(data: &DataKey, salt: &[u8], name: &[u8]) -> FileKey {
        let secret = Salt::new(HKDF_SHA256, salt).extract(data.bytes());
        let about = [&b"quarry file"[..]];
        let expanded = secret.expand(&about, &AES_256_GCM);
        // Expansion fails only for lengths beyond 255 hashes.
        let key = expanded.map(UnboundKey::from);
        FileKey {
            key: LessSafeKey::new(key.unwrap_or_else(|_| unreachable!("32 bytes are short"))),
            name: name.into(),
        }
    }

    fn aad(&self, more: &[u8]) -> Aad<Vec<u8>> {
        Aad::from([&self.name[..], more].concat())
    }

    fn tag_of(&self, header: &[u8]) -> [u8; TAG] {
        let mut tag = [0; TAG];
        let aad = self.aad(header);
        if let Ok(made) =
            self.key
                .seal_in_place_separate_tag(nonce(HEADER_NUMBER, HEADER_TURN), aad, &mut [])
        {
            tag.copy_from_slice(made.as_ref());
        }
        tag
    }

    /// Seals `bytes` in place and returns the tag that must follow them. No `number` and `turn` may
    /// be used twice with one key.
    pub fn seal(&self, number: u64, turn: u32, bytes: &mut [u8]) -> [u8; TAG] {
        let aad = Aad::from(&self.name[..]);
        let sealed = self
            .key
            .seal_in_place_separate_tag(nonce(number, turn), aad, bytes);
        let mut tag = [0; TAG];
        // Sealing fails only for more than 64 GiB.
        if let Ok(made) = sealed {
            tag.copy_from_slice(made.as_ref());
        }
        tag
    }

    /// Opens in place what was sealed under these numbers; `sealed` ends with the tag, and
    /// afterwards begins with the plain bytes. False when it was changed.
    pub fn open(&self, number: u64, turn: u32, sealed: &mut [u8]) -> bool {
        let aad = Aad::from(&self.name[..]);
        self.key
            .open_in_place(nonce(number, turn), aad, sealed)
            .is_ok()
    }
}

/// Whether the header is that of a sealed file.
pub(crate) fn has_magic(header: &[u8]) -> bool {
    header.starts_with(&MAGIC)
}

fn nonce(number: u64, turn: u32) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..].copy_from_slice(&turn.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_opens_only_at_the_place_where_it_was_sealed() {
        let data = DataKey::random();
        let (key, header) = FileKey::begin(&data, Kind::Pages, b"000012.sst");
        let mut page = *b"some bytes of a page----------------";
        let plain = page;
        let plain_bytes = page.len() - TAG;
        let (text, tag) = page.split_at_mut(plain_bytes);
        let made = key.seal(7, 1, text);
        tag.copy_from_slice(&made);
        assert_ne!(page[..20], plain[..20]);
        let resumed =
            |data: &DataKey, header: &[u8], name: &[u8]| FileKey::resume(data, header, name);
        let (again, kind) = resumed(&data, &header, b"000012.sst").unwrap();
        assert_eq!(kind, Kind::Pages);
        let opens = |number, turn, bytes: &[u8]| {
            let mut copy = bytes.to_vec();
            again.open(number, turn, &mut copy).then_some(copy)
        };
        assert_eq!(opens(7, 1, &page).unwrap()[..20], plain[..20]);
        assert!(opens(8, 1, &page).is_none(), "another place");
        assert!(opens(7, 0, &page).is_none(), "an older turn");
        for at in 0..page.len() {
            let mut changed = page;
            changed[at] ^= 1;
            assert!(opens(7, 1, &changed).is_none(), "byte {at}");
        }
        assert!(resumed(&data, &header, b"000013.sst").is_none());
        assert!(resumed(&DataKey::random(), &header, b"000012.sst").is_none());
        for at in 0..HEADER {
            let mut changed = header;
            changed[at] ^= 1;
            let bad = resumed(&data, &changed, b"000012.sst").is_none();
            assert!(bad, "byte {at} of the header");
        }
        let (_, other) = FileKey::begin(&data, Kind::Pages, b"000012.sst");
        assert_ne!(header, other, "each file has its own key");
    }
}
