//! The bytes written to the disk under a directory, as the kernel counts them.
//!
//! On recent kernels, `/proc/self/io` greatly overstates the writes of cached files; `/proc/diskstats` does not.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The unit of `/proc/diskstats`, for any disk.
const SECTOR_BYTES: u64 = 512;

/// A disk whose writes the kernel counts.
pub struct Disk {
    major: u64,
    minor: u64,
}

impl Disk {
    /// The disk of `dir`, if it is a block device with counts.
    pub fn under(dir: &Path) -> Option<Self> {
        let dev = std::fs::metadata(dir).ok()?.dev();
        // The kernel encodes a device number in 64 bits like this.
        let disk = Self {
            major: (dev >> 8) & 0xFFF | (dev >> 32) & !0xFFF,
            minor: dev & 0xFF | (dev >> 12) & !0xFF,
        };
        disk.bytes_written()?;
        Some(disk)
    }

    /// The bytes written since the disk was attached.
    pub fn bytes_written(&self) -> Option<u64> {
        let text = std::fs::read_to_string("/proc/diskstats").ok()?;
        text.lines().find_map(|line| self.of_line(line))
    }

    /// `major minor name reads merged sectors ms writes merged sectors ...`
    fn of_line(&self, line: &str) -> Option<u64> {
        let mut fields = line.split_ascii_whitespace();
        let mut number = |skip: usize| fields.nth(skip)?.parse::<u64>().ok();
        let is_it = number(0)? == self.major && number(0)? == self.minor;
        is_it.then(|| number(7)).flatten().map(|sectors| sectors * SECTOR_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sectors_written_are_found() {
        let line =
            " 254       0 vda 1805009 47925 84355034 3288366 495125 157690 194883856 643148 0 202172 3986435";
        assert_eq!(Disk { major: 254, minor: 0 }.of_line(line), Some(194_883_856 * 512));
        assert_eq!(Disk { major: 254, minor: 1 }.of_line(line), None);
        assert_eq!(Disk { major: 254, minor: 0 }.of_line("254 0 vda 1"), None);
    }
}
