//! Date expressions, one file each, with three helpers: `calendar` (civil arithmetic on all of
//! i64), `zone` (offsets and the Olson database) and `arguments` (dates, zones and units as
//! operands).

mod arguments;
mod calendar;
mod parse_text;
mod zone;

crate::expr_family!(
    date_add,
    date_diff,
    date_from_parts,
    date_from_string,
    date_to_parts,
    date_to_string,
    date_trunc,
    part,
);

/// Parses a free-form date text as `$toDate` does, to milliseconds since the epoch: UTC unless the
/// text names a zone.
///
/// # Errors
/// 241 ConversionFailure.
pub(crate) fn moment_of_text(text: &str) -> model::Result<i64> {
    date_from_string::moment_of(text, None, &zone::Zone::Utc)
}

/// A time as `%Y-%m-%dT%H:%M:%S.%LZ`, as `$toString` writes dates.
///
/// # Errors
/// 18537 outside the years 0-9999.
pub(crate) fn text_of_moment(utc_ms: i64) -> model::Result<String> {
    date_to_string::write("%Y-%m-%dT%H:%M:%S.%LZ", utc_ms, &zone::Zone::Utc)
}

/// Month (1-12) and day of a time in UTC.
pub(crate) fn month_and_day(utc_ms: i64) -> (u32, u32) {
    let c = calendar::Civil::of_ms(utc_ms);
    (c.month, c.day)
}
