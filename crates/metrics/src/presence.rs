//! Whether a process is running, and since when.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::process::{auxiliary_vector, parse_stat};

/// Whether a process is running; a zombie whose parent has not read its status has ended.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).and_then(|text| parse_stat(&text));
    stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Time since a process was started, to a hundredth of a second; `None` if it does not exist.
pub fn age(pid: u32) -> Option<Duration> {
    let stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).ok()?;
    let (ticks_per_second, _) = auxiliary_vector(Path::new("/proc"));
    let uptime: f64 = fs::read_to_string("/proc/uptime")
        .ok()?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()?;
    let since = uptime - stat.started_ticks as f64 / ticks_per_second as f64;
    Some(Duration::from_secs_f64(since.max(0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_not_alive() {
        assert!(is_alive(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        // Until its status is read it stays in the process table.
        while is_alive(child.id()) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(fs::exists(format!("/proc/{}", child.id())).unwrap());
        child.wait().unwrap();
        assert!(!is_alive(child.id()) && age(4_194_999).is_none());
    }

    #[test]
    fn a_process_ages() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let young = age(child.id()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let old = age(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let grown = old.saturating_sub(young);
        assert!(
            grown >= Duration::from_millis(150) && young < Duration::from_secs(30),
            "{young:?} {old:?}"
        );
    }
}
