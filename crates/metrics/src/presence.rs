//! Whether a process is there, since when, and what it has open.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::process::{auxiliary_vector, parse_stat};

/// Files, sockets and pipes that a process has open, when they can be seen.
pub fn open_files(pid: u32) -> Option<u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    Some(entries.count() as u64)
}

/// Whether a process is there and has not ended; one whose parent has not fetched its status has ended.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).and_then(|text| parse_stat(&text));
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// How long ago a process was started, to a hundredth of a second; none if it is not there.
pub fn age(pid: u32) -> Option<Duration> {
    let stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).ok()?;
    let (ticks_per_second, _) = auxiliary_vector(Path::new("/proc"));
    let uptime: f64 = fs::read_to_string("/proc/uptime").ok()?.split_ascii_whitespace().next()?.parse().ok()?;
    let since = uptime - stat.started_ticks as f64 / ticks_per_second as f64;
    Some(Duration::from_secs_f64(since.max(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_not_alive_and_open_files_are_counted() {
        let own = std::process::id();
        let before = open_files(own).unwrap();
        let files: Vec<fs::File> = (0..200).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        // Other tests open and close files meanwhile, but never so many.
        assert!(open_files(own).unwrap() >= before + 100);
        drop(files);
        assert!(is_alive(own));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // Until its status is fetched it stays in the table of processes.
        while is_alive(child.id()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(fs::exists(format!("/proc/{}", child.id())).unwrap());
        child.wait().unwrap();
        assert!(!is_alive(child.id()) && open_files(4_194_999).is_none() && age(4_194_999).is_none());
    }

    #[test]
    fn a_process_ages() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let young = age(child.id()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let old = age(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let grown = old.saturating_sub(young);
        assert!(grown >= Duration::from_millis(150) && young < Duration::from_secs(30), "{young:?} {old:?}");
    }
}
