//! What a policy is.

use lode_base::EblockId;

use super::view::{Choice, GcView};

/// A way to choose what GC empties. A drive has one of its own, made when it is opened: its state is not kept on the medium.
///
/// The drive holds its lock while it asks. A policy takes no lock that is held while a drive is used, and looks at no clock:
/// the same views in the same order give the same choices.
pub trait Policy: Send {
    /// What is emptied next, and how; or nothing now. One victim is emptied to its end before the next choice.
    fn choose(&mut self, view: &GcView<'_>) -> Choice;

    /// A step of emptying `victim` begins: the one that was chosen, or one that goes first whatever the policy says (an
    /// EBLOCK that failed, the least worn, garbage of a drive at rest).
    fn step_begins(&mut self, victim: EblockId) {
        let _ = victim;
    }
}

/// A policy of the table.
#[derive(Clone, Copy)]
pub struct NamedPolicy {
    /// Its name, as in options and reports.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Makes one for a drive.
    pub make: fn() -> Box<dyn Policy>,
}
