//! Preferred numbers: rounding up and down in the Renard, E and 1-2-5 series and in powers of two.

use model::{Decimal128, OwnedValue, Value};

/// A series of preferred numbers.
pub(super) enum Granularity {
    /// Numbers that repeat in every decade, ascending; the first is the decade's start.
    Series(&'static [f64]),
    /// 1, 2, 4, ...
    PowersOf2,
}

const SERIES: &[(&str, &[f64])] = &[
    ("R5", &[10.0, 16.0, 25.0, 40.0, 63.0]),
    (
        "R10",
        &[
            100.0, 125.0, 160.0, 200.0, 250.0, 315.0, 400.0, 500.0, 630.0, 800.0,
        ],
    ),
    (
        "R20",
        &[
            100.0, 112.0, 125.0, 140.0, 160.0, 180.0, 200.0, 224.0, 250.0, 280.0, 315.0, 355.0,
            400.0, 450.0, 500.0, 560.0, 630.0, 710.0, 800.0, 900.0,
        ],
    ),
    (
        "R40",
        &[
            100.0, 106.0, 112.0, 118.0, 125.0, 132.0, 140.0, 150.0, 160.0, 170.0, 180.0, 190.0,
            200.0, 212.0, 224.0, 236.0, 250.0, 265.0, 280.0, 300.0, 315.0, 335.0, 355.0, 375.0,
            400.0, 425.0, 450.0, 475.0, 500.0, 530.0, 560.0, 600.0, 630.0, 670.0, 710.0, 750.0,
            800.0, 850.0, 900.0, 950.0,
        ],
    ),
    (
        "R80",
        &[
            103.0, 109.0, 115.0, 122.0, 128.0, 136.0, 145.0, 155.0, 165.0, 175.0, 185.0, 195.0,
            206.0, 218.0, 230.0, 243.0, 258.0, 272.0, 290.0, 307.0, 325.0, 345.0, 365.0, 387.0,
            412.0, 437.0, 462.0, 487.0, 515.0, 545.0, 575.0, 615.0, 650.0, 690.0, 730.0, 775.0,
            825.0, 875.0, 925.0, 975.0,
        ],
    ),
    ("1-2-5", &[10.0, 20.0, 50.0]),
    ("E6", &[10.0, 15.0, 22.0, 33.0, 47.0, 68.0]),
    (
        "E12",
        &[
            10.0, 12.0, 15.0, 18.0, 22.0, 27.0, 33.0, 39.0, 47.0, 56.0, 68.0, 82.0,
        ],
    ),
    (
        "E24",
        &[
            10.0, 11.0, 12.0, 13.0, 15.0, 16.0, 18.0, 20.0, 22.0, 24.0, 27.0, 30.0, 33.0, 36.0,
            39.0, 43.0, 47.0, 51.0, 56.0, 62.0, 68.0, 75.0, 82.0, 91.0,
        ],
    ),
    (
        "E48",
        &[
            100.0, 105.0, 110.0, 115.0, 121.0, 127.0, 133.0, 140.0, 147.0, 154.0, 162.0, 169.0,
            178.0, 187.0, 196.0, 205.0, 215.0, 226.0, 237.0, 249.0, 261.0, 274.0, 287.0, 301.0,
            316.0, 332.0, 348.0, 365.0, 383.0, 402.0, 422.0, 442.0, 464.0, 487.0, 511.0, 536.0,
            562.0, 590.0, 619.0, 649.0, 681.0, 715.0, 750.0, 787.0, 825.0, 866.0, 909.0, 953.0,
        ],
    ),
    (
        "E96",
        &[
            100.0, 102.0, 105.0, 107.0, 110.0, 113.0, 115.0, 118.0, 121.0, 124.0, 127.0, 130.0,
            133.0, 137.0, 140.0, 143.0, 147.0, 150.0, 154.0, 158.0, 162.0, 165.0, 169.0, 174.0,
            178.0, 182.0, 187.0, 191.0, 196.0, 200.0, 205.0, 210.0, 215.0, 221.0, 226.0, 232.0,
            237.0, 243.0, 249.0, 255.0, 261.0, 267.0, 274.0, 280.0, 287.0, 294.0, 301.0, 309.0,
            316.0, 324.0, 332.0, 340.0, 348.0, 357.0, 365.0, 374.0, 383.0, 392.0, 402.0, 412.0,
            422.0, 432.0, 442.0, 453.0, 464.0, 475.0, 487.0, 499.0, 511.0, 523.0, 536.0, 549.0,
            562.0, 576.0, 590.0, 604.0, 619.0, 634.0, 649.0, 665.0, 681.0, 698.0, 715.0, 732.0,
            750.0, 768.0, 787.0, 806.0, 825.0, 845.0, 866.0, 887.0, 909.0, 931.0, 953.0, 976.0,
        ],
    ),
    (
        "E192",
        &[
            100.0, 101.0, 102.0, 104.0, 105.0, 106.0, 107.0, 109.0, 110.0, 111.0, 113.0, 114.0,
            115.0, 117.0, 118.0, 120.0, 121.0, 123.0, 124.0, 126.0, 127.0, 129.0, 130.0, 132.0,
            133.0, 135.0, 137.0, 138.0, 140.0, 142.0, 143.0, 145.0, 147.0, 149.0, 150.0, 152.0,
            154.0, 156.0, 158.0, 160.0, 162.0, 164.0, 165.0, 167.0, 169.0, 172.0, 174.0, 176.0,
            178.0, 180.0, 182.0, 184.0, 187.0, 189.0, 191.0, 193.0, 196.0, 198.0, 200.0, 203.0,
            205.0, 208.0, 210.0, 213.0, 215.0, 218.0, 221.0, 223.0, 226.0, 229.0, 232.0, 234.0,
            237.0, 240.0, 243.0, 246.0, 249.0, 252.0, 255.0, 258.0, 261.0, 264.0, 267.0, 271.0,
            274.0, 277.0, 280.0, 284.0, 287.0, 291.0, 294.0, 298.0, 301.0, 305.0, 309.0, 312.0,
            316.0, 320.0, 324.0, 328.0, 332.0, 336.0, 340.0, 344.0, 348.0, 352.0, 357.0, 361.0,
            365.0, 370.0, 374.0, 379.0, 383.0, 388.0, 392.0, 397.0, 402.0, 407.0, 412.0, 417.0,
            422.0, 427.0, 432.0, 437.0, 442.0, 448.0, 453.0, 459.0, 464.0, 470.0, 475.0, 481.0,
            487.0, 493.0, 499.0, 505.0, 511.0, 517.0, 523.0, 530.0, 536.0, 542.0, 549.0, 556.0,
            562.0, 569.0, 576.0, 583.0, 590.0, 597.0, 604.0, 612.0, 619.0, 626.0, 634.0, 642.0,
            649.0, 657.0, 665.0, 673.0, 681.0, 690.0, 698.0, 706.0, 715.0, 723.0, 732.0, 741.0,
            750.0, 759.0, 768.0, 777.0, 787.0, 796.0, 806.0, 816.0, 825.0, 835.0, 845.0, 856.0,
            866.0, 876.0, 887.0, 898.0, 909.0, 920.0, 931.0, 942.0, 953.0, 965.0, 976.0, 988.0,
        ],
    ),
];

impl Granularity {
    /// The series of that name.
    pub(super) fn parse(name: &str) -> Option<Granularity> {
        if name == "POWERSOF2" {
            return Some(Granularity::PowersOf2);
        }
        SERIES
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, s)| Granularity::Series(s))
    }

    /// The next larger number of the series; zero stays zero.
    pub(super) fn round_up(&self, v: &Value<'_>) -> OwnedValue {
        self.round(v, |n| match self {
            Granularity::PowersOf2 => 2f64.powf(n.log2().floor() + 1.0),
            Granularity::Series(s) => step(s, n, true),
        })
    }

    /// The next smaller number of the series; zero stays zero.
    pub(super) fn round_down(&self, v: &Value<'_>) -> OwnedValue {
        self.round(v, |n| match self {
            Granularity::PowersOf2 => 2f64.powf(n.log2().ceil() - 1.0),
            Granularity::Series(s) => step(s, n, false),
        })
    }

    fn round(&self, v: &Value<'_>, f: impl Fn(f64) -> f64) -> OwnedValue {
        let n = v.as_f64().unwrap_or(0.0);
        let rounded = if n == 0.0 || n.is_infinite() { n } else { f(n) };
        match v {
            Value::Decimal128(_) => Value::Decimal128(Decimal128::from_f64(rounded)),
            _ if n == 0.0 => *v,
            // A power of two is a whole number, whatever the type of the rounded value.
            _ if matches!(self, Granularity::PowersOf2) => narrow_number(rounded),
            _ => Value::Double(rounded),
        }
        .to_owned_value()
    }
}

/// A whole number in the smallest type that holds it; other numbers stay doubles.
fn narrow_number(n: f64) -> Value<'static> {
    const LONG: f64 = 9_223_372_036_854_775_808.0;
    if n.fract() != 0.0 || n.abs() >= LONG {
        return Value::Double(n);
    }
    i32::try_from(n as i64).map_or(Value::Int64(n as i64), Value::Int32)
}

/// The neighbour of `n` in a series that repeats in every decade.
fn step(series: &[f64], n: f64, up: bool) -> f64 {
    let (Some(first), Some(last)) = (series.first(), series.last()) else {
        return n;
    };
    let mut decade = 1.0;
    while n >= last * decade {
        decade *= 10.0;
    }
    // Between the last number of a decade and the next decade, the next decade's first number is
    // taken.
    let mut above = first * decade;
    while n < first * decade {
        above = first * decade;
        decade /= 10.0;
    }
    if up {
        return series
            .iter()
            .map(|s| s * decade)
            .find(|s| *s > n)
            .unwrap_or(above);
    }
    let below = last * (decade / 10.0);
    series
        .iter()
        .rev()
        .map(|s| s * decade)
        .find(|s| *s < n)
        .unwrap_or(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_in_a_series() {
        for (name, n, up, want) in [
            ("R5", 11.0, true, 16.0),
            ("R5", 63.0, true, 100.0),
            ("R5", 70.0, true, 100.0),
            ("R5", 10.0, false, 6.3),
            ("1-2-5", 5.0, true, 10.0),
            ("1-2-5", 0.3, false, 0.2),
            ("POWERSOF2", 8.0, true, 16.0),
            ("POWERSOF2", 8.0, false, 4.0),
            ("POWERSOF2", 9.0, false, 8.0),
        ] {
            let g = Granularity::parse(name).unwrap();
            let v = Value::Double(n);
            let got = if up { g.round_up(&v) } else { g.round_down(&v) }
                .get()
                .as_f64()
                .unwrap();
            assert!((got - want).abs() < 1e-9, "{name} {n} {up}: {got}");
        }
    }
}
