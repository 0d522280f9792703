//! Where a scan takes less time on a modelled device: in the drive, or in the host.
//!
//! ```text
//!   in the drive:  the slowest of  media ─► decompressor, cores ─► link: rows that pass   ─► host: those rows
//!   in the host:   the slowest of  media ─► link: whole columns                           ─► host: all rows
//! ```
//!
//! A page passes through all parts, and pages overlap: the slowest part is busy all the time, the others once for the first page. Where both take
//! as long, the host does the work.

use datafusion::error::Result;
use lode_base::profile::ScanUnitKind;
use lode_base::{Profile, VirtualDuration};
use lode_engine::TableStatistics;
use lode_page::{DataType, Value};
use lode_program::{Aggregation, Expr, Program};

use super::keys::{SentKeys, Way};
use super::{ScanSpec, engine_error, program_error};

/// Bytes of a text once it is unpacked, assumed: of one that is compared with whole values or grouped by, a code of a dictionary; of
/// another, some characters. A text that is searched has half of the characters that its column allows.
const CODE_BYTES: u64 = 2;
const TEXT_BYTES: u64 = 16;
/// Texts of at most so many bytes are taken to be few.
const SHORT_BYTES: usize = 4;
/// The share of rows that a key set or another condition of a join lets through, if nothing is known of it.
const KEYS_SHARE: f64 = 0.5;
/// Bits of a Bloom filter for each key.
const BLOOM_BITS_A_KEY: f64 = 11.0;

/// What a scan has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Work {
    /// Rows of the pages, and those that pass.
    rows: f64,
    passing: f64,
    filters: bool,
    /// Bytes of the needed columns as they are stored.
    stored_bytes: f64,
    /// The same as they are unpacked.
    unpacked_bytes: f64,
    /// Bytes of a row that is sent, and of all stored bytes of the table.
    row_bytes: f64,
    table_bytes: f64,
    /// Pages of the table.
    pages: f64,
}

/// How long parts of a device take for some work.
struct Parts<'a>(&'a Profile);

impl Parts<'_> {
    /// From the flash array through the buses of as many channels as the table lies on.
    fn media(&self, w: &Work) -> f64 {
        let p = self.0;
        let on = (w.table_bytes / p.geometry.eblock_bytes() as f64).ceil();
        let channels = on.clamp(1.0, f64::from(p.geometry.channels()));
        let array = f64::from(p.nand.page_bytes) * f64::from(p.geometry.ways()) / seconds(p.nand.read);
        let bus = rate(|bytes| p.bus.rate.time(bytes));
        w.stored_bytes / (channels * array.min(bus))
    }

    fn link(&self, bytes: f64) -> f64 {
        bytes / rate(|bytes| self.0.link.up.time(bytes))
    }

    /// What the drive computes for rows, `aggregated` of them for groups that have a key.
    fn device(&self, w: &Work, aggregated: f64) -> f64 {
        let c = &self.0.cores;
        let unpack = w.unpacked_bytes / rate(|bytes| self.0.decompressor.rate.time(bytes));
        // A pattern matcher knows no rows: cores compare them, and send those that pass.
        let each = match self.0.scan_unit.kind {
            ScanUnitKind::Comparators => 0.0,
            ScanUnitKind::Matcher => {
                let sent = if aggregated > 0.0 { 0.0 } else { w.passing };
                w.rows * f64::from(c.compare_cycles) + sent * f64::from(c.emit_cycles)
            }
        };
        let cycles = each + aggregated * f64::from(c.aggregate_cycles);
        unpack.max(cycles / rate(|cycles| c.clock.time(cycles)) / f64::from(c.count))
    }

    /// The time of a scan in the drive, of which the host takes rows.
    fn rows_from_drive(&self, w: &Work, host_a_row: f64) -> f64 {
        let link = self.link(w.passing * w.row_bytes);
        let host = w.passing * (seconds(self.0.host.scan) + host_a_row);
        overlapped([self.media(w), self.device(w, 0.0), link, host], w)
    }

    /// The time of a scan in the host.
    fn in_host(&self, w: &Work, host_a_row: f64) -> f64 {
        let h = &self.0.host;
        let filter = if w.filters { seconds(h.filter) } else { 0.0 };
        let host = w.rows * (seconds(h.scan) + filter) + w.passing * host_a_row;
        overlapped([self.media(w), 0.0, self.link(w.stored_bytes), host], w)
    }

    /// What the host computes for a row on its way.
    fn work_on(&self, way: Way) -> f64 {
        let h = &self.0.host;
        f64::from(way.joins) * seconds(h.join) + f64::from(way.aggregates) * seconds(h.aggregate)
    }

    /// The time of a scan in the drive, of which the host takes groups.
    fn groups_from_drive(&self, w: &Work, has_keys: bool) -> f64 {
        // Scan units compute sums without groups.
        let by_core = has_keys || self.0.scan_unit.kind == ScanUnitKind::Matcher;
        overlapped([self.media(w), self.device(w, if by_core { w.passing } else { 0.0 }), 0.0, 0.0], w)
    }
}

/// The time of parts that pages pass through one after the other.
fn overlapped(parts: [f64; 4], w: &Work) -> f64 {
    let slowest = parts.into_iter().fold(0.0, f64::max);
    slowest + (parts.into_iter().sum::<f64>() - slowest) / w.pages.max(1.0)
}

fn seconds(d: VirtualDuration) -> f64 {
    d.as_secs_f64()
}

/// Units in a second, from the time of many.
fn rate(time: impl Fn(u64) -> VirtualDuration) -> f64 {
    const MANY: u64 = 1_000_000_000;
    MANY as f64 / seconds(time(MANY))
}

/// Whether the drive runs the program of a scan in less time than the host. `None` without a modelled device: there the drive is this
/// machine, and what it filters is handed over once. `keys` are conditions of the program that joins have sent.
pub(super) fn rows_pay(spec: &ScanSpec, program: &Program, keys: &SentKeys) -> Result<Option<bool>> {
    let Some(host) = spec.snapshot.host() else { return Ok(None) };
    let work = work_of(spec, program, keys)?;
    let parts = Parts(host.profile());
    let later = seconds(spec.later);
    let mut in_host = parts.in_host(&work, later);
    let way = keys.way.filter(|_| !keys.terms.is_empty() && spec.filter.is_none());
    if let Some(way) = way {
        // The host may leave all rows to the joins.
        let dropped = (work.rows - work.passing) / work.rows.max(1.0);
        let unfiltered = Work { filters: false, passing: work.rows, ..work };
        let a_row = dropped * parts.work_on(way) + (1.0 - dropped) * later;
        in_host = in_host.min(parts.in_host(&unfiltered, a_row));
    }
    Ok(Some(parts.rows_from_drive(&work, later) < in_host))
}

/// Whether the host looks keys up in key sets in less time than the join above takes with rows that have no partner. A condition that the scan
/// has anyway is looked at in any case, and so are the keys.
pub(super) fn keys_pay_in_host(spec: &ScanSpec, keys: &SentKeys) -> Result<bool> {
    let Some(host) = spec.snapshot.host() else { return Ok(true) };
    let is_alone = spec.filter.is_none() && !keys.terms.is_empty();
    let Some(way) = keys.way.filter(|_| is_alone) else { return Ok(true) };
    let known = spec.snapshot.statistics(&spec.table).map_err(engine_error)?;
    let parts = Parts(host.profile());
    Ok(seconds(parts.0.host.filter) < (1.0 - keys_share(&known, keys)) * parts.work_on(way))
}

/// Whether aggregating in the drive takes less time than aggregating in the host. Without a modelled device the answer is yes.
pub(crate) fn groups_pay(spec: &ScanSpec, of: &Aggregation) -> Result<bool> {
    let Some(host) = spec.snapshot.host() else { return Ok(true) };
    let program = spec.program()?.with_aggregation(of.clone()).map_err(program_error)?;
    let work = work_of(spec, &program, &SentKeys::of(&[]))?;
    let parts = Parts(host.profile());
    let add = seconds(host.profile().host.aggregate);
    let in_host = parts.in_host(&work, add).min(parts.rows_from_drive(&work, add));
    Ok(parts.groups_from_drive(&work, !of.group_by.is_empty()) < in_host)
}

/// The work of a scan by a program. Key sets that are known are among its conditions.
fn work_of(spec: &ScanSpec, program: &Program, keys: &SentKeys) -> Result<Work> {
    let known = spec.snapshot.statistics(&spec.table).map_err(engine_error)?;
    let (columns, declared) = (&spec.table.schema().columns, &spec.table.def().columns);
    let answered =
        if program.aggregation().is_some() { program.aggregate_columns() } else { program.projection() };
    let mut needed: Vec<u16> = program.filter_columns().iter().chain(answered).copied().collect();
    needed.sort_unstable();
    needed.dedup();
    let mut searched = Vec::new();
    program.filter().into_iter().for_each(|filter| add_searched(filter, &mut searched));
    let width = |c: &u16| {
        let c = usize::from(*c);
        let bounds = known.columns.get(c).and_then(Option::as_ref);
        // A hidden column behind those that were declared has no length.
        let max_chars = declared.get(c).and_then(|d| d.max_chars);
        let is_code = program.aggregation().is_some() || program.filter_columns().contains(&(c as u16));
        let is_short = max_chars.is_some_and(|n| n as usize <= SHORT_BYTES);
        let text_bytes = match max_chars {
            Some(n) if searched.contains(&(c as u16)) && !is_short => u64::from(n).div_ceil(2),
            _ if is_code || is_short => CODE_BYTES,
            _ => TEXT_BYTES,
        };
        unpacked_width(columns[c].data_type, bounds, text_bytes)
    };
    let of = |those: &mut dyn Iterator<Item = &u16>| those.map(width).sum::<u64>() as f64;
    let all: Vec<u16> = (0..columns.len() as u16).collect();
    let (rows, table_bytes) = (spec.table.rows() as f64, spec.table.bytes() as f64);
    let needed_width = of(&mut needed.iter());
    let is_narrowed = program.filter() != spec.filter.as_ref();
    let share = if keys.terms.is_empty() && is_narrowed { KEYS_SHARE } else { keys_share(&known, keys) };
    Ok(Work {
        rows,
        passing: rows * spec.selectivity * share,
        filters: program.filter().is_some(),
        stored_bytes: table_bytes * needed_width / of(&mut all.iter()).max(1.0),
        unpacked_bytes: rows * needed_width,
        row_bytes: of(&mut spec.output.iter().flatten()),
        table_bytes,
        pages: spec.table.pages() as f64,
    })
}

/// Adds the columns whose text is searched: all characters of it are unpacked.
fn add_searched(filter: &Expr, columns: &mut Vec<u16>) {
    match filter {
        Expr::And(terms) | Expr::Or(terms) => terms.iter().for_each(|t| add_searched(t, columns)),
        Expr::Not(term) => add_searched(term, columns),
        Expr::Like { value, .. } => value.columns(columns),
        _ => {}
    }
}

/// The bytes of a value as it is unpacked, of a column with these bounds. Few values are codes of a dictionary.
fn unpacked_width(data_type: DataType, bounds: Option<&(Value, Value)>, text_bytes: u64) -> u64 {
    let span = match bounds {
        Some((Value::Int(min), Value::Int(max))) => u128::from(max.abs_diff(*min)),
        Some((Value::Decimal(min), Value::Decimal(max))) => max.abs_diff(*min),
        _ => u128::MAX,
    };
    match data_type {
        DataType::Boolean => 1,
        _ if span < 1 << 8 => 1,
        DataType::Text if bounds.is_some_and(|(min, max)| is_short(min) && is_short(max)) => CODE_BYTES,
        DataType::Decimal { .. } if span < 1 << 16 => 2,
        DataType::Decimal { .. } if span < 1 << 32 => 4,
        DataType::Decimal { .. } if span < 1 << 64 => 8,
        t => t.fixed_bytes().map_or(text_bytes, |bytes| bytes as u64),
    }
}

/// Whether a text is one of few, by its length.
fn is_short(text: &Value) -> bool {
    matches!(text, Value::Bytes(b) if b.len() <= SHORT_BYTES)
}

/// The share of rows that key sets let through, as far as their sizes and the bounds of their columns say.
fn keys_share(known: &TableStatistics, keys: &SentKeys) -> f64 {
    let share = |(key, domain): (&Expr, &Option<f64>)| {
        let Expr::InKeys { value, keys } = key else { return KEYS_SHARE };
        let Expr::Column(column) = &**value else { return KEYS_SHARE };
        let values = match (domain, known.columns.get(usize::from(*column)).and_then(Option::as_ref)) {
            (Some(values), _) => *values,
            (None, Some((Value::Int(min), Value::Int(max)))) => {
                (max.abs_diff(*min) as f64 + 1.0).min(known.rows as f64)
            }
            _ => return KEYS_SHARE,
        };
        let count = keys.exact_len().map_or(keys.link_bytes() as f64 * 8.0 / BLOOM_BITS_A_KEY, |n| n as f64);
        (count / values.max(1.0)).min(1.0)
    };
    keys.terms.iter().zip(&keys.domains).map(share).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drive_works_where_its_parts_are_faster_than_the_host() {
        let work = Work {
            rows: 1e6,
            passing: 1e4,
            filters: true,
            stored_bytes: 8e6,
            unpacked_bytes: 16e6,
            row_bytes: 16.0,
            table_bytes: 64e9,
            pages: 64.0,
        };
        let pays = |profile: &str, work: &Work| {
            let profile = Profile::find(profile).unwrap();
            let parts = Parts(&profile);
            parts.rows_from_drive(work, 0.0) < parts.in_host(work, 0.0)
        };
        // MySQL takes 0.7 us a row.
        assert!(pays("yoursql-pm1725", &work));
        // A fast host, and a decompressor as fast as one bus.
        assert!(!pays("flixr-cosmos", &work));
        // Nothing to unpack: the scan units filter as pages pass.
        assert!(pays("zns", &Work { unpacked_bytes: 0.0, ..work }));
        assert!(!pays("zns", &Work { unpacked_bytes: 40e6, ..work }));
    }
}
