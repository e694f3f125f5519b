//! One chart as an HTML figure: the SVG drawn twice (linear and logarithmic), legend, caption and
//! the numbers behind the readout.

use std::fmt::Write;

use super::axis::{Quantity, Scale};
use super::html::{axes, escape};

/// One line of a chart.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Name in the legend.
    pub(super) name: String,
    /// Colour 1 to 8.
    pub(super) colour: u8,
    /// The value at each x, if there is one.
    pub(super) values: Vec<Option<f64>>,
    /// Points by themselves instead of a line through them.
    pub(super) is_dots: bool,
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// Heading.
    pub(super) title: String,
    /// A remark for readers.
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
    /// The quantity of the y axis.
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

impl Chart {
    /// The metric.
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
            "<figcaption>{}{}</figcaption>\n<div class=\"tip\"></div>",
            axes(&self.y_title, &self.x_title),
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

    /// A description of the chart for readers who cannot see it.
    pub(super) fn description(&self) -> String {
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

    /// The values of the readout, as JSON that cannot end the script element early.
    fn readouts(&self) -> String {
        let frame = self.frame(Scale::Linear);
        let series: Vec<_> = self
            .lines
            .iter()
            .map(|line| {
                let readout = |value| self.quantity.readout(value);
                let text = |value: &Option<f64>| value.map_or_else(|| "–".to_owned(), readout);
                let text: Vec<String> = line.values.iter().map(text).collect();
                serde_json::json!({ "name": line.name, "text": text })
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

#[cfg(test)]
mod tests {
    use super::super::axis::round_ticks;
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
    fn charts_of_zeros_gaps_and_no_points_have_finite_coordinates() {
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
