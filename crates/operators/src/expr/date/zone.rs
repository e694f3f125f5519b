//! Time zones: UTC offsets (`+05:30`, `-0500`, `+03`) and the names of the Olson database,
//! case-sensitive. The database is bundled with the program; the host's is not read.

use super::calendar::{Civil, DAY_MS};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use model::{Result, bail};
use std::sync::LazyLock;

/// A time zone.
#[derive(Clone)]
pub(super) enum Zone {
    Utc,
    /// Milliseconds east of UTC.
    Fixed(i64),
    Named(TimeZone),
}

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Beyond this distance from the epoch the rules of the last supported time are used.
const LIMIT_MS: i64 = 253_402_200_000_000;

impl Zone {
    /// The zone a text names.
    ///
    /// # Errors
    /// 40485 for an unknown name.
    pub(super) fn parse(text: &str) -> Result<Zone> {
        if matches!(text, "UTC" | "GMT") {
            return Ok(Zone::Utc);
        }
        if let Some(offset) = parse_offset(text) {
            return Ok(Zone::Fixed(offset));
        }
        match DATABASE.get(text) {
            Ok(tz) if tz.iana_name() == Some(text) => Ok(Zone::Named(tz)),
            _ => bail!(40485, "unrecognized time zone identifier: \"{text}\""),
        }
    }

    /// Milliseconds east of UTC at a moment.
    pub(super) fn offset_ms(&self, utc_ms: i64) -> i64 {
        match self {
            Zone::Utc => 0,
            Zone::Fixed(offset) => *offset,
            Zone::Named(tz) => jiff::Timestamp::from_millisecond(utc_ms.clamp(-LIMIT_MS, LIMIT_MS))
                .map_or(0, |t| i64::from(tz.to_offset(t).seconds()) * 1000),
        }
    }

    /// Local milliseconds of a moment.
    pub(super) fn local_ms(&self, utc_ms: i64) -> i64 {
        utc_ms.saturating_add(self.offset_ms(utc_ms))
    }

    /// Local fields of a moment.
    pub(super) fn civil(&self, utc_ms: i64) -> Civil {
        Civil::of_ms(self.local_ms(utc_ms))
    }

    /// The time of local milliseconds: the earlier one if there are two; in a gap, the time is
    /// moved forward by the length of the gap.
    pub(super) fn utc_ms(&self, local_ms: i64) -> Option<i64> {
        let Zone::Named(tz) = self else {
            return local_ms.checked_sub(self.offset_ms(0));
        };
        match civil_time(local_ms)
            .and_then(|local| tz.to_ambiguous_timestamp(local).compatible().ok())
        {
            Some(t) => Some(t.as_millisecond()),
            None => local_ms.checked_sub(self.offset_ms(local_ms)),
        }
    }

    /// True when texts show the zone as `Z`.
    pub(super) fn is_utc(&self) -> bool {
        matches!(self, Zone::Utc)
    }
}

fn civil_time(local_ms: i64) -> Option<jiff::civil::DateTime> {
    let c = Civil::of_ms(local_ms);
    let date =
        jiff::civil::Date::new(i16::try_from(c.year).ok()?, c.month as i8, c.day as i8).ok()?;
    let time = jiff::civil::Time::new(
        c.hour() as i8,
        c.minute() as i8,
        c.second() as i8,
        i32::try_from(c.millisecond()).ok()? * 1_000_000,
    );
    (c.of_day_ms < DAY_MS).then_some(date.to_datetime(time.ok()?))
}

/// `±hh`, `±hhmm`, `±hh:mm`; any two digits are accepted, as in MongoDB.
fn parse_offset(text: &str) -> Option<i64> {
    let digits = |s: &str| -> Option<i64> {
        (s.len() == 2 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok())?
    };
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = digits(text.get(1..3)?)?;
    let rest = text.get(3..)?;
    let minutes = if rest.is_empty() {
        0
    } else {
        digits(rest.strip_prefix(':').unwrap_or(rest))?
    };
    Some(sign * (hours * 60 + minutes) * 60_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_offsets() {
        let offset = |text: &str| {
            Zone::parse(text)
                .map(|z| z.offset_ms(1_721_044_800_000) / 60_000)
                .ok()
        };
        let rows = [
            ("UTC", Some(0)),
            ("+03", Some(180)),
            ("-0530", Some(-330)),
            ("+05:70", Some(370)),
            ("-99:99", Some(-6039)),
            ("America/New_York", Some(-240)),
            ("EST", Some(-300)),
            ("america/new_york", None),
            ("", None),
            ("+100:00", None),
            ("25:00", None),
            ("Not/AZone", None),
            ("+1", None),
            ("+é", None),
        ];
        for (text, want) in rows {
            assert_eq!(offset(text), want, "{text}");
        }
    }

    #[test]
    fn local_time_in_gaps_and_overlaps() {
        let paris = Zone::parse("Europe/Paris").unwrap();
        // 2021-03-28 02:30 does not exist and means 03:30. 2021-10-31 02:30 exists twice and means
        // the first.
        assert_eq!(paris.utc_ms(1_616_898_600_000), Some(1_616_895_000_000));
        assert_eq!(paris.utc_ms(1_635_647_400_000), Some(1_635_640_200_000));
        assert_eq!(paris.local_ms(1_635_640_200_000), 1_635_647_400_000);
        assert_eq!(paris.utc_ms(i64::MIN), None);
    }
}
