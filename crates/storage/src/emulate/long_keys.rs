//! Keys longer than an engine takes (LMDB: 511 bytes, TiKV: 8 KiB less its own). All keys with the
//! same first [`PREFIX_BYTES`] bytes share one entry under those bytes, a *bucket*, which lists the
//! rest of each key and its value in key order. Shorter keys have an entry of their own. So the
//! length of a stored key tells whether it is a bucket, and the order of all keys is that of the
//! contract.
//!
//! Promises: pure functions over bytes. Must not know: any engine.

use std::ops::Bound;

/// Keys of this length and longer are stored in buckets.
pub const PREFIX_BYTES: usize = 480;

/// Where a key is stored: the stored key, and in a bucket the rest of the key.
pub fn place(key: &[u8]) -> (&[u8], Option<&[u8]>) {
    match key.split_at_checked(PREFIX_BYTES) {
        Some((prefix, rest)) => (prefix, Some(rest)),
        None => (key, None),
    }
}

/// The stored keys that may hold keys from `lower` up to but not including `upper`.
pub fn stored_range<'a>(lower: &'a [u8], upper: &'a [u8]) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let from = match place(lower).0 {
        [] => Bound::Unbounded,
        key => Bound::Included(key),
    };
    let to = match place(upper) {
        (key, None) => Bound::Excluded(key),
        (prefix, Some(_)) => Bound::Included(prefix),
    };
    (from, to)
}

/// Whether the stored key is that of a bucket.
pub fn is_bucket(stored: &[u8]) -> bool {
    stored.len() == PREFIX_BYTES
}

/// The rests and values of a bucket in order; `None` for a truncated entry, which is damage.
pub fn entries(bucket: &[u8]) -> Entries<'_> {
    Entries(bucket)
}

/// Walks a bucket.
#[derive(Clone, Debug)]
pub struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = Option<(&'a [u8], &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let Some((entry, behind)) = split(self.0) else {
            self.0 = &[];
            return Some(None);
        };
        self.0 = behind;
        Some(Some(entry))
    }
}

type Entry<'a> = (&'a [u8], &'a [u8]);

fn split(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (rest_len, bytes) = length(bytes)?;
    let (value_len, bytes) = length(bytes)?;
    let (rest, bytes) = bytes.split_at_checked(rest_len)?;
    let (value, bytes) = bytes.split_at_checked(value_len)?;
    Some(((rest, value), bytes))
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (len, behind) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_le_bytes(*len)).ok()?, behind))
}

fn push(out: &mut Vec<u8>, rest: &[u8], value: &[u8]) {
    for part in [rest, value] {
        // Keys and values are below 2^32 bytes by `Caps`.
        out.extend_from_slice(&(part.len() as u32).to_le_bytes());
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(value);
}

/// The value under `rest`.
pub fn find<'a>(bucket: &'a [u8], rest: &[u8]) -> Option<&'a [u8]> {
    entries(bucket)
        .flatten()
        .find(|(r, _)| *r == rest)
        .map(|(_, value)| value)
}

/// The bucket with `value` under `rest`, or with `rest` removed when there is no value.
pub fn replace_entry(bucket: &[u8], rest: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::with_capacity(bucket.len() + rest.len() + value.map_or(0, <[u8]>::len) + 8);
    let mut value = value;
    for (r, v) in entries(bucket).flatten() {
        if let Some(new) = value.filter(|_| rest <= r) {
            push(&mut out, rest, new);
            value = None;
        }
        if r != rest {
            push(&mut out, r, v);
        }
    }
    if let Some(new) = value {
        push(&mut out, rest, new);
    }
    out
}

/// The bucket with only those entries for whose rest `keep` is true.
pub fn retain_entries(bucket: &[u8], keep: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut out = Vec::new();
    for (r, v) in entries(bucket).flatten().filter(|(r, _)| keep(r)) {
        push(&mut out, r, v);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_entries(bucket: &[u8]) -> Vec<(&[u8], &[u8])> {
        entries(bucket).map(|e| e.expect("whole")).collect()
    }

    #[test]
    fn buckets_keep_order_and_replace() {
        let b = replace_entry(&[], b"m", Some(b"1"));
        let b = replace_entry(&b, b"", Some(b"2"));
        let b = replace_entry(&b, b"z", Some(b""));
        let b = replace_entry(&b, b"m", Some(b"3"));
        let expected: Vec<(&[u8], &[u8])> = vec![(b"", b"2"), (b"m", b"3"), (b"z", b"")];
        assert_eq!(list_entries(&b), expected);
        assert_eq!(find(&b, b"m"), Some(&b"3"[..]));
        assert_eq!(find(&b, b"n"), None);
        assert_eq!(list_entries(&replace_entry(&b, b"m", None)).len(), 2);
        assert_eq!(replace_entry(&b, b"absent", None), b);
        assert_eq!(
            list_entries(&retain_entries(&b, |r| r < b"n".as_slice())).len(),
            2
        );
        assert!(replace_entry(&replace_entry(&[], b"a", Some(b"1")), b"a", None).is_empty());
    }

    #[test]
    fn a_bucket_cut_short_is_damage() {
        let b = replace_entry(&[], b"rest", Some(b"value"));
        assert!(entries(&b[..b.len() - 1]).any(|e| e.is_none()));
    }

    #[test]
    fn the_order_of_stored_keys_is_that_of_keys() {
        let short = vec![7u8; PREFIX_BYTES - 1];
        let exact = vec![7u8; PREFIX_BYTES];
        let long = vec![7u8; PREFIX_BYTES + 5];
        assert_eq!(place(&short), (&short[..], None));
        assert_eq!(place(&exact), (&exact[..], Some(&[][..])));
        assert_eq!(place(&long), (&exact[..], Some(&[7u8; 5][..])));
        assert!(is_bucket(place(&exact).0) && !is_bucket(place(&short).0));
    }
}
