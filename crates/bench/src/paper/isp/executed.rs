//! The three systems, executed: a drive in modelled time holds a table, and a host asks for the records that match.
//!
//! ```text
//!   records ─► pages of 8 KB, dealt over the channels ─► drive on the modelled device
//!   IHP:      read commands ─► the host looks at each record         cpu-ISP, hw-ISP: scan tasks ─► the records that match
//! ```
//!
//! Each run stores the table, scans it, and must find exactly the records that match. In phases, as in the equations,
//! a system has one command under way, and nothing overlaps within the command. Overlapped, which is our addition, a
//! system has several commands under way, and each page moves on as soon as it can.
//!
//! A record takes 128 bytes, including its share of the page's header: `l_quantity`, `l_extendedprice`, `l_discount`,
//! `l_shipdate` of TPC-H, and a comment that fills the rest. The predicate is that of Q6, with bounds that give the
//! selectivity. This module does not use the equations: the two share only the profile and the experiment.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use lode_base::{
    CommitNo, EXTENT_PAGES, Geometry, Lpid, OwnerId, PageBuf, Part, Profile, Split, TableId, ViewId,
    VirtualDuration, VirtualTime,
};
use lode_command::{
    Align, Answer, Batch, Command, Completion, Device, Outcome, PageRange, PageWrite, ReadRequest, Reply,
    ScanTask, Skip, Until,
};
use lode_firmware::{Drive, DriveOptions, ScanPlacement};
use lode_flash::Medium;
use lode_flash::timing::{EnergyUse, Model, Overlap};
use lode_page::{
    ColumnBuilder, ColumnType, DataType, PageKind, PageMeta, Schema, Value, decode_page, encode,
};
use lode_program::Program;
use tpchgen::generators::{LineItem, LineItemGenerator};

use super::equations::Breakdown;
use super::experiment::{Experiment, RECORD_BYTES, System};
use super::predicate::{Numbers, Predicate};
use crate::BenchError;
use crate::drive_host::{DriveError, Host, alone, nth, reply_of};
use crate::paper::run::{Run, Stop};

/// The place of the comment, behind the numbers.
const COMMENT_COLUMN: usize = 4;
/// Pages in a batch of the load.
const BATCH_PAGES: usize = 16_384;
/// Pages of a read command.
const READ_PAGES: usize = 1024;
/// The most pages of a unit of a task. The unit ends earlier when a megabyte of records matches.
const UNIT_PAGES: u32 = 8192;
/// Commands, or tasks, under way when they overlap.
const OVERLAPPED_DEPTH: usize = 4;
/// Bytes of the drive in addition to the table: the log, checkpoints, and the space that GC needs.
const SPARE_BYTES: u64 = 2 << 30;

/// A table, which each run stores on a new drive.
pub struct Table {
    pages: Vec<(Lpid, PageBuf)>,
    numbers: Vec<Numbers>,
    schema: Schema,
}

/// The result and the cost of a scan.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// Records of the table.
    pub records: u64,
    /// Records that matched.
    pub matched: u64,
    /// The modelled time.
    pub took: VirtualDuration,
    /// The time of the commands and the host, by what it was spent on. The parts add up to `took` if nothing overlaps.
    pub split: Split,
    /// The energy of the scan.
    pub energy: EnergyUse,
}

impl Scan {
    /// Records scanned per second.
    pub fn records_per_s(&self) -> f64 {
        self.records as f64 / self.took.as_secs_f64()
    }

    /// The components of Fig. 6, scaled to a table of `records` records.
    pub fn breakdown(&self, records: u64) -> Breakdown {
        let scale = records as f64 / self.records as f64;
        let of = |parts: &[Part]| parts.iter().map(|&p| self.split.of(p).as_secs_f64()).sum::<f64>() * scale;
        Breakdown {
            fmc_to_dram: of(&[Part::Media, Part::Bus, Part::Dram]),
            embedded_cpu: of(&[Part::Device]),
            dram_to_host: of(&[Part::Link]),
            host_cpu: of(&[Part::Host]),
        }
    }
}

impl Table {
    /// A table of at least `records` records of `lineitem` at scale 1, in pages of a read unit each.
    ///
    /// # Errors
    /// If a drive cannot store the table.
    pub fn new(profile: &Profile, records: u64) -> Result<Self, DriveError> {
        let page_bytes = profile.geometry.rblock_bytes() as usize;
        let rows = page_bytes / RECORD_BYTES as usize;
        let count = records.div_ceil(rows as u64);
        // A fresh drive allocates the same extents each time. So each page can name its LPID now.
        let extents = Host::new(&Drive::in_memory(1 << 30), 1)?.extents_for(count)?;
        let column = |data_type| ColumnType { data_type, nullable: false };
        let integers = [column(DataType::BigInt); COMMENT_COLUMN];
        let columns = integers.into_iter().chain([column(DataType::Text)]).collect();
        let mut table = Self {
            pages: Vec::new(),
            numbers: Vec::new(),
            schema: Schema { version: 1, columns, absent: Vec::new() },
        };
        let generator = LineItemGenerator::new(1.0, 1, 1);
        let mut items = generator.iter();
        // The longest comment that leaves room for the page's header.
        let mut comment_bytes = RECORD_BYTES as usize - COMMENT_COLUMN * 8;
        for n in 0..count {
            let rows: Vec<_> = items.by_ref().take(rows).map(|item| Record::of(&item)).collect();
            let lpid = nth(&extents, n);
            let page = loop {
                match table.page(lpid, &rows, comment_bytes, page_bytes) {
                    Some(page) => break page,
                    None => comment_bytes -= 1,
                }
            };
            table.pages.push((lpid, page));
            table.numbers.extend(rows.iter().map(|r| r.numbers));
        }
        Ok(table)
    }

    /// A page of these records, or `None` if they do not fit.
    fn page(&self, lpid: Lpid, rows: &[Record], comment_bytes: usize, page_bytes: usize) -> Option<PageBuf> {
        let types = self.schema.columns.iter().map(|c| c.data_type);
        let mut columns: Vec<_> = types.map(ColumnBuilder::new).collect();
        for record in rows {
            for (c, n) in columns.iter_mut().zip(record.numbers) {
                c.push(&Value::Int(n)).expect("an integer");
            }
            // TPC-H's comments are shorter than the room in the paper's records.
            let comment: String = record.comment.chars().cycle().take(comment_bytes).collect();
            columns[COMMENT_COLUMN].push(&Value::text(&comment)).expect("a text");
        }
        let (table, commit) = (TableId::new(1), CommitNo::new(0));
        let meta = PageMeta { lpid, table, schema_version: 1, kind: PageKind::Row, commit };
        let columns: Vec<_> = columns.into_iter().map(ColumnBuilder::finish).collect();
        encode(&meta, &columns, page_bytes).ok()
    }

    /// Records of the table.
    pub fn records(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// Stores the table on the device of an experiment, and scans it.
    ///
    /// # Errors
    /// When the drive fails, or answers other records than those that match.
    pub fn scan(
        &self,
        profile: &Profile,
        experiment: &Experiment,
        system: System,
        overlap: Overlap,
    ) -> Result<Scan, DriveError> {
        let predicate = Predicate::with_selectivity(&self.numbers, experiment.selectivity);
        let expected = self.numbers.iter().filter(|r| predicate.passes(r)).count() as u64;
        let scan = Loaded::new(self, device(profile, experiment)?, system, overlap)?.scan(&predicate)?;
        match scan.matched == expected {
            true => Ok(scan),
            false => Err(DriveError::Differs { got: scan.matched, expected }),
        }
    }
}

/// The number of records of the scanned table.
const RECORDS: u64 = 1 << 18;
/// The number of records in a quick run.
const RECORDS_QUICK: u64 = 1 << 15;

/// Runs each experiment once and keeps its result.
pub struct Executor {
    profile: Profile,
    table: Table,
    stop: Stop,
    done: Vec<(System, Experiment, Overlap, Scan)>,
}

impl Executor {
    /// The executor of a run. All figures of the paper share it.
    ///
    /// # Errors
    /// As [`Table::new`].
    pub fn of<'r>(run: &'r mut Run<'_>) -> Result<&'r mut Self, BenchError> {
        run.shared(|run| {
            let records = if run.quick() { RECORDS_QUICK } else { RECORDS };
            let table = Table::new(run.profile(), records)?;
            Ok(Self { profile: run.profile().clone(), table, stop: run.stop().clone(), done: Vec::new() })
        })
    }

    /// The modelled profile, before an experiment changes it.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Scans the table under an experiment, whose number of records is the table's.
    ///
    /// # Errors
    /// As [`Table::scan`], or if the user asked to stop.
    pub fn scan(&mut self, system: System, e: &Experiment, overlap: Overlap) -> Result<Scan, BenchError> {
        self.stop.go_on()?;
        let e = Experiment { records: self.table.records(), ..*e };
        if let Some(done) = self.done.iter().find(|d| (d.0, d.1, d.2) == (system, e, overlap)) {
            return Ok(done.3.clone());
        }
        let scan = self.table.scan(&self.profile, &e, system, overlap)?;
        self.done.push((system, e, overlap, scan.clone()));
        Ok(scan)
    }

    /// Scans in phases, as in the paper.
    ///
    /// # Errors
    /// As [`Executor::scan`].
    pub fn in_phases(&mut self, system: System, e: &Experiment) -> Result<Scan, BenchError> {
        self.scan(system, e, Overlap::Phases)
    }
}

/// The part of a line item that a record keeps.
struct Record {
    numbers: Numbers,
    comment: String,
}

impl Record {
    fn of(item: &LineItem<'_>) -> Self {
        let (price, discount) = (item.l_extendedprice.into_inner(), item.l_discount.into_inner());
        let numbers = [item.l_quantity, price, discount, item.l_shipdate.to_unix_epoch().into()];
        Self { numbers, comment: item.l_comment.into() }
    }
}

/// The profile with the changes of an experiment.
fn device(profile: &Profile, e: &Experiment) -> Result<Profile, DriveError> {
    let g = &profile.geometry;
    let eblock = u64::from(g.eblock_bytes());
    let bytes = e.records * RECORD_BYTES + SPARE_BYTES;
    // Each channel has the same number of EBLOCKs, and no more than it needs.
    let count = (bytes / eblock).next_multiple_of(e.channels.into()) as u32;
    let (rblock, wblock) = (g.rblock_bytes(), g.wblock_bytes());
    let geometry = Geometry::new(e.channels, g.ways(), g.planes(), rblock, wblock, g.eblock_bytes(), count);
    let mut p = profile.clone();
    p.geometry = geometry.map_err(DriveError::Geometry)?;
    p.bus.rate = e.nand;
    p.dram.rate = e.dram;
    (p.link.up, p.link.down) = (e.link, e.link);
    Ok(p)
}

/// A drive with the table in it.
struct Loaded<'a> {
    table: &'a Table,
    drive: Drive,
    model: Arc<Model>,
    system: System,
    /// Commands under way at a time.
    depth: usize,
}

/// The host's clock, and the time of the host and its commands by what it was spent on.
struct Clock {
    now: VirtualTime,
    split: Split,
}

impl Clock {
    /// Takes a completion for which the host waited.
    fn takes(&mut self, c: &Completion) {
        self.now = self.now.max(c.at);
        self.split += c.split;
    }

    /// Adds time that the host computes.
    fn computes(&mut self, model: &Model, time: VirtualDuration) {
        model.host_computes(time);
        self.now += time;
        self.split.add(Part::Host, time);
    }
}

impl<'a> Loaded<'a> {
    fn new(table: &'a Table, device: Profile, system: System, overlap: Overlap) -> Result<Self, DriveError> {
        let scan_placement = match system {
            System::CpuIsp => ScanPlacement::Core,
            System::Ihp | System::HwIsp => ScanPlacement::ScanUnit,
        };
        let model = Arc::new(Model::new(device).with_overlap(overlap));
        let medium = Medium::memory(model.profile().geometry).with_model(model.clone());
        let options = DriveOptions { scan_placement, log_copies: 1, ..DriveOptions::default() };
        let drive = Drive::format(medium, options)?;
        let depth = if overlap == Overlap::Phases { 1 } else { OVERLAPPED_DEPTH };
        let loaded = Self { table, drive, model, system, depth };
        loaded.load()?;
        Ok(loaded)
    }

    /// Stores the table, evenly over the channels. The drive assigns consecutive stretches of a batch to its
    /// channels. So each stretch of a batch here takes pages that lie apart in the table.
    fn load(&self) -> Result<(), DriveError> {
        let run = |c| alone(&self.drive, &self.model, c);
        let pages = &self.table.pages;
        let count = pages.len().div_ceil(EXTENT_PAGES) as u32;
        run(Command::AllocateExtents { owner: OwnerId::new(1), count })?;
        let g = &self.model.profile().geometry;
        let (channels, row) = (g.channels() as usize, g.ways() as usize);
        for batch in pages.chunks(BATCH_PAGES) {
            let of_channel = |c: usize| batch.chunks(row).skip(c).step_by(channels).flatten();
            let write = |(lpid, data): &(Lpid, PageBuf)| PageWrite {
                lpid: *lpid,
                data: data.clone(),
                align: Align::ReadUnit,
            };
            let writes = (0..channels).flat_map(of_channel).map(write).collect();
            run(Command::Write(Batch { writes, ..Batch::default() }))?;
        }
        Ok(())
    }

    /// Scans the table for records that pass.
    fn scan(&self, predicate: &Predicate) -> Result<Scan, DriveError> {
        let Reply::View { view, .. } = alone(&self.drive, &self.model, Command::OpenView)? else {
            unreachable!("a view was asked for")
        };
        let (begin, before) = (self.model.latest(), self.model.operations());
        let mut clock = Clock { now: begin, split: Split::default() };
        let matched = match self.system {
            System::Ihp => self.in_host(predicate, &mut clock)?,
            System::CpuIsp | System::HwIsp => self.in_drive(view, predicate, &mut clock)?,
        };
        let took = clock.now - begin;
        let energy = self.model.operations().since(&before).energy(&self.model.profile().energy, took);
        Ok(Scan { records: self.table.records(), matched, took, split: clock.split, energy })
    }

    /// Reads all of the table; the host looks at each record.
    fn in_host(&self, predicate: &Predicate, clock: &mut Clock) -> Result<u64, DriveError> {
        let each = self.model.profile().host.filter;
        let mut queue = self.drive.open_queue(self.depth as u32)?;
        let mut parts = self.table.pages.chunks(READ_PAGES);
        let (mut under_way, mut out) = (HashMap::new(), Vec::new());
        let mut matched = 0;
        loop {
            while under_way.len() < self.depth
                && let Some(part) = parts.next()
            {
                let pages = part.iter().map(|p| ReadRequest { lpid: p.0, range: None }).collect();
                let tag = queue.submit(clock.now, Command::Read { view: None, pages });
                under_way.insert(tag.expect("the queue has room"), part);
            }
            if under_way.is_empty() {
                return Ok(matched);
            }
            queue.complete(clock.now, Until::One, &mut out)?;
            let c = out.pop().expect("a command is under way");
            clock.takes(&c);
            let part = under_way.remove(&c.tag).expect("it was submitted");
            let Reply::Pages(pages) = reply_of(c)? else { unreachable!("pages were asked for") };
            let mut records = 0;
            for ((lpid, _), page) in part.iter().zip(&pages) {
                let (open, columns) = decode_page(*lpid, page)?;
                records += open.rows() as u64;
                let number = |row: usize, c: usize| match columns[c].value(row) {
                    Value::Int(n) => n,
                    other => unreachable!("an integer was stored, not {other:?}"),
                };
                let is = |row: &usize| predicate.passes(&std::array::from_fn(|c| number(*row, c)));
                matched += (0..open.rows()).filter(is).count() as u64;
            }
            clock.computes(&self.model, each * records);
        }
    }

    /// Scans all of the table in the drive.
    fn in_drive(&self, view: ViewId, predicate: &Predicate, clock: &mut Clock) -> Result<u64, DriveError> {
        let all = (0..self.table.schema.columns.len() as u16).collect();
        let program = Program::check(self.table.schema.clone(), Some(predicate.expr()), all, false);
        let program = Arc::new(program.expect("the program fits its table"));
        let extents: BTreeSet<_> = self.table.pages.iter().map(|p| p.0.extent()).collect();
        let left = |n: usize| (self.table.pages.len() - n * EXTENT_PAGES).min(EXTENT_PAGES) as u16;
        let ranges = extents.into_iter().enumerate();
        let ranges: Vec<_> =
            ranges.map(|(n, extent)| PageRange { extent, first: 0, count: left(n) }).collect();
        let mut queue = self.drive.open_queue(self.depth as u32)?;
        let tasks = self.depth.min(ranges.len());
        for task in 0..tasks {
            let task = ScanTask {
                view,
                pages: ranges.iter().skip(task).step_by(tasks).copied().collect(),
                program: program.clone(),
                answer: Answer::Rows,
                unit_pages: UNIT_PAGES,
                limit_rows: None,
                hidden: None,
                matcher: None,
                skip: Skip::Levels,
            };
            queue.submit(clock.now, Command::Scan(task)).expect("the queue has room");
        }
        let (mut matched, mut over, mut out) = (0, 0, Vec::new());
        while over < tasks {
            queue.complete(clock.now, Until::One, &mut out)?;
            let c = out.pop().expect("a task is under way");
            clock.takes(&c);
            match c.outcome {
                Outcome::Unit(unit) => matched += unit.pages.iter().map(|p| u64::from(p.rows)).sum::<u64>(),
                Outcome::Done(done) => {
                    done?;
                    over += 1;
                }
            }
        }
        Ok(matched)
    }
}

#[cfg(test)]
mod tests {
    use super::super::equations::Parameters;
    use super::super::experiment::of_the_paper;
    use super::*;

    const RECORDS: u64 = 1 << 17;

    fn profile() -> Profile {
        Profile::find("isp-adms11").unwrap()
    }

    /// The executed scan, and the time by the equations for the same table.
    fn both(p: &Profile, table: &Table, e: Experiment, system: System) -> (Scan, f64) {
        let e = Experiment { records: table.records(), ..e };
        let scan = table.scan(p, &e, system, Overlap::Phases).unwrap();
        let matched = Experiment { selectivity: scan.matched as f64 / scan.records as f64, ..e };
        (scan, Parameters::new(p, &matched).scan(system).total())
    }

    #[test]
    fn in_phases_it_takes_what_the_equations_say_and_not_exactly() {
        let p = profile();
        let table = Table::new(&p, RECORDS).unwrap();
        for (system, most) in [(System::CpuIsp, 0.064), (System::HwIsp, 0.009), (System::Ihp, 0.064)] {
            let (scan, calculated) = both(&p, &table, of_the_paper(&p), system);
            let took = scan.took.as_secs_f64();
            let error = (calculated - took).abs() / took;
            println!("{}: {error:.4}", system.name());
            assert!(
                error > 0.0 && error <= most,
                "{}: {took} s, by the equations {calculated}",
                system.name()
            );
            assert_eq!(scan.split.total(), scan.took);
        }
    }

    /// A change of the device changes the executed times as it changes those of the equations. So the executed times
    /// are a prediction and not a fit.
    #[test]
    fn a_change_moves_what_is_executed_as_the_equations_say() {
        let p = profile();
        let table = Table::new(&p, RECORDS).unwrap();
        let e = of_the_paper(&p);
        let seconds = |p: &Profile, e, system| {
            let (scan, calculated) = both(p, &table, e, system);
            (scan.took.as_secs_f64(), calculated)
        };
        let mut half_tr = p.clone();
        half_tr.nand.read = VirtualDuration::from_ps(p.nand.read.as_ps() / 2);
        let changes = [
            ("half tR", half_tr, e),
            ("twice the channels", p.clone(), Experiment { channels: 2 * e.channels, ..e }),
            ("twice the link", p.clone(), Experiment { link: super::super::experiment::mb_per_s(750), ..e }),
        ];
        let before = System::ALL.map(|s| seconds(&p, e, s));
        let check = |what: &str, executed: f64, calculated: f64| {
            println!("{what}: {executed:.4} executed, {calculated:.4} by the equations");
            assert!((executed / calculated - 1.0).abs() < 0.02, "{what}: {executed}, not {calculated}");
        };
        let mut moved = 0;
        for (what, p, e) in &changes {
            for (system, was) in System::ALL.into_iter().zip(before) {
                let now = seconds(p, *e, system);
                check(&format!("{what}, {}", system.name()), now.0 / was.0, now.1 / was.1);
                moved += usize::from((now.1 / was.1 - 1.0).abs() > 0.05);
            }
        }
        assert!(moved >= 4, "{moved} of 9 figures move by more than 5 %");
        // The comparators are switched off: the embedded CPU filters instead.
        let [ihp, cpu, hw] = before;
        check("hw-ISP for IHP", hw.0 / ihp.0, hw.1 / ihp.1);
        check("hw-ISP for cpu-ISP", hw.0 / cpu.0, hw.1 / cpu.1);
    }
}
