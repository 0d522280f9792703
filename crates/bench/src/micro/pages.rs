//! Costs of nodes of trees, and of pages of rows.

use std::hint::black_box;
use std::ops::Range;

use datafusion::arrow::array::RecordBatch;
use lode_base::{CommitNo, ExtentId, Lpid, TableId};
use lode_page::{Column, Node, NodeMut, NodeValue, PageKind, PageMeta, encode};

use super::{Cost, Data, PAGE_BYTES_MAX, Plan, from_columns, measured};
use crate::BenchError;

/// Bytes of a node, as the engine makes them.
const NODE_BYTES: usize = 4 << 10;
/// Nodes: more than a cache of a core holds.
const NODES: usize = 4096;
/// Searches of one execution.
const SEARCHES: usize = 100_000;
/// Pages with rows of one date.
const DAY_PAGES: u64 = 2400;
/// Rows of a page of 16 KB.
const PAGE_ROWS: usize = 120;

/// Measures searches in nodes, each with the key of an entry and in another node than the one before.
pub(super) fn node(plan: &Plan, stop: &dyn Fn() -> bool) -> Result<Cost, BenchError> {
    let nodes = nodes();
    let once = || {
        let mut at: u64 = 1;
        for _ in 0..SEARCHES {
            // The multiplier and the increment of Knuth's MMIX.
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (node, numbers) = &nodes[(at >> 33) as usize % NODES];
            let number = numbers.start + (at >> 43) % (numbers.end - numbers.start);
            let _ = black_box(node.find(&key(number)));
        }
    };
    let what = "a key of 12 bytes found in a node of 4 KB that the caches do not have";
    measured(plan, stop, "node_ns", what, SEARCHES as u64, once)
}

/// Measures entries of leaves that are read one after the other, each with the address at its end.
pub(super) fn entry(plan: &Plan, stop: &dyn Fn() -> bool) -> Result<Cost, BenchError> {
    let nodes = nodes();
    let entries = nodes.iter().map(|(node, _)| node.entries() as u64).sum();
    let mut key = Vec::new();
    let once = || {
        for (node, _) in &nodes {
            for i in 0..node.entries() {
                node.read_key(i, &mut key);
                let page = key.last_chunk().map(|page| u64::from_be_bytes(*page));
                black_box(page.and_then(Lpid::from_raw));
            }
        }
    };
    measured(plan, stop, "entry_ns", "an entry of a leaf, made the address of a page", entries, once)
}

/// Measures rows that are put into row pages.
pub(super) fn place(plan: &Plan, data: &Data, stop: &dyn Fn() -> bool) -> Result<Cost, BenchError> {
    let slices = |batch: &RecordBatch| -> Vec<Vec<Column>> {
        let firsts = (0..batch.num_rows()).step_by(PAGE_ROWS);
        firsts
            .map(|first| from_columns(&batch.slice(first, PAGE_ROWS.min(batch.num_rows() - first))))
            .collect()
    };
    let pages: Vec<Vec<Column>> = data.lineitem.iter().flat_map(slices).collect();
    let lpid = ExtentId::new(1).expect("it is a number of an extent").page(0);
    let (table, commit) = (TableId::new(1), CommitNo::new(0));
    let meta = PageMeta { lpid, table, schema_version: 1, kind: PageKind::Row, commit };
    let once = || {
        for columns in &pages {
            black_box(encode(&meta, columns, PAGE_BYTES_MAX).expect("so few rows fit a page"));
        }
    };
    measured(plan, stop, "place_ns", "a row of lineitem put into a row page of 120", data.rows[0].1, once)
}

/// Leaves, and the numbers of the keys of each, in their order.
fn nodes() -> Vec<(Node, Range<u64>)> {
    let lpid = Lpid::from_raw(1 << 10).expect("it is a number of a page");
    let mut next: u64 = 0;
    let node = |_| {
        let (first, mut node) = (next, NodeMut::empty(lpid, 0, &[], None));
        while node.used_bytes() < NODE_BYTES {
            assert!(node.put(&key(next), NodeValue::Inline(&[])), "keys are distinct");
            next += 1;
        }
        (node.finish(), first..next)
    };
    (0..NODES).map(node).collect()
}

/// The key of this number: a date, and the number of a page.
fn key(number: u64) -> [u8; 12] {
    let mut key = [0; 12];
    key[..4].copy_from_slice(&((number / DAY_PAGES) as u32).to_be_bytes());
    key[4..].copy_from_slice(&number.to_be_bytes());
    key
}
