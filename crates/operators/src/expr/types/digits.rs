//! The digits of a double.

/// A double in its shortest exact digits, as C++ and Python format it: no ".0", an exponent (of two
/// digits or more) below 1e-4 and from 1e16 on.
pub(super) fn double_text(n: f64) -> String {
    if n.is_nan() {
        return "NaN".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{n:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(e) if n != 0.0 && !(-4..16).contains(&e) => {
            format!(
                "{mantissa}e{}{:02}",
                if e < 0 { '-' } else { '+' },
                e.unsigned_abs()
            )
        }
        _ => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn doubles_look_as_in_mongodb() {
        for (n, text) in [
            (3.0, "3"),
            (-0.0, "-0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e15, "1000000000000000"),
            (1e16, "1e+16"),
            (9e-5, "9e-05"),
            (0.0001, "0.0001"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(super::double_text(n), text);
        }
    }
}
