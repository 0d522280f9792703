//! Counts how many transactions were open at the same time, at any moment since one of them began.
//!
//! ```text
//!   enter  enter  leave  enter  leave  leave
//!     1      2      1      2      1      0        the most since the third moment: 2
//! ```

/// The moment at which a transaction began.
pub(crate) type Moment = usize;

/// The number of open transactions at each moment.
#[derive(Default)]
pub(crate) struct Crowd {
    /// The number of open transactions after each begin and each end.
    open: Vec<usize>,
}

impl Crowd {
    /// Records the begin of a transaction and returns the moment.
    pub(crate) fn enter(&mut self) -> Moment {
        self.open.push(self.now() + 1);
        self.open.len() - 1
    }

    /// Records the end of a transaction.
    pub(crate) fn leave(&mut self) {
        let left = self.now().checked_sub(1).expect("each transaction that ends has begun");
        self.open.push(left);
    }

    /// Open transactions.
    fn now(&self) -> usize {
        self.open.last().copied().unwrap_or(0)
    }

    /// The maximum of open transactions since this moment.
    pub(crate) fn most_since(&self, began: Moment) -> usize {
        self.open[began..].iter().copied().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_ended_since_count_and_those_before_do_not() {
        let mut crowd = Crowd::default();
        (0..3).for_each(|n| assert_eq!(crowd.enter(), n));
        (0..3).for_each(|_| crowd.leave());
        let began = crowd.enter();
        assert_eq!(crowd.most_since(began), 1, "the three ended before");
        crowd.enter();
        crowd.enter();
        crowd.leave();
        crowd.leave();
        assert_eq!((crowd.now(), crowd.most_since(began)), (1, 3), "the two ended since");
    }
}
