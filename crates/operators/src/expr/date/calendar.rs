//! Civil arithmetic of the proleptic Gregorian calendar: local milliseconds to fields and back,
//! over all of i64.
//! Must not know time zones.

/// Milliseconds in a day.
pub(super) const DAY_MS: i64 = 86_400_000;

/// A moment's fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Civil {
    pub(super) year: i64,
    /// 1-12.
    pub(super) month: u32,
    /// 1-31.
    pub(super) day: u32,
    /// Milliseconds since midnight.
    pub(super) of_day_ms: i64,
    /// Days since the epoch.
    pub(super) days: i64,
}

/// Week of the ISO calendar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct IsoWeek {
    pub(super) year: i64,
    pub(super) week: i64,
}

impl Civil {
    /// The fields of local milliseconds since the epoch.
    pub(super) fn of_ms(ms: i64) -> Civil {
        Civil::of_days(ms.div_euclid(DAY_MS), ms.rem_euclid(DAY_MS))
    }

    fn of_days(days: i64, of_day_ms: i64) -> Civil {
        // Days since 0000-03-01, in eras of 400 years: with years that begin in March the leap day
        // is the last day.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year_of_era =
            (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
        let month = if month_from_march < 10 {
            month_from_march + 3
        } else {
            month_from_march - 9
        } as u32;
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Civil {
            year,
            month,
            day,
            of_day_ms,
            days,
        }
    }

    pub(super) fn hour(&self) -> i64 {
        self.of_day_ms / 3_600_000
    }
    pub(super) fn minute(&self) -> i64 {
        self.of_day_ms / 60_000 % 60
    }
    pub(super) fn second(&self) -> i64 {
        self.of_day_ms / 1000 % 60
    }
    pub(super) fn millisecond(&self) -> i64 {
        self.of_day_ms % 1000
    }
    /// 0 is Sunday.
    pub(super) fn weekday(&self) -> i64 {
        (self.days + 4).rem_euclid(7)
    }
    /// 1 is Monday, 7 Sunday.
    pub(super) fn iso_weekday(&self) -> i64 {
        (self.days + 3).rem_euclid(7) + 1
    }
    /// 1-366.
    pub(super) fn day_of_year(&self) -> i64 {
        self.days - days_from_civil(self.year, 1, 1) + 1
    }
    /// Week of the year: weeks begin on Sunday, days before the first Sunday are in week 0.
    pub(super) fn week(&self) -> i64 {
        (self.day_of_year() - 1 + 7 - self.weekday()) / 7
    }
    pub(super) fn iso_week(&self) -> IsoWeek {
        // The Thursday of a week decides which year the week belongs to.
        let thursday = Civil::of_days(self.days - (self.iso_weekday() - 4), 0);
        IsoWeek {
            year: thursday.year,
            week: (thursday.day_of_year() - 1) / 7 + 1,
        }
    }
}

/// Days since the epoch of a date; the month must be 1-12.
pub(super) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Days since the epoch of the first day of a month counted from year 0 (month 0 is January of year
/// 0).
pub(super) fn days_of_month_number(months: i64) -> i64 {
    days_from_civil(months.div_euclid(12), months.rem_euclid(12) as u32 + 1, 1)
}

/// Days since the epoch of the Monday of ISO week 1.
pub(super) fn iso_year_start(year: i64) -> i64 {
    // January 4 is always in week 1.
    let jan4 = days_from_civil(year, 1, 4);
    jan4 - (jan4 + 3).rem_euclid(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_knows_its_weeks() {
        for days in (-1_000_000..1_000_000)
            .step_by(997)
            .chain([-719_528, 0, 11_016, 47_540])
        {
            let c = Civil::of_ms(days * DAY_MS);
            assert_eq!(days_from_civil(c.year, c.month, c.day), days);
        }
        let leap = Civil::of_ms(951_782_400_123);
        assert_eq!(
            (leap.year, leap.month, leap.day, leap.millisecond()),
            (2000, 2, 29, 123)
        );
        assert_eq!(
            (
                leap.day_of_year(),
                leap.weekday(),
                leap.iso_weekday(),
                leap.week()
            ),
            (60, 2, 2, 9)
        );
        let last = Civil::of_ms(-1);
        assert_eq!(
            (last.year, last.month, last.day, last.hour(), last.second()),
            (1969, 12, 31, 23, 59)
        );
        assert_eq!(
            Civil::of_ms(1_483_234_149_123).iso_week(),
            IsoWeek {
                year: 2016,
                week: 52
            }
        );
        assert_eq!(
            Civil::of_ms(1_419_811_200_000).iso_week(),
            IsoWeek {
                year: 2015,
                week: 1
            }
        );
        for edge in [i64::MIN, i64::MAX] {
            let c = Civil::of_ms(edge);
            assert!((1..=53).contains(&c.iso_week().week));
        }
    }
}
