//! What the lab prints. A reader that has gone, as of `quarry-lab list | head`, ends nothing: what
//! would be printed is left out, and files are written all the same.

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
