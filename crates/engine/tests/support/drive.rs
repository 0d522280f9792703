//! A drive of the plainest kind, for tests of the engine alone: every version of every page in memory, no medium.
//!
//! It holds the drive's contract to the letter (atomic batches, views, index entries with their versions), can be given
//! small limits, and fails a batch when told to.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lode_base::{
    CommitNo, EXTENT_PAGES, ExtentId, Geometry, Lpid, OwnerId, PageBuf, Split, ViewId, VirtualTime,
};
use lode_command::*;
use lode_page::{Column, decode_page};
use lode_program::{
    ColumnSource, IndexEntry, IndexRule, Meter, Program, RowMask, Selection, compact, may_match, select,
};
use parking_lot::Mutex;

#[derive(Clone)]
pub struct TestDrive {
    identity: Arc<Identity>,
    state: Arc<Mutex<State>>,
    tag: Arc<AtomicU64>,
}

#[derive(Default)]
struct State {
    commit: u64,
    extents: BTreeMap<ExtentId, OwnerId>,
    rules: BTreeMap<OwnerId, IndexRule>,
    /// Versions of each page, oldest first; `None` is trimmed.
    pages: BTreeMap<Lpid, Vec<(u64, Option<Version>)>>,
    views: BTreeMap<u64, u64>,
    next_view: u64,
    /// Batches to go before one fails.
    fail_after: Option<u32>,
}

#[derive(Clone)]
struct Version {
    data: PageBuf,
    entry: Option<IndexEntry>,
}

impl TestDrive {
    pub fn new() -> Self {
        Self::with_limits(64 << 20, 1 << 16)
    }

    pub fn with_limits(batch_bytes_max: u64, batch_pages_max: u32) -> Self {
        let identity = Identity {
            model: "test".into(),
            geometry: Geometry::file(1 << 30).unwrap(),
            page_bytes_max: 1 << 20,
            batch_bytes_max,
            batch_pages_max,
            queue_depth_max: 64,
            views_max: 1000,
            sessions_max: 0,
            in_flight_max: 1,
            durable: false,
            matcher: None,
        };
        Self { identity: Arc::new(identity), state: Arc::default(), tag: Arc::default() }
    }

    /// The batch after `batches` more fails for want of space.
    pub fn fail_after(&self, batches: Option<u32>) {
        self.state.lock().fail_after = batches;
    }

    /// Batches that took effect.
    pub fn batches(&self) -> u64 {
        self.state.lock().commit
    }

    /// Pages that are there.
    pub fn pages(&self) -> usize {
        let there = |v: &&Vec<(u64, Option<Version>)>| v.last().is_some_and(|v| v.1.is_some());
        self.state.lock().pages.values().filter(there).count()
    }

    pub fn extents(&self) -> usize {
        self.state.lock().extents.len()
    }

    pub fn views(&self) -> usize {
        self.state.lock().views.len()
    }

    /// Closes every view, as a drive does with views that are too old.
    pub fn close_views(&self) {
        self.state.lock().views.clear();
    }

    /// The pages whose newest version begins so.
    pub fn pages_with(&self, begin: &[u8]) -> Vec<Lpid> {
        let s = self.state.lock();
        let newest = |v: &Vec<(u64, Option<Version>)>| v.last().and_then(|(_, v)| v.clone());
        let has = |v: &Version| v.data.starts_with(begin);
        s.pages.iter().filter(|(_, v)| newest(v).as_ref().is_some_and(has)).map(|(l, _)| *l).collect()
    }

    /// The commits of the newest versions that begin so.
    pub fn commits_with(&self, begin: &[u8]) -> Vec<u64> {
        let s = self.state.lock();
        let newest = s.pages.values().filter_map(|v| v.last().and_then(|(c, v)| Some((*c, v.clone()?))));
        newest.filter(|(_, v)| v.data.starts_with(begin)).map(|(c, _)| c).collect()
    }

    /// Drops the newest version of a page's bytes for others.
    pub fn damage(&self, lpid: Lpid, f: impl FnOnce(&mut Vec<u8>)) {
        let mut s = self.state.lock();
        let version = s.pages.get_mut(&lpid).unwrap().last_mut().unwrap().1.as_mut().unwrap();
        let mut bytes = version.data.to_vec();
        f(&mut bytes);
        version.data = PageBuf::copy_from(&bytes);
    }
}

impl Device for TestDrive {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn open_queue(&self, depth: u32) -> Result<Box<dyn Queue>, DeviceError> {
        assert!(depth > 0);
        Ok(Box::new(TestQueue { drive: self.clone(), waiting: VecDeque::new() }))
    }

    fn work(&self, _: VirtualTime, _: Budget) -> Progress {
        Progress::Idle
    }
}

struct TestQueue {
    drive: TestDrive,
    waiting: VecDeque<(Tag, Waiting)>,
}

enum Waiting {
    Command(Command),
    Task { task: ScanTask, pages: VecDeque<Lpid>, counts: ScanCounts },
    Cancelled,
}

impl Queue for TestQueue {
    fn submit(&mut self, _: VirtualTime, c: Command) -> Result<Tag, Refused> {
        let tag = Tag(self.drive.tag.fetch_add(1, Ordering::Relaxed));
        self.waiting.push_back((tag, Waiting::Command(c)));
        Ok(tag)
    }

    fn complete(&mut self, at: VirtualTime, _: Until, out: &mut Vec<Completion>) -> Result<(), DeviceError> {
        let Some((tag, waiting)) = self.waiting.pop_front() else { return Ok(()) };
        let mut state = self.drive.state.lock();
        let outcome = match waiting {
            Waiting::Cancelled => Outcome::Done(Err(CommandError::Cancelled)),
            Waiting::Command(Command::Scan(task)) => match state.mapped(task.view, &task.pages) {
                Ok(pages) => {
                    let task = Waiting::Task { task, pages: pages.into(), counts: ScanCounts::default() };
                    self.waiting.push_front((tag, task));
                    Outcome::Unit(ScanUnit::default())
                }
                Err(e) => Outcome::Done(Err(e)),
            },
            Waiting::Command(c) => Outcome::Done(state.run(&self.drive.identity, c)),
            Waiting::Task { task, mut pages, mut counts } => match state.unit(&task, &mut pages) {
                Err(e) => Outcome::Done(Err(e)),
                Ok(None) => Outcome::Done(Ok(Reply::Scanned(counts))),
                Ok(Some(unit)) => {
                    counts += unit.counts;
                    self.waiting.push_front((tag, Waiting::Task { task, pages, counts }));
                    Outcome::Unit(unit)
                }
            },
        };
        out.push(Completion { tag, at, split: Split::default(), outcome });
        Ok(())
    }

    fn narrow(&mut self, task: Tag, p: Arc<Program>) {
        if let Some((_, Waiting::Task { task, .. } | Waiting::Command(Command::Scan(task)))) =
            self.waiting.iter_mut().find(|(t, _)| *t == task)
        {
            task.program = p;
        }
    }

    fn cancel(&mut self, tag: Tag) {
        if let Some((_, w)) = self.waiting.iter_mut().find(|(t, _)| *t == tag) {
            *w = Waiting::Cancelled;
        }
    }
}

struct Page<'a> {
    rows: usize,
    columns: &'a [Column],
}

impl ColumnSource for Page<'_> {
    type Error = String;
    fn rows(&self) -> usize {
        self.rows
    }
    fn column(&mut self, column: u16) -> Result<Column, String> {
        Ok(self.columns[usize::from(column)].clone())
    }
}

impl State {
    fn at(&self, view: Option<ViewId>) -> Result<u64, CommandError> {
        match view {
            None => Ok(self.commit),
            Some(v) => self.views.get(&v.raw()).copied().ok_or(CommandError::ViewClosed(v)),
        }
    }

    fn version(&self, lpid: Lpid, commit: u64) -> Option<&Version> {
        let versions = self.pages.get(&lpid)?;
        versions.iter().rev().find(|(c, _)| *c <= commit)?.1.as_ref()
    }

    fn mapped(&self, view: ViewId, ranges: &[PageRange]) -> Result<Vec<Lpid>, CommandError> {
        let commit = self.at(Some(view))?;
        let all = ranges.iter().flat_map(|r| (r.first..r.first + r.count).map(|p| r.extent.page(p)));
        Ok(all.filter(|&l| self.version(l, commit).is_some()).collect())
    }

    fn run(&mut self, identity: &Identity, c: Command) -> Result<Reply, CommandError> {
        match c {
            Command::Write(batch) => self.write(identity, batch),
            Command::Read { view, pages } => {
                let commit = self.at(view)?;
                let read = |r: ReadRequest| {
                    let v = self.version(r.lpid, commit).ok_or(CommandError::Unmapped(r.lpid))?;
                    match r.range {
                        None => Ok(v.data.clone()),
                        Some(r) if r.end as usize <= v.data.len() && !r.is_empty() => {
                            Ok(v.data.slice(r.start as usize..r.end as usize))
                        }
                        Some(r) => Err(CommandError::Invalid(format!("range {r:?}"))),
                    }
                };
                pages.into_iter().map(read).collect::<Result<_, _>>().map(Reply::Pages)
            }
            Command::Scan(_) => unreachable!("tasks are run unit by unit"),
            Command::OpenView => {
                let view = self.open_view();
                Ok(Reply::View { view, commit: CommitNo::new(self.commit) })
            }
            Command::CloseView(v) => match self.views.remove(&v.raw()) {
                Some(_) => Ok(Reply::Done),
                None => Err(CommandError::ViewClosed(v)),
            },
            Command::AllocateExtents { owner, count } => {
                let free = (0..).map(|n| ExtentId::new(n).unwrap()).filter(|e| !self.taken(*e));
                let extents: Vec<ExtentId> = free.take(count as usize).collect();
                self.extents.extend(extents.iter().map(|&e| (e, owner)));
                Ok(Reply::Extents(extents))
            }
            Command::ListExtents => {
                let mapped = |e: ExtentId| {
                    let pages = (0..EXTENT_PAGES as u16).map(|p| e.page(p));
                    pages.filter(|&l| self.version(l, self.commit).is_some()).count() as u32
                };
                let info =
                    |(&extent, &owner)| ExtentInfo { extent, owner, pages_mapped: Some(mapped(extent)) };
                Ok(Reply::ExtentList(self.extents.iter().map(info).collect()))
            }
            Command::BuildIndex(owner) => {
                let rule = self.rules.get(&owner).cloned().ok_or(CommandError::NoIndexRule(owner))?;
                let mut pages = 0;
                for (&lpid, versions) in &mut self.pages {
                    if self.extents.get(&lpid.extent()) == Some(&owner)
                        && let Some((_, Some(v))) = versions.last_mut()
                    {
                        v.entry = Some(entry(&rule, lpid, &v.data)?);
                        pages += 1;
                    }
                }
                Ok(Reply::Indexed { pages })
            }
            Command::ReadIndex { view, pages } => {
                let commit = self.at(Some(view))?;
                let mapped = self.mapped(view, &pages)?;
                let entry = |lpid: Lpid| {
                    let v = self.version(lpid, commit);
                    let len_bytes = v.map_or(0, |v| v.data.len() as u32);
                    IndexedPage { lpid, len_bytes, entry: v.and_then(|v| v.entry.clone()) }
                };
                Ok(Reply::IndexEntries(mapped.into_iter().map(entry).collect()))
            }
            Command::OpenSession | Command::ResumeSession(_) | Command::CloseSession(_) => {
                Err(CommandError::TooManySessions(0))
            }
            Command::RegisterProgram { .. } | Command::RegisterKeys { .. } | Command::ReadIndexed(_) => {
                Err(CommandError::Invalid("this model has no reads by the page index".into()))
            }
            Command::Checkpoint | Command::Flush => Ok(Reply::Done),
        }
    }

    /// An extent is free again once no open view shows a page of it.
    fn taken(&self, e: ExtentId) -> bool {
        let shown = |commit: u64| (0..EXTENT_PAGES as u16).any(|p| self.version(e.page(p), commit).is_some());
        self.extents.contains_key(&e) || self.views.values().any(|&c| shown(c))
    }

    fn open_view(&mut self) -> ViewId {
        self.next_view += 1;
        self.views.insert(self.next_view, self.commit);
        ViewId::new(self.next_view)
    }

    fn write(&mut self, identity: &Identity, batch: Batch) -> Result<Reply, CommandError> {
        // A full drive still takes what frees space.
        if let Some(n) = self.fail_after.as_mut().filter(|_| !batch.writes.is_empty()) {
            if *n == 0 {
                return Err(CommandError::OutOfSpace { free_bytes: 0, needed_bytes: 1 });
            }
            *n -= 1;
        }
        let invalid = |what: String| Err(CommandError::Invalid(what));
        let lpids: Vec<Lpid> =
            batch.writes.iter().map(|w| w.lpid).chain(batch.trims.iter().copied()).collect();
        if lpids.iter().collect::<BTreeSet<_>>().len() != lpids.len() {
            return invalid("an LPID comes twice".into());
        }
        if batch.payload_bytes() as u64 > identity.batch_bytes_max {
            return invalid(format!("{} bytes", batch.payload_bytes()));
        }
        if lpids.len() > identity.batch_pages_max as usize {
            return invalid(format!("{} pages", lpids.len()));
        }
        if let Some(l) = lpids.iter().find(|l| !self.extents.contains_key(&l.extent())) {
            return Err(CommandError::NoSuchExtent(l.extent()));
        }
        if let Some(e) = batch.releases.iter().find(|e| !self.extents.contains_key(e)) {
            return Err(CommandError::NoSuchExtent(*e));
        }
        let bytes_ok = |n: usize| n >= 64 && n <= identity.page_bytes_max as usize;
        if batch.writes.iter().any(|w| !bytes_ok(w.data.len())) {
            return invalid("a page of the wrong length".into());
        }
        for (owner, rule) in batch.index_rules {
            match rule {
                Some(r) => self.rules.insert(owner, r),
                None => self.rules.remove(&owner),
            };
        }
        let mut versions = Vec::new();
        for w in batch.writes {
            let rule = self.rules.get(&self.extents[&w.lpid.extent()]);
            let entry = rule.map(|r| entry(r, w.lpid, &w.data)).transpose()?;
            versions.push((w.lpid, Some(Version { data: w.data, entry })));
        }
        versions.extend(batch.trims.into_iter().map(|l| (l, None)));
        for e in &batch.releases {
            self.extents.remove(e);
            let all = self.pages.range(e.page(0)..=e.page(1023));
            versions.extend(all.map(|(l, _)| (*l, None)).collect::<Vec<_>>());
        }
        self.commit += 1;
        for (lpid, version) in versions {
            self.pages.entry(lpid).or_default().push((self.commit, version));
        }
        let view = batch.pin.then(|| self.open_view());
        Ok(Reply::Committed { commit: CommitNo::new(self.commit), view, entries: Vec::new() })
    }

    fn unit(&self, task: &ScanTask, pages: &mut VecDeque<Lpid>) -> Result<Option<ScanUnit>, CommandError> {
        let commit = self.at(Some(task.view))?;
        let mut unit = ScanUnit::default();
        while unit.counts.pages < u64::from(task.unit_pages) {
            let Some(lpid) = pages.pop_front() else { break };
            let Some(version) = self.version(lpid, commit) else { continue };
            unit.counts.pages += 1;
            let bare = PageRows { lpid, rows: 0, columns: Vec::new(), slots: None };
            if task.answer == Answer::Mapped {
                unit.pages.push(bare);
                continue;
            }
            let rule = self.extents.get(&lpid.extent()).and_then(|o| self.rules.get(o));
            if let (Some(rule), Some(entry)) = (rule, &version.entry)
                && !may_match(&task.program, rule, entry)
            {
                unit.counts.pages_skipped += 1;
                continue;
            }
            if task.answer == Answer::Index {
                unit.pages.push(bare);
                continue;
            }
            if task.answer == Answer::Whole {
                unit.whole.push(lode_command::WholePage { lpid, bytes: version.data.clone() });
                continue;
            }
            let bad = |what: String| CommandError::BadPage { lpid, what };
            let (page, mut columns) = decode_page(lpid, &version.data).map_err(|e| bad(e.to_string()))?;
            task.program.schema().complete(&mut columns, page.rows());
            unit.counts.pages_read += 1;
            let mut source = Page { rows: page.rows(), columns: &columns };
            let selection = select(&task.program, &mut source, &mut Meter::default())
                .map_err(|e| bad(format!("{e:?}")))?;
            let hide = |selection: Selection| match task.hidden.as_ref().map(|h| h.of(lpid)) {
                None | Some([]) => selection,
                Some(hidden) => {
                    let mut words = vec![0u64; page.rows().div_ceil(64)];
                    let shown = selection.slots(page.rows());
                    let shown = shown.iter().filter(|s| hidden.binary_search(s).is_err());
                    shown.for_each(|s| words[*s as usize / 64] |= 1 << (s % 64));
                    Selection::from_mask(RowMask::new(words, page.rows()))
                }
            };
            let selection = hide(selection);
            let rows = selection.count(page.rows());
            unit.counts.rows_out += rows as u64;
            if rows == 0 {
                continue;
            }
            let kept = if task.answer == Answer::Pages { hide(Selection::All) } else { selection };
            let projected = task.program.projection().iter();
            let columns = projected.map(|&c| compact(&columns[usize::from(c)], &kept)).collect();
            let slots = task.program.slots().then(|| kept.slots(page.rows()));
            let rows = kept.count(page.rows()) as u32;
            unit.pages.push(PageRows { lpid, rows, columns, slots });
        }
        Ok((unit.counts.pages > 0).then_some(unit))
    }
}

fn entry(rule: &IndexRule, lpid: Lpid, data: &PageBuf) -> Result<IndexEntry, CommandError> {
    let bad = |what: String| CommandError::BadPage { lpid, what };
    let (page, mut columns) = decode_page(lpid, data).map_err(|e| bad(e.to_string()))?;
    rule.schema().complete(&mut columns, page.rows());
    rule.entry(&mut Page { rows: page.rows(), columns: &columns }).map_err(|e| bad(format!("{e:?}")))
}
