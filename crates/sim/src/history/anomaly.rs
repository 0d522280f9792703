//! The anomalies of histories, with Adya's and Elle's names, and their descriptions.

use std::fmt;

use super::graph::EdgeKind;
use super::model::{Object, TxnIndex};

/// The most anomalies of one kind that are described. The others are counted.
const TOLD_MAX: usize = 4;

/// The kind of an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AnomalyKind {
    /// A transaction does not see a value that it wrote or read before.
    Internal,
    /// A value is read that was never written.
    Unwritten,
    /// G1a: a value is read that an aborted transaction wrote.
    AbortedRead,
    /// A committed write is based on a write of an aborted transaction.
    DirtyUpdate,
    /// G1b: a value is read that its own transaction overwrote.
    IntermediateRead,
    /// A value is in a list twice.
    Duplicate,
    /// Two reads of an object contradict each other about the order of its versions.
    IncompatibleOrders,
    /// A committed append is missing from a later read of the list.
    LostAppend,
    /// Two transactions read the same version of an object, and both replaced it.
    LostUpdate,
    /// G0: a cycle of write dependencies.
    G0,
    /// G1c: a cycle of write and read dependencies.
    G1c,
    /// G-single: a cycle with one anti-dependency: read skew.
    GSingle,
    /// G-nonadjacent: a cycle with several anti-dependencies, no two of them adjacent. A long fork is an example.
    GNonadjacent,
    /// G-SI(a): a dependency on a transaction that had not committed when the snapshot was taken.
    GSIa,
    /// G-SI(b): a cycle with one anti-dependency, if the order of snapshots and commits is added to the dependencies.
    GSIb,
    /// G2-item: a cycle with adjacent anti-dependencies: write skew, which snapshot isolation permits.
    G2Item,
}

impl AnomalyKind {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Internal,
        Self::Unwritten,
        Self::AbortedRead,
        Self::DirtyUpdate,
        Self::IntermediateRead,
        Self::Duplicate,
        Self::IncompatibleOrders,
        Self::LostAppend,
        Self::LostUpdate,
        Self::G0,
        Self::G1c,
        Self::GSingle,
        Self::GNonadjacent,
        Self::GSIa,
        Self::GSIb,
        Self::G2Item,
    ];

    /// Its common name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal inconsistency",
            Self::Unwritten => "value from nowhere",
            Self::AbortedRead => "G1a (aborted read)",
            Self::DirtyUpdate => "dirty update",
            Self::IntermediateRead => "G1b (intermediate read)",
            Self::Duplicate => "duplicate element",
            Self::IncompatibleOrders => "incompatible orders",
            Self::LostAppend => "lost append",
            Self::LostUpdate => "lost update",
            Self::G0 => "G0 (write cycle)",
            Self::G1c => "G1c (circular information flow)",
            Self::GSingle => "G-single (read skew)",
            Self::GNonadjacent => "G-nonadjacent (long fork)",
            Self::GSIa => "G-SI(a) (interference)",
            Self::GSIb => "G-SI(b) (missed effects)",
            Self::G2Item => "G2-item (write skew)",
        }
    }
}

/// An anomaly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anomaly {
    /// Its kind.
    pub kind: AnomalyKind,
    /// The transactions involved. Those of a cycle are in the order of the cycle.
    pub transactions: Vec<TxnIndex>,
    /// What happened, one sentence per line.
    pub story: Vec<String>,
}

/// The anomalies of a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The anomalies that the level forbids.
    pub forbidden: Vec<Anomaly>,
    /// The anomalies that the isolation level permits but a serial order does not.
    pub permitted: Vec<Anomaly>,
    /// The number of further anomalies, which are not described.
    pub untold: usize,
}

impl Report {
    /// Whether there is no forbidden anomaly.
    pub fn is_clean(&self) -> bool {
        self.forbidden.is_empty()
    }

    /// The kinds of the forbidden anomalies, each once.
    pub fn kinds(&self) -> Vec<AnomalyKind> {
        let mut kinds: Vec<_> = self.forbidden.iter().map(|a| a.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// Whether enough anomalies of this kind are described.
    pub(super) fn is_full(&self, kind: AnomalyKind) -> bool {
        self.forbidden.iter().filter(|a| a.kind == kind).count() >= TOLD_MAX
    }

    pub(super) fn forbid(&mut self, kind: AnomalyKind, transactions: Vec<TxnIndex>, story: Vec<String>) {
        if self.is_full(kind) {
            self.untold += 1;
        } else {
            self.forbidden.push(Anomaly { kind, transactions, story });
        }
    }

    pub(super) fn permit(&mut self, kind: AnomalyKind, transactions: Vec<TxnIndex>, story: Vec<String>) {
        self.permitted.push(Anomaly { kind, transactions, story });
    }

    pub(super) fn sort(&mut self) {
        self.forbidden.sort_by_key(|a| a.kind);
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind.name())?;
        self.story.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_clean() {
            write!(f, "nothing forbidden")?;
        }
        for (i, a) in self.forbidden.iter().enumerate() {
            write!(f, "{}{a}", if i == 0 { "" } else { "\n" })?;
        }
        if self.untold > 0 {
            write!(f, "\nand {} more", self.untold)?;
        }
        match self.permitted.len() {
            0 => Ok(()),
            n => write!(f, "\npermitted: {n} of write skew, such as {}", self.permitted[0]),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(n) => write!(f, "list {n}"),
            Self::Register(n) => write!(f, "register {n}"),
        }
    }
}

/// Describes why one transaction comes before another.
pub(super) fn tell(from: TxnIndex, to: TxnIndex, kind: EdgeKind, about: &About) -> String {
    let on = |o: &Option<Object>| o.map(|o| format!(" in {o}")).unwrap_or_default();
    let value = |v: Option<u64>| v.map_or("nothing".into(), |v| v.to_string());
    let (object, old, new) = (on(&about.object), value(about.old), value(about.new));
    match kind {
        EdgeKind::Ww => format!("T{from} wrote {old}{object}, and T{to} wrote {new} after it"),
        EdgeKind::Wr => format!("T{from} wrote {old}{object}, which T{to} read"),
        EdgeKind::Rw => format!("T{from} read {old}{object}, before T{to} wrote {new}"),
        EdgeKind::Session => format!("T{from} came before T{to} in their session"),
        EdgeKind::RealTime => format!("T{from} had returned when T{to} began"),
        EdgeKind::Start => format!("T{from} had committed when T{to} took its snapshot"),
    }
}

/// The object and value of a dependency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    pub(super) object: Option<Object>,
    pub(super) old: Option<u64>,
    pub(super) new: Option<u64>,
}
