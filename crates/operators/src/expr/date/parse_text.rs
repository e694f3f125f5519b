//! Parses dates from text: with a format (`%Y-%m-%d`...) or free-form (ISO 8601 in its forms, `31
//! Jan 2018`, `January 31st, 2018`, `1/31/2018`, a time with or without am/pm, an offset or a zone
//! name). Failures are sentences; the caller adds an error code. Relative texts ("tomorrow") are
//! not dates.

use super::calendar::{DAY_MS, days_from_civil, days_of_month_number, iso_year_start};
use super::zone::Zone;

/// The parts found in a text.
#[derive(Default)]
pub(super) struct DateParts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_weekday: Option<i64>,
    /// Milliseconds since midnight.
    time_ms: Option<i64>,
    pub(super) zone: Option<Zone>,
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

impl DateParts {
    /// Local milliseconds since the epoch.
    pub(super) fn local_ms(&self) -> Result<i64, String> {
        let days = if let (Some(year), Some(month), Some(day)) = (self.year, self.month, self.day) {
            let first = days_of_month_number(year * 12 + month - 1);
            let length = days_of_month_number(year * 12 + month) - first;
            if !(1..=12).contains(&month) || !(1..=length).contains(&day) {
                return Err(format!("{year}-{month}-{day} is no date"));
            }
            first + day - 1
        } else if let (Some(year), Some(day)) = (self.year, self.day_of_year) {
            days_from_civil(year, 1, 1) + day - 1
        } else if let Some(year) = self.iso_year {
            iso_year_start(year)
                + (self.iso_week.unwrap_or(1) - 1) * 7
                + self.iso_weekday.unwrap_or(1)
                - 1
        } else {
            return Err(
                "an incomplete date/time string has been found, with elements missing".to_owned(),
            );
        };
        Ok(days * DAY_MS + self.time_ms.unwrap_or(0))
    }

    fn set_time(&mut self, hour: i64, minute: i64, second: i64, ms: i64) -> Option<()> {
        let valid =
            (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        (valid && self.time_ms.is_none()).then_some(())?;
        self.time_ms = Some(((hour * 60 + minute) * 60 + second) * 1000 + ms);
        Some(())
    }

    fn set_date(&mut self, year: i64, month: i64, day: i64) -> Option<()> {
        (self.year.is_none() && self.iso_year.is_none()).then_some(())?;
        (self.year, self.month, self.day) = (Some(year), Some(month), Some(day));
        Some(())
    }
}

/// A position in the text; copied to look ahead.
#[derive(Clone, Copy)]
struct Scan<'t> {
    rest: &'t str,
}

impl<'t> Scan<'t> {
    /// Skips what may separate and surround parts of a date: white space, null characters, no-break
    /// spaces, commas.
    fn skip_padding(&mut self) {
        self.rest = self
            .rest
            .trim_start_matches(|c: char| c.is_ascii_whitespace() || "\0\u{a0},".contains(c));
    }
    fn skip(&mut self, also: &str) {
        self.rest = self
            .rest
            .trim_start_matches(|c: char| c.is_ascii_whitespace() || also.contains(c));
    }
    fn take(&mut self, c: char) -> Option<()> {
        self.rest = self.rest.strip_prefix(c)?;
        Some(())
    }
    fn take_any(&mut self, set: &str) -> Option<char> {
        let c = self.rest.chars().next().filter(|c| set.contains(*c))?;
        self.rest = self.rest.get(c.len_utf8()..)?;
        Some(c)
    }
    /// All digits that follow, if their number is between `min` and `max`.
    fn digits(&mut self, min: usize, max: usize) -> Option<i64> {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if count < min || count > max {
            return None;
        }
        self.exactly(count)
    }
    /// Exactly `count` digits, whatever follows.
    fn exactly(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = (self.rest.get(..count)?, self.rest.get(count..)?);
        let n = digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())??;
        self.rest = rest;
        Some(n)
    }
    /// At most `max` digits.
    fn parse_digits(&mut self, max: usize) -> Option<i64> {
        let count = self
            .rest
            .bytes()
            .take(max)
            .take_while(u8::is_ascii_digit)
            .count();
        (count > 0).then(|| self.exactly(count))?
    }
    fn word(&mut self) -> Option<&'t str> {
        let len = self
            .rest
            .bytes()
            .take_while(u8::is_ascii_alphabetic)
            .count();
        let word = self.rest.get(..len).filter(|w| !w.is_empty())?;
        self.rest = self.rest.get(len..)?;
        Some(word)
    }
    /// Tries a pattern; on failure nothing is consumed.
    fn attempt<T>(&mut self, pattern: impl FnOnce(&mut Scan<'t>) -> Option<T>) -> Option<T> {
        let mut ahead = *self;
        let found = pattern(&mut ahead)?;
        *self = ahead;
        Some(found)
    }
}

fn name_in(word: &str, names: &[&str]) -> Option<i64> {
    let word = word.to_ascii_lowercase();
    names
        .iter()
        .position(|n| {
            *n == word || n.get(..3) == Some(&word) || (word == "sept" && *n == "september")
        })
        .map(|i| i as i64)
}

/// Reads a free-form text.
///
/// # Errors
/// A sentence with the position of the unreadable text.
pub(super) fn free(text: &str) -> Result<DateParts, String> {
    let mut found = DateParts::default();
    let mut scan = Scan { rest: text };
    loop {
        scan.skip_padding();
        if scan.rest.is_empty() {
            return Ok(found);
        }
        let read = scan
            .attempt(|s| zone(s, &mut found))
            .or_else(|| scan.attempt(|s| clock(s, &mut found)))
            .or_else(|| scan.attempt(|s| date(s, &mut found)))
            .or_else(|| scan.attempt(|s| late_year(s, &mut found)))
            .or_else(|| scan.attempt(|s| name_in(s.word()?, &WEEKDAYS).map(|_| ())));
        if read.is_none() {
            return Err(format!(
                "Error parsing date string '{text}'; unexpected '{}'",
                scan.rest.chars().take(20).collect::<String>()
            ));
        }
    }
}

/// `Z`, `+hh:mm` after a time, or a zone name.
fn zone(s: &mut Scan<'_>, found: &mut DateParts) -> Option<()> {
    if found.zone.is_some() || found.time_ms.is_none() {
        return None;
    }
    let len = s
        .rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || "+-:/_".contains(c)))
        .unwrap_or(s.rest.len());
    let name = s.rest.get(..len).filter(|n| !n.is_empty())?;
    // A zone such as GMT+2: only the offset is parsed.
    let offset = name
        .strip_prefix("GMT")
        .or_else(|| name.strip_prefix("UTC"))
        .filter(|o| !o.is_empty())
        .unwrap_or(name);
    let zone = match name {
        "Z" | "z" => Zone::Utc,
        _ => Zone::parse(offset).ok()?,
    };
    s.rest = s.rest.get(len..)?;
    found.zone = Some(zone);
    Some(())
}

/// `hh:mm[:ss[.fff]] [am|pm]`, also after a `T`; `Thhmm[ss]`.
fn clock(s: &mut Scan<'_>, found: &mut DateParts) -> Option<()> {
    let after_t = s.take_any("Tt").is_some();
    if after_t {
        let compact = s.attempt(|s| {
            let time = (s.exactly(2)?, s.exactly(2)?, s.exactly(2).unwrap_or(0));
            (!s.rest.starts_with(|c: char| c.is_ascii_digit() || c == ':')).then_some(time)
        });
        if let Some((hour, minute, second)) = compact {
            let ms = fraction(s);
            return found.set_time(hour, minute, second, ms);
        }
    }
    let mut hour = s.digits(1, 2)?;
    let mut half = s.attempt(meridian);
    let (mut minute, mut second, mut ms) = (0, 0, 0);
    if half.is_none() {
        s.take(':')?;
        minute = s.digits(2, 2)?;
        if let Some(n) = s.attempt(|s| s.take(':').and_then(|()| s.digits(2, 2))) {
            second = n;
            ms = fraction(s);
        }
        half = s.attempt(meridian);
    }
    if let Some(afternoon) = half {
        (1..=12).contains(&hour).then_some(())?;
        hour = hour % 12 + if afternoon { 12 } else { 0 };
    }
    found.set_time(hour, minute, second, ms)
}

/// Milliseconds of a decimal fraction; further digits are ignored.
fn fraction(s: &mut Scan<'_>) -> i64 {
    s.attempt(|s| {
        s.take_any(".,")?;
        let len = s.rest.bytes().take_while(u8::is_ascii_digit).count();
        let digits = s.rest.get(..len).filter(|d| !d.is_empty())?;
        s.rest = s.rest.get(len..)?;
        format!("{digits:0<3}").get(..3)?.parse().ok()
    })
    .unwrap_or(0)
}

/// True for pm.
fn meridian(s: &mut Scan<'_>) -> Option<bool> {
    s.skip("");
    let half = s.take_any("AaPp")?;
    let _ = s.take('.');
    s.take_any("Mm")?;
    let _ = s.take('.');
    (!s.rest.starts_with(|c: char| c.is_ascii_alphanumeric())).then_some(matches!(half, 'P' | 'p'))
}

fn date(s: &mut Scan<'_>, found: &mut DateParts) -> Option<()> {
    s.attempt(|s| iso_date(s, found))
        .or_else(|| s.attempt(|s| day_month_year(s, found)))
        .or_else(|| s.attempt(|s| month_day_year(s, found)))
}

/// `YYYY-MM-DD`, `YYYY/MM/DD`, `YYYYMMDD`, `YYYY-Www-D`, `YYYY-DDD`, `YYYY-MM`.
fn iso_date(s: &mut Scan<'_>, found: &mut DateParts) -> Option<()> {
    let year = s.exactly(4)?;
    let separator = s.take_any("-/");
    if let Some(week) = s.attempt(|s| s.take('W').and_then(|()| s.exactly(2))) {
        let day = s.attempt(|s| {
            let _ = s.take('-');
            s.digits(1, 1)
        });
        (found.iso_year, found.iso_week, found.iso_weekday) = (Some(year), Some(week), day);
        return Some(());
    }
    let Some(separator) = separator else {
        let (month, day) = s.attempt(|s| Some((s.exactly(2)?, s.exactly(2)?)))?;
        return found.set_date(year, month, day);
    };
    if let Some(day) = s.attempt(|s| s.digits(3, 3)) {
        (found.year, found.day_of_year) = (Some(year), Some(day));
        return Some(());
    }
    let month = s.digits(1, 2)?;
    let day = s.attempt(|s| s.take(separator).and_then(|()| s.digits(1, 2)));
    found.set_date(year, month, day.unwrap_or(1))
}

fn ordinal(s: &mut Scan<'_>) {
    s.attempt(|s| matches!(s.word()?, "st" | "nd" | "rd" | "th").then_some(()));
}

/// `31 Jan 2018`, `31-Jan-2018`, `31.01.2018`, `31-01-2018`; `1/31/2018` is month first.
fn day_month_year(s: &mut Scan<'_>, found: &mut DateParts) -> Option<()> {
    let first = s.digits(1, 2)?;
    if s.take('/').is_some() {
        let day = s.digits(1, 2)?;
        s.take('/')?;
        let year = s.digits(4, 4)?;
        return found.set_date(year, first, day);
    }
    if let Some((month, year)) = s.attempt(|s| {
        let separator = s.take_any(".-")?;
        let month = s.digits(1, 2)?;
        s.take(separator)?;
        Some((month, s.digits(4, 4)?))
    }) {
        return found.set_date(year, month, first);
    }
    ordinal(s);
    s.skip("-.");
    let month = name_in(s.word()?, &MONTHS)? + 1;
    s.skip("-.,");
    let year = s.digits(4, 4)?;
    found.set_date(year, month, first)
}

/// `January 31st, 2018`, `Jan-31-2018`; the year may come later, as in `Jan 31 12:05:28 1996`.
fn month_day_year(s: &mut Scan<'_>, found: &mut DateParts) -> Option<()> {
    let month = name_in(s.word()?, &MONTHS)? + 1;
    s.skip("-.");
    let day = s.digits(1, 2)?;
    ordinal(s);
    let year = s.attempt(|s| {
        s.skip("-.,");
        s.attempt(|s| s.digits(4, 4).filter(|_| !s.rest.starts_with(':')))
    });
    match year {
        Some(year) => found.set_date(year, month, day),
        None if found.month.is_none() => {
            (found.month, found.day) = (Some(month), Some(day));
            Some(())
        }
        None => None,
    }
}

/// The year after a month and day.
fn late_year(s: &mut Scan<'_>, found: &mut DateParts) -> Option<()> {
    if found.year.is_some() || found.iso_year.is_some() || found.month.is_none() {
        return None;
    }
    found.year = Some(s.digits(4, 4)?);
    Some(())
}

/// Reads a text by a format with valid specifiers.
///
/// # Errors
/// A sentence with the position that does not match.
pub(super) fn parse_by_format(text: &str, format: &str) -> Result<DateParts, String> {
    let mut found = DateParts::default();
    let (mut hour, mut minute, mut second, mut ms) = (None, None, None, None);
    let mut scan = Scan { rest: text };
    let mut chars = format.chars();
    while let Some(f) = chars.next() {
        let s = &mut scan;
        let number = |slot: &mut Option<i64>, n: Option<i64>| n.map(|n| *slot = Some(n));
        let specifier = if f == '%' { chars.next() } else { None };
        let matched = match specifier {
            None => s.take(f),
            Some('%') => s.take('%'),
            Some('Y') => number(&mut found.year, s.exactly(4)),
            Some('m') => number(&mut found.month, s.parse_digits(2)),
            Some('d') => number(&mut found.day, s.parse_digits(2)),
            Some('H') => number(&mut hour, s.parse_digits(2)),
            Some('M') => number(&mut minute, s.parse_digits(2)),
            Some('S') => number(&mut second, s.parse_digits(2)),
            Some('L') => number(&mut ms, s.parse_digits(3)),
            // MongoDB's parser counts the day of the year from zero.
            Some('j') => number(&mut found.day_of_year, s.parse_digits(3).map(|n| n + 1)),
            Some('G') => number(&mut found.iso_year, s.exactly(4)),
            Some('V') => number(&mut found.iso_week, s.parse_digits(2)),
            Some('u') => number(&mut found.iso_weekday, s.exactly(1)),
            Some('b' | 'B') => number(
                &mut found.month,
                s.word().and_then(|w| name_in(w, &MONTHS)).map(|m| m + 1),
            ),
            Some('z') => s.attempt(|s| offset(s)).map(|z| found.zone = Some(z)),
            Some('Z') => s
                .attempt(|s| {
                    let sign = if s.take_any("+-") == Some('-') { -1 } else { 1 };
                    Some(sign * s.parse_digits(3)?)
                })
                .map(|minutes| found.zone = Some(Zone::Fixed(minutes * 60_000))),
            Some(_) => None,
        };
        if matched.is_none() {
            return Err(format!(
                "Error parsing date string '{text}'; format '{format}' does not match at '{}'",
                scan.rest
            ));
        }
    }
    if !scan.rest.is_empty() {
        return Err(format!(
            "Error parsing date string '{text}'; trailing data '{}'",
            scan.rest
        ));
    }
    if [hour, minute, second, ms].iter().any(Option::is_some) {
        found
            .set_time(
                hour.unwrap_or(0),
                minute.unwrap_or(0),
                second.unwrap_or(0),
                ms.unwrap_or(0),
            )
            .ok_or_else(|| {
                format!("Error parsing date string '{text}'; the time is out of range")
            })?;
    }
    Ok(found)
}

/// `+hh[[:]mm]`, `Z`, or a zone name.
fn offset(s: &mut Scan<'_>) -> Option<Zone> {
    let len = s
        .rest
        .find(|c: char| !(c.is_ascii_alphanumeric() || "+-:/_".contains(c)))
        .unwrap_or(s.rest.len());
    // The longest prefix that names a zone.
    (1..=len).rev().find_map(|len| {
        let zone = match s.rest.get(..len)? {
            "Z" => Zone::Utc,
            name => Zone::parse(name).ok()?,
        };
        s.rest = s.rest.get(len..)?;
        Some(zone)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_form() {
        let at = |text: &str| {
            free(text)
                .and_then(|f| Ok(f.local_ms()? - f.zone.as_ref().map_or(0, |z| z.offset_ms(0))))
                .ok()
        };
        let day = 1_517_356_800_000;
        for text in [
            "2018-01-31",
            "20180131",
            "2018/1/31",
            "31 Jan 2018",
            "January 31st, 2018",
            "1/31/2018",
            "31.01.2018",
            "31-Jan-2018",
            "Wed, 31 Jan 2018",
            "2018-W05-3",
            "2018W053",
            "2018-031",
            "2018-01-31T00:00:00.000Z",
            "2018-01-31 02:00 +02:00",
            "Jan 31 2018 12am",
            "WED jan 31 03:30:00 +03:30 2018",
        ] {
            assert_eq!(at(text), Some(day), "{text}");
        }
        for text in [
            "\0\u{a0} 2018-01-31",
            "2018-01-31\u{a0}\0\n",
            "2018-01-31\u{a0}0:00",
        ] {
            assert_eq!(at(text), Some(day), "{text:?}");
        }
        assert_eq!(at("2018-01-31T13:05:06.1239"), Some(day + 47_106_123));
        assert_eq!(at("20180131T130506Z"), Some(day + 47_106_000));
        assert_eq!(at("2018-01-31 1:05:06 pm"), Some(day + 47_106_000));
        assert!(at("2020-02-29").is_some() && at("2018-12-31").is_some());
        for text in [
            "",
            "12:50",
            "July 4th",
            "tomorrow",
            "2018-13-01",
            "2018-02-29",
            "2018-04-31",
            "2018-12-32",
            "2018-01-00",
            "2018-01-31T24:00:00Z",
            "2018-01-31T00:00:60Z",
            "2018-01-31T25:00:00Z",
            "60.Monday1770/06:59",
            "x",
            "2018-01-31 foo",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
    }
}
