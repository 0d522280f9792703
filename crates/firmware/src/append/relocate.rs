//! Relocation: pages are copied elsewhere, and their entries change where they are still the same.
//!
//! Invariants: a relocation never takes the place of a newer write: whether the page is still the same is decided when the
//! action is staged, in the order of all actions. Old bytes are let go only once the new address is durable. Alignment and
//! redo bits are kept.
//!
//! Source: ELEOS §VI-C (conditional installation).

use lode_base::{Lpid, PageBuf};
use lode_command::Align;

use super::appender::Appender;
use crate::FirmwareError;
use crate::commit::{Action, CommitState, Copied, Freed};
use crate::entry::Entry;
use crate::planted::at;
use crate::record::Record;
use crate::space::{Item, PageName, Purpose};
use crate::stream::Stream;

/// Bytes that one action moves, about, when there is much to move.
pub(crate) const MOVE_BYTES: usize = 2 << 20;

/// A version of a page that is still needed, and where it lies.
#[derive(Clone, Copy)]
pub(crate) struct ValidPage {
    pub(crate) lpid: Lpid,
    pub(crate) entry: Entry,
    /// How it is to be aligned, there and wherever it goes.
    pub(crate) align: Align,
}

/// A page moves to where its copy is.
fn stage(state: &mut CommitState, moved: &mut Vec<(Lpid, Entry)>, lpid: Lpid, entry: Entry) {
    state.stage_entry(lpid, Some(entry));
    moved.push((lpid, entry));
}

/// As [`stage`], but only one page of a move: the fault `MoveForgets`.
fn stage_the_first(state: &mut CommitState, moved: &mut Vec<(Lpid, Entry)>, lpid: Lpid, entry: Entry) {
    if moved.is_empty() {
        stage(state, moved, lpid, entry);
    }
}

impl Appender<'_> {
    /// Copies pages, and changes their entries where they are still the same. Once they are copied, `copied` is told.
    pub(crate) fn relocate(
        self,
        stream: Stream,
        purpose: Purpose,
        pages: &[(ValidPage, PageBuf)],
        copied: impl FnOnce(&mut CommitState),
    ) -> Result<(), FirmwareError> {
        let (env, g) = (self.env(), *self.env().geometry());
        let pins = self.pages().pin_maps(env, pages.iter().map(|(v, _)| v.lpid.extent()))?;
        let align = |v: &ValidPage| at!(MoveUnaligned => Align::Cell, v.align);
        let item = |(v, data): &(ValidPage, PageBuf)| Item {
            len: data.len(),
            align: align(v),
            word: PageName::User(v.lpid).aligned_word(align(v)),
        };
        let items: Vec<Item> = pages.iter().map(item).collect();
        let data: Vec<&[u8]> = pages.iter().map(|(_, d)| &d[..]).collect();
        self.state().begin_action();
        let placed = self.append(stream, &items, &data, purpose);
        let mut state = self.state();
        let placed = match placed.map_err(|e| (e, env.check_writable())) {
            Ok(placed) => placed,
            Err((e, writable)) => {
                state.give_up_action();
                drop(state);
                self.pages().unpin(&pins);
                writable?;
                return Err(e);
            }
        };
        copied(&mut state);
        let (mut moved, mut copies, mut freed) = (Vec::new(), Vec::new(), Freed::default());
        for ((v, _), ppa) in pages.iter().zip(&placed.places) {
            let now = pins.get(&v.lpid.extent()).and_then(|p| state.staged_entry(v.lpid, p.map()));
            let is_same = |now: &Entry| at!(MoveOverNewer => true, now.same_place(v.entry));
            match now.filter(is_same) {
                Some(now) => {
                    let redo = at!(MoveMarksRedo => true, now.redo());
                    let entry = Entry::new(*ppa, v.entry.len_bytes(), redo);
                    freed.add(&g, now);
                    at!(MoveForgets => stage_the_first, stage)(&mut state, &mut moved, v.lpid, entry);
                }
                None => {
                    let to = Entry::new(*ppa, v.entry.len_bytes(), v.entry.redo());
                    copies.push(Copied { lpid: v.lpid, from: v.entry, to });
                }
            }
        }
        let record = Record::Moved { pages: moved, freed: freed.into_vec() };
        let action = Action::new(record).pinned(pins).entered(placed.eblocks).with_copies(copies);
        self.committer().carry_out(state, action).map(drop).map_err(FirmwareError::Refused)
    }
}
