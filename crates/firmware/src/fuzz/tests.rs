//! Random values of every structure, as bytes; then those bytes changed, cut and spliced; then any bytes.

use std::collections::BTreeMap;

use lode_base::{ExtentId, Lpid, OwnerId, PageBuf, SessionId};
use lode_page::{ColumnType, DataType, Schema};
use lode_program::IndexRule;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::entry::{INLINED_BYTES_LIMIT, INLINED_NUMBERS};
use crate::log::{Candidate, LogPosition, NUMBER_MAX};
use crate::record::{Commit, LoggedWrite};
use crate::space::State;
use crate::stream::Stream;

/// No more memory than 64 times the bytes, and what the structure itself takes.
fn bounded(kind: Structure, bytes: &[u8]) -> bool {
    let mut understood = false;
    let used = allocation_counter::measure(|| understood = decode_all(kind, bytes));
    let limit = 64 * bytes.len() as u64 + (160 << 10);
    assert!(used.bytes_max <= limit, "{} bytes for {} of a {kind:?}", used.bytes_max, bytes.len());
    understood
}

/// How bytes are changed.
#[derive(Clone, Debug)]
enum Change {
    /// Others are put over them.
    Over(prop::sample::Index, Vec<u8>),
    /// They end here.
    Cut(prop::sample::Index),
    /// Those between two places come again.
    Twice(prop::sample::Index, prop::sample::Index),
    /// Those between two places are gone.
    Gone(prop::sample::Index, prop::sample::Index),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let byte = || prop_oneof![Just(0u8), Just(1), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()];
    let change = prop_oneof![
        4 => (any::<prop::sample::Index>(), vec(byte(), 1..9)).prop_map(|(at, b)| Change::Over(at, b)),
        1 => any::<prop::sample::Index>().prop_map(Change::Cut),
        1 => any::<(prop::sample::Index, prop::sample::Index)>().prop_map(|(a, b)| Change::Twice(a, b)),
        1 => any::<(prop::sample::Index, prop::sample::Index)>().prop_map(|(a, b)| Change::Gone(a, b)),
    ];
    vec(change, 1..4)
}

fn changed(mut b: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for c in changes {
        let at = |i: &prop::sample::Index| i.index(b.len() + 1);
        let range = |i, j| at(i).min(at(j))..at(i).max(at(j));
        match c {
            Change::Over(i, over) => {
                let at = at(i);
                b.iter_mut().skip(at).zip(over).for_each(|(b, o)| *b = *o);
            }
            Change::Cut(i) => {
                let at = at(i);
                b.truncate(at);
            }
            Change::Twice(i, j) => {
                let range = range(i, j);
                let part = b[range.clone()].to_vec();
                b.splice(range.end..range.end, part);
            }
            Change::Gone(i, j) => drop(b.drain(range(i, j))),
        }
    }
    b
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..10u64, any::<u64>(), Just(NUMBER_MAX), Just(u64::MAX)]
}

fn eblock() -> impl Strategy<Value = EblockId> {
    (0..300u32).prop_map(EblockId::new)
}

fn entry() -> impl Strategy<Value = Entry> {
    (0..300u32, 0..1000u32, 64..60_000usize, any::<bool>()).prop_map(|(e, cell, len, redo)| {
        Entry::new(geometry().ppa(EblockId::new(e), cell * 64).expect("a place"), len, redo)
    })
}

fn user_entry() -> impl Strategy<Value = Entry> {
    let inlined = (0..INLINED_NUMBERS, 64..INLINED_BYTES_LIMIT, any::<bool>());
    prop_oneof![4 => entry(), 1 => inlined.prop_map(|(n, len, redo)| Entry::inlined(n, len, redo))]
}

fn lpid() -> impl Strategy<Value = Lpid> {
    (0..1u64 << 38, 0..1024u16).prop_map(|(e, page)| ExtentId::new(e).expect("38 bits").page(page))
}

fn rule() -> impl Strategy<Value = IndexRule> {
    let t = prop_oneof![
        Just(DataType::Boolean),
        Just(DataType::BigInt),
        Just(DataType::Text),
        (1..=38u8).prop_map(|precision| DataType::Decimal { precision, scale: precision / 2 }),
    ];
    let column = (t, any::<bool>()).prop_map(|(data_type, nullable)| ColumnType { data_type, nullable });
    (any::<u32>(), vec(column, 1..8), any::<u8>()).prop_map(|(version, columns, indexed)| {
        let indexed = (0..columns.len() as u16).filter(|c| indexed >> c & 1 == 1).collect();
        IndexRule::new(Schema { version, columns, absent: Vec::new() }, indexed).expect("a rule")
    })
}

fn write() -> impl Strategy<Value = LoggedWrite> {
    let index = proptest::option::of((any::<u64>(), vec(any::<u8>(), 1..40)));
    (lpid(), user_entry(), index).prop_map(|(lpid, entry, index)| {
        let index = index.map(|(rule, bytes)| (rule, bytes.into()));
        LoggedWrite { lpid, entry, index }
    })
}

fn freed() -> impl Strategy<Value = Vec<(EblockId, u32)>> {
    vec((eblock(), any::<u32>()), 0..4)
}

fn stream() -> impl Strategy<Value = Stream> {
    (0..7u8).prop_map(|t| Stream::from_tag(t).expect("a stream"))
}

fn record() -> impl Strategy<Value = Record> {
    let extent = || (0..1u64 << 38).prop_map(|e| ExtentId::new(e).expect("38 bits"));
    let session = || any::<u64>().prop_map(SessionId::new);
    let owner = || any::<u32>().prop_map(OwnerId::new);
    let kind = prop::sample::select(OwnKind::ALL.to_vec());
    let rules = vec((owner(), proptest::option::of(rule())), 0..3);
    let parts = (vec(write(), 0..5), vec(lpid(), 0..4), vec(extent(), 0..4), rules, freed());
    let commit = (number(), proptest::option::of((session(), number())), parts).prop_map(
        |(number, session, (writes, trims, releases, rules, freed))| {
            let small = writes.iter().filter(|w| w.entry.is_inlined());
            let inlined = small.map(|w| PageBuf::copy_from(&vec![7; w.entry.len_bytes()])).collect();
            Record::Commit(Commit { number, session, writes, trims, releases, rules, freed, inlined })
        },
    );
    let opened = (eblock(), number(), stream(), any::<u16>(), any::<u32>(), number()).prop_map(
        |(eblock, raw, stream, lane, erase_count, age)| {
            let generation = Generation::from_raw(raw);
            Record::Opened { eblock, generation, stream, lane, erase_count, age }
        },
    );
    let closed = (eblock(), 0..=128u32, 0..=128u32, number())
        .prop_map(|(eblock, data, more, age)| (eblock, data, (data + more).min(256), age))
        .prop_map(|(eblock, data_end, end, age)| Record::Closed { eblock, data_end, end, age });
    let flushed = (number(), vec((kind, number(), proptest::option::of(entry())), 0..5), freed());
    prop_oneof![
        opened,
        closed,
        (owner(), extent()).prop_map(|(owner, extent)| Record::Allocated { owner, extent }),
        eblock().prop_map(|eblock| Record::Retired { eblock }),
        commit,
        vec(write(), 0..5).prop_map(|pages| Record::Indexed { pages }),
        (vec((lpid(), entry()), 0..5), freed()).prop_map(|(pages, freed)| Record::Moved { pages, freed }),
        flushed.prop_map(|(as_of, pages, freed)| Record::Flushed { as_of, pages, freed }),
        session().prop_map(|session| Record::SessionOpened { session }),
        session().prop_map(|session| Record::SessionClosed { session }),
        number().prop_map(|lsn| Record::Checkpointed { lsn }),
    ]
}

fn group(records: &[Record]) -> Vec<u8> {
    let mut b = Vec::new();
    records.iter().for_each(|r| r.encode(&mut b));
    b
}

fn checkpoint() -> impl Strategy<Value = CheckpointRecord> {
    let place = (1..=NUMBER_MAX, any::<u32>(), 0..298u32, 0..256u32, number()).prop_map(
        |(lsn, epoch, e, wblock, raw)| {
            let generation = Generation::from_raw(raw);
            let candidates =
                [0, 1, 2].map(|i| Candidate { eblock: EblockId::new(e + i), generation, wblock });
            LogPosition { lsn, epoch, candidates }
        },
    );
    let numbers = (any::<bool>(), any::<u32>(), 0..=NUMBER_MAX, 0..=NUMBER_MAX, any::<u64>());
    (place, numbers, entry()).prop_map(|(log, (clean, epoch, commit, clock, raw), root)| CheckpointRecord {
        clean,
        epoch,
        commit,
        clock,
        end: log.lsn,
        log,
        root,
        root_generation: Generation::from_raw(raw),
        long_entries: raw % 2 == 1,
    })
}

fn descriptor() -> impl Strategy<Value = Descriptor> {
    let state = (0..5u8, stream(), 0..4u16).prop_map(|(state, stream, lane)| match state {
        0 => State::Free,
        1 => State::Open { stream, lane },
        2 => State::Used { stream },
        3 => State::Failed { stream },
        _ => State::Retired,
    });
    (state, number(), 0..=1u32 << 20, any::<u32>(), 0..128u32, 0..128u32, number()).prop_map(
        |(state, raw, live, erase_count, data_end, metadata, age)| {
            let holds = !matches!(state, State::Free | State::Retired);
            let (generation, live) = (Generation::from_raw(raw), if holds { live } else { 0 });
            let (pinned, in_flight, closed) = (0, 0, age);
            #[rustfmt::skip]
            let d = Descriptor {
                state, generation, live, pinned, in_flight, erase_count, data_end, metadata, age, closed,
            };
            d
        },
    )
}

fn words() -> impl Strategy<Value = Vec<u64>> {
    let name = prop_oneof![
        lpid().prop_map(PageName::User),
        (prop::sample::select(OwnKind::ALL.to_vec()), 0..1u64 << 48).prop_map(|(k, n)| PageName::Own(k, n)),
    ];
    vec(name.prop_map(PageName::word), 0..20)
}

/// The bytes, and then those bytes changed.
fn check(kind: Structure, good: Vec<u8>, changes: &[Change]) {
    assert!(bounded(kind, &good), "a valid {kind:?}");
    bounded(kind, &changed(good, changes));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(128) })]

    #[test]
    fn log_records(records in vec(record(), 0..6), changes in changes()) {
        let b = group(&records);
        prop_assert_eq!(Record::decode_all(&b, &geometry()), Ok(records));
        check(Structure::LogRecords, b, &changes);
    }

    #[test]
    fn log_records_within_one_length(r in record(), changes in changes()) {
        // The body alone is changed, and its length made right.
        let b = group(&[r]);
        let body = changed(b[5..].to_vec(), &changes);
        let len = (body.len() as u32).to_le_bytes();
        bounded(Structure::LogRecords, &[&b[..1], &len, &body].concat());
    }

    #[test]
    fn log_pages(payload in vec(any::<u8>(), 0..200), changes in changes()) {
        // The header of a whole page, but for what `decode_all` makes right.
        let mut b = vec![0; 96];
        b[4] = 2;
        b[36..40].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        b[88] = 1;
        b.extend(payload);
        check(Structure::LogPage, b, &changes);
    }

    #[test]
    fn checkpoints(r in checkpoint(), changes in changes()) {
        let b = r.encode();
        prop_assert!(CheckpointRecord::decode(&b, &geometry()).is_ok_and(|d| d == r));
        check(Structure::Checkpoint, b, &changes);
    }

    #[test]
    fn roots(
        homes in vec((0..7usize, 0..20usize, entry()), 0..10),
        generations in vec((eblock(), any::<u64>()), 0..10),
        root in entry(), changes in changes(),
    ) {
        let mut tables = Tables::default();
        tables.replace_root(Some(root));
        for (table, piece, home) in homes {
            tables.set(crate::own::TABLES[table], piece, Some(home));
        }
        let generations: Vec<_> = generations.into_iter().map(|(e, g)| (e, Generation::from_raw(g))).collect();
        let b = tables.encode(&generations);
        prop_assert_eq!(Tables::decode(&b, root, &geometry()), Ok((tables, generations)));
        check(Structure::Root, b, &changes);
    }

    #[test]
    fn tables(
        open in vec((eblock(), words()), 0..5), rules in vec((any::<u32>(), number(), rule()), 0..5),
        sessions in vec((any::<u64>(), number()), 0..9), summary in vec(descriptor(), 0..9), changes in changes(),
    ) {
        let open: BTreeMap<_, _> = open.into_iter().collect();
        let b = encode_unwritten(&open);
        prop_assert_eq!(decode_unwritten(&b, &geometry()), Ok(open));
        check(Structure::Open, b, &changes);
        let with = |all: Rules, (owner, number, rule): &(u32, u64, IndexRule)| {
            all.with(&[(OwnerId::new(*owner), Some(rule.clone()))], *number)
        };
        check(Structure::Rules, rules.iter().fold(Rules::default(), with).encode(), &changes);
        let mut table = Sessions::default();
        for (id, wsn) in sessions {
            table.restore_open(SessionId::new(id));
            table.apply(SessionId::new(id), wsn);
        }
        check(Structure::Sessions, table.encode(), &changes);
        let mut b = Vec::new();
        summary.iter().for_each(|d| d.encode(&mut b));
        check(Structure::Summary, b, &changes);
    }

    #[test]
    fn own_pages(
        payload in vec(any::<u8>(), 0..100), words in words(), blocks in (9..17u32, 1..1u64 << 40),
        changes in changes(),
    ) {
        check(Structure::DrivePage, encode_page(OwnKind::Rules, 6, &payload), &changes);
        let (e, generation) = (EblockId::new(4), Generation::from_raw(9 << 32 | 2));
        let b = encode_metadata(&geometry(), e, generation, &words);
        check(Structure::Metadata, b[..32 + 8 * words.len()].to_vec(), &changes);
        let mut b = vec![0; 60];
        b[8] = 1;
        b[12..16].copy_from_slice(&(1u32 << blocks.0).to_le_bytes());
        b[16..24].copy_from_slice(&blocks.1.to_le_bytes());
        bounded(Structure::BlockHeader, &b);
        bounded(Structure::BlockHeader, &changed(b, &changes));
    }

    #[test]
    fn map_and_index_pages(
        entries in vec((0..1024u16, entry()), 0..50), indexed in vec((0..1024u16, vec(any::<u8>(), 8)), 0..30),
        changes in changes(),
    ) {
        let map = MapPage::vacant();
        entries.iter().for_each(|(page, e)| map.store(*page, Some(*e)));
        check(Structure::MapPage, map.encode(), &changes);
        let index = IndexPage::vacant();
        indexed.iter().for_each(|(page, bytes)| index.set(7, *page, bytes));
        check(Structure::IndexPage, index.encode(), &changes);
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300)) {
        for kind in Structure::ALL {
            bounded(kind, &bytes);
        }
    }
}
