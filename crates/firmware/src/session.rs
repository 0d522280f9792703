//! The session table: which write sequence number each open session has applied.
//!
//! ```text
//!   open ─► highest 0 ── batch with highest + 1 ─► staged ── its record is durable ─► applied
//!           any other number: refused, and the error names the highest applied
//!
//!   on the medium: | count 4 | session 8, highest 8 | ...
//! ```
//!
//! Invariants: batches of a session take effect in the order of their numbers, each once. A number that is reported as
//! applied is durable. The number of a batch that was staged and failed may come again.
//!
//! Source: ELEOS §III-A2, §VIII.

use std::collections::BTreeMap;

use lode_base::SessionId;
use lode_command::{CommandError, SessionWrite};

use crate::codec::{Malformed, Put, Take};
use crate::planted::{self, Planted};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    applied: u64,
    staged: u64,
}

#[derive(Default)]
pub(crate) struct Sessions {
    open: BTreeMap<u64, Progress>,
    /// Sessions whose opening is under way.
    opening: u32,
    drawn: u64,
    /// Whether the table changed since it was written.
    changed: bool,
}

impl Sessions {
    /// Draws the number of a new session: spread over 64 bits (SplitMix64), and not in use. `salt` differs between images,
    /// and between openings of an image.
    pub(crate) fn draw(&mut self, salt: u64, max: u32) -> Result<SessionId, CommandError> {
        if self.open.len() as u64 + u64::from(self.opening) >= u64::from(max) {
            return Err(CommandError::TooManySessions(max));
        }
        self.opening += 1;
        loop {
            self.drawn += 1;
            let mut z = salt.wrapping_add(self.drawn.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^= z >> 31;
            if z != 0 && !self.open.contains_key(&z) {
                return Ok(SessionId::new(z));
            }
        }
    }

    /// The opening of a drawn session is over; `durable` when it succeeded.
    pub(crate) fn opened(&mut self, id: SessionId, durable: bool) {
        self.opening = self.opening.saturating_sub(1);
        if durable {
            self.restore_open(id);
        }
    }

    /// Replays an opening.
    pub(crate) fn restore_open(&mut self, id: SessionId) {
        self.open.insert(id.raw(), Progress::default());
        self.changed = true;
    }

    /// Ends a session.
    pub(crate) fn close(&mut self, id: SessionId) {
        self.open.remove(&id.raw());
        self.changed = true;
    }

    /// The highest number that a session has applied.
    pub(crate) fn highest(&self, id: SessionId) -> Result<u64, CommandError> {
        self.open.get(&id.raw()).map(|p| p.applied).ok_or(CommandError::NoSuchSession(id))
    }

    /// Whether a batch is the next of its session, counting those that are staged.
    pub(crate) fn check(&self, s: SessionWrite) -> Result<(), CommandError> {
        let p = self.open.get(&s.session.raw()).ok_or(CommandError::NoSuchSession(s.session))?;
        if p.staged.checked_add(1) != Some(s.wsn) {
            return Err(CommandError::WrongSequence { session: s.session, wsn: s.wsn, highest: p.applied });
        }
        Ok(())
    }

    /// A batch is staged that is the next of its session.
    pub(crate) fn stage(&mut self, s: SessionWrite) {
        let p = self.open.get_mut(&s.session.raw()).expect("the session is open");
        assert_eq!(s.wsn, p.staged + 1, "batches of a session are staged in order");
        p.staged = s.wsn;
    }

    /// A staged batch is durable, or was replayed.
    pub(crate) fn apply(&mut self, id: SessionId, wsn: u64) {
        if let Some(p) = self.open.get_mut(&id.raw()) {
            p.applied = wsn;
            p.staged = p.staged.max(wsn);
            planted::unless(Planted::SessionsForgotten, || self.changed = true);
        }
    }

    /// What was staged and is not applied has failed.
    pub(crate) fn unstage(&mut self) {
        self.open.values_mut().for_each(|p| p.staged = p.applied);
    }

    /// All open sessions.
    pub(crate) fn all(&self) -> Vec<SessionId> {
        self.open.keys().map(|id| SessionId::new(*id)).collect()
    }

    /// Whether the table changed since it was written.
    pub(crate) fn have_changed(&self) -> bool {
        self.changed
    }

    /// The table is to be written anew.
    pub(crate) fn mark_changed(&mut self) {
        self.changed = true;
    }

    /// The table, if it changed; it counts as written from now on.
    pub(crate) fn take_changed(&mut self) -> Option<Vec<u8>> {
        std::mem::take(&mut self.changed).then(|| self.encode())
    }

    pub(crate) fn count(&self) -> u32 {
        self.open.len() as u32
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut b = Vec::new();
        b.put_u32(self.open.len() as u32);
        for (id, p) in &self.open {
            b.put_u64(*id);
            b.put_u64(p.applied);
        }
        b
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let t = &mut Take::new(bytes);
        let mut open = BTreeMap::new();
        for _ in 0..t.count(16)? {
            let (id, applied) = (t.u64()?, t.u64()?);
            open.insert(id, Progress { applied, staged: applied });
        }
        t.end()?;
        Ok(Self { open, ..Self::default() })
    }

    pub(crate) fn check_invariants(&self, under_way: bool) {
        for (id, p) in &self.open {
            assert!(p.applied <= p.staged, "session {id} applied more than was staged");
            assert!(under_way || p.applied == p.staged, "session {id} waits for nobody");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by reading for the fuzzing: an image may say so, and no batch follows.
    #[test]
    fn nothing_follows_the_highest_number() {
        let mut s = Sessions::default();
        let session = SessionId::new(7);
        s.restore_open(session);
        s.apply(session, u64::MAX);
        for wsn in [0, 1, u64::MAX] {
            let wrong = CommandError::WrongSequence { session, wsn, highest: u64::MAX };
            assert_eq!(s.check(SessionWrite { session, wsn }), Err(wrong));
        }
    }

    /// The first numbers of SplitMix64 from 0 on; then an image that says that the first is open.
    #[test]
    fn drawn_numbers_are_spread_and_not_open() {
        let mut s = Sessions::default();
        let drawn = [(); 3].map(|()| s.draw(0, 3).unwrap());
        let expected = [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F];
        assert_eq!(drawn, expected.map(SessionId::new));
        let mut s = Sessions::default();
        s.restore_open(drawn[0]);
        assert_eq!(s.draw(0, 3), Ok(drawn[1]));
    }

    #[test]
    fn numbers_are_applied_in_order_and_once() {
        let mut s = Sessions::default();
        let id = s.draw(7, 2).unwrap();
        s.opened(id, true);
        let w = |wsn| SessionWrite { session: id, wsn };
        let wrong = |wsn, highest| Err(CommandError::WrongSequence { session: id, wsn, highest });
        assert_eq!(s.check(w(2)), wrong(2, 0));
        s.stage(w(1));
        assert_eq!(s.check(w(1)), wrong(1, 0));
        s.stage(w(2));
        s.apply(id, 1);
        assert_eq!(s.highest(id), Ok(1));
        s.unstage();
        assert_eq!(s.check(w(2)), Ok(()));
        let t = Sessions::decode(&s.encode()).unwrap();
        assert_eq!(t.highest(id), Ok(1));
        let other = s.draw(7, 2).unwrap();
        assert_ne!(other, id);
        assert_eq!(s.draw(7, 2), Err(CommandError::TooManySessions(2)));
        s.opened(other, false);
        s.close(id);
        assert_eq!(s.check(w(2)), Err(CommandError::NoSuchSession(id)));
        let bytes = t.encode();
        assert!((0..bytes.len()).all(|n| Sessions::decode(&bytes[..n]).is_err()));
    }
}
