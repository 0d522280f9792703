//! Key sets that reach a scan: the keys of joins above it.
//!
//! Invariant: a scan waits only for joins above it, whose build sides do not wait for it, so no waiting goes round in a
//! circle.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use datafusion::arrow::datatypes::DataType;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExpr;
use lode_page::Value;
use lode_program::{Expr, KeySet};
use parking_lot::Mutex;

use super::ScanSpec;
use crate::Offload;
use crate::translate::Translator;

/// The keys of a build side, which are known once it has ended.
#[derive(Default)]
pub(crate) struct JoinKeys(Mutex<Outcome>);

enum Outcome {
    Unknown {
        waiting: Vec<Waker>,
    },
    Set {
        keys: Arc<KeySet>,
        _memory: MemoryReservation,
    },
    /// The build side has too many keys, or has ended early.
    NoSet,
}

impl Default for Outcome {
    fn default() -> Self {
        Self::Unknown { waiting: Vec::new() }
    }
}

impl JoinKeys {
    /// Says what the keys are: a set, and the memory that it takes, or none.
    pub(crate) fn known(&self, set: Option<(KeySet, MemoryReservation)>) {
        let outcome = match set {
            Some((keys, memory)) => Outcome::Set { keys: Arc::new(keys), _memory: memory },
            None => Outcome::NoSet,
        };
        let before = std::mem::replace(&mut *self.0.lock(), outcome);
        if let Outcome::Unknown { waiting } = before {
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    fn poll_known(&self, context: &Context<'_>) -> Poll<()> {
        let Outcome::Unknown { waiting } = &mut *self.0.lock() else { return Poll::Ready(()) };
        if !waiting.iter().any(|w| w.will_wake(context.waker())) {
            waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn set(&self) -> Option<Arc<KeySet>> {
        match &*self.0.lock() {
            Outcome::Set { keys, .. } => Some(keys.clone()),
            Outcome::Unknown { .. } | Outcome::NoSet => None,
        }
    }
}

/// Sizes alone: keys may be personal.
impl fmt::Display for JoinKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0.lock() {
            Outcome::Unknown { .. } => f.write_str("not yet known"),
            Outcome::NoSet => f.write_str("none"),
            Outcome::Set { keys, .. } => match keys.exact_len() {
                Some(n) => write!(f, "{n} in a {}", keys.form()),
                None => write!(f, "{} filter of {} bytes", keys.form(), keys.link_bytes()),
            },
        }
    }
}

impl fmt::Debug for JoinKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a row goes through from a scan up to the join that sends keys to the scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// Joins of whose probe side it is, with the one that sends keys.
    pub(crate) joins: u32,
    pub(crate) aggregates: u32,
}

impl Way {
    /// The work of both, as where a row of several joins is dropped by the last of them.
    fn longer(self, other: Self) -> Self {
        Self { joins: self.joins.max(other.joins), aggregates: self.aggregates.max(other.aggregates) }
    }
}

/// The key sets that reached a scan.
#[derive(Debug)]
pub(super) struct SentKeys {
    /// The look-ups.
    pub(super) terms: Vec<Expr>,
    /// For each, how many values there are of which its keys are some, if that is known.
    pub(super) domains: Vec<Option<f64>>,
    /// The longest way of a row to one of the joins; `None` if one is not known.
    pub(super) way: Option<Way>,
}

impl SentKeys {
    /// Those of `filters` that are known.
    pub(super) fn of(filters: &[KeyFilter]) -> Self {
        let known: Vec<(Expr, &KeyFilter)> = filters.iter().filter_map(|f| Some((f.now()?, f))).collect();
        let way = known.iter().try_fold(Way::default(), |all, (_, f)| Some(all.longer(f.way?)));
        let domains = known.iter().map(|(_, f)| f.domain).collect();
        Self { terms: known.into_iter().map(|(term, _)| term).collect(), domains, way }
    }
}

/// A key set that a scan looks a value up in.
#[derive(Clone, Debug)]
pub(crate) struct KeyFilter {
    value: Expr,
    /// The value as SQL, for EXPLAIN.
    text: String,
    /// The share of the scan's rows that have one of the keys, by estimate.
    share: f64,
    /// What a row of the scan goes through until that join drops it; `None` where that is not known.
    way: Option<Way>,
    /// How many values there are of which the keys are some, where the scan's column refers to the key of a table.
    domain: Option<f64>,
    keys: Arc<JoinKeys>,
}

impl KeyFilter {
    /// A look-up of `key`, an expression of this type over the scan's columns; with the bounds of the key, if they are
    /// known as numbers. `None` if the scan cannot look it up, or must answer rows that other operators count.
    pub(crate) fn of(
        spec: &ScanSpec,
        key: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
        keys: Arc<JoinKeys>,
    ) -> Option<(Self, Option<(i64, i64)>)> {
        if spec.groups.is_some() || spec.ordered.is_some() || spec.offload == Offload::Off {
            return None;
        }
        let value = Translator::new(spec.table.schema(), &spec.output).argument(key, data_type)?;
        let bounds = bounds(spec, &value);
        Some((Self { value, text: key.to_string(), share: 1.0, way: None, domain: None, keys }, bounds))
    }

    /// The same look-up, which this share of the rows is expected to pass.
    pub(crate) fn with_share(self, share: f64) -> Self {
        Self { share, ..self }
    }

    /// The same look-up, of a join to which the scan's rows go this way, and whose keys are of so many values, if that is known.
    pub(crate) fn with_way(self, way: Option<Way>, domain: Option<f64>) -> Self {
        Self { way, domain, ..self }
    }

    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    pub(crate) fn keys(&self) -> &Arc<JoinKeys> {
        &self.keys
    }

    /// Ready once it is known whether there is a set.
    pub(super) fn poll_known(&self, context: &Context<'_>) -> Poll<()> {
        self.keys.poll_known(context)
    }

    /// The look-up, if there is a set.
    pub(super) fn now(&self) -> Option<Expr> {
        let keys = self.keys.set()?;
        Some(Expr::InKeys { value: Box::new(self.value.clone()), keys })
    }
}

impl fmt::Display for KeyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.text, self.keys)
    }
}

/// The least and the greatest value of a column, if they are numbers of 64 bits.
fn bounds(spec: &ScanSpec, value: &Expr) -> Option<(i64, i64)> {
    let Expr::Column(c) = value else { return None };
    let known = spec.snapshot.statistics(&spec.table).ok()?;
    let (min, max) = known.columns.get(usize::from(*c))?.as_ref()?;
    let number = |v: &Value| match v {
        Value::Int(i) => Some(*i),
        Value::Decimal(d) => i64::try_from(*d).ok(),
        _ => None,
    };
    Some((number(min)?, number(max)?))
}
