//! Date expressions, a file each, over three helpers: `calendar` (civil arithmetic on all of i64),
//! `zone` (offsets and the Olson database) and `arguments` (what dates, zones and units look like
//! as operands).

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

/// The moment (milliseconds since the epoch) a free-form text names, as `$toDate` reads texts: UTC
/// unless it says otherwise.
///
/// # Errors
/// 241 ConversionFailure.
pub(crate) fn moment_of_text(text: &str) -> model::Result<i64> {
    date_from_string::moment_of(text, None, &zone::Zone::Utc)
}

/// A moment as `%Y-%m-%dT%H:%M:%S.%LZ`, as `$toString` writes dates.
///
/// # Errors
/// 18537 outside the years 0-9999.
pub(crate) fn text_of_moment(utc_ms: i64) -> model::Result<String> {
    date_to_string::write("%Y-%m-%dT%H:%M:%S.%LZ", utc_ms, &zone::Zone::Utc)
}

/// Month (1-12) and day of a moment in UTC.
pub(crate) fn month_and_day(utc_ms: i64) -> (u32, u32) {
    let c = calendar::Civil::of_ms(utc_ms);
    (c.month, c.day)
}
