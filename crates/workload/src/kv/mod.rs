//! Races of key-value stores: all stores do the same work, one after the other, round by round.
//!
//! | case | work | unit |
//! |---|---|---|
//! | A random | batches of some 1 MiB, of random pages of 64 to 3,760 bytes | pages | | A in turn | such batches, of
//! consecutive pages in a cycle | pages | | B | 512 operations a commit; 95 of 100 write a record, the others read
//! one; records by Zipf's law with 0.99 | operations |
//! | C | reads of a record at random, all cached, on 1 and on 2 threads | reads |
//! | D | all records in order, on one thread | MB |
//! | E | commits of one record of 100 bytes at random, on 1 and on 8 threads | commits |
//!
//! ```text
//!   round: store 1: slice ─► settle (the remaining background work) ─► disk counted | store 2: ... | store 1 again ...
//! ```
//!
//! Every commit is durable when it returns. Rates include the time in which a store settles; `burst` does not. Pages
//! are compressed TPC-C pages of 4 KB (ELEOS, Table II). The records of case B are those of YCSB, of 1,000 bytes.

mod contest;
mod device;
mod pages;
mod plain;
mod race;
mod report;

pub use contest::{Contest, Contestant, Done};
pub use device::DeviceContest;
pub use pages::{BATCH_PAGES, Order, PageBatches};
pub use plain::plain;
pub use race::{Entry, Plan, Row, Space, race, recycle};
pub use report::{Options, run, table};

use serde::Serialize;

/// A case of the races.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// Batches of random pages.
    PagesRandom,
    /// Batches of consecutive pages.
    PagesInTurn,
    /// Updates and reads by Zipf's law.
    Zipf,
    /// Point reads on this many threads.
    Reads(u16),
    /// A scan.
    Scan,
    /// Durable commits on this many threads.
    Commits(u16),
}

impl Case {
    /// All cases, in groups. The cases of a group use the same store, one after the other.
    pub const GROUPS: [&'static [Self]; 3] = [
        &[Self::PagesInTurn, Self::PagesRandom],
        &[Self::Zipf, Self::Reads(1), Self::Reads(2), Self::Scan],
        &[Self::Commits(1), Self::Commits(8)],
    ];

    /// Its letter.
    pub const fn letter(self) -> char {
        match self {
            Self::PagesRandom | Self::PagesInTurn => 'A',
            Self::Zipf => 'B',
            Self::Reads(_) => 'C',
            Self::Scan => 'D',
            Self::Commits(_) => 'E',
        }
    }

    /// Parses letters of cases into capitals. No letters stand for all cases.
    ///
    /// # Errors
    /// A message with the letters that exist.
    pub fn parse_letters(text: &str) -> Result<String, String> {
        let letters = text.to_ascii_uppercase();
        let is_one = |c: char| Self::GROUPS.concat().iter().any(|case| case.letter() == c);
        match letters.chars().all(is_one) {
            true => Ok(letters),
            false => Err("cases are letters from A to E, such as AB".into()),
        }
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Self::PagesRandom => "A pages at random".into(),
            Self::PagesInTurn => "A pages in turn".into(),
            Self::Zipf => "B zipf, 95 % updates".into(),
            Self::Reads(n) => format!("C reads, threads: {n}"),
            Self::Scan => "D scan".into(),
            Self::Commits(n) => format!("E commits, threads: {n}"),
        }
    }

    /// The unit of its amount.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::PagesRandom | Self::PagesInTurn => "pages",
            Self::Zipf => "operations",
            Self::Reads(_) => "reads",
            Self::Scan => "MB",
            Self::Commits(_) => "commits",
        }
    }

    /// Whether it writes.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Reads(_) | Self::Scan)
    }
}

/// The amounts of data.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sizes {
    /// The pages of case A.
    pub pages: u64,
    /// The records of cases B to D.
    pub records: u64,
    /// The bytes of such a record.
    pub record_bytes: u32,
    /// The records of case E.
    pub small_records: u64,
}

impl Sizes {
    /// Sizes with about this many bytes of pages, and as many of records.
    pub const fn of_bytes(bytes: u64) -> Self {
        let record_bytes = 1000;
        Self {
            pages: bytes / pages::PAGE_BYTES_MEAN,
            records: bytes / record_bytes as u64,
            record_bytes,
            small_records: 100_000,
        }
    }
}

#[cfg(test)]
mod tests;
