//! Keys of the `Meta` table. The first byte is the kind of the row.

use super::record::SEQ_END;

/// `v` -> layout version (u32, big-endian).
pub const FORMAT_VERSION: &[u8] = b"v";
/// `i` -> high-water mark of idents (u32, big-endian); every ident below it may be in use.
pub const IDENT_MARK: &[u8] = b"i";

/// `l` -> identifier of the log (u32), time before which entries may be gone (u64), its size in
/// bytes (u64) and how many milliseconds entries are kept at least (u64), all big-endian.
pub const LOG: &[u8] = b"l";

/// `l 00` -> where several servers write the log (ADR 0114): the ident of the marks and that of the
/// raw rows (u32, big-endian).
pub const LOG_MARKS: &[u8] = b"l\0";
/// Bounds of the logs of all members.
pub const MEMBER_LOGS: (&[u8], &[u8]) = (b"l\x01", b"l\x02");

/// `l 01 ident` -> a member's log: the number of its entries and of their bytes that were ever
/// published (u64, big-endian).
pub fn member_log(ident: u32) -> [u8; 6] {
    let [a, b, c, d] = ident.to_be_bytes();
    [b'l', 1, a, b, c, d]
}

/// The ident of a member's log.
pub fn member_log_of(key: &[u8]) -> Option<u32> {
    let ident = key.strip_prefix(MEMBER_LOGS.0)?.try_into().ok()?;
    Some(u32::from_be_bytes(ident))
}

/// `c db \0 collection` -> catalog row (BSON).
pub fn catalog(db: &str, coll: &str) -> Vec<u8> {
    let mut key = catalog_prefix(db);
    key.extend_from_slice(coll.as_bytes());
    key
}

/// `c db \0`: all collections of a database.
pub fn catalog_prefix(db: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(db.len() + 64);
    key.push(b'c');
    key.extend_from_slice(db.as_bytes());
    key.push(0);
    key
}

/// Splits a catalog key into database and collection.
pub fn split_catalog(key: &[u8]) -> Option<(&str, &str)> {
    let rest = key.strip_prefix(b"c")?;
    let split = rest.iter().position(|&b| b == 0)?;
    Some((
        std::str::from_utf8(&rest[..split]).ok()?,
        std::str::from_utf8(&rest[split + 1..]).ok()?,
    ))
}

/// `n ident` -> counter pair: documents and bytes.
pub fn counter(ident: u32) -> [u8; 5] {
    tag_ident(b'n', ident)
}

/// `b ident` -> counter pair of a time-series collection: buckets, and bytes of their heads.
pub fn buckets(ident: u32) -> [u8; 5] {
    tag_ident(b'b', ident)
}

/// Whether a key is that of a counter pair.
pub fn is_counter(key: &[u8]) -> bool {
    matches!(key.first(), Some(b'n' | b'b'))
}

/// `d ident` -> numbers of the tables whose keys are dropped but may still be on disk.
pub fn drop_key(ident: u32) -> [u8; 5] {
    tag_ident(b'd', ident)
}

/// `m ident` -> bits of the index's key fields that have seen an array (little-endian u32).
pub fn multikey(ident: u32) -> [u8; 5] {
    tag_ident(b'm', ident)
}

/// `o ident` -> present when ids of the collection did not arrive in key order: the sequence number
/// below which all may have been given (u64, big-endian).
pub fn unordered(ident: u32) -> [u8; 5] {
    tag_ident(b'o', ident)
}

/// `e ident` -> the end of the order of a capped collection to which several processes write
/// (`format::order`).
pub fn order_end(ident: u32) -> [u8; 5] {
    tag_ident(b'e', ident)
}

/// The number in a row of [`unordered`]. `None` when no collection reaches it (corruption).
pub fn read_unordered(value: &[u8]) -> Option<u64> {
    let number = value.try_into().ok().map(u64::from_be_bytes);
    number.filter(|n| *n < SEQ_END)
}

/// `w name` -> a server-wide setting (BSON).
pub fn setting(name: &str) -> Vec<u8> {
    let mut key = vec![b'w'];
    key.extend_from_slice(name.as_bytes());
    key
}

/// Bounds of all positions of consumers of the log.
pub const CONSUMERS: (&[u8], &[u8]) = (b"f", b"g");

/// `f name` -> time before which a consumer of the log has saved everything (u64, big-endian).
pub fn consumer(name: &str) -> Vec<u8> {
    let mut key = vec![b'f'];
    key.extend_from_slice(name.as_bytes());
    key
}

/// The consumer a position belongs to.
pub fn consumer_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(b"f")?).ok()
}

/// Bounds of all rows of servers.
pub const PEERS: (&[u8], &[u8]) = (b"h", b"i");

/// `h server` -> until when a server that writes beside others counts as alive (milliseconds since
/// 1970, u64, big-endian).
pub fn peer(number: u64) -> [u8; 9] {
    let mut key = [b'h'; 9];
    key[1..].copy_from_slice(&number.to_be_bytes());
    key
}

/// `j name` -> the server that has a job of which there is one in the database (u64, big-endian).
pub fn job(name: &str) -> Vec<u8> {
    let mut key = vec![b'j'];
    key.extend_from_slice(name.as_bytes());
    key
}

/// Bounds of all rows of sessions.
pub const SESSIONS: (&[u8], &[u8]) = (b"t", b"u");

/// `t session` -> what its retryable writes have done, first part.
pub fn session(id: &[u8; 16]) -> [u8; 17] {
    let mut key = [b't'; 17];
    key[1..].copy_from_slice(id);
    key
}

/// `t session part` -> a further part (part from 1, u32).
pub fn session_part(id: &[u8; 16], part: u32) -> [u8; 21] {
    let mut key = [0; 21];
    key[..17].copy_from_slice(&session(id));
    key[17..].copy_from_slice(&part.to_be_bytes());
    key
}

/// The session a row belongs to.
pub fn session_of(key: &[u8]) -> Option<[u8; 16]> {
    key.strip_prefix(b"t")?.first_chunk::<16>().copied()
}

fn tag_ident(tag: u8, ident: u32) -> [u8; 5] {
    let [a, b, c, d] = ident.to_be_bytes();
    [tag, a, b, c, d]
}
