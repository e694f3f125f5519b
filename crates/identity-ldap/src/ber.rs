//! The basic encoding rules as LDAP uses them (RFC 4511, 5.1). Promises: reading neither recurses
//! nor copies, and truncated values and wrong lengths are rejected.

/// Tags of values.
pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const ENUMERATED: u8 = 0x0a;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// Appends a value.
pub(crate) fn put(out: &mut Vec<u8>, tag: u8, content: &[u8]) {
    out.push(tag);
    let len = content.len();
    if len < 0x80 {
        out.push(len as u8);
    } else {
        let bytes = len.to_be_bytes();
        let zeros = bytes.iter().take_while(|b| **b == 0).count();
        out.push(0x80 | (bytes.len() - zeros) as u8);
        out.extend_from_slice(bytes.get(zeros..).unwrap_or_default());
    }
    out.extend_from_slice(content);
}

/// Appends what `fill` writes as the content of one value.
pub(crate) fn put_nested(out: &mut Vec<u8>, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut content = Vec::new();
    fill(&mut content);
    put(out, tag, &content);
}

/// Appends a number that is not negative.
pub(crate) fn put_number(out: &mut Vec<u8>, tag: u8, n: u32) {
    // A leading zero byte keeps the first bit from being read as a sign.
    let bytes = u64::from(n).to_be_bytes();
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    let mut from = zeros.min(bytes.len() - 1);
    if bytes.get(from).is_some_and(|b| *b >= 0x80) {
        from -= 1;
    }
    put(out, tag, bytes.get(from..).unwrap_or_default());
}

/// The length of the value at the beginning, header included. `None` if more bytes are needed to
/// tell; an error for bytes that no directory sends.
pub(crate) fn measure_message(bytes: &[u8]) -> Result<Option<usize>, ()> {
    let Some(first) = bytes.get(1) else {
        return Ok(None);
    };
    let (header, len) = match first {
        0..=0x7f => (2, usize::from(*first)),
        0x81..=0x84 => {
            let digits = usize::from(first & 0x7f);
            let Some(digits) = bytes.get(2..2 + digits) else {
                return Ok(None);
            };
            let len = digits.iter().fold(0usize, |n, d| n << 8 | usize::from(*d));
            (2 + digits.len(), len)
        }
        _ => return Err(()),
    };
    Ok(Some(header + len))
}

/// A sequence of values.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a>(pub(crate) &'a [u8]);

impl<'a> Values<'a> {
    /// The next value: its tag and content. `None` at the end, and for an invalid value.
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let tag = *self.0.first()?;
        // LDAP has no tags of several bytes.
        if tag & 0x1f == 0x1f {
            return None;
        }
        let len = measure_message(self.0).ok()??;
        let (value, rest) = self.0.split_at_checked(len)?;
        let digits = match value.get(1)? {
            0..=0x7f => 0,
            long => usize::from(long & 0x7f),
        };
        self.0 = rest;
        Some((tag, value.get(2 + digits..)?))
    }

    /// The content of the next value, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content) = self.next()?;
        (found == tag).then_some(content)
    }

    /// The next value as a number of up to four bytes.
    pub(crate) fn number(&mut self, tag: u8) -> Option<i32> {
        let content = self.expect(tag)?;
        let first = *content.first()?;
        if content.len() > 4 {
            return None;
        }
        let sign = if first & 0x80 == 0 { 0 } else { -1 };
        Some(content.iter().fold(sign, |n, b| n << 8 | i32::from(*b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for len in [0, 1, 127, 128, 255, 256, 70_000] {
            let mut out = Vec::new();
            put(&mut out, OCTETS, &vec![7; len]);
            assert_eq!(measure_message(&out), Ok(Some(out.len())));
            let mut values = Values(&out);
            assert_eq!(values.expect(OCTETS).map(<[u8]>::len), Some(len));
            assert!(values.0.is_empty());
            for cut in 0..out.len().min(300) {
                assert!(Values(&out[..cut]).next().is_none(), "{len}: {cut}");
            }
        }
        for n in [0, 1, 127, 128, 255, 256, 0x7fff_ffff] {
            let mut out = Vec::new();
            put_number(&mut out, INTEGER, n);
            assert_eq!(Values(&out).number(INTEGER), i32::try_from(n).ok());
        }
        assert_eq!(Values(&[INTEGER, 1, 0xff]).number(INTEGER), Some(-1));
    }

    #[test]
    fn what_no_directory_sends_is_no_value() {
        for bytes in [
            &[0x30u8, 0x80][..],
            &[0x30, 0x85, 1, 1, 1, 1, 1],
            &[0x30, 0xff],
            &[0x1f, 0x81, 0x01, 0x00],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0],
        ] {
            assert!(Values(bytes).next().is_none(), "{bytes:?}");
        }
        assert_eq!(Values(&[INTEGER, 0]).number(INTEGER), None);
        assert_eq!(Values(&[INTEGER, 5, 0, 0, 0, 0, 1]).number(INTEGER), None);
    }
}
