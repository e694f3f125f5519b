//! One chart as an HTML figure: an SVG drawn twice (linear and logarithmic), legend, caption and
//! the numbers behind the readout.
//!
//! Our own writer rather than a chart library: the page needs its own colours for light and dark,
//! and both scales in one file.

use std::fmt::Write;

use super::escape;
use crate::format;

/// What the vertical axis counts, which decides how ticks and readouts are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    /// A plain number.
    Number,
    /// Microseconds, written in the unit that suits.
    LatencyUs,
    /// Bytes.
    Bytes,
}

impl Quantity {
    pub(super) fn tick(self, value: f64) -> String {
        match self {
            Self::Number => format::axis(value),
            Self::LatencyUs if value >= 1e6 => format!("{} s", format::axis(value / 1e6)),
            Self::LatencyUs if value >= 1e3 => format!("{} ms", format::axis(value / 1e3)),
            Self::LatencyUs => format!("{} µs", format::axis(value)),
            Self::Bytes => format::bytes(value)
                .replace(".00 ", " ")
                .replace(".0 ", " "),
        }
    }

    pub(super) fn readout(self, value: f64) -> String {
        match self {
            Self::Number => format::number(value),
            Self::LatencyUs => format::latency_us(value),
            Self::Bytes => format::bytes(value),
        }
    }

    /// Distance of round numbers in this unit: bytes are round in powers of two.
    pub(super) fn round_step(self, rough: f64) -> f64 {
        let base: f64 = if self == Self::Bytes { 2.0 } else { 10.0 };
        let power = base.powf(rough.max(1e-9).log(base).floor());
        let factors: &[f64] = if self == Self::Bytes {
            &[1.0, 2.0]
        } else {
            &[1.0, 2.0, 5.0, 10.0]
        };
        factors
            .iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(power * base)
    }
}

/// One line of a chart.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Name in the legend.
    pub(super) name: String,
    /// Colour 1 to 8.
    pub(super) colour: u8,
    /// A value for each x, where there is one.
    pub(super) values: Vec<Option<f64>>,
    /// Points by themselves instead of a line through them.
    pub(super) is_dots: bool,
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// Heading.
    pub(super) title: String,
    /// What a reader should know.
    pub(super) caption: String,
    /// Half as wide as the page.
    pub(super) half: bool,
    /// Axis title with its unit.
    pub(super) x_title: String,
    /// Positions of points.
    pub(super) x: Vec<f64>,
    /// How each x is called in the readout.
    pub(super) x_readout: Vec<String>,
    /// Range of the axis.
    pub(super) x_range: (f64, f64),
    /// Ticks, where round numbers will not do.
    pub(super) x_ticks: Option<Vec<(f64, String)>>,
    /// Axis title with its unit.
    pub(super) y_title: String,
    /// What y counts.
    pub(super) quantity: Quantity,
    /// The lines.
    pub(super) lines: Vec<Line>,
    /// Lowest and highest within each point, drawn behind the first line.
    pub(super) band: Option<Vec<(f64, f64)>>,
    /// A dashed line across, with its name.
    pub(super) reference: Option<(f64, String)>,
    /// End of the warm-up on the x axis.
    pub(super) warmup_end: f64,
    /// Stalls: begin and end on the x axis.
    pub(super) stalls: Vec<(f64, f64)>,
    /// Whether the page opens with the logarithmic scale.
    pub(super) opens_logarithmic: bool,
}

/// Rows of the table under a chart.
const NUMBERS_MAX: usize = 40;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scale {
    Linear,
    Logarithmic,
}

/// Edges of the plotting area and the two ranges.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    width: f64,
    height: f64,
    x_range: (f64, f64),
    y_range: (f64, f64),
    scale: Scale,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        let (low, high) = self.x_range;
        self.left + (value - low) / (high - low).max(1e-12) * (self.right - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        let (low, high) = self.y_range;
        let share = match self.scale {
            Scale::Linear => (value - low) / (high - low).max(1e-12),
            // Zero has no logarithm: it is drawn on the lower edge.
            Scale::Logarithmic => {
                (value.max(low).log10() - low.log10()) / (high.log10() - low.log10()).max(1e-12)
            }
        };
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top)
    }
}

impl Chart {
    /// The figure.
    pub(super) fn render(&self) -> String {
        let mut out = format!(
            "<figure{}>\n<div class=\"head\"><h3>{}</h3>",
            if self.half { " class=\"half\"" } else { "" },
            escape(&self.title)
        );
        out.push_str("<span class=\"switch\" role=\"group\" aria-label=\"Vertical scale\">");
        for (scale, name) in [(Scale::Linear, "linear"), (Scale::Logarithmic, "log")] {
            let pressed = (scale == Scale::Logarithmic) == self.opens_logarithmic;
            let _ = write!(
                out,
                "<button type=\"button\" data-scale=\"{name}\" \
                    aria-pressed=\"{pressed}\">{name}</button>"
            );
        }
        out.push_str("</span></div>\n");
        self.write_legend(&mut out);
        // A region that scrolls must be reachable by keyboard.
        out.push_str("<div class=\"plot\" tabindex=\"0\">\n");
        for scale in [Scale::Linear, Scale::Logarithmic] {
            self.write_svg(&mut out, scale);
        }
        out.push_str("</div>\n");
        let _ = writeln!(
            out,
            "<figcaption>{}</figcaption>\n<div class=\"tip\"></div>",
            escape(&self.caption)
        );
        self.write_numbers(&mut out);
        let _ = writeln!(
            out,
            "<script type=\"application/json\">{}</script>\n</figure>",
            self.readouts()
        );
        out
    }

    /// What the chart shows, for those who cannot see it.
    fn description(&self) -> String {
        let mut out = format!("{} by {}.", self.y_title, self.x_title);
        for line in &self.lines {
            let seen = || line.values.iter().flatten().copied();
            let (low, high) = (
                seen().fold(f64::INFINITY, f64::min),
                seen().fold(0.0, f64::max),
            );
            if low.is_finite() {
                let _ = write!(
                    out,
                    " {}: {} to {}.",
                    line.name,
                    self.quantity.readout(low),
                    self.quantity.readout(high)
                );
            }
        }
        out
    }

    /// The same numbers as a table, thinned evenly when there are many.
    fn write_numbers(&self, out: &mut String) {
        let every = self.x.len().div_ceil(NUMBERS_MAX).max(1);
        let note = if every > 1 {
            format!("; one row in {every}")
        } else {
            String::new()
        };
        let _ = write!(
            out,
            "<details class=\"numbers\"><summary>Numbers of this chart{note}</summary><div \
                class=\"scroll\"><table class=\"right\"><thead><tr><th scope=\"col\">{}</th>",
            escape(&self.x_title)
        );
        for line in &self.lines {
            let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&line.name));
        }
        out.push_str("</tr></thead><tbody>\n");
        for (at, name) in self.x_readout.iter().enumerate().step_by(every) {
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(name));
            for line in &self.lines {
                let value = line.values.get(at).copied().flatten();
                let _ = write!(
                    out,
                    "<td>{}</td>",
                    escape(
                        &value.map_or_else(|| "–".to_owned(), |value| self.quantity.readout(value))
                    )
                );
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div></details>\n");
    }

    fn write_legend(&self, out: &mut String) {
        out.push_str("<div class=\"legend\">");
        for line in &self.lines {
            let _ = write!(
                out,
                "<span><i class=\"b{}\"></i>{}</span>",
                line.colour,
                escape(&line.name)
            );
        }
        if self.warmup_end > self.x_range.0 {
            out.push_str(
                "<span><i class=\"box\" style=\"background:var(--shade)\"></i>warm-up, \
                not measured</span>",
            );
        }
        if !self.stalls.is_empty() {
            out.push_str(
                "<span><i class=\"box\" style=\"background:var(--stall)\"></i>stall</span>",
            );
        }
        if self.band.is_some() {
            out.push_str(
                "<span><i class=\"box\" style=\"background:var(--band)\"></i>slowest to \
                fastest second within a point</span>",
            );
        }
        out.push_str("</div>\n");
    }

    fn frame(&self, scale: Scale) -> Frame {
        let (width, height) = if self.half {
            (520.0, 280.0)
        } else {
            (1060.0, 320.0)
        };
        let bands = self
            .band
            .iter()
            .flatten()
            .flat_map(|(low, high)| [*low, *high]);
        let seen = || {
            self.lines
                .iter()
                .flat_map(|line| line.values.iter().flatten().copied())
        };
        let highest = seen()
            .chain(bands)
            .chain(self.reference.iter().map(|(value, _)| *value))
            .fold(0.0, f64::max);
        let highest = if highest > 0.0 { highest } else { 1.0 };
        let y_range = match scale {
            Scale::Linear => (0.0, highest * 1.06),
            Scale::Logarithmic => {
                let lowest = seen()
                    .filter(|value| *value > 0.0)
                    .fold(f64::INFINITY, f64::min)
                    .min(highest);
                // Whole decades, at least two, at most eight.
                let top = 10_f64.powf((highest * 1.02).log10().ceil());
                let bottom = 10_f64
                    .powf(lowest.log10().floor())
                    .min(top / 100.0)
                    .max(top / 1e8);
                (bottom, top)
            }
        };
        let left = if self.quantity == Quantity::Bytes {
            92.0
        } else {
            78.0
        };
        Frame {
            left,
            right: width - 16.0,
            top: 12.0,
            bottom: height - 44.0,
            width,
            height,
            x_range: self.x_range,
            y_range,
            scale,
        }
    }

    fn write_svg(&self, out: &mut String, scale: Scale) {
        let frame = self.frame(scale);
        let name = if scale == Scale::Linear {
            "linear"
        } else {
            "log"
        };
        let hidden = if (scale == Scale::Logarithmic) == self.opens_logarithmic {
            ""
        } else {
            " hidden"
        };
        let _ = writeln!(
            out,
            "<svg viewBox=\"0 0 {} {}\" data-scale=\"{name}\" role=\"img\"{hidden}>\n<title>{}, \
                {name} scale</title>\n<desc>{}</desc>",
            frame.width,
            frame.height,
            escape(&self.title),
            escape(&self.description())
        );
        self.write_marks(out, &frame);
        self.write_axes(out, &frame);
        self.write_lines(out, &frame);
        let _ = writeln!(
            out,
            "<line class=\"cursor\" y1=\"{}\" y2=\"{}\"/>\n</svg>",
            frame.top, frame.bottom
        );
    }

    fn write_marks(&self, out: &mut String, frame: &Frame) {
        let mut area = |class: &str, from: f64, to: f64, width_min: f64| {
            let (x, height) = (frame.x(from.max(self.x_range.0)), frame.bottom - frame.top);
            let width = (frame.x(to.min(self.x_range.1)) - x).max(width_min);
            let _ = writeln!(
                out,
                "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{}\" width=\"{width:.1}\" \
                    height=\"{height}\"/>",
                frame.top
            );
            x + width / 2.0
        };
        if self.warmup_end > self.x_range.0 {
            area("warmup", self.x_range.0, self.warmup_end, 1.0);
        }
        let middles: Vec<f64> = self
            .stalls
            .iter()
            .map(|(from, to)| area("stall", *from, *to, 3.0))
            .collect();
        for middle in middles {
            let y = frame.top;
            let (left, right) = (middle - 5.0, middle + 5.0);
            let _ = writeln!(
                out,
                "<path class=\"stall-mark\" d=\"M{left:.1} {y}L{right:.1} {y}L{middle:.1} {}Z\"/>",
                y + 8.0
            );
        }
    }

    fn write_axes(&self, out: &mut String, frame: &Frame) {
        for value in self.y_ticks(frame) {
            let y = frame.y(value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                frame.left, frame.right
            );
            let _ = writeln!(
                out,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                frame.left - 8.0,
                y + 4.5,
                escape(&self.quantity.tick(value))
            );
        }
        for (value, text) in self.x_ticks(frame) {
            let x = frame.x(value);
            let _ = writeln!(
                out,
                "<line class=\"frame\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/>",
                frame.bottom,
                frame.bottom + 5.0
            );
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"{}\">{}</text>",
                frame.bottom + 19.0,
                // Long names at the right edge would leave the picture.
                if x + text.chars().count() as f64 * 3.8 > frame.width {
                    "end"
                } else {
                    "middle"
                },
                escape(&text)
            );
        }
        let _ = writeln!(
            out,
            "<line class=\"frame\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>",
            frame.left, frame.right, frame.bottom, frame.bottom
        );
        let (x_middle, y_middle) = (
            (frame.left + frame.right) / 2.0,
            (frame.top + frame.bottom) / 2.0,
        );
        let _ = writeln!(
            out,
            "<text x=\"{x_middle:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            frame.height - 6.0,
            escape(&self.x_title)
        );
        let _ = writeln!(
            out,
            "<text transform=\"translate(13 {y_middle:.1}) rotate(-90)\" \
                text-anchor=\"middle\">{}</text>",
            escape(&self.y_title)
        );
    }

    fn write_lines(&self, out: &mut String, frame: &Frame) {
        if let Some(band) = &self.band {
            let mut path = String::new();
            for (x, (_, high)) in self.x.iter().zip(band) {
                let _ = write!(
                    path,
                    "{}{:.1} {:.1}",
                    if path.is_empty() { 'M' } else { 'L' },
                    frame.x(*x),
                    frame.y(*high)
                );
            }
            for (x, (low, _)) in self.x.iter().zip(band).rev() {
                let _ = write!(path, "L{:.1} {:.1}", frame.x(*x), frame.y(*low));
            }
            let _ = writeln!(out, "<path class=\"band\" d=\"{path}Z\"/>");
        }
        if let Some((value, _)) = &self.reference {
            let y = frame.y(*value);
            let _ = writeln!(
                out,
                "<line class=\"reference\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                frame.left, frame.right
            );
        }
        for line in self.lines.iter().rev() {
            if line.is_dots {
                for (x, value) in self.x.iter().zip(&line.values) {
                    let Some(value) = value else { continue };
                    let (x, y) = (frame.x(*x), frame.y(*value));
                    let _ = writeln!(
                        out,
                        "<circle class=\"f{}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>",
                        line.colour
                    );
                }
                continue;
            }
            let mut path = String::new();
            let mut pen_down = false;
            for (x, value) in self.x.iter().zip(&line.values) {
                match value {
                    Some(value) => {
                        let _ = write!(
                            path,
                            "{}{:.1} {:.1}",
                            if pen_down { 'L' } else { 'M' },
                            frame.x(*x),
                            frame.y(*value)
                        );
                        pen_down = true;
                    }
                    None => pen_down = false,
                }
            }
            // A single point would be invisible: a line of no length with round ends is a dot.
            if line.values.iter().flatten().count() == 1 {
                path.push_str("h0.1");
            }
            let _ = writeln!(out, "<path class=\"line c{}\" d=\"{path}\"/>", line.colour);
        }
        if let Some((value, name)) = &self.reference {
            let y = frame.y(*value);
            // Below the line unless that would leave the chart.
            let label_y = if y + 18.0 < frame.bottom {
                y + 16.0
            } else {
                y - 7.0
            };
            let _ = writeln!(
                out,
                "<text class=\"label\" x=\"{}\" y=\"{label_y:.1}\" text-anchor=\"end\">{}</text>",
                frame.right - 4.0,
                escape(name)
            );
        }
    }

    fn y_ticks(&self, frame: &Frame) -> Vec<f64> {
        let (low, high) = frame.y_range;
        match frame.scale {
            Scale::Linear => round_ticks(low, high, self.quantity.round_step((high - low) / 5.0)),
            Scale::Logarithmic => {
                let (first, last) = (low.log10().round() as i32, high.log10().round() as i32);
                let between: &[f64] = if last - first <= 2 {
                    &[1.0, 2.0, 5.0]
                } else {
                    &[1.0]
                };
                let all = (first..=last).flat_map(|power| {
                    between
                        .iter()
                        .map(move |factor| factor * 10_f64.powi(power))
                });
                all.filter(|value| *value <= high * 1.001).collect()
            }
        }
    }

    fn x_ticks(&self, frame: &Frame) -> Vec<(f64, String)> {
        if let Some(ticks) = &self.x_ticks {
            return ticks.clone();
        }
        let (low, high) = self.x_range;
        let wanted = if self.half { 5.0 } else { 10.0 };
        let step = Quantity::Number.round_step((high - low) / wanted);
        let ticks = round_ticks(low, high, step);
        let fits = |value: &f64| frame.x(*value) <= frame.right + 1.0;
        ticks
            .into_iter()
            .filter(fits)
            .map(|value| (value, format::axis(value)))
            .collect()
    }

    /// What the readout shows, as JSON that cannot end the script element early.
    fn readouts(&self) -> String {
        let frame = self.frame(Scale::Linear);
        let series: Vec<_> = self
            .lines
            .iter()
            .map(|line| {
                let text = |value: &Option<f64>| value.map_or_else(|| "–".to_owned(), |value| self.quantity.readout(value));
                serde_json::json!({ "name": line.name, "text": line.values.iter().map(text).collect::<Vec<_>>() })
            })
            .collect();
        let px: Vec<f64> = self
            .x
            .iter()
            .map(|x| (frame.x(*x) * 10.0).round() / 10.0)
            .collect();
        serde_json::json!({ "px": px, "x": self.x_readout, "series": series })
            .to_string()
            .replace('<', "\\u003c")
    }
}

/// Multiples of `step` from `low` to `high`.
pub(super) fn round_ticks(low: f64, high: f64, step: f64) -> Vec<f64> {
    let first = (low / step).ceil();
    (0..50)
        .map(|number| (first + f64::from(number)) * step)
        .take_while(|value| *value <= high * 1.000_001)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: Vec<Option<f64>>) -> Chart {
        Chart {
            title: "A <b> & \"c\"".to_owned(),
            caption: String::new(),
            half: false,
            x_title: "Time (s)".to_owned(),
            x: (0..values.len()).map(|x| x as f64).collect(),
            x_readout: values.iter().map(|_| "</script>".to_owned()).collect(),
            x_range: (0.0, values.len() as f64),
            x_ticks: None,
            y_title: "y".to_owned(),
            quantity: Quantity::Number,
            lines: vec![Line {
                name: "n".to_owned(),
                colour: 1,
                values,
                is_dots: false,
            }],
            band: None,
            reference: None,
            warmup_end: 0.0,
            stalls: vec![(1.0, 2.0)],
            opens_logarithmic: false,
        }
    }

    #[test]
    fn foreign_text_cannot_leave_its_place() {
        let html = chart(vec![Some(1.0), Some(2.0)]).render();
        assert!(html.contains("A &lt;b&gt; &amp; &quot;c&quot;"));
        assert_eq!(html.matches("</script>").count(), 1);
    }

    #[test]
    fn zeros_gaps_and_emptiness_give_finite_coordinates() {
        for values in [
            vec![],
            vec![None],
            vec![Some(0.0)],
            vec![Some(0.0), None, Some(1e9)],
            vec![Some(5.0); 3],
        ] {
            let html = chart(values).render();
            assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
        }
    }

    #[test]
    fn higher_values_stand_higher_on_both_scales() {
        let chart = chart(vec![Some(10.0), Some(1_000.0)]);
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let frame = chart.frame(scale);
            assert!(frame.y(1_000.0) < frame.y(100.0) && frame.y(100.0) < frame.y(10.0));
            assert!(frame.y(1_000.0) >= frame.top && frame.y(10.0) <= frame.bottom);
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(
            round_ticks(0.0, 53_000.0, Quantity::Number.round_step(53_000.0 / 5.0)),
            [0.0, 20_000.0, 40_000.0]
        );
        assert_eq!(Quantity::Bytes.tick(1_073_741_824.0), "1 GiB");
        assert_eq!(Quantity::LatencyUs.tick(2_500.0), "2.5 ms");
    }
}
