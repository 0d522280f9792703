//! Short statements: SELECT, UPDATE and DELETE of the few rows that a key or an index finds, and INSERT of a few VALUES, without
//! DataFusion's planner.
//!
//! ```text
//!   statement ─► shape.rs: could it be short? literals become parameters ─► cache, by key
//!                   │ no                                                      │ miss, or another definition
//!                   ▼                                                         ▼
//!              general path ◄── not certain ── run.rs: the engine ◄── plan.rs: DataFusion's plan, taken apart
//! ```
//!
//! Invariant: a short statement has the answer, the message and the SQLSTATE of the general path. What cannot be told
//! exactly goes to the general path, before anything has changed.

mod access;
mod computed;
mod conditions;
mod explain;
mod expressions;
mod logical;
mod moment;
mod parameters;
mod plan;
mod rest;
mod returning;
mod run;
mod upsert;
mod values;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use lode_engine::{Database, Snapshot, Table, WriteTxn};
use parking_lot::Mutex;

use crate::options::ShortSettings;
use crate::statement::{ShortShape as Shape, StatementResult};
use crate::{Session, SqlError};
use access::may_be_found;
pub(crate) use explain::explained;
use moment::and_moment;
pub(crate) use plan::is_same_definition;
use plan::{Action, Planned, ShortPlan, planned};
use run::Outcome;

/// Plans that a session keeps.
const PLANS_MAX: usize = 256;
/// A statement whose table changes its definition as often as this while it runs takes the general path.
const PLANNED_MAX: u32 = 3;

/// The plans of a session, by the key of their shape. Shared by the session's clones.
#[derive(Clone, Default)]
pub(crate) struct ShortPlans(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    plans: HashMap<String, Entry>,
    /// Counts uses.
    clock: u64,
    /// The session's count of changes of settings, on which plans depend.
    settings: u64,
}

struct Entry {
    what: Known,
    used: u64,
}

/// What is known of the statements of one key.
#[derive(Clone)]
enum Known {
    Short(Arc<ShortPlan>),
    /// Not short, as long as its tables have these definitions.
    Not(Vec<Arc<Table>>),
    /// The plan depends on the literals.
    ByLiterals(Vec<Arc<Table>>),
}

impl ShortPlans {
    fn get(&self, key: &str) -> Option<Known> {
        let mut kept = self.0.lock();
        kept.clock += 1;
        let clock = kept.clock;
        let entry = kept.plans.get_mut(key)?;
        entry.used = clock;
        Some(entry.what.clone())
    }

    fn settings(&self) -> u64 {
        self.0.lock().settings
    }

    /// Keeps a plan, unless the settings have changed since `settings` was read. The one that was not used for the
    /// longest time makes room.
    fn put(&self, key: &str, what: Known, settings: u64) {
        let mut kept = self.0.lock();
        if kept.settings != settings {
            return;
        }
        if kept.plans.len() >= PLANS_MAX && !kept.plans.contains_key(key) {
            let oldest = kept.plans.iter().min_by_key(|(_, e)| e.used).map(|(k, _)| k.clone());
            oldest.and_then(|k| kept.plans.remove(&k));
        }
        let used = kept.clock;
        kept.plans.insert(key.to_owned(), Entry { what, used });
    }

    /// Forgets a plan whose table has another definition.
    fn forget(&self, key: &str) {
        self.0.lock().plans.remove(key);
    }

    /// The plans of a session, if its settings are those with which they were made.
    fn of(session: &Session) -> Self {
        let plans: Self = session.kept().of();
        {
            let mut kept = plans.0.lock();
            let settings = session.settings_changes();
            if kept.settings != settings {
                kept.settings = settings;
                kept.plans.clear();
            }
        }
        plans
    }
}

/// Runs a statement of this shape; `None` if the general path must run it. `values` are those of its parameters.
pub(crate) async fn run(
    session: &Session,
    shape: &Arc<Shape>,
    values: &[ScalarValue],
) -> Result<Option<StatementResult>, SqlError> {
    let settings = session.short_settings();
    if !settings.on {
        return Ok(None);
    }
    for _ in 0..PLANNED_MAX {
        let (plan, literal) = match plan_of(session, shape).await {
            Some(found) => found,
            None => return Ok(None),
        };
        let values = match literal {
            true => &[],
            false => values,
        };
        let values = match plan.has_moment {
            true => and_moment(values, session.moment()),
            false => Cow::Borrowed(values),
        };
        let done = match plan.action {
            Action::Select { .. } => select(session, &plan, &values).await?,
            _ => change(session, &plan, &values, settings).await?,
        };
        match done {
            Outcome::Done(result) => {
                session.statement_counts().with(|q| q.short = true);
                return Ok(Some(result));
            }
            Outcome::General => break,
            Outcome::Stale => {
                let stale = if literal { shape.with_literals() } else { Some(shape) };
                stale.iter().for_each(|shape| ShortPlans::of(session).forget(&shape.key));
            }
        }
    }
    // The general path counts anew.
    session.begin_counts();
    Ok(None)
}

/// The plan for a shape, and whether it is that of the statement with its literals.
async fn plan_of(session: &Session, shape: &Arc<Shape>) -> Option<(Arc<ShortPlan>, bool)> {
    match known(session, shape).await? {
        Known::Short(plan) => Some((plan, false)),
        Known::Not(_) => None,
        Known::ByLiterals(_) => match known(session, shape.with_literals()?).await? {
            Known::Short(plan) => Some((plan, true)),
            Known::Not(_) | Known::ByLiterals(_) => None,
        },
    }
}

/// What is known of a shape at this moment. `None` if nothing can be known: the general path reports what is wrong.
async fn known(session: &Session, shape: &Shape) -> Option<Known> {
    let plans = ShortPlans::of(session);
    let known = plans.get(&shape.key);
    // Whether the plan fits its table is found out where it runs.
    if let Some(Known::Short(_)) = known {
        return known;
    }
    let settings = plans.settings();
    let snapshot = session.snapshot_now().ok()?;
    let tables = shape.tables.iter().map(|t| snapshot.table(t)).collect::<Option<Vec<_>>>()?;
    if let Some(Known::Not(of) | Known::ByLiterals(of)) = &known
        && of.iter().zip(&tables).all(|(of, now)| is_same_definition(of, now))
    {
        return known;
    }
    let may_be_short = shape.compared.is_empty() || tables.iter().any(|t| may_be_found(t, &shape.compared));
    let what = match may_be_short {
        false => Known::Not(tables),
        // Boxed: a statement whose plan is known shall not carry the room for planning.
        true => match Box::pin(planned(session, &snapshot, &tables, shape)).await {
            Ok(Planned::Short(plan)) => Known::Short(plan),
            Ok(Planned::Not) => Known::Not(tables),
            // What is an error with parameters may be right with literals, which have no type yet.
            Ok(Planned::ByLiterals) | Err(_) => Known::ByLiterals(tables),
        },
    };
    plans.put(&shape.key, what.clone(), settings);
    Some(what)
}

async fn select(
    session: &Session,
    plan: &ShortPlan,
    values: &[ScalarValue],
) -> Result<Outcome<StatementResult>, SqlError> {
    let Action::Select { schema, .. } = &plan.action else { return Ok(Outcome::General) };
    let snapshot: Snapshot = session.snapshot_now()?;
    Ok(match plan.select(&snapshot, values, &session.statement_counts()).await? {
        Outcome::Done(batch) => Outcome::Done(rows(schema.clone(), batch)),
        Outcome::Stale => Outcome::Stale,
        Outcome::General => Outcome::General,
    })
}

fn rows(schema: SchemaRef, batch: Option<RecordBatch>) -> StatementResult {
    let batches = stream::iter(batch.map(Ok));
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches));
    StatementResult::Rows { schema, stream }
}

async fn change(
    session: &Session,
    plan: &Arc<ShortPlan>,
    values: &[ScalarValue],
    settings: ShortSettings,
) -> Result<Outcome<StatementResult>, SqlError> {
    let verb = match plan.action {
        Action::Insert { .. } => "INSERT",
        Action::Update { .. } => "UPDATE",
        Action::Delete(_) => "DELETE",
        Action::Select { .. } => return Ok(Outcome::General),
    };
    let upserts = matches!(plan.action, Action::Insert { upsert: Some(_), .. });
    let counts = session.statement_counts();
    let transactions = session.transactions();
    let outcome = match transactions.take(true)? {
        Some(txn) => {
            if upserts {
                transactions.upserts();
            }
            transactions.change(txn, |txn| plan.change(txn, values, settings.bulk_rows, &counts))?
        }
        None => {
            let (db, alone): (Database, bool) = (session.database().clone(), session.commits_alone());
            let durability = session.durability().of_engine();
            let (plan, values) = (plan.clone(), values.to_vec());
            let work = move || {
                let mut txn: WriteTxn = if alone { db.begin_exclusive()? } else { db.begin_write()? };
                txn.set_durability(durability);
                let outcome = plan.change(&mut txn, &values, settings.bulk_rows, &counts)?;
                if let Outcome::Done(_) = outcome {
                    let commit = txn.commit();
                    commit.map_err(|e| match upserts && !alone {
                        // The keys were free at the statement's snapshot.
                        true => SqlError::from(e).of_race(),
                        false => e.into(),
                    })?;
                }
                Ok(outcome)
            };
            session.brief(work).await?
        }
    };
    Ok(match outcome {
        Outcome::Done(changed) => Outcome::Done(match &plan.returning {
            Some(returning) => rows(returning.schema.clone(), changed.returned),
            None => StatementResult::Count { verb, rows: changed.rows },
        }),
        Outcome::Stale => Outcome::Stale,
        Outcome::General => Outcome::General,
    })
}
