//! The memory budget: how much this process may use, and how sizes are written.

/// Bytes this process may use: the smaller of the machine's memory and its control group's limit.
pub fn available_bytes() -> u64 {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|t| {
            let line = t.lines().find(|l| l.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(1 << 30, |kib| kib * 1024);
    let limit = |path: &str| std::fs::read_to_string(path).ok().and_then(|t| t.trim().parse::<u64>().ok());
    ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .into_iter()
        .filter_map(limit)
        .fold(machine, u64::min)
}

/// Smallest budget the server runs with.
pub const BYTES_MIN: u64 = 128 << 20;

/// Reads a size such as `512M`, `4G`, `1.5GB`, `800 MiB` or plain bytes.
///
/// # Errors
/// One line for anything else and for less than [`BYTES_MIN`].
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("memory must be a size such as 512M or 4G, given {text}");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let bytes = number * f64::from(2u32).powi(shift);
    if !(BYTES_MIN as f64..9e15).contains(&bytes) {
        return Err(format!("memory must be at least {}M, given {text}", BYTES_MIN >> 20));
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse("512M"), Ok(512 << 20));
        assert_eq!(parse("1.5 GiB"), Ok(3 << 29));
        assert_eq!(parse("268435456"), Ok(256 << 20));
        for bad in ["", "x", "12q", "5", "-1G", "1e99G"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(available_bytes() > 1 << 20);
    }
}
