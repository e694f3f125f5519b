//! Confidence intervals of few repeats, and straight lines through points.
//!
//! Promises: Student's t, exact for any number of repeats; `None` if there is no answer. There is
//! no bootstrap: with three to five repeats it draws from too few values, and its intervals are too
//! short.

/// An estimate with its interval of 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Mean of `values` and its interval; `None` with fewer than two values.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let count = values.len();
    if count < 2 {
        return None;
    }
    let mean = mean(values)?;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / (count - 1) as f64;
    let half = t_975(count - 1) * (variance / count as f64).sqrt();
    Some(Estimate {
        mean,
        low: mean - half,
        high: mean + half,
    })
}

/// The ratio b / a of pairs `(a, b)`: geometric mean, and interval from Student's t on the
/// logarithms. `None` with fewer than two pairs or if a value is not above zero.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Estimate> {
    if pairs.iter().any(|(a, b)| *a <= 0.0 || *b <= 0.0) {
        return None;
    }
    let logs: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
    estimate(&logs).map(|found| Estimate {
        mean: found.mean.exp(),
        low: found.low.exp(),
        high: found.high.exp(),
    })
}

/// The ratio of the means of two groups whose repeats are not pairs: Welch's t on the logarithms.
/// `None` with fewer than two values in a group or if a value is not above zero.
pub fn ratio_of_groups(a: &[f64], b: &[f64]) -> Option<Estimate> {
    product_of_groups(&[b], &[a])
}

/// The product of the means of the groups in `over` divided by that of the groups in `under`, on
/// logarithms: a ratio, or a ratio of ratios. `None` with fewer than two values in a group or if a
/// value is not above zero.
pub fn product_of_groups(over: &[&[f64]], under: &[&[f64]]) -> Option<Estimate> {
    if over
        .iter()
        .chain(under)
        .copied()
        .flatten()
        .any(|value| *value <= 0.0)
    {
        return None;
    }
    let logs = |groups: &[&[f64]]| {
        groups
            .iter()
            .map(|values| values.iter().map(|value| value.ln()).collect())
            .collect::<Vec<Vec<f64>>>()
    };
    let found = contrast(&logs(over), &logs(under))?;
    Some(Estimate {
        mean: found.mean.exp(),
        low: found.low.exp(),
        high: found.high.exp(),
    })
}

/// The difference of the means of two groups whose repeats are not pairs. `None` with fewer than
/// two values in a group.
pub fn difference_of_groups(plus: &[f64], minus: &[f64]) -> Option<Estimate> {
    contrast(&[plus.to_vec()], &[minus.to_vec()])
}

/// Welch's t for the sum of the means in `plus` minus the sum of the means in `minus`.
fn contrast(plus: &[Vec<f64>], minus: &[Vec<f64>]) -> Option<Estimate> {
    let (mut mean, mut sum, mut spread, mut free_of_all) = (0.0, 0.0, 0.0, 0.0);
    for (values, sign) in plus
        .iter()
        .map(|values| (values, 1.0))
        .chain(minus.iter().map(|values| (values, -1.0)))
    {
        let count = values.len() as f64;
        if values.len() < 2 {
            return None;
        }
        let middle = values.iter().sum::<f64>() / count;
        let square = values
            .iter()
            .map(|value| (value - middle).powi(2))
            .sum::<f64>()
            / (count - 1.0)
            / count;
        mean += sign * middle;
        sum += square;
        spread += square.powi(2) / (count - 1.0);
        free_of_all += count - 1.0;
    }
    let free = if sum > 0.0 {
        sum.powi(2) / spread
    } else {
        free_of_all
    };
    // The small addend keeps 3.9999999 from being rounded down to 3.
    let half = t_975((free + 1e-6).floor().max(1.0) as usize) * sum.sqrt();
    Some(Estimate {
        mean,
        low: mean - half,
        high: mean + half,
    })
}

/// The 97.5 % quantile of Student's t with `free` degrees of freedom.
pub fn t_975(free: usize) -> f64 {
    const SMALL: [f64; 10] = [
        12.706_2, 4.302_65, 3.182_45, 2.776_45, 2.570_58, 2.446_91, 2.364_62, 2.306_00, 2.262_16,
        2.228_14,
    ];
    if let Some(value) = free.checked_sub(1).and_then(|at| SMALL.get(at)) {
        return *value;
    }
    if free == 0 {
        return f64::INFINITY;
    }
    // Cornish-Fisher expansion from the normal quantile; the error is below 1e-4 from eleven
    // degrees on.
    let (z, n) = (1.959_963_985_f64, free as f64);
    let (z3, z5, z7) = (z.powi(3), z.powi(5), z.powi(7));
    z + (z3 + z) / (4.0 * n)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / (384.0 * n.powi(3))
}

/// A straight line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineFit {
    /// Change of y per change of x.
    pub slope: f64,
    /// y at x = 0.
    pub at_zero: f64,
    /// Share of the variance of y that the line explains.
    pub r_squared: f64,
}

/// The least squares line; `None` with fewer than three points or if all x are equal.
pub fn line(points: &[(f64, f64)]) -> Option<LineFit> {
    let count = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let (mean_x, mean_y) = (
        points.iter().map(|point| point.0).sum::<f64>() / count,
        points.iter().map(|point| point.1).sum::<f64>() / count,
    );
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in points {
        let (x, y) = (x - mean_x, y - mean_y);
        (xx, xy, yy) = (xx + x * x, xy + x * y, yy + y * y);
    }
    if xx <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let r_squared = if yy > 0.0 { xy * xy / (xx * yy) } else { 1.0 };
    Some(LineFit {
        slope,
        at_zero: mean_y - slope * mean_x,
        r_squared,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, wanted: f64, within: f64) {
        assert!((found - wanted).abs() < within, "{found} is not {wanted}");
    }

    #[test]
    fn differences_and_ratios_of_ratios_follow_from_their_groups() {
        let found = difference_of_groups(&[3.0, 4.0, 5.0], &[1.0, 1.0, 1.0]).unwrap();
        near(found.mean, 3.0, 1e-12);
        // Only the first group varies: two degrees of freedom, a standard error of 1 / sqrt(3).
        near(found.high, 3.0 + 4.302_65 / 3.0_f64.sqrt(), 1e-4);
        let same = [2.0, 2.0];
        let found = product_of_groups(&[&[12.0, 12.0], &same], &[&same, &[3.0, 3.0]]).unwrap();
        near(found.mean, 4.0, 1e-12);
        assert_eq!(product_of_groups(&[&[0.0, 1.0]], &[&same]), None);
        assert_eq!(difference_of_groups(&[1.0], &same), None);
    }

    #[test]
    fn quantiles_agree_with_the_printed_tables() {
        for (free, wanted) in [
            (1, 12.706),
            (2, 4.303),
            (9, 2.262),
            (10, 2.228),
            (11, 2.201),
            (20, 2.086),
            (60, 2.000),
            (1_000, 1.962),
        ] {
            near(t_975(free), wanted, 6e-4);
        }
    }

    #[test]
    fn a_known_sample_has_its_known_interval() {
        // Mean 5, standard deviation 1, n 4: 5 ± 3.18245 / 2.
        let half = (0.75_f64).sqrt();
        let found = estimate(&[5.0 - half, 5.0 + half, 5.0 - half, 5.0 + half]).unwrap();
        near(found.mean, 5.0, 1e-12);
        near(found.low, 5.0 - 1.591_225, 1e-4);
        near(found.high, 5.0 + 1.591_225, 1e-4);
        assert_eq!(estimate(&[1.0]), None);
    }

    #[test]
    fn pairs_cancel_what_both_have_in_common() {
        // Each repeat has another level, but b is always twice a. The ratio is certain for pairs,
        // but not for groups.
        let (a, b) = ([100.0, 200.0, 400.0], [200.0, 400.0, 800.0]);
        let pairs: Vec<(f64, f64)> = a.into_iter().zip(b).collect();
        let paired = ratio(&pairs).unwrap();
        near(paired.mean, 2.0, 1e-9);
        near(paired.low, 2.0, 1e-9);
        let grouped = ratio_of_groups(&a, &b).unwrap();
        near(grouped.mean, 2.0, 1e-9);
        // Logarithms: variance ln2², so half is t(4) · sqrt(2 · ln2² / 3) = 2.77645 · 0.565953.
        near(grouped.low.ln(), 2.0_f64.ln() - 1.571_340, 1e-4);
        assert_eq!(ratio(&[(0.0, 1.0), (1.0, 1.0)]), None);
    }

    #[test]
    fn a_line_is_found_again() {
        let found = line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]).unwrap();
        near(found.slope, 2.0, 1e-12);
        near(found.at_zero, 1.0, 1e-12);
        near(found.r_squared, 1.0, 1e-12);
        near(
            line(&[(0.0, 0.0), (1.0, 1.0), (2.0, 0.0)])
                .unwrap()
                .r_squared,
            0.0,
            1e-12,
        );
        assert_eq!(line(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }
}
