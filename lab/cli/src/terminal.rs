//! Output of the lab. A closed reader, as in `quarry-lab list | head`, does not end the lab:
//! further output is dropped, and files are still written.

use std::fmt::Arguments;
use std::io::Write;

/// Prints to standard output, without an end of line.
pub(crate) fn print(text: Arguments<'_>) {
    let _ = std::io::stdout().lock().write_fmt(text);
}

/// Prints a line to standard output.
pub(crate) fn print_line(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_fmt(text).and_then(|()| out.write_all(b"\n"));
}

/// Prints a line to standard error.
pub(crate) fn note_line(text: Arguments<'_>) {
    let mut out = std::io::stderr().lock();
    let _ = out.write_fmt(text).and_then(|()| out.write_all(b"\n"));
}

/// A line for standard output, as `println!`.
macro_rules! print_line {
    ($($text:tt)*) => { $crate::terminal::print_line(format_args!($($text)*)) };
}

/// A line for standard error, as `eprintln!`.
macro_rules! note_line {
    ($($text:tt)*) => { $crate::terminal::note_line(format_args!($($text)*)) };
}
