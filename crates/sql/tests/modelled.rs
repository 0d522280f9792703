//! Statements on a modelled device: their times by part, equal times in every run, and the effects of a profile.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use datafusion::arrow::util::pretty::pretty_format_batches;
use lode_base::{Geometry, Part, Profile, VirtualDuration};
use lode_engine::{Agent, Database, DatabaseOptions, HostClock, HostWork, ModelledTime, Progress};
use lode_firmware::{Drive, DriveOptions};
use lode_flash::Medium;
use lode_flash::timing::{BusyTime, Model};
use lode_sql::{Offload, Queries, QueryCounts, Session, SessionOptions};

const ROWS: u64 = 60_000;

/// A drive with two tables of a few MB, on the device of a profile.
struct Run {
    queries: Queries,
    session: Session,
    database: Database,
    model: Arc<Model>,
}

/// A statement's answer and modelled time.
#[derive(Debug, PartialEq)]
struct Took {
    answer: String,
    time: ModelledTime,
    counts: QueryCounts,
    /// The time for which the device was busy, by resource.
    busy: Vec<(&'static str, u128)>,
}

impl Took {
    fn part(&self, p: Part) -> VirtualDuration {
        self.time.split.of(p)
    }

    fn busy(&self, name: &str) -> u128 {
        self.busy.iter().find(|b| b.0 == name).expect("a resource").1
    }
}

fn profile(change: impl FnOnce(&mut Profile)) -> Profile {
    let mut p = Profile::find("isp-adms11").unwrap();
    let g = &p.geometry;
    // As many EBLOCKs as the tables need, and small ones.
    p.geometry =
        Geometry::new(g.channels(), g.ways(), g.planes(), g.rblock_bytes(), g.wblock_bytes(), 1 << 20, 256)
            .unwrap();
    let ns = VirtualDuration::from_ns;
    (p.host.scan, p.host.project, p.host.aggregate, p.host.other) = (ns(3), ns(5), ns(20), ns(2));
    change(&mut p);
    p
}

impl Run {
    async fn new(profile: Profile) -> Self {
        let model = Arc::new(Model::new(profile.clone()));
        let medium = Medium::memory(profile.geometry).with_model(model.clone());
        let options = DriveOptions { log_copies: 1, ..DriveOptions::default() };
        let drive = Drive::format(medium, options).unwrap();
        let meter = model.clone();
        let host = HostClock::new(profile, model.latest(), Box::new(move || meter.operations()));
        Self::over(drive, Some(Arc::new(host)), model).await
    }

    async fn over(drive: Drive, host: Option<Arc<HostClock>>, model: Arc<Model>) -> Self {
        let options = DatabaseOptions { host, ..DatabaseOptions::default() };
        let database = Database::open(Arc::new(drive), options).unwrap();
        let queries = Queries::new(database.clone(), 1 << 30).unwrap();
        let session = queries.session(&SessionOptions::default()).unwrap();
        session
            .execute(&format!(
                "SET lode.default_changes = 'pages';
                 CREATE TABLE t (k BIGINT PRIMARY KEY, a INT, s TEXT);
                 INSERT INTO t SELECT value, value % 1000, 'text of row ' || value FROM generate_series(1, {ROWS}) AS value;
                 CREATE TABLE u (a INT PRIMARY KEY, name TEXT);
                 INSERT INTO u SELECT value, 'name ' || value FROM generate_series(0, 499) AS value"
            ))
            .await
            .unwrap();
        Self { queries, session, database, model }
    }

    fn busy(&self) -> Vec<BusyTime> {
        self.model.busy()
    }

    /// Runs a statement with an empty buffer pool.
    async fn run(&self, offload: Offload, sql: &str) -> Took {
        self.database.clear_pool();
        self.session.set_offload(offload);
        let before = self.busy();
        let batches = self.session.collect(sql).await.unwrap();
        let time = self.session.last_modelled().unwrap();
        let busy = self.busy().iter().zip(before).map(|(a, b)| (a.name, a.busy_ps - b.busy_ps)).collect();
        let answer = pretty_format_batches(&batches).unwrap().to_string();
        Took { answer, time, counts: self.session.last_counts(), busy }
    }
}

const FILTER: &str = "SELECT count(*), sum(k) FROM t WHERE a < 10";
const SORT: &str = "SELECT a, s FROM t WHERE a BETWEEN 100 AND 119 ORDER BY s DESC LIMIT 100";
const JOIN: &str = "SELECT u.name, count(t.k) AS n FROM u LEFT JOIN t ON t.a = u.a AND t.k % 2 = 0 \
                    GROUP BY u.name ORDER BY n DESC, u.name LIMIT 7";
const ALL: [&str; 3] = [FILTER, SORT, JOIN];

#[tokio::test]
async fn the_same_statements_take_the_same_picoseconds_and_parts_add_up() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let run = Run::new(profile(|_| {})).await;
        let mut took = Vec::new();
        for sql in ALL {
            for offload in Offload::ALL {
                let t = run.run(offload, sql).await;
                assert_eq!(t.time.split.total(), t.time.total);
                assert_eq!(t.time.work.into_iter().sum::<VirtualDuration>(), t.part(Part::Host));
                assert_eq!(t.time.operations.host_busy, t.part(Part::Host));
                for part in [Part::Media, Part::Bus, Part::Link, Part::Host] {
                    assert!(!t.part(part).is_zero(), "{offload}: {part}: {sql}");
                }
                took.push(t);
            }
        }
        runs.push(took);
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn answers_do_not_depend_on_the_profile() {
    let modelled = Run::new(profile(|_| {})).await;
    let slow = Run::new(profile(|p| p.host.join = VirtualDuration::from_ns(100_000))).await;
    let drive = Drive::in_memory(256 << 20);
    let none = Run::over(drive, None, Arc::new(Model::new(profile(|_| {})))).await;
    assert!(none.session.last_modelled().is_none());
    for sql in ALL {
        for offload in Offload::ALL {
            none.session.set_offload(offload);
            let expected = none.session.collect(sql).await.unwrap();
            let expected = pretty_format_batches(&expected).unwrap().to_string();
            assert_eq!(modelled.run(offload, sql).await.answer, expected, "{offload}: {sql}");
            assert_eq!(slow.run(offload, sql).await.answer, expected, "{offload}: {sql}");
        }
    }
}

#[tokio::test]
async fn each_operator_takes_its_time_of_the_host() {
    let run = Run::new(profile(|_| {})).await;
    let host = &profile(|_| {}).host;
    let sorted = run.run(Offload::Rows, SORT).await.time;
    // 20 values of `a` in each thousand of rows.
    let rows = ROWS * 20 / 1000;
    assert_eq!(sorted.work(HostWork::Sort), host.sort * rows);
    assert_eq!(sorted.work(HostWork::Scan), host.scan * rows);
    let off = run.run(Offload::Off, SORT).await.time;
    assert_eq!(off.work(HostWork::Filter), host.filter * ROWS);
    assert_eq!(off.work(HostWork::Scan), host.scan * ROWS);
    let joined = run.run(Offload::Off, JOIN).await.time;
    // All of `u`, and every other row of `t`.
    assert_eq!(joined.work(HostWork::Join), host.join * (500 + ROWS / 2));
    assert_eq!(joined.work(HostWork::Filter), host.filter * ROWS);
    // Rows of `u` without a match are returned, too: those with odd `a`.
    let matched = ROWS / 4;
    assert_eq!(joined.work(HostWork::Aggregate), host.aggregate * (matched + 250));
    assert_eq!(joined.work(HostWork::Sort), host.sort * 500);
}

#[tokio::test]
async fn a_slower_host_takes_its_own_time_and_none_of_the_device() {
    let fast = Run::new(profile(|_| {})).await;
    let slow = Run::new(profile(|p| {
        let h = &mut p.host;
        for cost in [
            &mut h.command,
            &mut h.scan,
            &mut h.filter,
            &mut h.project,
            &mut h.aggregate,
            &mut h.join,
            &mut h.sort,
            &mut h.other,
        ] {
            *cost = *cost * 10;
        }
    }))
    .await;
    for offload in Offload::ALL {
        let (a, b) = (fast.run(offload, FILTER).await, slow.run(offload, FILTER).await);
        assert_eq!(b.part(Part::Host), a.part(Part::Host) * 10, "{offload}");
        // A plane is also busy while its register waits for the bus. All other resources are busy for the same time.
        for same in ["buses", "cores", "device memory", "link to the host", "link to the device"] {
            assert_eq!(a.busy(same), b.busy(same), "{offload}: {same}");
        }
        assert_eq!((a.counts, a.time.operations.reads), (b.counts, b.time.operations.reads), "{offload}");
        let more = b.part(Part::Host) - a.part(Part::Host);
        assert!(b.time.total > a.time.total, "{offload}");
        assert!(b.time.total <= a.time.total + more, "{offload}: the device works meanwhile");
    }
    // If the host filters a whole table, it takes the longest time.
    let t = slow.run(Offload::Off, FILTER).await;
    assert!(t.part(Part::Host).as_ps() * 10 > t.time.total.as_ps() * 8, "{:?}", t.time);
}

#[tokio::test]
async fn a_slower_link_takes_longer_and_the_drive_saves_more() {
    let fast = Run::new(profile(|_| {})).await;
    let slow = Run::new(profile(|p| {
        let slower =
            |r: lode_base::profile::Rate| lode_base::profile::Rate::from_bytes_per_s(r.bytes_per_s() / 100);
        (p.link.up, p.link.down) = (slower(p.link.up), slower(p.link.down));
    }))
    .await;
    let (mut saved, mut fewer_bytes_win) = (Vec::new(), Vec::new());
    for run in [&fast, &slow] {
        let off = run.run(Offload::Off, FILTER).await;
        let pages = run.run(Offload::Pages, FILTER).await;
        let rows = run.run(Offload::Rows, FILTER).await;
        assert!(rows.counts.link_bytes_up * 10 < off.counts.link_bytes_up);
        assert!(rows.counts.link_bytes_up < pages.counts.link_bytes_up);
        assert!(rows.time.total < off.time.total && pages.time.total < off.time.total);
        fewer_bytes_win.push(rows.time.total < pages.time.total);
        assert!(rows.part(Part::Link) < off.part(Part::Link));
        saved.push(off.time.total.as_secs_f64() / rows.time.total.as_secs_f64());
        saved.push(off.part(Part::Link).as_secs_f64() / off.time.total.as_secs_f64());
    }
    // Planning for the level `rows` takes a sample of one page in a hundred, or none, so that it costs less than the level saves.
    assert_eq!(fewer_bytes_win, [true, true]);
    assert!(saved[2] > 2.0 * saved[0] && saved[3] > 0.7, "{saved:?}");
    let (a, b) = (fast.run(Offload::Off, FILTER).await, slow.run(Offload::Off, FILTER).await);
    assert!(b.busy("link to the host") >= 99 * a.busy("link to the host"));
    for same in ["buses", "cores"] {
        assert_eq!(a.busy(same), b.busy(same), "{same}");
    }
    assert_eq!(a.part(Part::Host), b.part(Part::Host));
}

#[tokio::test]
async fn tasks_under_way_hide_the_device_behind_each_other() {
    let run = Run::new(profile(|_| {})).await;
    for offload in [Offload::Off, Offload::Rows] {
        let mut total = Vec::new();
        for depth in [1, 4, 32] {
            run.session.execute(&format!("SET lode.queue_depth = {depth}")).await.unwrap();
            total.push(run.run(offload, FILTER).await.time.total);
        }
        assert!(total[1] < total[0], "{offload}: {total:?}");
        match offload {
            Offload::Off => assert!(total[2] < total[1], "{total:?}"),
            // Four tasks keep the device at work. With more, the first answer comes later, and the host begins later.
            _ => assert!(total[2].as_ps() * 20 < total[1].as_ps() * 21, "{total:?}"),
        }
        assert!(total[2].as_ps() * 2 < total[0].as_ps(), "{offload}: {total:?}");
    }
}

/// What an agent did: its answers, and the time that each took.
type Did = Vec<(String, ModelledTime)>;
type Work<'a> = Pin<Box<dyn Future<Output = Did> + 'a>>;

/// The work of agents on one drive: the agent that is furthest behind has the next turn.
async fn beside(run: &Run, mut work: Vec<(Agent, Work<'_>)>) -> Vec<Did> {
    let host = run.database.host().unwrap().clone();
    let mut did: Vec<Option<Did>> = vec![None; work.len()];
    let mut turn_ended = true;
    std::future::poll_fn(|context| {
        if turn_ended {
            let at_work = work.iter().zip(&did).filter(|w| w.1.is_none()).map(|w| w.0.0);
            let Some(next) = host.furthest_behind(at_work) else { return Poll::Ready(()) };
            host.give_turn(next);
        }
        let at = work.iter().position(|w| w.0 == host.turn()).unwrap();
        if let Poll::Ready(all) = work[at].1.as_mut().poll(context) {
            did[at] = Some(all);
        }
        turn_ended = host.turn_ended() || did[at].is_some();
        if turn_ended {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
    did.into_iter().map(Option::unwrap).collect()
}

/// The agent whose turn it is ends it.
async fn end_turn(run: &Run) {
    run.database.host().unwrap().end_turn();
    tokio::task::yield_now().await;
}

/// Runs statements in a session of their own, the first one to set it up.
fn statements<'a>(run: &'a Run, set: &'a str, all: &'a [&'a str]) -> Work<'a> {
    Box::pin(async move {
        let session = run.queries.session(&SessionOptions::default()).unwrap();
        session.set_offload(Offload::Rows);
        session.execute(set).await.unwrap();
        let mut did = Did::new();
        for sql in all {
            let batches = session.collect(sql).await.unwrap();
            let answer = pretty_format_batches(&batches).unwrap().to_string();
            did.push((answer, session.last_modelled().unwrap()));
            end_turn(run).await;
        }
        did
    })
}

/// Does background work of the host until `over` is set and something was merged.
fn merges<'a>(run: &'a Run, over: &'a Cell<bool>) -> Work<'a> {
    Box::pin(async move {
        let host = run.database.host().unwrap();
        let before = host.read();
        while !over.get() || run.database.merge_stats().merges == 0 {
            if run.database.work(0) != Progress::More {
                host.rests(VirtualDuration::from_ns(20_000_000));
            }
            end_turn(run).await;
        }
        vec![(String::new(), host.since(&before))]
    })
}

#[tokio::test]
async fn agents_beside_each_other_share_the_device_and_take_the_same_picoseconds_in_every_run() {
    const SMALL: [&str; 40] = ["UPDATE u SET name = 'another' WHERE a = 7"; 40];
    const SET: &str = "SET lode.queue_depth = 4";
    let mut runs = Vec::new();
    for (short, long) in [(true, false), (true, true), (true, true)] {
        let run = Run::new(profile(|_| {})).await;
        let host = run.database.host().unwrap().clone();
        let terminal = (host.new_agent(), statements(&run, SET, &SMALL));
        let analyst = (host.new_agent(), statements(&run, SET, &[FILTER, FILTER]));
        let agents: Vec<_> =
            [(short, terminal), (long, analyst)].into_iter().filter(|a| a.0).map(|a| a.1).collect();
        run.database.clear_pool();
        let did = beside(&run, agents).await;
        for (_, time) in did.iter().flatten() {
            assert_eq!(time.split.total(), time.total);
            assert_eq!(time.work.into_iter().sum::<VirtualDuration>(), time.split.of(Part::Host));
            assert!(time.behind <= time.split.of(Part::Link));
        }
        runs.push(did);
    }
    assert_eq!(runs[1], runs[2]);
    let total = |did: &Did| did.iter().map(|d| d.1.total).sum::<VirtualDuration>();
    let (alone, with) = (total(&runs[0][0]), total(&runs[1][0]));
    assert!(with > alone, "the device serves both: {with:?} and {alone:?}");
    // A statement that had to wait until a query was over would take longer by the time of the query.
    let longest = |did: &Did| did.iter().map(|d| d.1.total).max().unwrap();
    let query = runs[1][1].iter().map(|d| d.1.total).min().unwrap();
    let (alone, with) = (longest(&runs[0][0]), longest(&runs[1][0]));
    assert!(with.as_ps() < alone.as_ps() + query.as_ps() / 2, "{with:?}, alone {alone:?}; {query:?}");
    assert_eq!(runs[1][1][0].0, runs[1][1][1].0);
}

#[tokio::test]
async fn merges_of_an_agent_take_its_time_and_not_that_of_others() {
    const CHANGES: [&str; 30] = ["UPDATE v SET a = a + 1 WHERE k = 7"; 30];
    let mut runs = Vec::new();
    for _ in 0..2 {
        let run = Run::new(profile(|_| {})).await;
        let table = "SET lode.default_changes = 'delta'; SET lode.bulk_rows = 1000;
                     CREATE TABLE v (k BIGINT PRIMARY KEY, a INT);
                     INSERT INTO v SELECT value, 0 FROM generate_series(1, 20000) AS value";
        run.session.execute(table).await.unwrap();
        let host = run.database.host().unwrap().clone();
        let (terminal, worker) = (host.new_agent(), host.new_agent());
        let over = Cell::new(false);
        let changes = async {
            let did = statements(&run, "SET lode.short_statements = on", &CHANGES).await;
            over.set(true);
            did
        };
        let did = beside(&run, vec![(terminal, Box::pin(changes)), (worker, merges(&run, &over))]).await;
        assert!(run.database.merge_stats().merges > 0);
        let merged = did[1][0].1;
        assert!(!merged.split.of(Part::Media).is_zero() && merged.operations.programs > 0, "{merged:?}");
        // Rests are no part of its time.
        assert!(host.read_of(worker).since(&host.read_of(worker)).total.is_zero());
        let took: VirtualDuration = did[0].iter().map(|d| d.1.total).sum();
        assert!(took < merged.total, "30 changes took {took:?}, and the merge {merged:?}");
        let left = run.run(Offload::Auto, "SELECT a FROM v WHERE k = 7").await;
        assert!(left.answer.contains(" 30 "), "{}", left.answer);
        assert!(run.database.check().unwrap().is_empty());
        runs.push(did);
    }
    assert_eq!(runs[0], runs[1]);
}

#[tokio::test]
async fn short_statements_charge_the_host_where_they_are_asked_for() {
    let ns = VirtualDuration::from_ns;
    let run = Run::new(profile(|_| {})).await;
    let shown = run.session.collect("SHOW lode.short_statements").await.unwrap();
    assert!(pretty_format_batches(&shown).unwrap().to_string().contains("off"));
    let host = &run.database.host().unwrap().profile().host.clone();
    let check = |sql: &'static str, scanned: u64, filtered: u64, projected: u64| {
        let (run, host) = (&run, &host);
        async move {
            run.session.set_short_statements(false);
            let general = run.run(Offload::Auto, sql).await;
            assert!(!general.counts.short, "{sql}");
            run.session.set_short_statements(true);
            let t = run.run(Offload::Auto, sql).await;
            assert!(t.counts.short && t.answer == general.answer, "{sql}: {}", t.answer);
            let work = [HostWork::Scan, HostWork::Filter, HostWork::Project].map(|w| t.time.work(w));
            let expected = [host.scan * scanned, host.filter * filtered, host.project * projected];
            assert_eq!(work, expected, "{sql}: {:?}", t.time);
            assert_eq!(t.time.split.total(), t.time.total);
            t.time
        }
    };
    let read = check("SELECT name FROM u WHERE a = 7", 1, 0, 1).await;
    assert!(read.total > ns(0) && read.operations.programs == 0, "{read:?}");
    check("SELECT name FROM u WHERE a = 1000", 0, 0, 0).await;
    let changed = check("UPDATE u SET name = 'another' WHERE a = 7", 1, 0, 1).await;
    assert!(changed.operations.programs > 0, "{changed:?}");
    run.session.set_short_statements(true);
    let t = run.run(Offload::Auto, "INSERT INTO u VALUES (1000, 'new'), (1001, 'new')").await;
    assert!(t.counts.short && t.time.work(HostWork::Project) == host.project * 2, "{t:?}");
}

#[tokio::test]
async fn analyze_tells_it_and_settings_know_the_profile() {
    let run = Run::new(profile(|_| {})).await;
    let t = run.run(Offload::Auto, &format!("EXPLAIN ANALYZE {JOIN}")).await;
    let ms = |text: &str| text.trim().parse::<f64>().unwrap();
    let line = |begins: &str| {
        let at = t.answer.find(begins).unwrap_or_else(|| panic!("{begins}: {}", t.answer)) + begins.len();
        let (total, parts) = t.answer[at..].lines().next().unwrap().split_once(" = ").unwrap();
        let parts = parts.trim_end_matches(['|', ' ']).split(" + ");
        let sum: f64 = parts.map(|p| ms(p.rsplit_once(' ').unwrap().1)).sum();
        (ms(total.split(' ').next().unwrap()), sum)
    };
    let (total, sum) = line("isp-adms11: ");
    assert!((total - sum).abs() < 5e-7, "{total} {sum}");
    assert!((total - t.time.total.as_secs_f64() * 1e3).abs() < 0.1 * total, "{total} {:?}", t.time);
    let (host, sum) = line("| host ");
    assert!((host - sum).abs() < 5e-7 && host < total, "{host} {sum}");
    let (energy, sum) = line("energy ");
    assert!((energy - sum).abs() < 0.01, "{energy} {sum}");
    // The plan is the same as without a modelled device. The operators that account for time are not shown.
    assert!(t.answer.contains("HashJoinExec") && !t.answer.contains("Charged"), "{}", t.answer);

    let shown = run.session.collect("SHOW lode.profile").await.unwrap();
    assert!(pretty_format_batches(&shown).unwrap().to_string().contains("isp-adms11"));
    for refused in ["SET lode.profile = 'none'", "SET datafusion.execution.target_partitions = 2"] {
        assert!(run.session.execute(refused).await.is_err(), "{refused}");
    }
}

#[tokio::test]
async fn filters_that_a_join_finds_out_still_reach_the_scan() {
    let run = Run::new(profile(|_| {})).await;
    let t =
        run.run(Offload::Auto, "SELECT count(*) FROM t JOIN u ON t.a = u.a WHERE u.name = 'name 7'").await;
    assert!(t.answer.contains(" 60 "), "{}", t.answer);
    assert!(t.counts.narrowed > 0, "{:?}", t.counts);
    assert!(t.counts.rows_out < 100, "{:?}", t.counts);
}

#[tokio::test]
async fn changes_take_time_and_commits_of_a_modelled_device_hold() {
    let run = Run::new(profile(|_| {})).await;
    run.session.execute("UPDATE t SET a = a + 1 WHERE k <= 100").await.unwrap();
    let changed = run.session.last_modelled().unwrap();
    assert!(!changed.split.of(Part::Media).is_zero() && changed.operations.programs > 0, "{changed:?}");
    run.session.execute("DELETE FROM u WHERE a >= 250").await.unwrap();
    let left = run.run(Offload::Auto, "SELECT count(*) FROM u").await;
    assert!(left.answer.contains(" 250 "), "{}", left.answer);
    assert!(run.database.check().unwrap().is_empty());
}

/// The cores of the device look up groups. With slow cores, the host aggregates.
#[tokio::test]
async fn auto_aggregates_in_the_drive_where_its_cores_take_less_time_than_link_and_host() {
    const GROUPS: &str = "SELECT a, count(*), sum(k) FROM t WHERE a < 30 GROUP BY a ORDER BY a";
    let slow = Run::new(profile(|p| p.cores.aggregate_cycles = 10_000)).await;
    let (host, drive) = (slow.run(Offload::Auto, GROUPS).await, slow.run(Offload::Aggregate, GROUPS).await);
    assert!((host.counts.groups, drive.counts.groups > 0) == (0, true));
    assert!(host.time.total * 2 < drive.time.total, "{:?} {:?}", host.time, drive.time);
    let fast = Run::new(profile(|p| {
        p.cores.aggregate_cycles = 1;
        p.link.up = lode_base::profile::Rate::from_bytes_per_s(p.link.up.bytes_per_s() / 10);
    }))
    .await;
    let (rows, auto) = (fast.run(Offload::Rows, GROUPS).await, fast.run(Offload::Auto, GROUPS).await);
    assert!(auto.counts.groups > 0 && rows.counts.groups == 0);
    for level in [Offload::Off, Offload::Index, Offload::Pages] {
        let other = fast.run(level, GROUPS).await;
        assert!(auto.time.total < other.time.total, "{level}: {:?} {:?}", auto.time, other.time);
    }
    assert!(host.answer == drive.answer && rows.answer == auto.answer && host.answer == rows.answer);
}

#[tokio::test]
async fn tasks_grow_while_the_page_index_leaves_nearly_all_pages_out() {
    let run = Run::new(profile(|_| {})).await;
    let rows = "SELECT value, value % 1000, 'text of row ' || value FROM generate_series(1, 400000) AS value";
    run.session
        .execute(&format!(
            "CREATE TABLE rows (k BIGINT, a INT, s TEXT) WITH (layout = 'row'); INSERT INTO rows {rows};
             SET lode.queue_depth = 4"
        ))
        .await
        .unwrap();
    let few = "SELECT a FROM rows WHERE k = 300000";
    let mut took = Vec::new();
    for path in ["flixr_s", "page_index", "none"] {
        run.session.execute(&format!("SET lode.index = {path}")).await.unwrap();
        took.push(run.run(Offload::Rows, few).await);
    }
    let [each, levels, none] = &took[..] else { panic!() };
    assert!(each.answer == levels.answer && each.answer == none.answer);
    let pages = none.counts.pages;
    assert!(pages > 1000, "{pages} pages");
    assert_eq!((each.counts.pages_skipped, none.counts.pages_skipped), (pages - 1, 0));
    // Four tasks of 16 pages come before any has answered; then they grow, up to the share of each in what is left.
    let commands = |t: &Took| t.time.work(HostWork::Command);
    assert!(commands(each) * 3 < commands(none), "{:?} {:?}", commands(each), commands(none));
    assert!(levels.time.total <= each.time.total, "{:?} {:?}", levels.time.total, each.time.total);
}
