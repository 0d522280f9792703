//! The inputs of terminals. Source: TPC-C 5.11, clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1 and 5.2.4.2.

use super::Sizes;
use super::names::{Constants, Dice, last_name};
use super::rows::{C, D, I, W};
use crate::random::Random;

/// A transaction with its input.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum Input {
    NewOrder { w: W, d: D, c: C, date: i64, items: Vec<Ordered> },
    Payment { w: W, d: D, c_w: W, c_d: D, who: Who, amount: i64, date: i64, terminal: u16 },
    OrderStatus { w: W, d: D, who: Who },
    Delivery { w: W, carrier: u8, date: i64 },
    StockLevel { w: W, d: D, threshold: i16 },
}

/// An ordered item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// The item. If it does not exist, the order is rolled back.
    pub i: I,
    /// The warehouse that supplies it.
    pub supply_w: W,
    /// The quantity.
    pub quantity: u8,
}

/// A customer, by number or by last name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the type says it")]
pub enum Who {
    Number(C),
    Name(String),
}

/// The number of cards of each kind in a deck of 23, in the order of [`Input`]. Source: clause 5.2.4.2.
const DECK: [u8; 5] = [10, 10, 1, 1, 1];

/// Generates the inputs of a terminal.
pub struct Inputs {
    sizes: Sizes,
    constants: Constants,
    dice: Dice,
    terminal: u16,
    home: W,
    /// The district of Stock-Level.
    district: D,
    deck: Vec<u8>,
    date: i64,
}

impl Inputs {
    /// The inputs of a terminal. `seed` is that of the load; `run` differs for each run.
    pub fn new(sizes: Sizes, seed: u64, run: u64, terminal: u16) -> Self {
        let mut r = Random(seed ^ run.rotate_left(32) ^ u64::from(terminal) << 48);
        let home = terminal % sizes.warehouses + 1;
        let district = (terminal / sizes.warehouses % u16::from(sizes.districts)) as D + 1;
        let dice = Dice(Random(r.next_u64()));
        let constants = Constants::new(seed);
        Self { sizes, constants, dice, terminal, home, district, deck: Vec::new(), date: 0 }
    }

    /// The next input. Its date is `now`, or later if the clock did not advance: the dates of a terminal's inputs
    /// always increase.
    pub fn next(&mut self, now: i64) -> Input {
        self.date = now.max(self.date + 1);
        match self.card() {
            0 => self.new_order(),
            1 => self.payment(),
            2 => Input::OrderStatus { w: self.home, d: self.any_district(), who: self.who() },
            3 => Input::Delivery { w: self.home, carrier: self.dice.range(1, 10) as u8, date: self.date },
            _ => {
                let threshold = self.dice.range(10, 20) as i16;
                Input::StockLevel { w: self.home, d: self.district, threshold }
            }
        }
    }

    fn card(&mut self) -> u8 {
        if self.deck.is_empty() {
            let cards: Vec<u8> =
                (0..).zip(DECK).flat_map(|(k, n)| std::iter::repeat_n(k, n.into())).collect();
            let order = self.dice.permutation(cards.len() as u32);
            self.deck.extend(order.into_iter().map(|i| cards[i as usize - 1]));
        }
        self.deck.pop().expect("it was just filled")
    }

    fn any_district(&mut self) -> D {
        self.dice.range(1, self.sizes.districts.into()) as D
    }

    fn any_customer(&mut self) -> C {
        self.dice.skewed(1023, self.constants.customer, 1, self.sizes.customers.into()) as C
    }

    /// Six of ten customers are named by last name.
    fn who(&mut self) -> Who {
        if !self.dice.percent(60) {
            return Who::Number(self.any_customer());
        }
        // With fewer customers than names, only the first names exist.
        let names = u32::from(self.sizes.customers).min(1000);
        Who::Name(last_name(self.dice.skewed(255, self.constants.run, 0, names - 1)))
    }

    /// A warehouse other than the terminal's, if there is one.
    fn another(&mut self) -> W {
        match u32::from(self.sizes.warehouses) {
            1 => self.home,
            n => {
                let w = self.dice.range(1, n - 1) as W;
                if w >= self.home { w + 1 } else { w }
            }
        }
    }

    fn new_order(&mut self) -> Input {
        let (d, c) = (self.any_district(), self.any_customer());
        let count = self.dice.range(5, 15);
        let rolls_back = self.dice.percent(1);
        let item = |n: u32| {
            let i = self.dice.skewed(8191, self.constants.item, 1, self.sizes.items);
            let supply_w = if self.dice.percent(1) { self.another() } else { self.home };
            let quantity = self.dice.range(1, 10) as u8;
            let i = if rolls_back && n == count { self.sizes.items + 1 } else { i };
            Ordered { i, supply_w, quantity }
        };
        let items = (1..=count).map(item).collect();
        Input::NewOrder { w: self.home, d, c, date: self.date, items }
    }

    fn payment(&mut self) -> Input {
        let d = self.any_district();
        let (c_w, c_d) = match self.dice.percent(85) {
            true => (self.home, d),
            false => (self.another(), self.any_district()),
        };
        let (who, amount) = (self.who(), i64::from(self.dice.range(100, 500_000)));
        Input::Payment { w: self.home, d, c_w, c_d, who, amount, date: self.date, terminal: self.terminal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(sizes: Sizes, count: u32) -> Vec<Input> {
        let mut all = Inputs::new(sizes, 1, 2, 3);
        (0..count).map(|_| all.next(5)).collect()
    }

    #[test]
    fn the_mix_and_the_shares_are_the_standard_s() {
        let all = inputs(Sizes::standard(4), 46_000);
        let share = |f: &dyn Fn(&Input) -> bool| all.iter().filter(|i| f(i)).count();
        assert_eq!(share(&|i| matches!(i, Input::NewOrder { .. })), 20_000);
        assert_eq!(share(&|i| matches!(i, Input::Payment { .. })), 20_000);
        assert_eq!(share(&|i| matches!(i, Input::Delivery { .. })), 2000);
        let remote = share(&|i| matches!(i, Input::Payment { w, c_w, .. } if w != c_w));
        assert!((2700..3300).contains(&remote), "{remote}");
        let named = share(&|i| matches!(i, Input::Payment { who: Who::Name(_), .. }));
        assert!((11_600..12_400).contains(&named), "{named}");
        let rolled =
            share(&|i| matches!(i, Input::NewOrder { items, .. } if items.iter().any(|i| i.i == 100_001)));
        assert!((140..260).contains(&rolled), "{rolled}");
        let (mut lines, mut remote) = (0, 0);
        for i in &all {
            if let Input::NewOrder { w, items, .. } = i {
                assert!((5..=15).contains(&items.len()));
                lines += items.len();
                remote += items.iter().filter(|o| o.supply_w != *w).count();
            }
        }
        assert!((195_000..205_000).contains(&lines) && (lines / 120..lines / 85).contains(&remote));
    }

    #[test]
    fn dates_of_a_terminal_grow_and_small_sizes_work() {
        let sizes = Sizes { warehouses: 1, districts: 2, customers: 5, items: 10 };
        let mut last = 0;
        for input in inputs(sizes, 2000) {
            match input {
                Input::Payment { date, c_w, .. } => {
                    assert!(date > last);
                    last = date;
                    assert_eq!(c_w, 1);
                }
                Input::NewOrder { d, c, .. } => assert!((1..=2).contains(&d) && (1..=5).contains(&c)),
                _ => {}
            }
        }
        assert_eq!(inputs(sizes, 100), inputs(sizes, 100));
    }
}
