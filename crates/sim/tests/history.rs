//! Histories made by hand. The checker finds each anomaly and nothing else. Unusual but correct histories pass.
//!
//! ```text
//!   s0 ok: +a1 a[1] A?_ A=5      session 0, committed: append 1 to list a, read [1], read register A as empty, write 5
//!   s1 no snapshot=1: ...        aborted        s1 ?? invoked=4: ...   unknown
//! ```

use lode_sim::history::AnomalyKind::{self, *};
use lode_sim::history::{History, Level, Op, Options, Outcome, Report, Transaction};

/// Parses a history.
fn history(text: &str) -> History {
    let transactions = text.lines().map(str::trim).filter(|l| !l.is_empty()).map(transaction).collect();
    History { transactions }
}

fn transaction(line: &str) -> Transaction {
    let (head, ops) = line.split_once(':').expect("a head and operations");
    let mut words = head.split_whitespace();
    let session = words.next().and_then(|w| w.strip_prefix('s')).expect("a session");
    let outcome = match words.next() {
        Some("ok") => Outcome::Committed,
        Some("no") => Outcome::Aborted,
        Some("??") => Outcome::Unknown,
        other => panic!("an outcome, not {other:?}"),
    };
    let ops = ops.split_whitespace().map(op).collect();
    let mut t = Transaction::new(session.parse().expect("a number"), ops, outcome);
    for word in words {
        let (name, number) = word.split_once('=').expect("a name and a number");
        let number = Some(number.parse().expect("a number"));
        match name {
            "snapshot" => t.snapshot = number,
            "commit" => t.commit = number,
            "invoked" => t.invoked = number,
            "returned" => t.returned = number,
            other => panic!("{other}"),
        }
    }
    t
}

fn op(word: &str) -> Op {
    let number = |t: &str| t.parse::<u64>().unwrap_or_else(|_| panic!("{word}: a number"));
    let name = |t: &str| u64::from(t.bytes().next().expect("a name"));
    if let Some(rest) = word.strip_prefix('+') {
        return Op::Append { list: name(rest), value: number(&rest[1..]) };
    }
    let (object, rest) = (name(word), &word[1..]);
    if let Some(values) = rest.strip_prefix('[') {
        let values = values.trim_end_matches(']').split(',').filter(|v| !v.is_empty()).map(number).collect();
        return Op::ReadList { list: object, values };
    }
    match (&rest[..1], &rest[1..]) {
        ("=", "_") => Op::Delete { register: object },
        ("=", v) => Op::Write { register: object, value: number(v) },
        ("?", "_") => Op::Read { register: object, value: None },
        ("?", v) => Op::Read { register: object, value: Some(number(v)) },
        _ => panic!("{word}"),
    }
}

/// Checks a history at snapshot isolation and compares the forbidden kinds in its report.
fn check(text: &str, forbidden: &[AnomalyKind]) -> Report {
    let report = history(text).check(&Options::default());
    assert_eq!(report.kinds(), forbidden, "{text}\n{report}");
    report
}

/// As [`check`], with these permitted kinds in addition.
fn check_permitted(text: &str, permitted: &[AnomalyKind]) -> Report {
    let report = check(text, &[]);
    let kinds: Vec<_> = report.permitted.iter().map(|a| a.kind).collect();
    assert_eq!(kinds, permitted, "{text}\n{report}");
    report
}

fn clean(text: &str) {
    check_permitted(text, &[]);
}

#[test]
fn serial_histories_are_clean() {
    clean("");
    clean("s0 ok: +a1 a[1] +a2 a[1,2]\n s1 ok: a[1,2] +a3\n s0 ok: a[1,2,3]");
    clean("s0 ok: A?_ A=1 A=2 A?2\n s1 ok: A?2 A=3\n s0 ok: A?3 A=_ A?_\n s1 ok: B?_");
    clean(
        "s0 ok commit=1: A=1\n s1 ok snapshot=1 commit=2: A=_\n s2 ok snapshot=2: A?_\n s3 ok snapshot=0: A?_",
    );
    // No transaction read in between, so both orders are right.
    clean("s0 ok: A=1\n s1 ok: A=2\n s2 ok: A?1");
}

#[test]
fn own_writes_and_reads_that_are_not_there() {
    check("s0 ok: +a1 a[]", &[Internal]);
    check("s0 ok: +a1\n s1 ok: a[1] +a2 a[1]", &[Internal]);
    check("s0 ok: +a1\n s1 ok: a[] a[1]", &[Internal]);
    check("s0 ok: A=1 A?_", &[Internal]);
    check("s0 ok: A=1 A=_ A?1", &[Internal]);
    check("s0 ok: A=1\n s1 ok: A?_ A?1", &[Internal]);
    check("s0 ok: a[1] +a1", &[Internal]);
    check("s0 ok: A?1 A=1", &[Internal]);
    // This also holds for an aborted transaction.
    check("s0 no: A=1 A?_", &[Internal]);
}

#[test]
fn values_that_nobody_wrote() {
    check("s0 ok: a[9]", &[Unwritten]);
    check("s0 ok: A?9", &[Unwritten]);
}

#[test]
fn aborted_reads() {
    check("s0 no: +a1\n s1 ok: a[1]", &[AbortedRead]);
    check("s0 no: A=1\n s1 ok: A?1", &[AbortedRead]);
    let report = check("s0 ok: +a1\n s0 no: +a2\n s1 ok: a[1,2]", &[AbortedRead]);
    assert!(report.to_string().contains("T1 appended 2 and aborted"), "{report}");
    // A transaction with an unknown end counts as not committed if no other transaction saw its writes.
    clean("s0 no: +a1 A=1\n s1 ok: a[] A?_");
}

#[test]
fn dirty_updates() {
    check("s0 no: +a1\n s1 ok: +a2\n s2 ok: a[1,2]", &[DirtyUpdate]);
    check("s0 no: A=1\n s1 ok: A?1 A=2", &[DirtyUpdate]);
}

#[test]
fn intermediate_reads() {
    check("s0 ok: +a1 +a2\n s1 ok: a[1]", &[IntermediateRead]);
    check("s0 ok: A=1 A=2\n s1 ok: A?1", &[IntermediateRead]);
    clean("s0 ok: +a1 +b2 +a3\n s1 ok: a[1,3] b[2]");
}

#[test]
fn duplicates() {
    check("s0 ok: +a1\n s1 ok: a[1,1]", &[Duplicate]);
    check("s0 ok: +a1\n s0 ok: +a2\n s1 ok: a[1,2,1]", &[Duplicate]);
}

#[test]
fn incompatible_orders() {
    check("s0 ok: +a1\n s1 ok: +a2\n s2 ok: a[1]\n s3 ok: a[2]", &[IncompatibleOrders]);
    check("s0 ok: +a1\n s1 ok: +a2\n s2 ok: a[1,2]\n s3 ok: a[2,1]", &[IncompatibleOrders]);
    // Each transaction read the other's write and overwrote it.
    check("s0 ok: A?2 A=1\n s1 ok: A?1 A=2", &[IncompatibleOrders, G1c]);
}

#[test]
fn lost_appends() {
    check("s0 ok: +a1\n s0 ok: a[]", &[LostAppend]);
    check("s0 ok invoked=1 returned=2: +a1\n s1 ok invoked=3 returned=4: a[]", &[LostAppend]);
    check("s0 ok commit=1: +a1\n s1 ok snapshot=1: a[]", &[LostAppend]);
    // The reader may have come first.
    clean("s0 ok: +a1\n s1 ok: a[]");
    clean("s0 ok invoked=1 returned=3: +a1\n s1 ok invoked=3 returned=4: a[]");
    clean("s0 ok commit=2: +a1\n s1 ok snapshot=1: a[]");
    // It is unknown whether it committed.
    clean("s0 ??: +a1\n s0 ok: a[]");
}

#[test]
fn lost_updates() {
    check("s0 ok: A?_ A=1\n s1 ok: A?_ A=2", &[LostUpdate]);
    check(
        "s0 ok commit=1 snapshot=0: A?_ A=1\n s1 ok snapshot=0 commit=2: A?_ A=2\n s2 ok: A?2",
        &[LostUpdate],
    );
    check("s0 ok: A=5\n s0 ok: A?5 A=1\n s1 ok: A?5 A=_", &[LostUpdate]);
    check("s0 ok: a[] +a1\n s1 ok: a[] +a2\n s2 ok: a[1,2]", &[LostUpdate]);
    check("s0 ok: a[] +a1\n s1 ok: a[] +a2\n s2 ok: a[2]", &[LostUpdate]);
    // One of the two transactions aborted, or its end is unknown.
    clean("s0 ok: A?_ A=1\n s1 no: A?_ A=2");
    clean("s0 ok: A?_ A=1\n s1 ??: A?_ A=2");
}

#[test]
fn g0() {
    check("s0 ok: +a1 +b1\n s1 ok: +a2 +b2\n s2 ok: a[1,2] b[2,1]", &[G0]);
    let three = "s0 ok: +a1 +c1\n s1 ok: +a2 +b2\n s2 ok: +b3 +c3\n s3 ok: a[1,2] b[2,3] c[3,1]";
    let report = check(three, &[G0]);
    assert_eq!(report.forbidden[0].transactions, [0, 1, 2]);
    let story = "T0 wrote 1 in list 97, and T1 wrote 2 after it";
    assert_eq!(report.forbidden[0].story[0], story, "{report}");
    // In registers, writes alone do not tell an order.
    clean("s0 ok: A=1 B=1\n s1 ok: A=2 B=2\n s2 ok: A?1\n s3 ok: B?2");
}

#[test]
fn g1c() {
    check("s0 ok: +a1 b[2]\n s1 ok: +b2 a[1]", &[G1c]);
    check("s0 ok: A=1 B?2\n s1 ok: B=2 A?1", &[G1c]);
    let three = "s0 ok: +a1 c[3]\n s1 ok: +b2 a[1]\n s2 ok: b[2] +c3";
    assert_eq!(check(three, &[G1c]).forbidden[0].transactions.len(), 3);
    // This contradicts the order of the session.
    check("s0 ok: A?1\n s0 ok: A=1", &[G1c]);
    check("s0 ok invoked=1 returned=2: A?1\n s1 ok invoked=3 returned=4: A=1", &[G1c]);
}

#[test]
fn g_single() {
    check("s0 ok: +a1 +b1\n s1 ok: a[1] b[]", &[GSingle]);
    check("s0 ok: A=1 B=1\n s1 ok: A?1 B?_", &[GSingle]);
    check("s0 ok: A=1\n s1 ok: A?1 A=2 B=2\n s2 ok: A?1 B?2", &[GSingle]);
    let longer = "s0 ok: +a1\n s1 ok: a[1] +b1\n s2 ok: b[1] +c1\n s3 ok: c[1] a[]";
    assert_eq!(check(longer, &[GSingle]).forbidden[0].transactions.len(), 4);
    // Reads of an aborted transaction count, too, if the option is on.
    let aborted = "s0 ok: +a1 +b1\n s1 no: a[1] b[]";
    check(aborted, &[GSingle]);
    let options = Options { aborted_reads: false, ..Options::default() };
    assert!(history(aborted).check(&options).is_clean());
}

#[test]
fn stale_reads_by_session_and_by_time() {
    check("s0 ok: A=1\n s0 ok: A?_", &[GSingle]);
    check("s0 ok invoked=1 returned=2: A=1\n s1 ok invoked=3 returned=4: A?_", &[GSingle]);
    let stale = "s0 ok invoked=1 returned=2: A=1\n s0 ok invoked=3 returned=4: A?_";
    for (session_order, real_time, n) in [(false, false, 0), (true, false, 1), (false, true, 1)] {
        let options = Options { session_order, real_time, ..Options::default() };
        let report = history(stale).check(&options);
        assert_eq!(report.forbidden.len(), n, "{report}");
    }
    // Overlapping transactions have no order.
    clean("s0 ok invoked=1 returned=3: A=1\n s1 ok invoked=3 returned=4: A?_");
}

#[test]
fn g_nonadjacent() {
    let fork = "s0 ok: +a1\n s1 ok: +b1\n s2 ok: a[1] b[]\n s3 ok: a[] b[1]";
    assert_eq!(check(fork, &[GNonadjacent]).forbidden.len(), 1);
    check("s0 ok: A=1\n s1 ok: B=1\n s2 ok: A?1 B?_\n s3 ok: A?_ B?1", &[GNonadjacent]);
}

#[test]
fn g_si_a() {
    // The transaction read a write that had not committed when it took its snapshot.
    check("s0 ok snapshot=0 commit=2: A=1\n s1 ok snapshot=1: A?1", &[GSIa]);
    check("s0 ok snapshot=0 commit=2: +a1\n s1 ok snapshot=1: a[1]", &[GSIa]);
    // Both wrote without reading, and each began before the other's end.
    check("s0 ok snapshot=0 commit=1: A=1\n s1 ok snapshot=0 commit=2: A=2", &[GSIa]);
    clean("s0 ok snapshot=0 commit=1: A=1\n s1 ok snapshot=1 commit=2: A=2");
}

#[test]
fn g_si_b() {
    // The snapshot of the transaction contains a write that the transaction did not see.
    check("s0 ok snapshot=0 commit=1: A=1\n s1 ok snapshot=1: A?_", &[GSIb]);
    check(
        "s0 ok snapshot=0 commit=1: A=1\n s1 ok snapshot=1 commit=2: A=_\n s2 ok snapshot=2 commit=3: A=3\n s3 ok snapshot=3: A?_",
        &[GSIb],
    );
    clean("s0 ok snapshot=0 commit=1: A=1\n s1 ok snapshot=0: A?_");
}

#[test]
fn write_skew_is_permitted_and_told() {
    let skew = "s0 ok: A?_ B=1\n s1 ok: B?_ A=1";
    let report = check_permitted(skew, &[G2Item]);
    assert!(report.to_string().contains("T0 read nothing in register 65, before T1 wrote 1"), "{report}");
    check_permitted("s0 ok: a[] +b1\n s1 ok: b[] +a1\n s2 ok: a[1] b[1]", &[G2Item]);
    check_permitted("s0 ok: a[] +b1\n s1 ok: b[] +c1\n s2 ok: c[] +a1", &[G2Item]);
    // Fekete's anomaly of a read-only transaction.
    check_permitted("s0 ok: A?_ B?_ A=1\n s1 ok: A?_ B=2\n s2 ok: A?_ B?2", &[G2Item]);
    let serial = Options { level: Level::Serializable, ..Options::default() };
    assert_eq!(history(skew).check(&serial).kinds(), [G2Item]);
    // Two components, one of which is forbidden.
    let both = "s0 ok: A?_ B=1\n s1 ok: B?_ A=1\n s2 ok: C=1 D=1\n s3 ok: C?1 D?_";
    assert_eq!(check(both, &[GSingle]).permitted.len(), 1);
}

#[test]
fn what_is_unknown_is_committed_once_it_was_seen() {
    // After a crash, one write of the transaction is visible and the other is not.
    check("s0 ??: A=1 B=1\n s1 ok: A?1 B?_", &[GSingle]);
    check("s0 ??: +a1 +b1\n s1 ok: a[1] b[]", &[GSingle]);
    clean("s0 ??: A=1 B=1\n s1 ok: A?1 B?1");
    clean("s0 ??: A=1 B=1\n s1 ok: A?_ B?_");
    // A deletion has no value that shows that it was read.
    clean("s0 ok commit=1: A=1\n s1 ??: A=_\n s2 ok snapshot=2: A?_");
    check("s0 ok commit=1: A=1\n s1 no: A=_\n s2 ok snapshot=2: A?_", &[GSIb]);
}

#[test]
#[should_panic(expected = "1 is written to register 65 twice")]
fn values_are_written_once() {
    check("s0 ok: A=1\n s1 ok: A=1", &[]);
}
