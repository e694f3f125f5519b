//! Identifies the process that holds a lease, so that a server that starts on the machine of a dead
//! holder need not wait for the end of the lease. Promises: a process that may still run is never
//! reported as gone. Must not know: what a lease is.

use std::fs;

/// Separates the parts of an identity.
const SEPARATOR: char = ' ';
/// Index of the start time in `/proc/PID/stat`, counted after the name of the process.
const START_AT: usize = 19;

/// The identity of this process: boot of its machine, namespace of process numbers, process number,
/// start time. Empty where the system does not provide them.
pub(crate) fn identify_current() -> String {
    let id = std::process::id();
    let parts = || Some([machine()?, id.to_string(), start_time(id)?].join(&SEPARATOR.to_string()));
    parts().unwrap_or_default()
}

/// Whether the process with this identity ran on this machine since its boot, and has ended.
pub(crate) fn is_gone(identity: &str) -> bool {
    let mut parts = identity.rsplitn(3, SEPARATOR);
    let (start, id, its_machine) = (parts.next(), parts.next(), parts.next());
    let (Some(start), Some(Ok(id)), Some(its_machine)) = (start, id.map(str::parse), its_machine)
    else {
        return false;
    };
    // Process numbers are only valid within one namespace of one boot.
    let is_here = machine().is_some_and(|own| own == its_machine);
    let own = std::process::id();
    // A system that does not show this process does not show others either.
    is_here && start_time(own).is_some() && start_time(id).as_deref() != Some(start)
}

/// This boot of the machine and this namespace of process numbers.
fn machine() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(format!("{}{SEPARATOR}{}", boot.trim(), namespace.display()))
}

/// The start time of a process, in ticks since the boot; `None` when there is no such process.
fn start_time(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name may contain spaces and parentheses.
    let (_, behind_name) = stat.rsplit_once(')')?;
    let start = behind_name.split_whitespace().nth(START_AT)?;
    Some(start.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_gone_when_it_has_ended_here() {
        assert!(!is_gone(&identify_current()), "{}", identify_current());
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let start = start_time(child.id()).unwrap();
        let identity = [machine().unwrap(), child.id().to_string(), start].join(" ");
        assert!(!is_gone(&identity));
        child.kill().unwrap();
        // The parent has not waited for the process yet.
        assert!(!is_gone(&identity));
        child.wait().unwrap();
        assert!(is_gone(&identity), "{identity}");
    }

    #[test]
    fn a_process_of_another_machine_may_still_run() {
        let own = identify_current();
        let (machine, numbers) = own.split_once(SEPARATOR).unwrap();
        assert!(!is_gone(&format!("{}x {numbers}", &machine[1..])));
        for identity in ["", " ", "1 2", "boot 1 2", "a b c d"] {
            assert!(!is_gone(identity), "{identity}");
        }
    }

    #[test]
    fn another_process_with_the_number_of_a_dead_one_is_not_it() {
        let own = identify_current();
        let (rest, start) = own.rsplit_once(SEPARATOR).unwrap();
        let earlier = start.parse::<u64>().unwrap() - 1;
        assert!(is_gone(&format!("{rest} {earlier}")));
    }
}
