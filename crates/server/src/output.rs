//! Lines on the standard streams. Promises: a closed or full stream causes no error and no panic; a
//! line that cannot be written is dropped.
//!
//! `println!` and its like would panic, so `make tidy` refuses them in the crates of the server.

use std::fmt::Arguments;
use std::io::Write;

/// Writes a line to standard output.
pub fn print_line(line: Arguments<'_>) {
    write_line(&mut std::io::stdout().lock(), line);
}

/// Writes a line to standard error.
pub fn print_error(line: Arguments<'_>) {
    write_line(&mut std::io::stderr().lock(), line);
}

/// One write for the whole line, so that lines of two processes on one stream do not mix.
fn write_line(stream: &mut dyn Write, line: Arguments<'_>) {
    let line = format!("{line}\n");
    let _ = stream.write_all(line.as_bytes());
    let _ = stream.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_closed_stream_is_no_fault_of_ours() {
        write_line(&mut Closed, format_args!("nobody reads this"));
        let mut taken = Vec::new();
        write_line(&mut taken, format_args!("{} is read", 1));
        assert_eq!(taken, b"1 is read\n");
    }
}
