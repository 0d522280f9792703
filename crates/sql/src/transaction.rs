//! Transactions of a session: BEGIN, COMMIT, ROLLBACK, savepoints, and the transaction that a statement works in.
//!
//! ```text
//!   idle ── BEGIN ─► open ── COMMIT, ROLLBACK ─► idle        idle: each statement is a transaction of its own, and is
//!                     │ ▲                                    run again where another one was first
//!               error │ │ ROLLBACK TO
//!                     ▼ │
//!                    failed ── COMMIT, ROLLBACK ─► idle
//! ```
//!
//! Invariants: statements of an open transaction run one at a time; while a change holds the engine's transaction,
//! the session's counts as failed, so that a cancelled statement leaves no partial change behind. A statement that fails
//! gives the transaction back as failed, so that ROLLBACK TO can undo what it did.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::sql::sqlparser::ast::{
    Ident, Statement as Sql, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use lode_engine::{Database, SavedChanges, Snapshot, WriteTxn};
use parking_lot::Mutex;

use crate::cursors::{Cursor, Cursors};
use crate::error::state;
use crate::statement::{StatementResult, fold};
use crate::threads::blocking;
use crate::transaction_settings::{SavedSettings, SettingsOfTransaction};
use crate::{Session, SqlError};

/// The state of a session's transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction is open: each statement is one.
    #[default]
    Idle,
    /// Within a transaction.
    Open,
    /// Within a transaction that failed: it can only be rolled back.
    Failed,
}

/// The transaction of a session, if one is open. Shared by the session's clones.
#[derive(Clone, Default)]
pub(crate) struct Transactions {
    slot: Arc<Mutex<Option<OpenTransaction>>>,
    /// The cursors that have outlived their transactions.
    held: Arc<Mutex<Cursors>>,
    /// Statements of an open transaction run one after the other.
    turn: Arc<tokio::sync::Mutex<()>>,
}

struct OpenTransaction {
    /// `None` while a statement holds it.
    txn: Option<WriteTxn>,
    /// Tells it from the session's other transactions.
    mark: Arc<()>,
    /// What `now()` tells in it.
    began: DateTime<Utc>,
    failed: bool,
    read_only: bool,
    savepoints: Vec<(String, SavedChanges, SavedSettings)>,
    settings: SettingsOfTransaction,
    cursors: Cursors,
    /// Whether a statement of it said ON CONFLICT.
    upserts: bool,
}

/// The transaction in which a statement changes something.
pub(crate) struct StatementTxn {
    pub(crate) txn: HeldTxn,
}

/// The engine's transaction while a statement has it. Dropped, it goes back to the open transaction that it is, which
/// stays failed.
pub(crate) struct HeldTxn {
    txn: Option<WriteTxn>,
    /// The session's open transaction, which continues after the statement; `None` if the statement is a transaction
    /// of its own.
    of: Option<(Transactions, Arc<()>)>,
}

impl Deref for HeldTxn {
    type Target = WriteTxn;

    fn deref(&self) -> &WriteTxn {
        self.txn.as_ref().expect("the statement has not ended")
    }
}

impl DerefMut for HeldTxn {
    fn deref_mut(&mut self) -> &mut WriteTxn {
        self.txn.as_mut().expect("the statement has not ended")
    }
}

impl Drop for HeldTxn {
    fn drop(&mut self) {
        let (Some(txn), Some((of, mark))) = (self.txn.take(), &self.of) else { return };
        // Dropping a transaction frees the pages that it loaded, so that happens without the lock.
        let _ended = of.put(txn, mark, true);
    }
}

impl Transactions {
    pub(crate) fn status(&self) -> TransactionStatus {
        match &*self.slot.lock() {
            None => TransactionStatus::Idle,
            Some(open) if open.failed => TransactionStatus::Failed,
            Some(_) => TransactionStatus::Open,
        }
    }

    /// Waits until earlier statements have ended.
    pub(crate) async fn turn(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.turn.clone().lock_owned().await
    }

    /// Notes that a statement of the open transaction said ON CONFLICT.
    pub(crate) fn upserts(&self) {
        if let Some(open) = &mut *self.slot.lock() {
            open.upserts = true;
        }
    }

    /// Marks the open transaction as failed: it can only be rolled back.
    pub(crate) fn fail(&self) {
        if let Some(open) = &mut *self.slot.lock() {
            open.failed = true;
        }
    }

    /// The number of savepoints of the open transaction, if one is open.
    pub(crate) fn savepoints(&self) -> Option<usize> {
        self.slot.lock().as_ref().map(|open| open.savepoints.len())
    }

    pub(crate) fn has_cursor(&self, name: &str) -> bool {
        self.slot.lock().as_ref().is_some_and(|open| open.cursors.has(name)) || self.held.lock().has(name)
    }

    /// Takes a cursor of the open transaction, or one that the session keeps.
    pub(crate) fn take_cursor(&self, name: &str) -> Option<Cursor> {
        let of_transaction = self.slot.lock().as_mut().and_then(|open| open.cursors.take(name));
        of_transaction.or_else(|| self.held.lock().take(name))
    }

    /// Keeps a cursor. If its transaction has ended meanwhile, the cursor ends too.
    pub(crate) fn put_cursor(&self, cursor: Cursor) {
        match cursor.held {
            true => self.held.lock().0.push(cursor),
            false => {
                if let Some(open) = &mut *self.slot.lock() {
                    open.cursors.0.push(cursor);
                }
            }
        }
    }

    /// Takes all cursors.
    pub(crate) fn take_cursors(&self) -> [Cursors; 2] {
        let of_transaction = self.slot.lock().as_mut().map(|open| std::mem::take(&mut open.cursors));
        [of_transaction.unwrap_or_default(), std::mem::take(&mut self.held.lock())]
    }

    /// Takes the engine's transaction, if one is open.
    pub(crate) fn take(&self, to_change: bool) -> Result<Option<WriteTxn>, SqlError> {
        Ok(self.take_marked(to_change)?.map(|(txn, _)| txn))
    }

    fn take_marked(&self, to_change: bool) -> Result<Option<(WriteTxn, Arc<()>)>, SqlError> {
        let mut slot = self.slot.lock();
        let Some(open) = &mut *slot else { return Ok(None) };
        if open.failed {
            return Err(SqlError::TransactionFailed);
        }
        if to_change && open.read_only {
            return Err(SqlError::ReadOnly);
        }
        open.failed = true;
        let mark = open.mark.clone();
        Ok(open.txn.take().map(|txn| (txn, mark)))
    }

    /// Puts a transaction back. Returns it if the session's open transaction is another one.
    fn put(&self, txn: WriteTxn, mark: &Arc<()>, failed: bool) -> Option<WriteTxn> {
        match &mut *self.slot.lock() {
            Some(open) if Arc::ptr_eq(&open.mark, mark) => {
                (open.txn, open.failed) = (Some(txn), failed);
                None
            }
            _ => Some(txn),
        }
    }

    /// Runs a statement that changes something in the transaction that was taken, checks its keys, and gives the
    /// transaction back.
    pub(crate) fn change<T>(
        &self,
        mut txn: WriteTxn,
        statement: impl FnOnce(&mut WriteTxn) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let done = statement(&mut txn).and_then(|done| Ok(txn.end_statement().map(|()| done)?));
        if let Some(open) = &mut *self.slot.lock() {
            (open.txn, open.failed) = (Some(txn), done.is_err());
        }
        done
    }

    /// The statement that took the transaction has ended well, or has changed nothing.
    pub(crate) fn give_back(&self, txn: WriteTxn) {
        if let Some(open) = &mut *self.slot.lock() {
            (open.txn, open.failed) = (Some(txn), false);
        }
    }

    /// The snapshot of the open transaction; `None` if none is open.
    async fn snapshot(&self) -> Result<Option<Snapshot>, SqlError> {
        let Some(mut txn) = self.take(false)? else { return Ok(None) };
        let of = self.clone();
        blocking(move || {
            let snapshot = txn.current()?;
            of.give_back(txn);
            Ok(Some(snapshot))
        })
        .await
    }
}

impl StatementTxn {
    /// Whether the statement is a transaction of its own.
    pub(crate) fn is_own_transaction(&self) -> bool {
        self.txn.of.is_none()
    }

    /// The snapshot that the transaction sees.
    pub(crate) async fn snapshot(mut self) -> Result<(Self, Snapshot), SqlError> {
        blocking(move || {
            let snapshot = self.txn.current()?;
            Ok((self, snapshot))
        })
        .await
    }

    /// Ends the statement's work. Commits if the statement is a transaction of its own; else checks the keys that it put
    /// in. May block.
    pub(crate) fn finish(mut self) -> Result<(), SqlError> {
        let Some((of, mark)) = self.txn.of.clone() else {
            let txn = self.txn.txn.take().expect("the statement has not ended");
            return Ok(txn.commit().map(drop)?);
        };
        self.txn.end_statement()?;
        let txn = self.txn.txn.take().expect("the statement has not ended");
        drop(of.put(txn, &mark, false));
        Ok(())
    }
}

impl Session {
    /// Where the session stands.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.transactions().status()
    }

    /// When the open transaction began, or the statement that is a transaction of its own.
    pub(crate) fn moment(&self) -> DateTime<Utc> {
        self.transactions().slot.lock().as_ref().map_or_else(Utc::now, |open| open.began)
    }

    /// Rolls the open transaction back. Returns whether there was one.
    pub fn roll_back(&self) -> bool {
        let Some(open) = self.transactions().slot.lock().take() else { return false };
        if let Err(e) = open.settings.end(false, |name, value| self.put_setting(name, value)) {
            tracing::warn!(error = %e, "a setting could not be taken back");
        }
        true
    }

    /// Notes that a setting of this value has got another.
    ///
    /// # Errors
    /// When the transaction could not give it back.
    pub(crate) fn note_setting(&self, name: &str, before: String, local: bool) -> Result<(), SqlError> {
        if let Some(open) = &mut *self.transactions().slot.lock() {
            open.settings.sets(name, before, local);
            return Ok(());
        }
        // Outside of a transaction SET LOCAL has no effect.
        if local { self.put_setting(name, &before) } else { Ok(()) }
    }

    /// The snapshot for a statement that reads: that of the open transaction, or the newest.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot, SqlError> {
        if let Some(snapshot) = self.transactions().snapshot().await? {
            return Ok(snapshot);
        }
        let db = self.database().clone();
        self.brief(move || Ok(db.snapshot()?)).await
    }

    /// The same on the calling thread: it sends no command, unless the open transaction loads rows.
    pub(crate) fn snapshot_now(&self) -> Result<Snapshot, SqlError> {
        let transactions = self.transactions();
        let Some(mut txn) = transactions.take(false)? else { return Ok(self.database().snapshot()?) };
        let snapshot = txn.current()?;
        transactions.give_back(txn);
        Ok(snapshot)
    }

    /// The transaction for a statement that changes something.
    pub(crate) async fn work(&self) -> Result<StatementTxn, SqlError> {
        let transactions = self.transactions();
        if let Some((txn, mark)) = transactions.take_marked(true)? {
            let of = Some((transactions.clone(), mark));
            return Ok(StatementTxn { txn: HeldTxn { txn: Some(txn), of } });
        }
        let (db, alone) = (self.database().clone(), self.commits_alone());
        let durability = self.durability().of_engine();
        let begin = move || {
            let mut txn = if alone { db.begin_exclusive()? } else { db.begin_write()? };
            txn.set_durability(durability);
            Ok(StatementTxn { txn: HeldTxn { txn: Some(txn), of: None } })
        };
        self.brief(begin).await
    }

    /// Changes definitions, in the open transaction or in one of its own.
    pub(crate) async fn define<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut WriteTxn) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        let mut work = self.work().await?;
        blocking(move || {
            let done = change(&mut work.txn)?;
            work.finish()?;
            Ok(done)
        })
        .await
    }

    /// BEGIN, COMMIT, ROLLBACK, SAVEPOINT and the like.
    pub(crate) async fn control(&self, statement: &Sql) -> Result<StatementResult, SqlError> {
        match statement {
            Sql::StartTransaction { modes, begin, modifier: None, statements, exception: None, .. }
                if statements.is_empty() =>
            {
                let read_only = read_only(modes)?.unwrap_or(false);
                self.begin(read_only).await?;
                Ok(StatementResult::done(if *begin { "BEGIN" } else { "START TRANSACTION" }))
            }
            Sql::Commit { chain: false, modifier: None, .. } => self.commit().await,
            Sql::Rollback { chain: false, savepoint: None } => {
                let open = self.transactions().slot.lock().take();
                let settings = open.as_ref().map(|open| open.settings.clone());
                settings.map_or(Ok(()), |settings| {
                    settings.end(false, |name, value| self.put_setting(name, value))
                })?;
                // Dropping the transaction frees the pages that it loaded.
                blocking(move || {
                    drop(open);
                    Ok(())
                })
                .await?;
                Ok(StatementResult::done("ROLLBACK"))
            }
            Sql::Rollback { chain: false, savepoint: Some(name) } => self.roll_back_to(name).await,
            Sql::Savepoint { name } => self.savepoint(name).await,
            Sql::ReleaseSavepoint { name } => self.release(name),
            other => Err(SqlError::Unsupported(other.to_string())),
        }
    }

    /// `SET TRANSACTION`, which is in force until the transaction's end.
    pub(crate) fn set_transaction(&self, modes: &[TransactionMode]) -> Result<StatementResult, SqlError> {
        let read_only = read_only(modes)?;
        if let (Some(open), Some(read_only)) = (&mut *self.transactions().slot.lock(), read_only) {
            open.read_only = read_only;
        }
        Ok(StatementResult::done("SET"))
    }

    /// BEGIN. Within a transaction it has no effect, as in PostgreSQL.
    pub(crate) async fn begin(&self, read_only: bool) -> Result<(), SqlError> {
        if self.transaction_status() != TransactionStatus::Idle {
            return Ok(());
        }
        let db: Database = self.database().clone();
        let txn = self.brief(move || Ok(db.begin_write()?)).await?;
        let (txn, mark, began) = (Some(txn), Arc::default(), Utc::now());
        let open = OpenTransaction {
            txn,
            mark,
            began,
            failed: false,
            read_only,
            savepoints: Vec::new(),
            settings: SettingsOfTransaction::default(),
            cursors: Cursors::default(),
            upserts: false,
        };
        *self.transactions().slot.lock() = Some(open);
        Ok(())
    }

    /// COMMIT. A failed transaction is rolled back, and the result says so.
    pub(crate) async fn commit(&self) -> Result<StatementResult, SqlError> {
        let mut open = self.transactions().slot.lock().take();
        let cursors = open.as_mut().map(|open| std::mem::take(&mut open.cursors)).unwrap_or_default();
        let durability = self.durability().of_engine();
        let settings = open.as_ref().map(|open| open.settings.clone()).unwrap_or_default();
        let committed = self.brief(move || match open {
            Some(OpenTransaction { failed: false, txn: Some(mut txn), upserts, .. }) => {
                txn.set_durability(durability);
                txn.commit().map_err(|e| if upserts { SqlError::from(e).of_race() } else { e.into() })?;
                Ok(true)
            }
            open => Ok(open.is_none()),
        });
        let committed = committed.await;
        if let Ok(true) = committed {
            self.transactions().held.lock().0.extend(cursors.hold());
        }
        settings.end(matches!(committed, Ok(true)), |name, value| self.put_setting(name, value))?;
        Ok(StatementResult::done(if committed? { "COMMIT" } else { "ROLLBACK" }))
    }

    pub(crate) async fn savepoint(&self, name: &Ident) -> Result<StatementResult, SqlError> {
        let (transactions, name) = (self.transactions().clone(), fold(name));
        let Some(mut txn) = transactions.take(false)? else {
            return Err(SqlError::NoTransaction("SAVEPOINT"));
        };
        let settings =
            transactions.slot.lock().as_ref().map(|open| open.settings.clone()).unwrap_or_default();
        let settings = settings.saved(|name| self.setting(name));
        let work = move || {
            let savepoint = txn.savepoint()?;
            if let Some(open) = &mut *transactions.slot.lock() {
                open.savepoints.push((name, savepoint, settings));
            }
            transactions.give_back(txn);
            Ok(StatementResult::done("SAVEPOINT"))
        };
        self.brief(work).await
    }

    pub(crate) async fn roll_back_to(&self, name: &Ident) -> Result<StatementResult, SqlError> {
        let name = fold(name);
        let mut slot = self.transactions().slot.lock();
        let Some(open) = &mut *slot else { return Err(SqlError::NoTransaction("ROLLBACK TO SAVEPOINT")) };
        let at = position(open, &name)?;
        let Some(txn) = &mut open.txn else {
            let message = "the transaction was given up half-way; ROLLBACK ends it";
            return Err(SqlError::failed(state::FAILED_TRANSACTION, message));
        };
        txn.rollback_to(&open.savepoints[at].1);
        let saved = open.savepoints[at].2.clone();
        open.settings.roll_back_to(&saved, |name, value| self.put_setting(name, value))?;
        open.savepoints.truncate(at + 1);
        open.cursors.roll_back_to(at + 1);
        open.failed = false;
        Ok(StatementResult::done("ROLLBACK"))
    }

    pub(crate) fn release(&self, name: &Ident) -> Result<StatementResult, SqlError> {
        let mut slot = self.transactions().slot.lock();
        let Some(open) = &mut *slot else { return Err(SqlError::NoTransaction("RELEASE SAVEPOINT")) };
        if open.failed {
            return Err(SqlError::TransactionFailed);
        }
        let at = position(open, &fold(name))?;
        open.savepoints.truncate(at);
        open.cursors.release(at);
        Ok(StatementResult::done("RELEASE"))
    }
}

/// The newest savepoint of this name.
fn position(open: &OpenTransaction, name: &str) -> Result<usize, SqlError> {
    let at = open.savepoints.iter().rposition(|(n, ..)| n == name);
    at.ok_or_else(|| SqlError::NoSavepoint(name.to_owned()))
}

/// Whether the modes ask for READ ONLY or READ WRITE. Isolation levels up to REPEATABLE READ are accepted: all get
/// snapshot isolation.
fn read_only(modes: &[TransactionMode]) -> Result<Option<bool>, SqlError> {
    let mut read_only = None;
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(mode) => read_only = Some(*mode == TransactionAccessMode::ReadOnly),
            TransactionMode::IsolationLevel(TransactionIsolationLevel::Serializable) => {
                return Err(SqlError::Unsupported(
                    "ISOLATION LEVEL SERIALIZABLE: transactions have snapshot isolation, REPEATABLE READ"
                        .into(),
                ));
            }
            TransactionMode::IsolationLevel(_) => {}
        }
    }
    Ok(read_only)
}
