//! Power cuts and closing, and the checks after the database is opened again.

use super::{Done, World, look};
use crate::failure::{FailureKind, wrong};
use crate::step::Cut;
use crate::tables::rows;

/// What the names of the trees begin with that have the rows of tables with deltas.
const ROWS_TREE: &str = "__lode_rows_";

impl World<'_> {
    /// Cuts the power, if it is not cut already, and reopens. `cut` may cut the power again during recoveries.
    pub(super) fn reopen(&mut self, cut: &Cut) -> Done {
        self.forget();
        self.machine.close(false)?;
        self.machine.met("reopens after a power cut");
        self.machine.reopen(cut)?;
        self.recovered()
    }

    /// Closes the database and its drive in order and opens them again.
    pub(super) fn close(&mut self, cut: &Cut) -> Done {
        let flushed = self.database().flush();
        self.forget();
        if !self.machine.is_cut() {
            match flushed {
                Ok(()) => self.model.is_durable(),
                Err(e) => drop(self.machine.excused("closing", &e)?),
            }
            self.machine.close(true)?;
        }
        self.machine.met("reopens in order");
        self.machine.close(false)?;
        self.machine.reopen(cut)?;
        self.recovered()
    }

    /// Drops all transactions and snapshots.
    fn forget(&mut self) {
        for _ in self.open.iter_mut().filter_map(Option::take).map(drop).chain(self.held.drain(..).map(drop))
        {
            self.machine.crowd.leave();
        }
    }

    /// Checks that all durable commits are there, and a prefix of the later ones.
    fn recovered(&mut self) -> Done {
        let snapshot = match self.database().snapshot() {
            Ok(snapshot) => snapshot,
            Err(e) => return wrong(FailureKind::Answer, format!("a snapshot after opening: {e}")),
        };
        let got = match look::contents(&snapshot) {
            Ok(got) => got,
            Err(e) => return wrong(FailureKind::Lost, format!("a read after opening: {e}")),
        };
        let left = self.model.settle(|state| look::difference(&got, &look::expected(state)).is_none());
        match left {
            Err(durable) => {
                let what = look::difference(&got, &look::expected(&durable)).unwrap_or_default();
                return wrong(
                    FailureKind::Lost,
                    format!("no state is there; beside the durable one, {what}"),
                );
            }
            Ok(left) => {
                self.machine.met_times("relaxed commits that were lost", left.lost as u64);
                self.machine.met_times("relaxed commits that were kept", left.kept as u64);
                match left.under_way {
                    Some(true) => self.machine.met("power cuts with a commit under way that took effect"),
                    Some(false) => self.machine.met("power cuts with a commit under way that did not"),
                    None => {}
                }
            }
        }
        if self.machine.drive.info().read_only.is_some() {
            // What is left over of changes that were cut cannot go.
            drop(snapshot);
            self.over = true;
            self.machine.excused_halt()?;
            return self.compare_all();
        }
        let trees = snapshot.trees().filter(|t| t.name().starts_with(ROWS_TREE)).count();
        let deltas = self.model.newest().0.keys().filter(|&&table| rows::has_delta(table)).count();
        if trees != deltas {
            return wrong(
                FailureKind::Check,
                format!("{trees} trees of rows for {deltas} tables with deltas"),
            );
        }
        drop(snapshot);
        self.compare_all()?;
        self.machine.checks_itself()
    }
}
