//! `GroupTable`: the groups of the rows so far.

use lode_page::Column;

use super::arguments::Inputs;
use super::keys::Keys;
use super::states::{CallState, Rows, values};
use crate::eval::fetch;
use crate::eval::predicate::BLOCK_ROWS;
use crate::{ColumnSource, EvalError, Program, Selection, compact};

/// The most bytes of strings in the table, of keys and of least and greatest values. Beyond it all groups come out.
const STRING_BYTES_MAX: usize = 1 << 20;

/// What a call gets of rows that are not read.
#[derive(Clone, Copy, Debug)]
pub enum Given {
    /// So many values.
    Count(i64),
    /// The least, or the greatest, in the order of the type.
    Value(i128),
    /// No value.
    Nothing,
}

/// The groups of a program's aggregation.
#[derive(Debug)]
pub struct GroupTable {
    /// `None` without a GROUP BY.
    keys: Option<Keys>,
    states: Vec<CallState>,
    /// Rows in it.
    rows: u64,
}

impl GroupTable {
    /// An empty table; `None` if the program has no aggregation.
    pub fn new(program: &Program) -> Option<Self> {
        let a = program.checked_aggregation()?;
        let (keys, results) = a.types.split_at(a.asked.group_by.len());
        let states = a.asked.calls.iter().zip(results).map(|(call, &t)| CallState::new(call, t)).collect();
        let keys = (!keys.is_empty()).then(|| Keys::new(keys, a.asked.groups_max as usize));
        Some(Self { keys, states, rows: 0 })
    }

    /// Groups in it.
    pub fn groups(&self) -> usize {
        match &self.keys {
            Some(keys) => keys.groups(),
            None => usize::from(self.rows > 0),
        }
    }

    /// Takes the selected rows of a page. If there is no room for a new group, all groups so far go to `full`, and
    /// the table starts empty. `full` gets a column for each key and then for each result, with a row for each group.
    ///
    /// # Errors
    /// Those of the source; [`EvalError::Overflow`] when an argument's value or a sum does not fit 128 bits (64 bits
    /// for a sum that is a BIGINT). The table cannot be used afterwards.
    pub fn take<S: ColumnSource>(
        &mut self,
        program: &Program,
        source: &mut S,
        selection: &Selection,
        full: &mut impl FnMut(usize, Vec<Column>),
    ) -> Result<(), EvalError<S::Error>> {
        let a = program.checked_aggregation().expect("the program that the table was made for");
        let rows = selection.count(source.rows());
        let read = |&c: &u16| Ok((c, compact(&fetch(program.schema(), source, c)?, selection)));
        let columns = a.columns.iter().map(read).collect::<Result<_, EvalError<S::Error>>>()?;
        let inputs = Inputs::new(columns, rows);
        let mut from = 0;
        while from < rows {
            let groups = self.keys.as_mut().map(|keys| keys.groups_of(&inputs, &a.asked.group_by, from));
            let to = groups.as_ref().map_or(rows, |g| from + g.len());
            self.rows += (to - from) as u64;
            let count = self.groups();
            self.states.iter_mut().for_each(|s| s.grow(count));
            for (i, argument) in a.arguments.iter().enumerate() {
                let state = &mut self.states[i];
                let Some(argument) = argument else {
                    if matches!(a.asked.calls[i], super::Call::CountRows) {
                        state.count(&Rows { groups: groups.as_deref(), count: to - from, valid: None });
                    }
                    continue;
                };
                let valid = inputs.valid(&argument.columns);
                // All blocks but the first begin at whole words of the rows' bits.
                let mut start = from;
                while start < to {
                    let end = ((start / BLOCK_ROWS + 1) * BLOCK_ROWS).min(to);
                    let bits = valid.as_ref().map(|v| shifted(v, start, end));
                    let of = groups.as_ref().map(|g| &g[start - from..end - from]);
                    let rows = Rows { groups: of, count: end - start, valid: bits.as_deref() };
                    if matches!(state, CallState::Count(_)) {
                        state.count(&rows);
                    } else {
                        let (data, unfit) = inputs.evaluate(&argument.value, &(start..end));
                        let has_value =
                            |&i: &usize| rows.valid.is_none_or(|v| v[i / 64] >> (i % 64) & 1 == 1);
                        if unfit.iter().any(has_value) || !state.take(&rows, &data) {
                            return Err(EvalError::Overflow);
                        }
                    }
                    start = end;
                }
            }
            from = to;
            let bytes = self.keys.as_ref().map_or(0, Keys::bytes)
                + self.states.iter().map(CallState::bytes).sum::<usize>();
            if from < rows || bytes >= STRING_BYTES_MAX {
                let (groups, columns) = self.drain(program);
                full(groups, columns);
            }
        }
        Ok(())
    }

    /// Takes rows without their values: what each call gets of them. There is no GROUP BY.
    pub(crate) fn take_given(&mut self, rows: u32, given: Vec<Given>) {
        self.rows += u64::from(rows);
        let groups = self.groups();
        if rows > 0 {
            self.states.iter_mut().for_each(|s| s.grow(groups));
            self.states.iter_mut().zip(given).for_each(|(state, given)| state.give(given));
        }
    }

    /// All groups: how many, and a column for each key and each result. Then the table is empty.
    pub fn drain(&mut self, program: &Program) -> (usize, Vec<Column>) {
        let a = program.checked_aggregation().expect("the program that the table was made for");
        let groups = self.groups();
        self.states.iter_mut().for_each(|s| s.grow(groups));
        let mut types = a.types.iter();
        let mut columns = Vec::with_capacity(a.types.len());
        for key in self.keys.as_mut().map_or(Vec::new(), Keys::drain) {
            columns.push(values(*types.next().expect("a type a key"), key.into_iter()));
        }
        columns.extend(self.states.iter_mut().zip(types).map(|(s, &t)| s.drain(t)));
        self.rows = 0;
        (groups, columns)
    }
}

/// The bits of rows `start` to `end`, from bit 0 of the first word on.
fn shifted(words: &[u64], start: usize, end: usize) -> Vec<u64> {
    let (first, by) = (start / 64, start % 64);
    let word = |i: usize| words.get(i).copied().unwrap_or(0);
    let one = |i: usize| match by {
        0 => word(first + i),
        by => word(first + i) >> by | word(first + i + 1) << (64 - by),
    };
    (0..(end - start).div_ceil(64)).map(one).collect()
}
