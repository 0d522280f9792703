//! `lode drive info`: describes an image in a page of text.

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use lode_command::Identity;
use lode_firmware::DriveInfo;
use lode_sql::shown_name;

use crate::error::CliResult;
use crate::table::{TextTable, bytes, count};

/// The width of the column of names.
const NAME_WIDTH: usize = 10;

/// Describes an image, including its tables.
pub(super) fn describe(path: &Path, info: &DriveInfo, database: &lode_engine::Database) -> CliResult<String> {
    let on_disk = std::fs::metadata(path).map_or(0, |m| m.blocks() * 512);
    let mut text = format!("{}\n", path.display());
    for (name, value) in lines(info, on_disk) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:NAME_WIDTH$}  {value}");
    }
    Ok(text + &tables(database)?)
}

/// Describes a drive that is served elsewhere, as far as a host can see it.
pub(super) fn describe_served(
    path: &Path,
    i: &Identity,
    database: &lode_engine::Database,
) -> CliResult<String> {
    let g = &i.geometry;
    let unit = |n: u32| binary(n.into());
    let eblocks = count(g.eblock_count().into());
    let limits = [
        ("model", i.model.clone()),
        ("capacity", format!("{} in {eblocks} EBLOCKs", binary(g.capacity_bytes()))),
        (
            "units",
            format!(
                "RBLOCK {}, WBLOCK {}, EBLOCK {}; {}",
                unit(g.rblock_bytes()),
                unit(g.wblock_bytes()),
                unit(g.eblock_bytes()),
                some(g.channels().into(), "channel")
            ),
        ),
    ];
    let mut text = format!("{}\n", path.display());
    for (name, value) in limits {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:NAME_WIDTH$}  {value}");
    }
    Ok(text + &tables(database)?)
}

fn lines(info: &DriveInfo, on_disk: u64) -> Vec<(&'static str, String)> {
    let g = &info.geometry;
    let unit = |n: u32| binary(n.into());
    let uuid: String = info.uuid.iter().map(|b| format!("{b:02x}")).collect();
    let uuid = [&uuid[..8], &uuid[8..12], &uuid[12..16], &uuid[16..20], &uuid[20..]].join("-");
    let mut held = format!("{} live; {} more fit", bytes(info.live_bytes), bytes(info.free_bytes));
    if info.pinned_bytes > 0 {
        held += &format!("; {} for read views and the last checkpoint", bytes(info.pinned_bytes));
    }
    let r = &info.recovery;
    let opened = match (info.open_epoch, r.clean) {
        (1, _) => "for the first time".to_string(),
        (n, true) => format!("{} times; last after a clean close", count(n.into())),
        (n, false) => format!("{} times; last after a crash", count(n.into())),
    };
    let mut recovery = format!(
        "read {}, {}; brought {} up to date",
        some(r.log_pages, "log page"),
        some(r.log_records, "record"),
        some(r.pages, "page")
    );
    if r.repaired > 0 {
        recovery += &format!("; {} read from a second copy", some(r.repaired, "structure"));
    }
    let (least, most) = info.erase_counts;
    let mut lines = vec![
        ("uuid", uuid),
        ("capacity", format!("{} in {} EBLOCKs", binary(g.capacity_bytes()), count(g.eblock_count().into()))),
        (
            "units",
            format!(
                "RBLOCK {}, WBLOCK {}, EBLOCK {}; {}",
                unit(g.rblock_bytes()),
                unit(g.wblock_bytes()),
                unit(g.eblock_bytes()),
                some(g.channels().into(), "channel")
            ),
        ),
        ("file", format!("{} on disk; {} long, holes included", bytes(on_disk), bytes(info.image_bytes))),
        ("pages", held),
        (
            "EBLOCKs",
            format!(
                "{} in use, {} free, {} failed; {} more may fail",
                count(info.eblocks_used.into()),
                count(info.eblocks_free.into()),
                count(info.eblocks_retired.into()),
                count(info.spares.into())
            ),
        ),
        ("wear", format!("{} to {} erasures of an EBLOCK", count(least.into()), count(most.into()))),
        ("extents", count(info.extents)),
        ("commits", count(info.commit.raw())),
        ("sessions", format!("{} open", count(info.sessions.into()))),
        ("opened", opened),
        ("recovery", recovery),
    ];
    if let Some(why) = &info.read_only {
        lines.push(("read-only", why.clone()));
    }
    lines
}

fn tables(database: &lode_engine::Database) -> CliResult<String> {
    let snapshot = database.snapshot()?;
    let mut tables: Vec<_> = snapshot.tables().map(|t| (shown_name(t.name()), t.clone())).collect();
    if tables.is_empty() {
        return Ok("\nThere are no tables.".into());
    }
    tables.sort_by(|a, b| a.0.cmp(&b.0));
    let mut out = TextTable::new(&["table", ">rows", ">pages", ">size"]);
    for (name, table) in tables {
        let s = snapshot.statistics(&table)?;
        out.row([name, count(s.rows), count(s.pages), bytes(s.bytes)]);
    }
    Ok(format!("\n{}", out.render().trim_end()))
}

/// A count with its noun, in the singular for one.
fn some(n: u64, thing: &str) -> String {
    format!("{} {thing}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Formats bytes with binary units: `8 MiB`.
pub(super) fn binary(n: u64) -> String {
    const UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.into_iter().find(|(_, unit)| n >= *unit) {
        Some((name, unit)) if n.is_multiple_of(unit) => format!("{} {name}", count(n / unit)),
        Some((name, unit)) => format!("{:.1} {name}", n as f64 / unit as f64),
        None => format!("{n} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_binary_and_things_are_counted() {
        let check = |n, expected: &str| assert_eq!(binary(n), expected);
        check(512, "512 B");
        check(4096, "4 KiB");
        check(8 << 20, "8 MiB");
        check(150_000_000, "143.1 MiB");
        check(3 << 40, "3 TiB");
        assert_eq!((some(1, "page"), some(1200, "page")), ("1 page".into(), "1,200 pages".into()));
    }
}
