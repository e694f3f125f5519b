//! Numbers as people read them, in the page and on the terminal.

/// A count with thin separators: `1234567` becomes `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits; from a thousand upwards a whole number with separators.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "–".to_owned()
    } else if size >= 1_000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", count(size.round() as u64))
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 1.0 {
        format!("{value:.2}")
    } else if size == 0.0 {
        "0".to_owned()
    } else if !(0.0..0.001).contains(&value) {
        format!("{value:.3}")
    } else {
        // The stored result has more digits for those who need them.
        "< 0.001".to_owned()
    }
}

/// Short form for an axis: `12k`, `3.5M`.
pub fn axis(value: f64) -> String {
    let size = value.abs();
    let (scaled, suffix) = match size {
        _ if size >= 1e9 => (value / 1e9, "G"),
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let mut text = if size > 0.0 && size < 0.01 {
        format!("{scaled:.4}")
    } else {
        format!("{scaled:.2}")
    };
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    format!("{text}{suffix}")
}

/// Bytes in powers of 1024.
pub fn bytes(value: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value;
    let mut unit = UNITS[0];
    for next in &UNITS[1..] {
        if scaled.abs() < 1024.0 {
            break;
        }
        scaled /= 1024.0;
        unit = next;
    }
    format!("{} {unit}", number(scaled))
}

/// A latency in the unit that suits it.
pub fn latency_us(us: f64) -> String {
    if us >= 1e6 {
        format!("{} s", number(us / 1e6))
    } else if us >= 1e3 {
        format!("{} ms", number(us / 1e3))
    } else {
        format!("{} µs", number(us))
    }
}

/// A stretch of time: `7.2 s`, `3 min 20 s`, `2 h 05 min`.
pub fn seconds(value: f64) -> String {
    let whole = value.round().max(0.0) as u64;
    if value < 120.0 {
        format!("{} s", number(value))
    } else if whole < 7_200 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        format!("{} h {:02} min", whole / 3_600, whole % 3_600 / 60)
    }
}

/// A value with its error, if the error is at least a hundredth of it; a dash for `None`.
pub fn with_error(value: Option<f64>, error: Option<f64>) -> String {
    match (value, error) {
        (None, _) => "–".to_owned(),
        (Some(value), Some(error)) if error >= value * 0.01 => {
            format!("{} ± {}", number(value), number(error))
        }
        (Some(value), _) => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_shown_where_it_matters() {
        assert_eq!(with_error(Some(10.0), Some(2.0)), "10.0 ± 2.00");
        assert_eq!(with_error(Some(1_000.0), Some(2.0)), "1,000");
        assert_eq!(with_error(None, Some(2.0)), "–");
    }

    #[test]
    fn readable_numbers() {
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [
                number(1234.6),
                number(123.4),
                number(0.01234),
                number(0.0001)
            ],
            ["1,235", "123", "0.012", "< 0.001"]
        );
        assert_eq!(
            [axis(0.0), axis(1500.0), axis(2e6), axis(0.25), axis(10.0)],
            ["0", "1.5k", "2M", "0.25", "10"]
        );
        assert_eq!(
            [bytes(512.0), bytes(1536.0), bytes(3.0 * 1024.0 * 1024.0)],
            ["512 B", "1.50 KiB", "3.00 MiB"]
        );
        assert_eq!(
            [latency_us(90.0), latency_us(1500.0), latency_us(2e6)],
            ["90.0 µs", "1.50 ms", "2.00 s"]
        );
        assert_eq!(
            [seconds(7.25), seconds(200.0), seconds(7_500.0)],
            ["7.25 s", "3 min 20 s", "2 h 05 min"]
        );
    }
}
