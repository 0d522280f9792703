//! What the tests share: a host that speaks to a drive, and table pages to write.
#![allow(dead_code, unreachable_pub, missing_docs)]

use lode_base::{CommitNo, ExtentId, Lpid, OwnerId, PageBuf, TableId, ViewId, VirtualTime};
use lode_command::{
    Align, Batch, Command, CommandError, Device, Outcome, PageRange, PageWrite, ReadRequest, Reply, Until,
};
use lode_firmware::Drive;
use lode_page::{ColumnBuilder, ColumnType, DataType, PageKind, PageMeta, Schema, Value, encode};
use lode_program::{IndexEntry, IndexRule};

/// Runs one command to its end.
pub fn run(d: &Drive, c: Command) -> Result<Reply, CommandError> {
    let mut q = d.open_queue(1).unwrap();
    q.submit(VirtualTime::ZERO, c).unwrap();
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out).unwrap();
    match out.pop().unwrap().outcome {
        Outcome::Done(r) => r,
        Outcome::Unit(_) => panic!("a unit of no scan"),
    }
}

pub fn write(d: &Drive, batch: Batch) -> Result<(CommitNo, Option<ViewId>), CommandError> {
    match run(d, Command::Write(batch))? {
        Reply::Committed { commit, view } => Ok((commit, view)),
        r => panic!("{r:?}"),
    }
}

pub fn page(lpid: Lpid, data: &[u8]) -> PageWrite {
    PageWrite { lpid, data: PageBuf::copy_from(data), align: Align::Cell }
}

pub fn put(d: &Drive, lpid: Lpid, data: &[u8]) -> Result<CommitNo, CommandError> {
    write(d, Batch { writes: vec![page(lpid, data)], ..Batch::default() }).map(|c| c.0)
}

pub fn read(d: &Drive, view: Option<ViewId>, lpid: Lpid) -> Result<PageBuf, CommandError> {
    match run(d, Command::Read { view, pages: vec![ReadRequest { lpid, range: None }] })? {
        Reply::Pages(mut p) => Ok(p.remove(0)),
        r => panic!("{r:?}"),
    }
}

/// The page, or `None` when it is not mapped.
pub fn get(d: &Drive, view: Option<ViewId>, lpid: Lpid) -> Option<Vec<u8>> {
    match read(d, view, lpid) {
        Ok(b) => Some(b.to_vec()),
        Err(CommandError::Unmapped(_)) => None,
        Err(e) => panic!("{e}"),
    }
}

pub fn open_view(d: &Drive) -> (ViewId, CommitNo) {
    match run(d, Command::OpenView) {
        Ok(Reply::View { view, commit }) => (view, commit),
        r => panic!("{r:?}"),
    }
}

pub fn close_view(d: &Drive, view: ViewId) {
    run(d, Command::CloseView(view)).unwrap();
}

pub fn allocate(d: &Drive, owner: u32, count: u32) -> Vec<ExtentId> {
    match run(d, Command::AllocateExtents { owner: OwnerId::new(owner), count }) {
        Ok(Reply::Extents(e)) => e,
        r => panic!("{r:?}"),
    }
}

pub fn index_entries(d: &Drive, view: ViewId, extent: ExtentId) -> Vec<(Lpid, Option<IndexEntry>)> {
    let pages = vec![PageRange { extent, first: 0, count: 1024 }];
    match run(d, Command::ReadIndex { view, pages }) {
        Ok(Reply::IndexEntries(e)) => e,
        r => panic!("{r:?}"),
    }
}

/// No problem anywhere.
pub fn sound(d: &Drive) {
    let report = d.check();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
}

pub fn schema() -> Schema {
    Schema { version: 1, columns: vec![ColumnType { data_type: DataType::BigInt, nullable: false }; 2] }
}

pub fn rule() -> IndexRule {
    IndexRule::new(schema(), vec![0]).unwrap()
}

/// A table page whose first column has these values.
pub fn table_page(lpid: Lpid, owner: u32, values: &[i64]) -> PageWrite {
    let mut columns = [ColumnBuilder::new(DataType::BigInt), ColumnBuilder::new(DataType::BigInt)];
    for v in values {
        columns[0].push(&Value::Int(*v)).unwrap();
        columns[1].push(&Value::Int(-v)).unwrap();
    }
    let meta = PageMeta {
        lpid,
        table: TableId::new(owner),
        schema_version: 1,
        kind: PageKind::Row,
        commit: CommitNo::new(0),
    };
    let data = encode(&meta, &columns.map(ColumnBuilder::finish), 1 << 16).unwrap();
    PageWrite { lpid, data, align: Align::Cell }
}

/// Numbers that only a seed decides (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let seed = self.next();
        (0..len).map(|i| (seed.rotate_left(i as u32 % 61) as u8) ^ (i as u8)).collect()
    }
}
