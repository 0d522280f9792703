//! Device profiles: the parts of a modelled device and its host, their times, and their energy.
//!
//! ```text
//!   profiles/NAME.toml ─► parse (keys, ranges) ─► geometry? ─► contradictions? ─► Profile          each error with its line
//! ```
//!
//! Each value of a shipped profile has its source beside it, in a comment; a test checks that. A missing parameter is refused, as is
//! an unknown one: there are no default values.

mod checks;
mod peaks;
mod units;

use std::path::Path;

pub use peaks::Peaks;
use serde::Deserialize;
use units::read;
pub use units::{Energy, Frequency, Power, Rate};

use crate::{Geometry, GeometryError, VirtualDuration};

/// Profiles that come with Lode, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("isp-adms11", include_str!("../../../../profiles/isp-adms11.toml")),
    ("yoursql-pm1725", include_str!("../../../../profiles/yoursql-pm1725.toml")),
    ("flixr-cosmos", include_str!("../../../../profiles/flixr-cosmos.toml")),
    ("iaa-mlc", include_str!("../../../../profiles/iaa-mlc.toml")),
    ("eleos-cnex", include_str!("../../../../profiles/eleos-cnex.toml")),
    ("pcie5-tlc", include_str!("../../../../profiles/pcie5-tlc.toml")),
    ("zns", include_str!("../../../../profiles/zns.toml")),
    ("mlc", include_str!("../../../../profiles/mlc.toml")),
    ("slc-ll", include_str!("../../../../profiles/slc-ll.toml")),
];

/// A modelled device, and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// A description in one line.
    pub about: String,
    /// Channels, ways, planes and units.
    pub geometry: Geometry,
    /// Whether an EBLOCK lies on all dies of its channel, WBLOCK by WBLOCK, or on one.
    pub striped: bool,
    /// The flash array.
    pub nand: Nand,
    /// The bus of a channel.
    pub bus: Bus,
    /// The unit of a channel that filters data as it passes.
    pub scan_unit: ScanUnit,
    /// The engine that decompresses pages.
    pub decompressor: Decompressor,
    /// The memory of the device.
    pub dram: Dram,
    /// The cores of the device.
    pub cores: Cores,
    /// Between device and host.
    pub link: Link,
    /// The host's side.
    pub host: Host,
    /// The energy of each operation.
    pub energy: EnergyCosts,
}

/// The flash array.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nand {
    /// Bytes that one array read brings into the register of a plane. Read units of it that are read together take one array read.
    pub page_bytes: u32,
    /// From the array to the register of a plane (tR).
    #[serde(rename = "read_us", deserialize_with = "read::us")]
    pub read: VirtualDuration,
    /// From the register to the array (tPROG).
    #[serde(rename = "program_us", deserialize_with = "read::us")]
    pub program: VirtualDuration,
    /// Of an EBLOCK (tBERS).
    #[serde(rename = "erase_us", deserialize_with = "read::us")]
    pub erase: VirtualDuration,
    /// Whether a plane reads the next page while its register is read out.
    pub cache_read: bool,
    /// Whether a plane's register is filled while it programs.
    pub cache_program: bool,
    /// Whether the planes of a die read, program and erase side by side.
    pub multi_plane: bool,
    /// Whether a read may interrupt a program or an erase.
    pub suspend: bool,
    /// The time that a suspension adds to the interrupted operation.
    #[serde(rename = "suspend_us", deserialize_with = "read::us")]
    pub suspend_cost: VirtualDuration,
}

/// The bus of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Data.
    #[serde(rename = "mb_per_s", deserialize_with = "read::mb_per_s")]
    pub rate: Rate,
    /// Command and address cycles of an operation.
    #[serde(rename = "command_ns", deserialize_with = "read::ns")]
    pub command: VirtualDuration,
}

/// The most keys of any pattern matcher.
pub const KEYS_MAX: u8 = 3;
/// The most bytes of such a key.
pub const KEY_BYTES_MAX: u8 = 16;

/// The unit of a channel that looks at data as it passes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScanUnit {
    /// The rate at which it does.
    #[serde(rename = "mb_per_s", deserialize_with = "read::mb_per_s")]
    pub rate: Rate,
    /// What it can tell.
    pub kind: ScanUnitKind,
    /// The most keys of a pattern matcher; 0 of comparators.
    pub keys: u8,
    /// The most bytes of such a key; 0 of comparators.
    pub key_bytes: u8,
}

/// What a scan unit can tell of the data that pass it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScanUnitKind {
    /// Which rows pass a filter. It adds rows up, too.
    Comparators,
    /// Which keys are among the bytes of a page. Cores filter rows.
    Matcher,
}

/// The engine that decompresses pages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decompressor {
    /// Unpacked data.
    #[serde(rename = "mb_per_s", deserialize_with = "read::mb_per_s")]
    pub rate: Rate,
}

/// The memory of the device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dram {
    /// Reads and writes together.
    #[serde(rename = "mb_per_s", deserialize_with = "read::mb_per_s")]
    pub rate: Rate,
    /// Its size.
    pub megabytes: u32,
    /// The part of it that keeps pages which were read or programmed lately, in KB.
    pub buffer_kb: u32,
}

/// The cores of the device, and the cycles of their work.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cores {
    /// The number of cores.
    pub count: u32,
    /// The clock that the cycles below count.
    #[serde(rename = "mhz", deserialize_with = "read::mhz")]
    pub clock: Frequency,
    /// To take up a command and complete it.
    pub command_cycles: u32,
    /// To look up a page.
    pub lookup_cycles: u32,
    /// To compare an index entry.
    pub index_cycles: u32,
    /// To search a node of a tree.
    pub node_cycles: u32,
    /// To make the address of a row or page of an entry of a tree.
    pub entry_cycles: u32,
    /// To begin a page of a task.
    pub page_cycles: u32,
    /// To compare a record with a predicate.
    pub compare_cycles: u32,
    /// To put a record out.
    pub emit_cycles: u32,
    /// To add a record to an aggregate.
    pub aggregate_cycles: u32,
}

/// Between device and host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// To the host.
    #[serde(rename = "up_mb_per_s", deserialize_with = "read::mb_per_s")]
    pub up: Rate,
    /// To the device.
    #[serde(rename = "down_mb_per_s", deserialize_with = "read::mb_per_s")]
    pub down: Rate,
    /// From the host's doorbell to the command in the device, without its data.
    #[serde(rename = "command_ns", deserialize_with = "read::ns")]
    pub command: VirtualDuration,
    /// From the completion in the device to the host.
    #[serde(rename = "completion_ns", deserialize_with = "read::ns")]
    pub completion: VirtualDuration,
    /// Commands in a queue at a time.
    pub queue_depth: u32,
    /// Queues.
    pub queue_pairs: u32,
    /// Bytes of a buffer in the device that outlive a power cut.
    pub protected_bytes: u32,
}

/// The host's times: for commands, and for each row in an operator.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// To send a command and take its completion.
    #[serde(rename = "command_ns", deserialize_with = "read::ns")]
    pub command: VirtualDuration,
    /// To turn a row that came from the drive into columns.
    #[serde(rename = "scan_ns", deserialize_with = "read::ns")]
    pub scan: VirtualDuration,
    /// To filter a row.
    #[serde(rename = "filter_ns", deserialize_with = "read::ns")]
    pub filter: VirtualDuration,
    /// To project a row.
    #[serde(rename = "project_ns", deserialize_with = "read::ns")]
    pub project: VirtualDuration,
    /// To aggregate a row.
    #[serde(rename = "aggregate_ns", deserialize_with = "read::ns")]
    pub aggregate: VirtualDuration,
    /// To put a row into a hash table, or look one up.
    #[serde(rename = "join_ns", deserialize_with = "read::ns")]
    pub join: VirtualDuration,
    /// To sort a row.
    #[serde(rename = "sort_ns", deserialize_with = "read::ns")]
    pub sort: VirtualDuration,
    /// To take a row through any other operator.
    #[serde(rename = "other_ns", deserialize_with = "read::ns")]
    pub other: VirtualDuration,
    /// To search a node of a tree.
    #[serde(rename = "node_ns", deserialize_with = "read::ns")]
    pub node: VirtualDuration,
    /// To make the address of a row or page of an index entry.
    #[serde(rename = "entry_ns", deserialize_with = "read::ns")]
    pub entry: VirtualDuration,
    /// To put a row into a page.
    #[serde(rename = "place_ns", deserialize_with = "read::ns")]
    pub place: VirtualDuration,
}

/// The energy of each operation, and the power of idling.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnergyCosts {
    /// Of an array read of a page.
    #[serde(rename = "read_nj", deserialize_with = "read::nj")]
    pub read: Energy,
    /// Of programming a program unit.
    #[serde(rename = "program_nj", deserialize_with = "read::nj")]
    pub program: Energy,
    /// Of erasing an erase unit.
    #[serde(rename = "erase_nj", deserialize_with = "read::nj")]
    pub erase: Energy,
    /// Of a byte on a channel.
    #[serde(rename = "bus_pj_per_byte", deserialize_with = "read::pj")]
    pub bus_byte: Energy,
    /// Of a byte into or out of the device's memory.
    #[serde(rename = "dram_pj_per_byte", deserialize_with = "read::pj")]
    pub dram_byte: Energy,
    /// Of a byte that a scan unit looks at.
    #[serde(rename = "scan_pj_per_byte", deserialize_with = "read::pj")]
    pub scan_byte: Energy,
    /// Of a cycle of a core.
    #[serde(rename = "core_pj_per_cycle", deserialize_with = "read::pj")]
    pub core_cycle: Energy,
    /// Of a byte on the link.
    #[serde(rename = "link_pj_per_byte", deserialize_with = "read::pj")]
    pub link_byte: Energy,
    /// Of the device while it does nothing.
    #[serde(rename = "idle_mw", deserialize_with = "read::mw")]
    pub idle: Power,
    /// Of the host while it computes, above idling.
    #[serde(rename = "host_busy_mw", deserialize_with = "read::mw")]
    pub host_busy: Power,
    /// Of the host while it waits.
    #[serde(rename = "host_idle_mw", deserialize_with = "read::mw")]
    pub host_idle: Power,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    channels: u32,
    ways: u32,
    planes: u32,
    rblock_bytes: u32,
    wblock_bytes: u32,
    eblock_bytes: u32,
    eblock_count: u32,
    striped: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    about: String,
    geometry: Shape,
    nand: Nand,
    bus: Bus,
    scan_unit: ScanUnit,
    decompressor: Decompressor,
    dram: Dram,
    cores: Cores,
    link: Link,
    host: Host,
    energy: EnergyCosts,
}

/// Why a profile is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A line describes an impossible device, or a key that no profile has.
    #[error("{file}:{line}: {what}")]
    Line {
        /// The file, or the name.
        file: String,
        /// The line.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// There is neither a profile nor a file of this name.
    #[error("no profile is called {name}, and there is no such file; there are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The profiles that exist.
        known: String,
    },
    /// The file cannot be read.
    #[error("{file}: {what}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        what: String,
    },
}

impl Profile {
    /// A shipped profile, by its name; or one in a file.
    ///
    /// # Errors
    /// When there is neither, or it is not well-formed.
    pub fn find(name: &str) -> Result<Self, ProfileError> {
        if let Some((_, text)) = SHIPPED.iter().find(|p| p.0 == name) {
            return Self::parse(text, name);
        }
        let path = Path::new(name);
        if !path.exists() {
            let known: Vec<_> = ["none"].into_iter().chain(SHIPPED.iter().map(|p| p.0)).collect();
            return Err(ProfileError::Unknown { name: name.into(), known: known.join(", ") });
        }
        let unreadable =
            |e: std::io::Error| ProfileError::Unreadable { file: name.into(), what: e.to_string() };
        Self::parse(&std::fs::read_to_string(path).map_err(unreadable)?, name)
    }

    /// Parses the text of a profile.
    ///
    /// # Errors
    /// [`ProfileError::Line`], naming `file`.
    pub fn parse(text: &str, file: &str) -> Result<Self, ProfileError> {
        let error = |line, what: String| ProfileError::Line { file: file.into(), line, what };
        let w: Written = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            let key = text.lines().nth(line - 1).and_then(|l| l.split_once('=')).map(|(k, _)| k.trim());
            let what = e.message().lines().collect::<Vec<_>>().join(", ");
            match key {
                Some(key) if !what.contains(key) => error(line, format!("{key}: {what}")),
                _ => error(line, what),
            }
        })?;
        let line_of = |table: &str, key: &str| {
            // Keys outside of tables come first.
            let mut here = table.is_empty();
            let is_it = |l: &str| {
                let l = l.trim();
                if l.starts_with('[') {
                    here = l.trim_start_matches('[').split(']').next() == Some(table);
                }
                here && l.split('=').next().is_some_and(|k| k.trim() == key)
            };
            text.lines().position(is_it).map_or(1, |at| at + 1)
        };
        let g = &w.geometry;
        let geometry = Geometry::new(
            g.channels,
            g.ways,
            g.planes,
            g.rblock_bytes,
            g.wblock_bytes,
            g.eblock_bytes,
            g.eblock_count,
        )
        .map_err(|e| {
            let GeometryError::OutOfRange { what, .. } = &e;
            error(line_of("geometry", what), e.to_string())
        })?;
        if let Some(c) = checks::contradiction(&w, &geometry) {
            return Err(error(line_of(c.table, c.key), c.what));
        }
        Ok(Self {
            name: w.name,
            about: w.about,
            geometry,
            striped: w.geometry.striped,
            nand: w.nand,
            bus: w.bus,
            scan_unit: w.scan_unit,
            decompressor: w.decompressor,
            dram: w.dram,
            cores: w.cores,
            link: w.link,
            host: w.host,
            energy: w.energy,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped() -> &'static str {
        SHIPPED[0].1
    }

    fn refused(from: &str, to: &str) -> String {
        assert!(shipped().contains(from), "{from}");
        Profile::parse(&shipped().replace(from, to), "a.toml").unwrap_err().to_string()
    }

    #[test]
    fn shipped_profiles_are_sound_and_say_where_each_value_comes_from() {
        for (name, text) in SHIPPED {
            let p = Profile::find(name).unwrap();
            assert_eq!(p.name, *name);
            assert!(!p.about.is_empty() && p.about.len() < 100, "{name}");
            for line in text.lines().filter(|l| l.contains('=') && !l.trim_start().starts_with('#')) {
                let told = line.contains('#') || line.starts_with("name") || line.starts_with("about");
                assert!(told, "{name}: no source: {line}");
            }
        }
    }

    #[test]
    fn each_error_names_its_line_and_what_is_wrong() {
        let line = |what: &str| shipped().lines().position(|l| l.starts_with(what)).unwrap() + 1;
        for (from, to, key, what) in [
            ("read_us = 50 ", "read_us = -1 ", "read_us", "read_us: -1 is not from 0 to 1000000"),
            ("read_us = 50 ", "read_us = nan ", "read_us", "read_us: NaN is not from 0 to 1000000"),
            ("read_us = 50 ", "read_us = 'slow' ", "read_us", "invalid type: string"),
            ("read_us = 50 ", "reed_us = 50 ", "read_us", "unknown field `reed_us`"),
            ("mb_per_s = 100 ", "mb_per_s = 0 ", "mb_per_s", "mb_per_s: 0 is not from 0.001"),
            ("channels = 8 ", "channels = 0 ", "channels", "channels is 0"),
            (
                "page_bytes = 8192 ",
                "page_bytes = 4096 ",
                "page_bytes",
                "a multiple of 8192 that divides 8192",
            ),
            ("page_bytes = 8192 ", "page_bytes = 0 ", "page_bytes", "page_bytes is 0"),
            ("rblock_bytes = 8192 ", "rblock_bytes = 5000 ", "rblock_bytes", "rblock_bytes is 5000"),
            ("wblock_bytes = 8192 ", "wblock_bytes = 9000 ", "wblock_bytes", "a multiple of rblock_bytes"),
            ("eblock_count = 1024 ", "eblock_count = 1023 ", "eblock_count", "not dealt evenly to 8 places"),
            ("name = \"isp-adms11\"", "name = \"none\"", "name", "nothing is modelled"),
            ("name = \"isp-adms11\"", "name = \"\"", "name", "nothing is modelled"),
            (
                "ways = 8 ",
                "ways = 5 ",
                "striped",
                "1024 WBLOCKs of an EBLOCK are not striped evenly over 5 planes",
            ),
            (
                "eblock_bytes = 8388608 ",
                "eblock_bytes = 1572864 ",
                "eblock_bytes",
                "a multiple or a divisor of",
            ),
            ("megabytes = 128 ", "megabytes = 0 ", "megabytes", "megabytes: 0 is not from 1"),
            ("suspend_us = 0 ", "suspend_us = 5 ", "suspend_us", "none without suspend"),
            ("multi_plane = false ", "multi_plane = true ", "multi_plane", "a die of one plane has no other"),
            (
                "buffer_kb = 0 ",
                "buffer_kb = 131072 ",
                "buffer_kb",
                "buffer_kb: 131072 leaves no room for writes in the 128 MB",
            ),
            (
                "buffer_kb = 0 ",
                "buffer_kb = 7 ",
                "buffer_kb",
                "buffer_kb: 7 holds no read unit of 8192 bytes",
            ),
            (
                "protected_bytes = 0 ",
                "protected_bytes = 134217729 ",
                "protected_bytes",
                "more than the 128 MB",
            ),
            ("queue_depth = 32 ", "queue_depth = 0 ", "queue_depth", "queue_depth: 0 is not from 1 to 65536"),
            ("scan_ns = 0 ", "scan_ns = -1 ", "scan_ns", "scan_ns: -1 is not from 0 to 1000000000"),
            ("other_ns = 0 ", "others_ns = 0 ", "other_ns", "unknown field `others_ns`"),
            ("ways = 8 ", "ways = 8 8 ", "ways", ""),
        ] {
            let text = refused(from, to);
            assert!(text.starts_with(&format!("a.toml:{}: ", line(key))), "{to}: {text}");
            assert!(text.contains(what) && !text.contains('\n'), "{to}: {text}");
        }
        // A WBLOCK of 1 MB on each of 8 channels.
        let small = shipped().replace("wblock_bytes = 8192 ", "wblock_bytes = 1048576 ");
        let small = small.replace("megabytes = 128 ", "megabytes = 7 ");
        let text = Profile::parse(&small, "a.toml").unwrap_err().to_string();
        assert!(text.contains("megabytes: 7 is less than a WBLOCK a channel, 8388608 bytes"), "{text}");
        assert!(text.starts_with(&format!("a.toml:{}: ", line("megabytes"))), "{text}");
        let missing = refused("ways = 8 ", "# ");
        assert!(missing.contains("missing field `ways`"), "{missing}");
        assert!(Profile::parse("", "a.toml").unwrap_err().to_string().contains("missing field"));
    }

    #[test]
    fn a_profile_that_there_is_not_is_told_with_those_that_there_are() {
        let e = Profile::find("isp").unwrap_err().to_string();
        assert!(e.starts_with("no profile is called isp") && e.contains("none, isp-adms11"), "{e}");
        let dir = std::env::temp_dir();
        assert!(matches!(Profile::find(dir.to_str().unwrap()), Err(ProfileError::Unreadable { .. })));
    }

    #[test]
    fn values_are_as_written() {
        let p = Profile::find("isp-adms11").unwrap();
        assert_eq!(p.nand.read, VirtualDuration::from_ns(50_000));
        assert_eq!(p.bus.rate.time(p.geometry.rblock_bytes().into()), VirtualDuration::from_ns(81_920));
        assert_eq!(p.cores.clock.time(p.cores.compare_cycles.into()), VirtualDuration::from_ns(240));
        assert_eq!(p.host.filter, VirtualDuration::from_ps(14_200));
        assert_eq!((p.host.scan, p.host.other), (VirtualDuration::ZERO, VirtualDuration::ZERO));
        assert_eq!(p.energy.read.joules(2), 8.25e-6);
        assert_eq!(p.energy.idle.joules(VirtualDuration::from_ns(2_000_000_000)), 1.0);
    }

    /// Compares each platform with `targets.md` and its paper.
    #[test]
    fn platforms_are_as_their_papers_say() {
        let of = |name| Profile::find(name).unwrap();
        let us = |n: u64| VirtualDuration::from_ns(n * 1000);
        let mhz = |p: &Profile| p.cores.clock.hz() / 1_000_000;
        let mb = |r: Rate| r.bytes_per_s() as f64 / 1e6;
        let shape = |g: &Geometry| (g.channels(), g.ways(), g.planes(), g.rblock_bytes(), g.wblock_bytes());

        let p = of("isp-adms11");
        assert_eq!(shape(&p.geometry), (8, 8, 1, 8192, 8192));
        assert_eq!((p.bus.rate, p.link.up), (Rate::from_bytes_per_s(100_000_000), p.link.down));

        let p = of("yoursql-pm1725");
        assert_eq!((p.cores.count, mhz(&p), p.geometry.rblock_bytes()), (2, 750, 4096));
        assert!(p.nand.page_bytes.is_multiple_of(16_384));
        let mib = |r: Rate| r.bytes_per_s() >> 20;
        assert_eq!(mib(p.link.up), 3071, "about 3 GiB/s");
        let matching = mib(p.scan_unit.rate) * u64::from(p.geometry.channels()) - mib(p.link.up);
        assert!((200..400).contains(&matching), "a few hundred MiB/s above the link: {matching}");
        assert!(mib(p.peaks().bus) > mib(p.link.up) + matching, "more without the matcher");

        let p = of("flixr-cosmos");
        assert_eq!(shape(&p.geometry), (8, 8, 1, 16_384, 16_384));
        assert_eq!((p.cores.count, mhz(&p), p.dram.megabytes), (2, 1000, 1024));
        assert_eq!(p.link.up, Rate::from_bytes_per_s(4_000_000_000));
        // The paper has 1.38 GB/s of sequential reads, which is no input.
        let most = mb(p.peaks().sequential_read());
        assert!((1380.0..1.1 * 1380.0).contains(&most), "{most}");

        let p = of("iaa-mlc");
        assert_eq!((p.nand.read, p.nand.program, p.nand.erase), (us(100), us(1600), us(8500)));
        let g = &p.geometry;
        assert_eq!((g.wblock_bytes(), g.wblocks_per_eblock(), g.capacity_bytes()), (16_384, 256, 1 << 30));
        assert_eq!((g.channels() * g.ways(), g.planes(), g.eblock_count()), (4, 2, 4 * 2 * 32));
        assert!(!p.striped);

        let p = of("eleos-cnex");
        let g = &p.geometry;
        assert_eq!((g.rblock_bytes(), g.wblock_bytes(), g.eblock_bytes()), (4096, 32_768, 8 << 20));
        assert!(g.channels() > 1);
        assert_eq!((mhz(&p), p.link.up), (1800, Rate::from_bytes_per_s(12_500_000_000)));
    }

    /// Of the published figures of whole drives, only those of the link are inputs. Published reads must be within
    /// the model's peaks.
    #[test]
    fn current_devices_can_do_what_their_makers_publish() {
        for (name, read_mb, write_mb, read_latency_us) in [
            ("pcie5-tlc", 14_000.0, 10_000.0, 60.0),
            ("mlc", 3_360.0, 2_700.0, f64::INFINITY),
            ("slc-ll", 6_200.0, 5_800.0, 29.0),
        ] {
            let k = Profile::find(name).unwrap().peaks();
            let mb = |r: Rate| r.bytes_per_s() as f64 / 1e6;
            let write =
                k.array_program.into_iter().chain([k.down, k.bus]).map(mb).fold(f64::INFINITY, f64::min);
            assert!(mb(k.sequential_read()) >= read_mb, "{name}: {}", k.sequential_read());
            assert!(write >= write_mb, "{name}: {write}");
            assert!(k.read_4k.as_ps() as f64 / 1e6 <= read_latency_us, "{name}: {:?}", k.read_4k);
        }
    }

    #[test]
    fn an_array_reads_faster_than_it_programs_and_programs_faster_than_it_erases() {
        for (name, _) in SHIPPED {
            let p = Profile::find(name).unwrap();
            let n = &p.nand;
            assert!(n.read < n.program && n.program < n.erase, "{name}");
            assert!(p.geometry.eblock_count() / p.geometry.channels() >= 32, "{name}: EBLOCKs a channel");
            let e = &p.energy;
            assert!(e.read < e.program && e.program < e.erase, "{name}");
        }
    }
}
