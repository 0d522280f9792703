//! Cleaning: the current pages of a segment move to the head of the log, so that the segment can be written again.
//!
//! ```text
//!   oldest:        read all of it ─► units ─► records ─► still mapped there? ─► append ─► install ─► cleaned
//!   cost-benefit:  names in memory ─► still mapped there? ─► read those ─► append ─► ...
//! ```
//!
//! A mapping page in the segment is marked dirty instead, because the checkpoint that frees the segment writes it
//! again. So cleaning moves only pages of batches and old versions that views show.

use std::collections::HashSet;

use lode_base::PageBuf;
use lode_command::CommandError;

use crate::blocks::BLOCK_BYTES;
use crate::layout::{Entry, FIRST_SEGMENT_LBA, Header, Item, RecordKind, assemble};
use crate::store::{Store, Writer, lpid};
use crate::{Cleaning, Clock};

/// The most blocks that one command reads. The packets of a 1 MB write carry as many.
const READ_BLOCKS: u32 = 255;

/// A page to move.
struct LivePage {
    name: u64,
    from: Entry,
    kind: RecordKind,
}

impl Store {
    /// Cleans one segment. Returns false if no segment can be cleaned.
    pub(crate) fn clean(&self, w: &mut Writer, clock: &mut Clock) -> Result<bool, CommandError> {
        let Some(victim) = self.victim(w) else { return Ok(false) };
        let (used, live) = {
            let map = self.map.read();
            (map.segments[victim as usize].used, map.segments[victim as usize].live)
        };
        let whole = self.options.cleaning == Cleaning::OldestWhole;
        let (current, data) = match w.names[victim as usize].take() {
            _ if live == 0 && !whole => (Vec::new(), Vec::new()),
            Some(names) if !whole => self.read_current(w, clock, victim, &names)?,
            _ => self.read_whole(w, clock, victim, used)?,
        };
        let item = |(c, data): (&LivePage, PageBuf)| Item { kind: c.kind, name: c.name, owner: 0, data };
        let items: Vec<Item> = current.iter().zip(data).map(item).collect();
        clock.computes(self.options.page_cost * items.len() as u64);
        let entries = self.append(w, clock, &items, 0)?;
        let mut map = self.map.write();
        for (c, &to) in current.iter().zip(&entries) {
            match c.kind {
                RecordKind::Old => map.moved_version(c.name, c.from, to),
                _ => map.moved(lpid(c.name), c.from, to),
            }
            if !whole {
                let segment = map.segment_of(to);
                w.names[segment].iter_mut().for_each(|n| n.push((c.name, to)));
            }
        }
        w.info.cleaning_bytes_moved += items.iter().map(|i| i.data.len() as u64).sum::<u64>();
        w.info.cleaned += 1;
        // The checkpoint that frees the segment writes its mapping pages again.
        let there: Vec<usize> = (0..map.extents.len())
            .filter(|raw| {
                let home = map.extents[*raw].as_ref().map_or(Entry::default(), |x| x.home);
                !home.is_none() && map.segment_of(home) == victim as usize
            })
            .collect();
        for raw in there {
            map.extent_mut(raw as u64).expect("it was just there").dirty = true;
        }
        map.segments[victim as usize].cleaned = true;
        w.cleaned.push(victim);
        Ok(true)
    }

    fn victim(&self, w: &Writer) -> Option<u32> {
        let map = self.map.read();
        let closed = map.segments.iter().enumerate().filter(|(n, s)| {
            let n = *n as u32;
            s.first != 0 && !s.cleaned && n != w.head.segment && n != w.head.next
        });
        let victim = match self.options.cleaning {
            Cleaning::OldestWhole => closed.min_by_key(|(_, s)| s.first),
            Cleaning::CostBenefit => {
                let bytes = self.segment_bytes() as f64;
                let gain = |s: &crate::map::Segment| {
                    let full = s.live as f64 / bytes;
                    let age = (w.head.sequence - s.first) as f64;
                    (1.0 - full) * age / (full + 1e-9)
                };
                closed.max_by(|a, b| gain(a.1).total_cmp(&gain(b.1)))
            }
        };
        victim.map(|(n, _)| n as u32)
    }

    /// Reads a whole segment and returns its current pages.
    fn read_whole(
        &self,
        w: &mut Writer,
        clock: &mut Clock,
        victim: u32,
        used: u32,
    ) -> Result<(Vec<LivePage>, Vec<PageBuf>), CommandError> {
        let first = FIRST_SEGMENT_LBA + u64::from(victim) * u64::from(self.options.segment_blocks);
        let parts: Vec<(u64, u32)> = (0..used)
            .step_by(READ_BLOCKS as usize)
            .map(|at| (first + u64::from(at), READ_BLOCKS.min(used - at)))
            .collect();
        w.info.cleaning_bytes_read += u64::from(used) * BLOCK_BYTES as u64;
        let mut blocks: Vec<PageBuf> = Vec::with_capacity(used as usize);
        for part in self.blocks.read(clock, &parts)? {
            blocks.extend(part.ok_or_else(|| damaged(victim))?);
        }
        let (mut current, mut data, mut at, mut seen) = (Vec::new(), Vec::new(), 0, HashSet::new());
        let map = self.map.read();
        while at < used as usize {
            let header = Header::decode(&blocks[at], self.id, self.options.segment_blocks);
            let header =
                header.filter(|h| at + h.blocks as usize <= used as usize).ok_or_else(|| damaged(victim))?;
            let unit = &blocks[at..at + header.blocks as usize];
            let records = header.records_unchecked(unit).ok_or_else(|| damaged(victim))?;
            clock.computes(self.options.page_cost * records.len() as u64);
            for r in records {
                if !matches!(r.kind, RecordKind::Page | RecordKind::PageAtBlock | RecordKind::Old) {
                    continue;
                }
                let from = Entry::new((first + at as u64) * BLOCK_BYTES as u64 + r.offset as u64, r.len);
                let Some(kind) = current_as(&map, r.name, from, r.kind) else { continue };
                if seen.insert((r.name, from)) {
                    current.push(LivePage { name: r.name, from, kind });
                    data.push(assemble(unit, r.offset, r.len));
                }
            }
            at += header.blocks as usize;
        }
        Ok((current, data))
    }

    /// Reads only the current pages of a segment.
    fn read_current(
        &self,
        w: &mut Writer,
        clock: &mut Clock,
        victim: u32,
        names: &[(u64, Entry)],
    ) -> Result<(Vec<LivePage>, Vec<PageBuf>), CommandError> {
        clock.computes(self.options.page_cost * names.len() as u64);
        let mut current = Vec::new();
        {
            let map = self.map.read();
            for &(name, from) in names {
                let at_block = from.byte().is_multiple_of(BLOCK_BYTES as u64) && self.options.whole_blocks;
                let kind = if at_block { RecordKind::PageAtBlock } else { RecordKind::Page };
                if let Some(kind) = current_as(&map, name, from, kind) {
                    current.push(LivePage { name, from, kind });
                }
            }
        }
        // Adjacent pages are read together, in runs of blocks.
        let block = BLOCK_BYTES as u64;
        let span = |e: Entry| (e.byte() / block, (e.byte() + e.len() as u64).div_ceil(block));
        let mut spans: Vec<(u64, u64)> = current.iter().map(|c| span(c.from)).collect();
        spans.sort_unstable();
        let mut runs: Vec<(u64, u32)> = Vec::new();
        for (from, to) in spans {
            match runs.last_mut() {
                Some((first, count))
                    if from <= *first + u64::from(*count) && to - *first <= u64::from(READ_BLOCKS) =>
                {
                    *count = (*count).max((to - *first) as u32);
                }
                _ => runs.push((from, (to - from) as u32)),
            }
        }
        w.info.cleaning_bytes_read += runs.iter().map(|r| u64::from(r.1) * block).sum::<u64>();
        let found = self.blocks.read(clock, &runs)?;
        let mut data = Vec::with_capacity(current.len());
        for c in &current {
            let (from, to) = span(c.from);
            let at = runs.partition_point(|r| r.0 <= from);
            // Runs may overlap, so this takes the last run that holds the whole page.
            let run = (0..at).rev().find(|&r| runs[r].0 + u64::from(runs[r].1) >= to);
            let blocks =
                run.and_then(|r| Some((runs[r].0, found[r].as_ref()?))).ok_or_else(|| damaged(victim))?;
            data.push(assemble(blocks.1, (c.from.byte() - blocks.0 * block) as usize, c.from.len()));
        }
        Ok((current, data))
    }
}

/// Returns whether the page at this place is still needed, and if so whether as the current or an old version.
fn current_as(map: &crate::map::Map, name: u64, from: Entry, kind: RecordKind) -> Option<RecordKind> {
    let kind = if kind == RecordKind::Old { RecordKind::Page } else { kind };
    if map.get(lpid(name)) == from {
        return Some(kind);
    }
    map.is_old_version(name, from).then_some(RecordKind::Old)
}

fn damaged(victim: u32) -> CommandError {
    CommandError::Medium(format!("segment {victim} does not hold what was written to it"))
}
