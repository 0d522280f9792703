//! The peak rates of a modelled device, from its profile alone, to check a run and to compare devices.
//!
//! ```text
//!   read:  planes ─ array ─► channels ─ buses ─► link          the least of them is what a sequential read gets at most
//! ```

use super::{Profile, Rate};
use crate::VirtualDuration;

/// Bytes of a read command with one page in its list, and of a completion.
const COMMAND_BYTES: u64 = 64 + 16;
const COMPLETION_BYTES: u64 = 16;
const PAGE_BYTES: u64 = 4096;

/// The peak rates of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peaks {
    /// All planes reading at once: one page per tR. `None` when that takes no time.
    pub array_read: Option<Rate>,
    /// All planes programming at once: one WBLOCK per tPROG. `None` when that takes no time.
    pub array_program: Option<Rate>,
    /// All buses, each moving pages, with a command for each.
    pub bus: Rate,
    /// To the host.
    pub up: Rate,
    /// To the device.
    pub down: Rate,
    /// A read of 4 KB alone, from the submission to the completion.
    pub read_4k: VirtualDuration,
}

impl Peaks {
    /// The peak rate of a sequential read: the least rate on its way.
    pub fn sequential_read(&self) -> Rate {
        [self.bus, self.up].into_iter().chain(self.array_read).min().expect("there are three")
    }
}

fn rate(bytes: u64, over: VirtualDuration) -> Option<Rate> {
    let per_s = (u128::from(bytes) * 1_000_000_000_000).checked_div(over.as_ps().into())?;
    Some(Rate::from_bytes_per_s(u64::try_from(per_s).ok()?.max(1)))
}

impl Profile {
    /// The peak rates of this device.
    pub fn peaks(&self) -> Peaks {
        let g = &self.geometry;
        let dies = u64::from(g.channels() * g.ways());
        let planes = if self.nand.multi_plane { dies * u64::from(g.planes()) } else { dies };
        let page = u64::from(self.nand.page_bytes);
        let on_bus = self.bus.command + self.bus.rate.time(page);
        Peaks {
            array_read: rate(planes * page, self.nand.read),
            array_program: rate(planes * u64::from(g.wblock_bytes()), self.nand.program),
            bus: rate(u64::from(g.channels()) * page, on_bus).expect("a bus takes time"),
            up: self.link.up,
            down: self.link.down,
            read_4k: self.read_alone(PAGE_BYTES.max(g.rblock_bytes().into())),
        }
    }

    /// A read of 4 KB alone, for which the array gives `unit_bytes`. The device's memory works at the same time as bus and link.
    fn read_alone(&self, unit_bytes: u64) -> VirtualDuration {
        let beside = |rate: Rate, bytes| rate.time(bytes).max(self.dram.rate.time(bytes));
        let cycles = |n: u32| self.cores.clock.time(n.into());
        self.link.command
            + beside(self.link.down, COMMAND_BYTES)
            + cycles(self.cores.command_cycles)
            + cycles(self.cores.lookup_cycles)
            + self.bus.command
            + self.nand.read
            + beside(self.bus.rate, unit_bytes)
            + beside(self.link.up, PAGE_BYTES)
            + beside(self.link.up, COMPLETION_BYTES)
            + self.link.completion
    }
}

#[cfg(test)]
mod tests {
    use super::super::SHIPPED;
    use super::*;

    /// A row of the table in `profiles/README.md`.
    fn row(name: &str) -> String {
        let p = Profile::find(name).unwrap();
        let k = p.peaks();
        let gb = |r: Rate| format!("{:.2}", r.bytes_per_s() as f64 / 1e9);
        let us = k.read_4k.as_ps() as f64 / 1e6;
        let array = [k.array_read, k.array_program].map(|r| gb(r.unwrap()));
        let (bus, up, down) = (gb(k.bus), gb(k.up), gb(k.down));
        format!("| `{name}` | {} | {} | {} | {bus} | {up} | {down} | {us:.1} |", p.about, array[0], array[1])
    }

    #[test]
    fn the_readme_says_of_each_profile_what_it_can_do_at_most() {
        let readme = include_str!("../../../../profiles/README.md");
        let rows: Vec<String> = SHIPPED.iter().map(|p| row(p.0)).collect();
        let (table, _) = readme.split_once("\n## Making your own").expect("it says how");
        let told: Vec<&str> = table.lines().filter(|l| l.starts_with("| `")).collect();
        assert_eq!(told, rows, "the table is to be:\n{}\n", rows.join("\n"));
    }

    /// Section 5.2 of the ISP paper, with all that a channel does one after the other: 743 MB/s; at most, 800.
    #[test]
    fn what_limits_a_sequential_read_is_the_least() {
        let mut p = Profile::find("isp-adms11").unwrap();
        let k = p.peaks();
        assert_eq!(k.sequential_read(), p.link.up);
        p.link.up = Rate::from_bytes_per_s(8_000_000_000);
        assert_eq!(p.peaks().sequential_read(), k.bus);
        assert!((790e6..800e6).contains(&(k.bus.bytes_per_s() as f64)), "{}", k.bus);
        assert_eq!(k.array_read, Some(Rate::from_bytes_per_s(64 * 8192 * 20_000)));
        p.nand.read = VirtualDuration::ZERO;
        assert_eq!(p.peaks().array_read, None);
    }
}
