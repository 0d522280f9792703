//! The open cursors of a transaction: a query's stream of rows that FETCH takes a few at a time.
//!
//! ```text
//!   DECLARE c CURSOR FOR query ─► stream, begun ── FETCH n ─► its next n rows
//!                                               ── MOVE n  ─► n rows fewer
//!                                               ── CLOSE, COMMIT, ROLLBACK, ROLLBACK TO before it ─► gone
//!   WITH HOLD: the session keeps it after COMMIT, with its snapshot, until CLOSE
//! ```
//!
//! A cursor sees the rows as they were when it was declared. It moves forward only, and keeps the row that it stands on.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::{FetchDirection, Value, ValueWithSpan};
use futures::StreamExt;

use crate::SqlError;
use crate::error::state;

/// An open cursor.
pub(crate) struct Cursor {
    pub(crate) name: String,
    /// How many savepoints there were when it was declared.
    pub(crate) savepoints: usize,
    /// Whether it was declared WITH HOLD.
    pub(crate) hold: bool,
    /// Whether its transaction has ended, so that the session keeps it.
    pub(crate) held: bool,
    /// Whether it was declared NO SCROLL.
    pub(crate) no_scroll: bool,
    pub(crate) schema: SchemaRef,
    /// `None` at the end of the rows.
    pub(crate) stream: Option<SendableRecordBatchStream>,
    /// Rows that were computed and not fetched yet.
    pub(crate) ahead: Option<RecordBatch>,
    /// Rows that were fetched or skipped.
    pub(crate) position: u64,
    /// The row that it stands on: the last one of these.
    pub(crate) current: Option<RecordBatch>,
}

/// The open cursors of a transaction.
#[derive(Default)]
pub(crate) struct Cursors(pub(crate) Vec<Cursor>);

impl Cursors {
    /// ROLLBACK TO: of `savepoints` savepoints the last one stays, and what was declared after it goes.
    pub(crate) fn roll_back_to(&mut self, savepoints: usize) {
        self.0.retain(|c| c.savepoints < savepoints);
    }

    /// RELEASE: `savepoints` are left. What was declared after them counts as declared after the last of these.
    pub(crate) fn release(&mut self, savepoints: usize) {
        self.0.iter_mut().for_each(|c| c.savepoints = c.savepoints.min(savepoints));
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|c| c.name == name)
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Cursor> {
        let at = self.0.iter().position(|c| c.name == name)?;
        Some(self.0.remove(at))
    }

    /// COMMIT: those that were declared WITH HOLD stay, as the session's.
    pub(crate) fn hold(mut self) -> Vec<Cursor> {
        self.0.retain(|c| c.hold);
        self.0.iter_mut().for_each(|c| c.held = true);
        self.0
    }
}

pub(crate) fn no_cursor(name: &str) -> SqlError {
    SqlError::failed(state::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

/// Which rows FETCH or MOVE is about: how many are skipped, and how many are taken then.
#[derive(Debug, PartialEq)]
pub(crate) struct Range {
    skipped: u64,
    /// `u64::MAX` for all.
    taken: u64,
    /// Only the row on which the cursor stands is taken, again.
    again: bool,
}

impl Cursor {
    /// The rows of a direction.
    ///
    /// # Errors
    /// Rows behind the cursor.
    pub(crate) fn range(&self, direction: &FetchDirection) -> Result<Range, SqlError> {
        let forward = |taken| Ok(Range { skipped: 0, taken, again: false });
        let one = |skipped| Ok(Range { skipped, taken: 1, again: false });
        let again = || Ok(Range { skipped: 0, taken: 0, again: true });
        let backward = || match self.no_scroll {
            true => {
                Err(SqlError::failed(state::OBJECT_NOT_IN_PREREQUISITE_STATE, "cursor can only scan forward"))
            }
            false => Err(SqlError::Unsupported("a cursor that moves backward".into())),
        };
        match direction {
            FetchDirection::Next => forward(1),
            FetchDirection::All | FetchDirection::ForwardAll => forward(u64::MAX),
            FetchDirection::Forward { limit: None } => forward(1),
            FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => {
                match number(limit)? {
                    n if n > 0 => forward(n.unsigned_abs()),
                    0 if !self.no_scroll => again(),
                    _ => backward(),
                }
            }
            FetchDirection::Relative { limit } => match number(limit)? {
                n if n > 0 => one(n.unsigned_abs() - 1),
                0 if !self.no_scroll => again(),
                _ => backward(),
            },
            FetchDirection::Absolute { limit } => match number(limit)? {
                n if n > 0 && n.unsigned_abs() == self.position && self.current.is_some() => again(),
                n if n > 0 && n.unsigned_abs() > self.position => one(n.unsigned_abs() - self.position - 1),
                _ => backward(),
            },
            FetchDirection::First if self.position == 0 => forward(1),
            _ => backward(),
        }
    }

    /// The next rows, at most `rows_max`; `None` at the end.
    async fn next(&mut self, rows_max: u64) -> Result<Option<RecordBatch>, SqlError> {
        let batch = match self.ahead.take() {
            Some(batch) => batch,
            None => loop {
                let Some(stream) = &mut self.stream else {
                    self.current = None;
                    return Ok(None);
                };
                match stream.next().await {
                    Some(batch) => match batch? {
                        empty if empty.num_rows() == 0 => {}
                        batch => break batch,
                    },
                    None => {
                        (self.stream, self.current) = (None, None);
                        return Ok(None);
                    }
                }
            },
        };
        let rows = usize::try_from(rows_max).unwrap_or(usize::MAX).min(batch.num_rows());
        if rows < batch.num_rows() {
            self.ahead = Some(batch.slice(rows, batch.num_rows() - rows));
        }
        self.position += rows as u64;
        self.current = Some(batch.slice(rows - 1, 1));
        Ok(Some(batch.slice(0, rows)))
    }

    /// Takes the rows of a range. What is only moved over is counted, not kept.
    pub(crate) async fn fetch(
        &mut self,
        range: Range,
        keep: bool,
    ) -> Result<(Vec<RecordBatch>, u64), SqlError> {
        if range.again {
            let row = self.current.clone();
            let rows = u64::from(row.is_some());
            return Ok((row.into_iter().filter(|_| keep).collect(), rows));
        }
        let mut left = range.skipped;
        while left > 0 {
            match self.next(left).await? {
                Some(batch) => left -= batch.num_rows() as u64,
                None => break,
            }
        }
        let (mut batches, mut taken) = (Vec::new(), 0);
        while taken < range.taken {
            let Some(batch) = self.next(range.taken - taken).await? else { break };
            taken += batch.num_rows() as u64;
            if keep {
                batches.push(batch);
            }
        }
        Ok((batches, taken))
    }
}

fn number(limit: &ValueWithSpan) -> Result<i64, SqlError> {
    let parsed = match &limit.value {
        Value::Number(n, _) => n.parse().ok(),
        _ => None,
    };
    let message = format!("FETCH or MOVE of {} rows: expected a whole number", limit.value);
    parsed.ok_or_else(|| SqlError::failed(state::SYNTAX_ERROR, message))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::Schema;

    use datafusion::sql::sqlparser::ast::Statement as Sql;

    use super::*;
    use crate::Statement;
    use crate::statement::fold;

    #[test]
    fn a_direction_says_which_rows_follow() {
        let cursor = Cursor {
            name: "c".into(),
            savepoints: 0,
            hold: false,
            held: false,
            no_scroll: false,
            schema: Arc::new(Schema::empty()),
            stream: None,
            ahead: None,
            position: 3,
            current: None,
        };
        let check = |sql: &str, expected: Option<(u64, u64)>| {
            let statement = Statement::parse(sql).unwrap().remove(0);
            let Some(Sql::Fetch { name, direction, .. }) = statement.sql() else { panic!("{sql}") };
            assert_eq!(fold(name), "c", "{sql}");
            let range = cursor.range(direction).ok().map(|r| (r.skipped, r.taken));
            assert_eq!(range, expected, "{sql}");
        };
        check("FETCH c", Some((0, 1)));
        check("FETCH NEXT c", Some((0, 1)));
        check("FETCH FROM c", Some((0, 1)));
        check("FETCH 5 IN c", Some((0, 5)));
        check("FETCH FORWARD 5 FROM c", Some((0, 5)));
        check("FETCH FORWARD c", Some((0, 1)));
        check("FETCH ALL FROM c", Some((0, u64::MAX)));
        check("FETCH FORWARD ALL c", Some((0, u64::MAX)));
        check("MOVE 2 FROM c", Some((0, 2)));
        check("FETCH RELATIVE 3 FROM c", Some((2, 1)));
        check("FETCH ABSOLUTE 5 FROM c", Some((1, 1)));
        check("FETCH ABSOLUTE 3 FROM c", None);
        check("FETCH -1 FROM c", None);
        check("FETCH BACKWARD ALL FROM c", None);
        check("FETCH PRIOR FROM c", None);
        check("FETCH LAST FROM c", None);
    }
}
