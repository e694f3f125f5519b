//! Time in which tasks waited for CPU, storage or memory (`/proc/pressure`), and traffic of the
//! page cache (`/proc/vmstat`).
//!
//! Promises: differences of counters, never the kernel's own moving averages; absent if the kernel
//! does not count.

use std::fs;

use crate::process::field;

/// Cumulative waiting of the machine, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Some task waited for a CPU.
    pub cpu_some_us: u64,
    /// All tasks waited for a CPU; above zero only within control groups.
    pub cpu_full_us: u64,
    /// Some task waited for storage.
    pub io_some_us: u64,
    /// All tasks that were not idle waited for storage.
    pub io_full_us: u64,
    /// Some task waited for memory.
    pub memory_some_us: u64,
    /// All tasks that were not idle waited for memory.
    pub memory_full_us: u64,
}

impl Pressure {
    /// Reads the counters now; `None` if the kernel has no pressure information.
    pub fn sample() -> Option<Self> {
        let read = |name: &str| parse(&fs::read_to_string(format!("/proc/pressure/{name}")).ok()?);
        let (
            (cpu_some_us, cpu_full_us),
            (io_some_us, io_full_us),
            (memory_some_us, memory_full_us),
        ) = (read("cpu")?, read("io")?, read("memory")?);
        Some(Self {
            cpu_some_us,
            cpu_full_us,
            io_some_us,
            io_full_us,
            memory_some_us,
            memory_full_us,
        })
    }

    /// The waiting since `earlier`.
    pub fn delta_since(&self, earlier: &Self) -> Self {
        let [now, then] = [self.fields(), earlier.fields()];
        let mut out = Self::default();
        let since = now
            .into_iter()
            .zip(then)
            .map(|(now, then)| now.saturating_sub(then));
        out.fields_mut()
            .into_iter()
            .zip(since)
            .for_each(|(field, us)| *field = us);
        out
    }

    /// Adds the adjacent interval.
    pub fn merge(&mut self, other: &Self) {
        self.fields_mut()
            .into_iter()
            .zip(other.fields())
            .for_each(|(field, us)| *field += us);
    }

    fn fields(&self) -> [u64; 6] {
        [
            self.cpu_some_us,
            self.cpu_full_us,
            self.io_some_us,
            self.io_full_us,
            self.memory_some_us,
            self.memory_full_us,
        ]
    }

    fn fields_mut(&mut self) -> [&mut u64; 6] {
        [
            &mut self.cpu_some_us,
            &mut self.cpu_full_us,
            &mut self.io_some_us,
            &mut self.io_full_us,
            &mut self.memory_some_us,
            &mut self.memory_full_us,
        ]
    }
}

/// `some` and `full` of one resource. Kernels before 5.13 have no `full` for the CPU.
fn parse(text: &str) -> Option<(u64, u64)> {
    let total = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace()
            .find_map(|word| word.strip_prefix("total="))?
            .parse::<u64>()
            .ok()
    };
    Some((total("some ")?, total("full ").unwrap_or(0)))
}

/// Cumulative traffic between page cache and storage, of the whole machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paging {
    /// Bytes that came in.
    pub in_bytes: u64,
    /// Bytes that went out.
    pub out_bytes: u64,
    /// Faults that had to wait for storage.
    pub faults_major: u64,
}

impl Paging {
    /// Reads the counters now; `None` if the kernel does not provide them.
    pub fn sample() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/vmstat").ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The kernel counts pages but prints KiB.
        Some(Self {
            in_bytes: field(text, "pgpgin ")? * 1_024,
            out_bytes: field(text, "pgpgout ")? * 1_024,
            faults_major: field(text, "pgmajfault ")?,
        })
    }

    /// The traffic since `earlier`.
    pub fn delta_since(&self, earlier: &Self) -> Self {
        Self {
            in_bytes: self.in_bytes.saturating_sub(earlier.in_bytes),
            out_bytes: self.out_bytes.saturating_sub(earlier.out_bytes),
            faults_major: self.faults_major.saturating_sub(earlier.faults_major),
        }
    }

    /// Adds the adjacent interval.
    pub fn merge(&mut self, other: &Self) {
        self.in_bytes += other.in_bytes;
        self.out_bytes += other.out_bytes;
        self.faults_major += other.faults_major;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_of_a_recorded_file() {
        let text = "some avg10=2.25 avg60=1.86 avg300=1.04 total=510494746\nfull avg10=1.10 \
            avg60=1.27 avg300=0.78 total=84888062\n";
        assert_eq!(parse(text), Some((510_494_746, 84_888_062)));
        assert_eq!(
            parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n"),
            Some((7, 0))
        );
        assert_eq!(parse(""), None);
    }

    #[test]
    fn a_difference_is_taken_field_by_field() {
        let before = Pressure {
            cpu_some_us: 5,
            memory_full_us: 1,
            ..Pressure::default()
        };
        let after = Pressure {
            cpu_some_us: 9,
            io_full_us: 3,
            memory_full_us: 8,
            ..Pressure::default()
        };
        let mut used = after.delta_since(&before);
        assert_eq!(
            (
                used.cpu_some_us,
                used.io_full_us,
                used.memory_full_us,
                used.io_some_us
            ),
            (4, 3, 7, 0)
        );
        used.merge(&used.clone());
        assert_eq!(
            (used.cpu_some_us, used.io_full_us, used.memory_full_us),
            (8, 6, 14)
        );
    }

    #[test]
    fn paging_of_a_recorded_file() {
        let text = "workingset_refault_file 57496842\npgpgin 241015473\npgpgout 371188916\npgfault \
            1112197025\npgmajfault 436404\n";
        let paging = Paging::parse(text).unwrap();
        assert_eq!(
            (paging.in_bytes, paging.out_bytes, paging.faults_major),
            (241_015_473 * 1_024, 371_188_916 * 1_024, 436_404)
        );
        assert_eq!(Paging::parse("pgpgin 1\n"), None);
    }
}
