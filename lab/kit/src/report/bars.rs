//! Grouped bars as an HTML metric, linear and logarithmic, with the numbers as a table.
//!
//! On the logarithmic scale values are marks and not bars: there is no zero from which a bar could
//! rise, and its height would depend on where the axis happens to begin. Repeats have an interval.

use std::fmt::Write;
use std::ops::Range;

use super::axis::{Quantity, round_ticks};
use super::html::{axes, escape, tick_class};
use crate::statistics::Estimate;

/// One colour of bars.
pub(super) struct BarSeries {
    /// Name in the legend.
    pub(super) name: String,
    /// Colour 1 to 8.
    pub(super) colour: u8,
    /// The value of each group, if it has one.
    pub(super) values: Vec<Option<f64>>,
    /// The 95 % interval of each value, if there are several repeats; may be empty.
    pub(super) intervals: Vec<Option<Estimate>>,
}

impl BarSeries {
    fn interval(&self, at: usize) -> Option<&Estimate> {
        self.intervals.get(at).and_then(Option::as_ref)
    }
}

/// Groups of bars.
pub(super) struct Bars {
    /// Heading.
    pub(super) title: String,
    /// A remark for readers.
    pub(super) caption: String,
    /// The title of the groups.
    pub(super) x_title: String,
    /// Names of the groups.
    pub(super) groups: Vec<String>,
    /// The counted quantity, with its unit.
    pub(super) y_title: String,
    /// How values are written.
    pub(super) quantity: Quantity,
    /// The bars of each group.
    pub(super) series: Vec<BarSeries>,
    /// Half as wide as the page.
    pub(super) half: bool,
}

/// Left edge, top, and the space below for names.
const EDGES: (f64, f64, f64) = (78.0, 20.0, 48.0);

/// The plotting area and the range of its vertical axis.
struct BarFrame {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    is_log: bool,
    range: Range<f64>,
}

/// The position of a group of bars, and the width of each bar.
#[derive(Clone, Copy)]
struct BarPosition {
    middle: f64,
    bar: f64,
}

impl BarPosition {
    /// The left edge of bar `number` of `count`.
    fn x(self, number: usize, count: usize) -> f64 {
        self.middle - self.bar * count as f64 / 2.0 + self.bar * number as f64
    }
}

impl BarFrame {
    fn of(half: bool, is_log: bool, range: Range<f64>) -> Self {
        let (width, height) = if half {
            (520.0, 280.0)
        } else {
            (1060.0, 320.0)
        };
        let (left, top, below) = EDGES;
        Self {
            width,
            height,
            left,
            right: width - 12.0,
            top,
            bottom: height - below,
            is_log,
            range,
        }
    }

    fn y(&self, value: f64) -> f64 {
        let (low, high) = (self.range.start, self.range.end);
        let share = if self.is_log {
            (value.max(low).log10() - low.log10()) / (high.log10() - low.log10()).max(1e-12)
        } else {
            value / high
        };
        self.bottom - share.clamp(0.0, 1.0) * (self.bottom - self.top)
    }
}

impl Bars {
    /// The figure as HTML; empty if there are no bars.
    pub(super) fn render(&self) -> String {
        let values = || {
            self.series
                .iter()
                .flat_map(|series| series.values.iter().flatten().copied())
        };
        let ends = self
            .series
            .iter()
            .flat_map(|series| series.intervals.iter().flatten());
        let highest = values().fold(0.0, f64::max);
        // The interval of two repeats may be far wider than the values themselves.
        let top = ends
            .map(|one| one.high.min(highest * 2.0))
            .fold(highest, f64::max);
        if highest <= 0.0 {
            return String::new();
        }
        let lowest = values()
            .filter(|value| *value > 0.0)
            .fold(highest, f64::min);
        let class = if self.half { " class=\"half\"" } else { "" };
        // Bars a hundred times lower than others would be invisible.
        let is_wide = highest / lowest > 100.0;
        let mut out = format!(
            "<figure{class}>\n<div class=\"head\"><h3>{}</h3><span class=\"switch\" role=\"group\" \
                aria-label=\"Vertical scale\">\
             <button type=\"button\" data-scale=\"linear\" aria-pressed=\"{}\">linear</button>\
             <button type=\"button\" data-scale=\"log\" \
             aria-pressed=\"{is_wide}\">log</button></span></div>\n",
            escape(&self.title),
            !is_wide
        );
        if self.series.len() > 1 {
            out.push_str("<div class=\"legend\">");
            for series in &self.series {
                let _ = write!(
                    out,
                    "<span><i class=\"box b{}\"></i>{}</span>",
                    series.colour,
                    escape(&series.name)
                );
            }
            out.push_str("</div>\n");
        }
        out.push_str("<div class=\"plot\" tabindex=\"0\">\n");
        self.write_svg(&mut out, "linear", is_wide, 0.0..top * 1.08);
        // The lowest bar must be seen, so the scale begins below it.
        let lowest_decade = 10_f64.powf((lowest * 0.8).log10().floor());
        let decades = lowest_decade.max(highest / 1e8)..10_f64.powf((top * 1.02).log10().ceil());
        self.write_svg(&mut out, "log", !is_wide, decades);
        let _ = writeln!(
            out,
            "</div>\n<figcaption>{}{}</figcaption>",
            axes(self.quantity.title(&self.y_title), &self.x_title),
            escape(&self.caption)
        );
        self.write_numbers(&mut out);
        out.push_str("</figure>\n");
        out
    }

    fn write_svg(&self, out: &mut String, scale: &str, is_hidden: bool, range: Range<f64>) {
        let frame = BarFrame::of(self.half, scale == "log", range);
        let hidden = if is_hidden { " hidden" } else { "" };
        let _ = writeln!(
            out,
            "<svg viewBox=\"0 0 {} {}\" data-scale=\"{scale}\" role=\"img\"{hidden}>\n\
             <title>{}, {scale} scale</title>\n\
             <desc>Bars of {} by {}; the numbers follow as a table.</desc>",
            frame.width,
            frame.height,
            escape(&self.title),
            escape(self.quantity.title(&self.y_title)),
            escape(&self.x_title)
        );
        self.write_grid(out, &frame);
        let slot = (frame.right - frame.left) / self.groups.len().max(1) as f64;
        let bar = (slot * 0.82 / self.series.len().max(1) as f64).min(64.0);
        let values = self.series.iter().flat_map(|series| series.values.iter());
        // Either all bars have numbers or no bar has one: bars with numbers would otherwise seem
        // more important.
        let has_labels = values.flatten().all(|value| {
            let label = self.quantity.tick(*value);
            label.chars().count() as f64 * 7.6 <= bar
        });
        for (at, group) in self.groups.iter().enumerate() {
            let middle = frame.left + slot * (at as f64 + 0.5);
            self.write_group(out, &frame, at, BarPosition { middle, bar });
            if has_labels {
                self.write_labels(out, &frame, at, BarPosition { middle, bar });
            }
            // Names that do not fit stand on two levels in turn.
            let crowded = group.chars().count() as f64 * 7.2 > slot && at % 2 == 1;
            let _ = writeln!(
                out,
                "<text class=\"x-tick\" x=\"{middle:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\">{}</text>",
                frame.bottom + if crowded { 31.0 } else { 17.0 },
                escape(group)
            );
        }
        let (left, right, bottom) = (frame.left, frame.right, frame.bottom);
        let _ = writeln!(
            out,
            "<line class=\"frame\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\n\
             <text class=\"axis-title\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text class=\"axis-title\" transform=\"translate(13 {:.1}) rotate(-90)\" \
             text-anchor=\"middle\">{}</text>\n</svg>",
            (left + right) / 2.0,
            frame.height - 3.0,
            escape(&self.x_title),
            (frame.top + bottom) / 2.0,
            escape(self.quantity.title(&self.y_title))
        );
    }

    fn write_grid(&self, out: &mut String, frame: &BarFrame) {
        let (low, high) = (frame.range.start, frame.range.end);
        let ticks = if frame.is_log {
            let (first, last) = (low.log10().round() as i32, high.log10().round() as i32);
            (first..=last).map(|power| 10_f64.powi(power)).collect()
        } else {
            round_ticks(low, high, self.quantity.round_step(high / 5.0))
        };
        for (number, value) in ticks.into_iter().enumerate() {
            let at = frame.y(value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\n\
                 <text class=\"{}\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                frame.left,
                frame.right,
                tick_class(number),
                frame.left - 8.0,
                at + 4.5,
                escape(&self.quantity.tick(value))
            );
        }
    }

    fn write_group(&self, out: &mut String, frame: &BarFrame, at: usize, place: BarPosition) {
        for (number, series) in self.series.iter().enumerate() {
            let Some(value) = series.values.get(at).copied().flatten() else {
                continue;
            };
            let (x, edge) = (place.x(number, self.series.len()), frame.y(value));
            // A mark on a logarithmic axis is as high as it must be to be seen.
            let height = if frame.is_log {
                MARK_HEIGHT
            } else {
                (frame.bottom - edge).max(1.0)
            };
            let top = if frame.is_log {
                edge - MARK_HEIGHT / 2.0
            } else {
                edge
            };
            let width = (place.bar - 1.0).max(1.0);
            let _ = writeln!(
                out,
                "<rect class=\"f{}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                    height=\"{height:.1}\"/>",
                series.colour,
            );
            if let Some(interval) = series.interval(at) {
                let middle = x + (place.bar - 1.0) / 2.0;
                write_interval(out, frame, middle, place.bar, interval);
            }
        }
    }

    /// The numbers over the bars of a group, above their intervals.
    fn write_labels(&self, out: &mut String, frame: &BarFrame, at: usize, place: BarPosition) {
        for (number, series) in self.series.iter().enumerate() {
            let Some(value) = series.values.get(at).copied().flatten() else {
                continue;
            };
            let edge = frame.y(value);
            let above = series
                .interval(at)
                .map_or(edge, |one| frame.y(one.high).min(edge));
            let _ = writeln!(
                out,
                "<text class=\"value\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                place.x(number, self.series.len()) + place.bar / 2.0,
                above - 5.0,
                escape(&self.quantity.tick(value))
            );
        }
    }

    fn write_numbers(&self, out: &mut String) {
        let _ = write!(
            out,
            "<details class=\"numbers\"><summary>Numbers of this chart</summary><div \
                class=\"scroll\"><table class=\"right\"><thead><tr><th scope=\"col\">{}</th>",
            escape(&self.x_title)
        );
        for series in &self.series {
            let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&series.name));
        }
        out.push_str("</tr></thead><tbody>\n");
        for (at, group) in self.groups.iter().enumerate() {
            let _ = write!(out, "<tr><th scope=\"row\">{}</th>", escape(group));
            for series in &self.series {
                let value = series.values.get(at).copied().flatten();
                let mut text =
                    value.map_or_else(|| "–".to_owned(), |value| self.quantity.readout(value));
                if let Some(one) = series.interval(at) {
                    let _ = write!(
                        text,
                        " ({} to {})",
                        self.quantity.readout(one.low.max(0.0)),
                        self.quantity.readout(one.high)
                    );
                }
                let _ = write!(out, "<td>{}</td>", escape(&text));
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div></details>\n");
    }
}

/// Pixels.
const MARK_HEIGHT: f64 = 5.0;

/// A line from the lower to the upper end, with feet; cut where the axis ends.
fn write_interval(out: &mut String, frame: &BarFrame, x: f64, bar: f64, one: &Estimate) {
    let foot = (bar * 0.2).clamp(1.5, 7.0);
    let (low, high) = (frame.y(one.low.max(0.0)), frame.y(one.high));
    let _ = writeln!(
        out,
        "<path class=\"interval\" d=\"M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}H{:.1}M{:.1} \
            {high:.1}H{:.1}\"/>",
        x - foot,
        x + foot,
        x - foot,
        x + foot
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_have_an_interval_in_the_chart_and_in_the_table() {
        let bars = Bars {
            title: String::new(),
            caption: String::new(),
            x_title: String::new(),
            groups: vec!["1".to_owned()],
            y_title: String::new(),
            quantity: Quantity::Number,
            series: vec![BarSeries {
                name: "new".to_owned(),
                colour: 1,
                values: vec![Some(100.0)],
                intervals: vec![crate::statistics::estimate(&[90.0, 100.0, 110.0])],
            }],
            half: true,
        };
        let html = bars.render();
        assert_eq!(html.matches("class=\"interval\"").count(), 2, "{html}");
        assert!(html.contains("<td>100 (75.2 to 125)</td>"), "{html}");
    }

    #[test]
    fn bar_charts_follow_their_values_and_have_a_table() {
        let bars = Bars {
            title: "T <x>".to_owned(),
            caption: String::new(),
            x_title: "clients".to_owned(),
            groups: vec!["1".to_owned(), "2".to_owned()],
            y_title: "queries/s".to_owned(),
            quantity: Quantity::Number,
            series: vec![BarSeries {
                name: "new".to_owned(),
                colour: 1,
                values: vec![Some(10.0), Some(1_000.0)],
                intervals: Vec::new(),
            }],
            half: true,
        };
        let html = bars.render();
        let heights: Vec<f64> = html
            .split("height=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse().ok())
            .collect();
        assert_eq!(heights.len(), 4, "{html}");
        // Bars on the linear scale; on the logarithmic one marks of one height, at two heights.
        assert!(
            heights[0] < heights[1] && heights[2] == heights[3],
            "{heights:?}"
        );
        let tops: Vec<f64> = html
            .split(" y=\"")
            .filter(|rest| rest.contains("width"))
            .filter_map(|rest| rest.split('"').next()?.parse().ok())
            .collect();
        assert!(tops[tops.len() - 1] < tops[tops.len() - 2], "{tops:?}");
        assert!(
            html.contains("<td>1,000</td>")
                && html.contains("T &lt;x&gt;")
                && !html.contains("NaN"),
            "{html}"
        );
        let empty = Bars {
            series: vec![BarSeries {
                name: String::new(),
                colour: 1,
                values: vec![None, Some(0.0)],
                intervals: Vec::new(),
            }],
            ..bars
        };
        assert_eq!(empty.render(), "");
    }
}
