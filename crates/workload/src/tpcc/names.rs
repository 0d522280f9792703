//! The random values of rows and inputs: NURand, last names, texts. Source: TPC-C 5.11, clauses 2.1.6 and 4.3.2.

use crate::random::Random;

/// The syllables of last names.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The last name for a number below 1,000.
pub fn last_name(n: u32) -> String {
    [n / 100, n / 10 % 10, n % 10].iter().map(|i| SYLLABLES[*i as usize % 10]).collect()
}

/// The constants C of NURand, chosen once per run. Source: clause 2.1.6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// For last names in the load.
    pub load: u32,
    /// For last names in inputs.
    pub run: u32,
    /// For customers.
    pub customer: u32,
    /// For items.
    pub item: u32,
}

impl Constants {
    /// The constants of a seed. The two for last names differ as the standard requires.
    pub fn new(seed: u64) -> Self {
        let mut r = Random(seed);
        let load = r.below(256) as u32;
        let run = loop {
            let run = r.below(256) as u32;
            let delta = run.abs_diff(load);
            if (65..=119).contains(&delta) && delta != 96 && delta != 112 {
                break run;
            }
        };
        Self { load, run, customer: r.below(1024) as u32, item: r.below(8192) as u32 }
    }
}

/// Random numbers, texts and the like.
#[derive(Clone, Debug)]
pub struct Dice(pub Random);

impl Dice {
    /// A number from `low` to `high`.
    pub fn range(&mut self, low: u32, high: u32) -> u32 {
        low + self.0.below(u64::from(high - low) + 1) as u32
    }

    /// Returns true with this probability, in percent.
    pub fn percent(&mut self, of_a_hundred: u32) -> bool {
        self.range(1, 100) <= of_a_hundred
    }

    /// NURand(a, low, high) with the constant `c`: some numbers more often than others.
    pub fn skewed(&mut self, a: u32, c: u32, low: u32, high: u32) -> u32 {
        ((self.range(0, a) | self.range(low, high)) + c) % (high - low + 1) + low
    }

    fn of(&mut self, alphabet: &[u8], low: u32, high: u32) -> String {
        let len = self.range(low, high);
        (0..len).map(|_| char::from(alphabet[self.0.below(alphabet.len() as u64) as usize])).collect()
    }

    /// A text of `low` to `high` letters and digits.
    pub fn text(&mut self, low: u32, high: u32) -> String {
        self.of(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", low, high)
    }

    /// A text of `len` digits.
    pub fn digits(&mut self, len: u32) -> String {
        self.of(b"0123456789", len, len)
    }

    /// I_DATA or S_DATA. One of ten contains "ORIGINAL".
    pub fn data(&mut self) -> String {
        const ORIGINAL: &str = "ORIGINAL";
        let mut text = self.text(26, 50);
        if self.percent(10) {
            let at = self.range(0, (text.len() - ORIGINAL.len()) as u32) as usize;
            text.replace_range(at..at + ORIGINAL.len(), ORIGINAL);
        }
        text
    }

    /// 24 letters and digits.
    pub fn dist(&mut self) -> [u8; 24] {
        self.text(24, 24).as_bytes().try_into().expect("24 bytes")
    }

    /// Numbers from 1 to `n` in a random order.
    pub fn permutation(&mut self, n: u32) -> Vec<u32> {
        let mut all: Vec<u32> = (1..=n).collect();
        self.0.shuffle(&mut all);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_the_standard_s() {
        assert_eq!((last_name(371), last_name(40)), ("PRICALLYOUGHT".into(), "BARPRESBAR".into()));
        assert_eq!(last_name(999), "EINGEINGEING");
    }

    #[test]
    fn skewed_numbers_stay_within_their_range_and_are_skewed() {
        let mut dice = Dice(Random(1));
        let mut met = [0u32; 3001];
        (0..300_000).for_each(|_| met[dice.skewed(1023, 5, 1, 3000) as usize] += 1);
        assert_eq!(met[0], 0);
        let most = *met.iter().max().unwrap();
        assert!(most > 300, "an even distribution has 100: {most}");
        assert!((0..1000).all(|_| (1..=30).contains(&dice.skewed(1023, 200, 1, 30))));
    }

    #[test]
    fn constants_differ_as_they_must() {
        for seed in 0..100 {
            let c = Constants::new(seed);
            let delta = c.load.abs_diff(c.run);
            assert!((65..=119).contains(&delta) && delta != 96 && delta != 112, "{c:?}");
        }
    }

    #[test]
    fn texts_are_as_long_as_asked_and_one_in_ten_is_original() {
        let mut dice = Dice(Random(2));
        let all: Vec<String> = (0..10_000).map(|_| dice.data()).collect();
        assert!(all.iter().all(|t| (26..=50).contains(&t.len())));
        let original = all.iter().filter(|t| t.contains("ORIGINAL")).count();
        assert!((850..1150).contains(&original), "{original}");
        let mut p = dice.permutation(100);
        p.sort_unstable();
        assert!(p.into_iter().eq(1..=100));
    }
}
