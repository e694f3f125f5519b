//! Stacks of a running process: counted, printed as the studies print them, drawn as a flame graph.
//!
//! Promises: counts are never scaled or guessed; text of any origin is safe to parse. Must not
//! know: how stacks are taken.

use std::collections::BTreeMap;
use std::fmt::Write;

use inferno::collapse::Collapse;
use inferno::collapse::perf::{Folder, Options};
use inferno::flamegraph;

/// Text that holds no stacks, or a picture that cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The text is not in the sampling tool's format.
    #[error("the samples cannot be read: {0}")]
    Read(std::io::Error),
    /// No samples.
    #[error("no stack was sampled: the process did not use the CPU, or has ended")]
    Empty,
    /// The flame graph could not be drawn.
    #[error("the flame graph cannot be drawn: {0}")]
    Draw(String),
}

/// Stacks and how often each was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackCounts {
    /// Frames, outermost first.
    counts: BTreeMap<Vec<String>, u64>,
}

impl StackCounts {
    /// Reads the output of `perf script`. The output must not contain periods, because they would
    /// be taken for counts.
    ///
    /// # Errors
    /// The text has another format, or contains no stack.
    pub fn from_perf_script(text: &[u8]) -> Result<Self, ProfileError> {
        let mut folded = Vec::new();
        Folder::from(Options::default())
            .collapse(text, &mut folded)
            .map_err(ProfileError::Read)?;
        Self::from_collapsed(&String::from_utf8_lossy(&folded))
    }

    /// Reads lines `frame;frame count`, outermost frame first.
    ///
    /// # Errors
    /// The text contains no stack.
    pub fn from_collapsed(text: &str) -> Result<Self, ProfileError> {
        let mut out = Self::default();
        for line in text.lines() {
            let Some((stack, count)) = line.rsplit_once(' ') else {
                continue;
            };
            let Ok(count) = count.parse() else { continue };
            out.add(stack.split(';').map(str::to_owned).collect(), count);
        }
        out.check_nonempty()
    }

    /// Reads the concatenated output of any number of `thread apply all bt` of gdb.
    ///
    /// # Errors
    /// The text contains no stack.
    pub fn from_gdb(text: &str) -> Result<Self, ProfileError> {
        let mut out = Self::default();
        let mut stack: Vec<String> = Vec::new();
        for line in text.lines() {
            let line = line.trim_start();
            let frame = line
                .strip_prefix('#')
                .and_then(|rest| rest.split_once(char::is_whitespace));
            match frame.filter(|(number, _)| number.parse::<u32>().is_ok()) {
                Some((number, rest)) => {
                    if number == "0" {
                        out.add_reversed(&mut stack);
                    }
                    stack.push(frame_name(rest));
                }
                None if line.starts_with("Thread ") => out.add_reversed(&mut stack),
                None => {}
            }
        }
        out.add_reversed(&mut stack);
        out.check_nonempty()
    }

    fn add_reversed(&mut self, stack: &mut Vec<String>) {
        let mut taken = std::mem::take(stack);
        taken.reverse();
        if !taken.is_empty() {
            self.add(taken, 1);
        }
    }

    fn add(&mut self, stack: Vec<String>, count: u64) {
        let sum = self.counts.entry(stack).or_default();
        *sum = sum.saturating_add(count);
    }

    fn check_nonempty(self) -> Result<Self, ProfileError> {
        if self.counts.is_empty() {
            Err(ProfileError::Empty)
        } else {
            Ok(self)
        }
    }

    /// Samples in all.
    pub fn samples(&self) -> u64 {
        self.counts
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Writes lines `frame;frame count`, outermost frame first: a format that other tools read.
    pub fn format_collapsed(&self) -> String {
        self.counts
            .iter()
            .fold(String::new(), |mut out, (stack, count)| {
                let _ = writeln!(out, "{} {count}", stack.join(";"));
                out
            })
    }

    /// Writes the stacks in the format of the studies: the most frequent first, the count, then
    /// frames from the innermost out, separated by commas.
    pub fn as_studies_print(&self) -> String {
        let mut all: Vec<(&Vec<String>, &u64)> = self.counts.iter().collect();
        all.sort_by(|left, right| right.1.cmp(left.1).then(left.0.cmp(right.0)));
        all.iter().fold(String::new(), |mut out, (stack, count)| {
            let frames: Vec<&str> = stack.iter().rev().map(String::as_str).collect();
            let _ = writeln!(out, "{count:>7} {}", frames.join(","));
            out
        })
    }

    /// A flame graph: one SVG file that needs nothing else.
    ///
    /// # Errors
    /// The picture cannot be drawn.
    pub fn flame_graph(&self, title: &str, subtitle: &str) -> Result<String, ProfileError> {
        let mut options = flamegraph::Options::default();
        options.title = title.to_owned();
        options.subtitle = Some(subtitle.to_owned());
        options.count_name = "samples".to_owned();
        let text = self.format_collapsed();
        let mut out = Vec::new();
        flamegraph::from_lines(&mut options, text.lines(), &mut out)
            .map_err(|error| ProfileError::Draw(error.to_string()))?;
        String::from_utf8(out).map_err(|error| ProfileError::Draw(error.to_string()))
    }
}

/// The function name in `0x0000 in name (args) at file:1` or `name (args)`, without arguments,
/// addresses and the commas of generics.
fn frame_name(text: &str) -> String {
    let text = text.trim();
    let text = match text.split_once(" in ") {
        Some((address, rest)) if address.starts_with("0x") => rest,
        _ => text,
    };
    let end = text.find(" (").unwrap_or(text.len());
    let name = text.get(..end).unwrap_or(text).trim();
    // A name must not contain the separators of the output formats.
    name.replace([',', ';'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GDB: &str = "\
Thread 2 (Thread 0x7f (LWP 12) \"worker\"):
#0  0x00007f12 in __lll_lock_wait () from /lib/libc.so.6
#1  0x00007f13 in fdb_get<A, B> (handle=0x1, key=0x2) at src/fdb.c:120
#2  main (argc=1) at main.c:1

Thread 1 (Thread 0x7e (LWP 11) \"main\"):
#0  __poll (fds=0x0, timeout=-1) at poll.c:29
#1  0x00007f14 in main () at main.c:9
";

    #[test]
    fn gdb_stacks_are_counted_across_samples() {
        let stacks = StackCounts::from_gdb(&format!("{GDB}[Inferior 1 detached]\n{GDB}")).unwrap();
        assert_eq!(stacks.samples(), 4);
        assert_eq!(
            stacks.format_collapsed(),
            "main;__poll 2\nmain;fdb_get<A  B>;__lll_lock_wait 2\n"
        );
        let mut twice = GDB.to_owned();
        twice.push_str(
            "Thread 3 (LWP 13):\n#0  0x1 in __lll_lock_wait () from x\n#1  0x2 in \
            fdb_get<A, B> () at y\n#2  main () at z\n",
        );
        let printed = StackCounts::from_gdb(&twice).unwrap().as_studies_print();
        assert_eq!(
            printed,
            "      2 __lll_lock_wait,fdb_get<A  B>,main\n      1 __poll,main\n"
        );
    }

    #[test]
    fn perf_samples_are_counted() {
        let script = "\
server  101/102  12.5: cpu-clock:\n\tffff01 inner+0x1 (/usr/bin/server)\n\tffff02 outer+0x2 \
(/usr/bin/server)\n\n\
server  101/103  12.6: cpu-clock:\n\tffff01 inner+0x1 (/usr/bin/server)\n\tffff02 outer+0x2 \
(/usr/bin/server)\n\n";
        let stacks = StackCounts::from_perf_script(script.as_bytes()).unwrap();
        assert_eq!(stacks.format_collapsed(), "server;outer;inner 2\n");
        let svg = stacks.flame_graph("A & B", "two samples").unwrap();
        assert!(
            svg.contains("<svg") && svg.contains("outer") && svg.contains("A &amp; B"),
            "{svg}"
        );
        // Namespace names and links that a reader may click are not requests.
        let requests = ["<link", "src=\"http", "@import", "url(http"];
        assert!(requests.iter().all(|request| !svg.contains(request)));
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "no such process", "#0", "#x 1"] {
            assert!(
                matches!(StackCounts::from_gdb(text), Err(ProfileError::Empty)),
                "{text}"
            );
        }
        assert!(StackCounts::from_collapsed("no number here").is_err());
    }
}
