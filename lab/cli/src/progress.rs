//! Shows the progress of a run: a bar with rate and remaining time or, without a terminal, a line
//! now and then.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab_kit::format;
use metrics::Interval;

/// The interval of lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The end of the step, which the bar measures.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// Operations.
    Ops(u64),
    /// Seconds.
    Seconds(u64),
}

/// Shows one step.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    goal: Goal,
    name: String,
    unit: &'static str,
    ops: u64,
    last_line: Instant,
    plain: bool,
}

impl Progress {
    /// The progress of step `name`, whose operations are called `unit`.
    pub(crate) fn new(name: &str, unit: &'static str, goal: Goal) -> Self {
        let length = match goal {
            Goal::Ops(ops) => ops,
            Goal::Seconds(seconds) => seconds,
        };
        let plain = !std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(
            Some(length),
            if plain {
                ProgressDrawTarget::hidden()
            } else {
                ProgressDrawTarget::stderr()
            },
        );
        let counter = if matches!(goal, Goal::Ops(_)) {
            "{human_pos}/{human_len}"
        } else {
            "{pos}/{len} s"
        };
        let template = format!("{{prefix}} {{bar:24}} {counter}  {{msg}}  left {{eta}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        bar.set_prefix(name.to_owned());
        Self {
            bar,
            goal,
            name: name.to_owned(),
            unit,
            ops: 0,
            last_line: Instant::now(),
            plain,
        }
    }

    /// Updates the display after an interval.
    pub(crate) fn show(&mut self, interval: &Interval, cumulative_rate: f64) {
        self.ops += interval.ops;
        let done = match self.goal {
            Goal::Ops(_) => self.ops,
            Goal::Seconds(_) => (interval.start + interval.length).as_secs(),
        };
        let text = format!(
            "{} {}/s, average {}, p99 {}{}",
            format::number(interval.rate()),
            self.unit,
            format::number(cumulative_rate),
            format::latency_us(interval.latency.percentile_us(99.0)),
            if interval.warmup { " (warm-up)" } else { "" },
        );
        if self.plain && self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            let left = self.time_left(interval, cumulative_rate);
            note_line!(
                "{}: {} s, {text}{left}",
                self.name,
                (interval.start + interval.length).as_secs()
            );
        }
        self.bar.set_message(text);
        self.bar.set_position(done);
    }

    fn time_left(&self, interval: &Interval, rate: f64) -> String {
        let seconds = match self.goal {
            Goal::Ops(goal) if rate > 0.0 => goal.saturating_sub(self.ops) as f64 / rate,
            Goal::Ops(_) => return String::new(),
            Goal::Seconds(goal) => goal as f64 - (interval.start + interval.length).as_secs_f64(),
        };
        format!(", left {}", format::seconds(seconds.max(0.0).round()))
    }

    /// Ends the display.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
