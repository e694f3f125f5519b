//! Dates as ISO 8601 text, in both directions; what conversions need without knowing time zone names.

/// Days since 1970-01-01 of a proleptic Gregorian date (years begin in March here, so that leap days come last).
pub(in crate::expr) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (y.div_euclid(400), y.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
pub(in crate::expr) fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let (era, of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + i64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

/// `YYYY-MM-DDThh:mm:ss.mmmZ`; `None` outside the years 0 to 9999.
pub(in crate::expr) fn iso(ms: i64) -> Option<String> {
    let (y, m, d) = civil_from_days(ms.div_euclid(86_400_000));
    let of_day = ms.rem_euclid(86_400_000);
    let (seconds, millis) = (of_day / 1000, of_day % 1000);
    (0..=9999).contains(&y).then(|| {
        format!("{y:04}-{m:02}-{d:02}T{:02}:{:02}:{:02}.{millis:03}Z", seconds / 3600, seconds / 60 % 60, seconds % 60)
    })
}

/// Milliseconds of `YYYY-MM-DD[(T| )hh:mm[:ss[.fraction]]][ ][Z|UTC|GMT|±hh[[:]mm]]`; without an offset it is UTC.
pub(in crate::expr) fn parse(s: &str) -> Option<i64> {
    let mut rest = s.as_bytes();
    let year = number(&mut rest, 4, 4)?;
    let separator = *rest.first().filter(|c| matches!(c, b'-' | b'/'))?;
    eat(&mut rest, separator)?;
    let month = number(&mut rest, 1, 2).filter(|m| (1..=12).contains(m))?;
    eat(&mut rest, separator)?;
    let day = number(&mut rest, 1, 2).filter(|d| (1..=31).contains(d))?;
    let mut ms = 0;
    if eat(&mut rest, b'T').or_else(|| eat(&mut rest, b't')).or_else(|| eat(&mut rest, b' ')).is_some() {
        ms = time_of_day(&mut rest)?;
    }
    let offset = offset_minutes(rest)?;
    // A day past the end of its month counts on into the next one.
    Some(days_from_civil(year, month, day) * 86_400_000 + ms - offset * 60_000)
}

fn time_of_day(rest: &mut &[u8]) -> Option<i64> {
    let hour = number(rest, 1, 2).filter(|h| *h <= 24)?;
    eat(rest, b':')?;
    let minute = number(rest, 2, 2).filter(|m| *m <= 59)?;
    let (mut second, mut millis) = (0, 0);
    if eat(rest, b':').is_some() {
        second = number(rest, 2, 2).filter(|s| *s <= 59)?;
        if eat(rest, b'.').or_else(|| eat(rest, b',')).is_some() {
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            let mut unit = 100;
            for b in rest.get(..digits)? {
                millis += i64::from(b - b'0') * unit;
                unit /= 10;
            }
            *rest = rest.get(digits..).filter(|_| digits > 0)?;
        }
    }
    Some(((hour * 60 + minute) * 60 + second) * 1000 + millis)
}

fn offset_minutes(mut rest: &[u8]) -> Option<i64> {
    let _ = eat(&mut rest, b' ');
    if rest.is_empty() || [&b"Z"[..], b"z", b"UTC", b"GMT"].contains(&rest) {
        return Some(0);
    }
    let sign = match rest.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    rest = rest.get(1..)?;
    let hours = number(&mut rest, 1, 2)?;
    let _ = eat(&mut rest, b':');
    let minutes = if rest.is_empty() { 0 } else { number(&mut rest, 2, 2)? };
    (rest.is_empty() && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

fn eat(rest: &mut &[u8], byte: u8) -> Option<()> {
    *rest = rest.strip_prefix(&[byte])?;
    Some(())
}

/// A run of `min` to `max` digits.
fn number(rest: &mut &[u8], min: usize, max: usize) -> Option<i64> {
    let digits = rest.iter().take(max).take_while(|b| b.is_ascii_digit()).count();
    if digits < min {
        return None;
    }
    let n = rest.get(..digits)?.iter().fold(0, |n, b| n * 10 + i64::from(b - b'0'));
    *rest = rest.get(digits..)?;
    Some(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for ms in [0, -1, 1_718_454_645_123, 253_402_300_799_999, -62_167_219_200_000] {
            assert_eq!(parse(&iso(ms).unwrap()), Some(ms));
        }
        assert_eq!(iso(253_402_300_800_000), None);
        assert_eq!(iso(i64::MIN), None);
    }

    #[test]
    fn forms() {
        for (text, ms) in [
            ("1970-01-01", Some(0)), ("1970-01-01T01:00+01:00", Some(0)), ("1970-01-01 00:00:01.5", Some(1500)),
            ("1970/01/02", Some(86_400_000)), ("1970-01-01T00:00:00-0130", Some(5_400_000)), ("1970-01-01T00:00:00 UTC", Some(0)),
            ("1970-13-01", None), ("1970-01-01T", None), ("x", None), ("", None), ("1970-01-01T00:00:00+", None),
            (" 1970-01-01", None), ("1970-01-01T25:00:00Z", None), ("1970-01-01T00:00:60Z", None),
        ] {
            assert_eq!(parse(text), ms, "{text}");
        }
    }
}
