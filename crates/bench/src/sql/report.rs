//! Rows of `lode bench oltp` and `lode-peers oltp` as tables.

use lode_workload::measure::{Causes, Percentiles};
use lode_workload::sql::oltp::OltpRow;

use crate::text_table::TextTable;

/// Measurements of databases that took turns, a table for people.
pub struct OltpTable {
    table: TextTable,
    peers: bool,
}

impl OltpTable {
    /// An empty table. With `peers` its first column names the database.
    pub fn new(peers: bool) -> Self {
        let mut headings = if peers { vec!["database"] } else { Vec::new() };
        headings.extend([
            "what",
            ">scale",
            ">indexes",
            ">conn.",
            "style",
            ">per s",
            ">p50 us",
            ">p99 us",
            ">most ms",
            ">retries",
            ">payload B",
            ">medium B",
            ">ampl.",
            ">disk B",
        ]);
        Self { table: TextTable::new(&headings), peers }
    }

    /// Adds a row, and one for each kind of its transactions if there are several.
    pub fn add(&mut self, database: &str, row: &OltpRow) {
        let m = &row.measured;
        let head = || self.peers.then(|| database.to_string()).into_iter();
        let per_operation = |f: fn(&Causes) -> u64| {
            m.causes.map_or("-".into(), |c| format!("{:.0}", f(&c) as f64 / m.operations.max(1) as f64))
        };
        let optional = |v: Option<u32>| v.map_or_else(String::new, |v| v.to_string());
        let what = format!("{}: {}", row.workload.name(), row.what);
        let cells =
            [what, optional(row.scale), optional(row.indexes.map(Into::into)), row.connections.to_string()];
        let cells = head().chain(cells).chain([row.style.name().to_string()]);
        let rest = [
            m.conflicts.to_string(),
            per_operation(|c| c.pages),
            per_operation(|c| c.all),
            write_amplification(m.causes).map_or("-".into(), |a| format!("{a:.2}")),
            m.disk_bytes_an_operation.map_or("-".into(), |b| format!("{b:.0}")),
        ];
        let rate = format!("{:.0}", m.rate);
        let all: Vec<String> = cells.chain([rate]).chain(times(&m.latency)).chain(rest).collect();
        let columns = all.len();
        self.table.row(all);
        if row.kinds.len() > 1 {
            for (kind, latency) in row.kinds.iter().zip(&m.latencies) {
                let cells = [format!("  {kind}"), String::new(), String::new(), String::new(), String::new()];
                let rate = format!("{:.0}", latency.count as f64 / m.seconds);
                let all =
                    self.peers.then(String::new).into_iter().chain(cells).chain([rate]).chain(times(latency));
                let mut all: Vec<String> = all.collect();
                all.resize(columns, String::new());
                self.table.row(all);
            }
        }
    }

    /// The table's text.
    pub fn render(&self) -> String {
        self.table.render()
    }
}

fn times(p: &Percentiles) -> [String; 3] {
    [format!("{:.0}", p.p50_us), format!("{:.0}", p.p99_us), format!("{:.1}", p.max_us / 1e3)]
}

/// Bytes programmed per byte of pages in batches.
pub fn write_amplification(causes: Option<Causes>) -> Option<f64> {
    causes.filter(|c| c.pages > 0).map(|c| c.all as f64 / c.pages as f64)
}

/// A row as JSON.
pub fn json(database: &str, row: &OltpRow) -> serde_json::Value {
    let mut json = serde_json::to_value(row).unwrap_or_default();
    let m = &row.measured;
    let per_operation = |bytes: u64| bytes as f64 / m.operations.max(1) as f64;
    json["database"] = database.into();
    json["payload_bytes_an_operation"] = m.causes.map(|c| per_operation(c.pages)).into();
    json["medium_bytes_an_operation"] = m.causes.map(|c| per_operation(c.all)).into();
    json["write_amplification"] = write_amplification(m.causes).into();
    json
}
