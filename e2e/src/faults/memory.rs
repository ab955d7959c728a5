//! How much memory a process uses, as the kernel counts it.

use anyhow::{Context, Result};

/// One mebibyte.
pub const MIB: u64 = 1 << 20;

/// Bytes of a process in memory now.
pub fn now(pid: i32) -> Result<u64> {
    read(pid, "VmRSS:")
}

/// The most bytes of a process in memory at any time so far.
pub fn most(pid: i32) -> Result<u64> {
    read(pid, "VmHWM:")
}

fn read(pid: i32, name: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_understood() {
        let own = std::process::id() as i32;
        assert!(now(own).unwrap() > 0);
        assert!(most(own).unwrap() >= now(own).unwrap() / 2);
        assert!(now(-1).is_err());
    }
}
