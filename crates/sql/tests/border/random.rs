//! Signed numbers and choices from a seeded [`Random`], so that one seed replays a whole test.

pub(crate) use lode_base::random::Random;

pub(crate) trait Choices {
    /// A number from `low` to `high`, both included.
    fn signed(&mut self, low: i64, high: i64) -> i64;

    /// One of these, of which there is at least one.
    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T;
}

impl Choices for Random {
    fn signed(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as u64) as i64
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        self.pick(of).expect("there is something to choose")
    }
}
