//! Agents of a modelled host, each on a thread of its own, of which one runs at a time.
//!
//! ```text
//!   thread of A   runs ─► pass ─ waits ────────────► runs         the agent that is furthest behind has the turn
//!   thread of B   waits ───────► runs ─► pass ─ waits
//! ```
//!
//! Invariant: which agent has the turn depends on their clocks alone, so that modelled times are the same in every run.

use std::sync::Arc;

use lode_engine::{Agent, HostClock};
use parking_lot::{Condvar, Mutex};

/// The turns of some agents.
struct Turns {
    host: Arc<HostClock>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    at_work: Vec<Agent>,
    /// Whose turn it is; `None` after the last has left.
    turn: Option<Agent>,
}

impl State {
    /// Gives the turn to the agent that is furthest behind.
    fn choose(&mut self, host: &HostClock) {
        self.turn = host.furthest_behind(self.at_work.iter().copied());
        if let Some(agent) = self.turn {
            host.give_turn(agent);
        }
    }
}

/// An agent's place among the others. Dropping it leaves them.
pub(super) struct Place {
    turns: Arc<Turns>,
    agent: Agent,
}

/// So many new agents of a host. Their clocks begin at the latest time of those in `after`, and of the one whose turn it is.
pub(super) fn places(host: &Arc<HostClock>, count: usize, after: &[Agent]) -> Vec<Place> {
    let known = after.iter().copied().chain([host.turn()]);
    let latest = known.max_by_key(|&agent| {
        host.give_turn(agent);
        host.now()
    });
    latest.iter().for_each(|&agent| host.give_turn(agent));
    let agents: Vec<Agent> = (0..count).map(|_| host.new_agent()).collect();
    let mut state = State { at_work: agents.clone(), turn: None };
    state.choose(host);
    let turns = Turns { host: host.clone(), state: Mutex::new(state), changed: Condvar::new() };
    let turns = Arc::new(turns);
    agents.into_iter().map(|agent| Place { turns: turns.clone(), agent }).collect()
}

impl Place {
    /// The agent.
    pub(super) fn agent(&self) -> Agent {
        self.agent
    }

    /// The host.
    pub(super) fn host(&self) -> &HostClock {
        &self.turns.host
    }

    /// Waits for the agent's first turn. Its thread calls this before anything else.
    pub(super) fn begin(&self) {
        let mut state = self.turns.state.lock();
        while state.turn != Some(self.agent) {
            self.turns.changed.wait(&mut state);
        }
    }

    /// Ends the agent's turn, and waits for the next one.
    pub(super) fn pass(&self) {
        let mut state = self.turns.state.lock();
        state.choose(&self.turns.host);
        if state.turn == Some(self.agent) {
            return;
        }
        self.turns.changed.notify_all();
        while state.turn != Some(self.agent) {
            self.turns.changed.wait(&mut state);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.turns.state.lock();
        state.at_work.retain(|&agent| agent != self.agent);
        if state.turn == Some(self.agent) {
            state.choose(&self.turns.host);
        }
        self.turns.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use lode_base::{Operations, Profile, VirtualDuration, VirtualTime};

    use super::*;

    #[test]
    fn the_agent_that_is_furthest_behind_runs_next() {
        let profile = Profile::find("isp-adms11").unwrap();
        let host = Arc::new(HostClock::new(profile, VirtualTime::ZERO, Box::new(Operations::default)));
        let ns = VirtualDuration::from_ns;
        host.rests(ns(5));
        let places = places(&host, 2, &[host.turn()]);
        let log = Mutex::new(Vec::new());
        let work = |name: char, place: Place, steps: &[u64]| {
            place.begin();
            for step in steps {
                log.lock().push((name, host.now().since(VirtualTime::ZERO)));
                host.rests(ns(*step));
                place.pass();
            }
        };
        std::thread::scope(|s| {
            let mut all = places.into_iter().zip([('a', vec![10, 10, 10]), ('b', vec![25, 1])]);
            all.by_ref().for_each(|(place, (name, steps))| {
                let work = &work;
                s.spawn(move || work(name, place, &steps));
            });
        });
        let expected = [('a', 5), ('b', 5), ('a', 15), ('a', 25), ('b', 30)].map(|(n, t)| (n, ns(t)));
        assert_eq!(log.into_inner(), expected);
    }
}
