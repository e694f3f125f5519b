//! The SVG of a chart, once for each vertical scale.
//!
//! Drawn by hand and not by a chart library: the page needs its own colours for light and dark, and
//! both scales in one file.

use std::fmt::Write;

use super::axis::{Quantity, Scale, round_ticks};
use super::chart::Chart;
use super::html::{escape, tick_class};
use crate::format;

/// Edges of the plotting area and the two ranges.
pub(super) struct Frame {
    left: f64,
    right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
    width: f64,
    height: f64,
    x_range: (f64, f64),
    y_range: (f64, f64),
    scale: Scale,
}

impl Frame {
    pub(super) fn x(&self, value: f64) -> f64 {
        let (low, high) = self.x_range;
        self.left + (value - low) / (high - low).max(1e-12) * (self.right - self.left)
    }

    pub(super) fn y(&self, value: f64) -> f64 {
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
    pub(super) fn frame(&self, scale: Scale) -> Frame {
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

    pub(super) fn write_svg(&self, out: &mut String, scale: Scale) {
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
        for (number, value) in self.y_ticks(frame).into_iter().enumerate() {
            let y = frame.y(value);
            let _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
                frame.left, frame.right
            );
            let _ = writeln!(
                out,
                "<text class=\"{}\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                tick_class(number),
                frame.left - 8.0,
                y + 4.5,
                escape(&self.quantity.tick(value))
            );
        }
        for (number, (value, text)) in self.x_ticks(frame).into_iter().enumerate() {
            let x = frame.x(value);
            let _ = writeln!(
                out,
                "<line class=\"frame\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{}\"/>",
                frame.bottom,
                frame.bottom + 5.0
            );
            let _ = writeln!(
                out,
                "<text class=\"x-tick {}\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"{}\">{}</text>",
                tick_class(number),
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
            "<text class=\"axis-title\" x=\"{x_middle:.1}\" y=\"{}\" \
             text-anchor=\"middle\">{}</text>",
            frame.height - 6.0,
            escape(&self.x_title)
        );
        let _ = writeln!(
            out,
            "<text class=\"axis-title\" transform=\"translate(13 {y_middle:.1}) rotate(-90)\" \
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
}
