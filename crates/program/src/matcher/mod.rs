//! The pattern matcher: up to three keys that the hardware of a channel looks for in the bytes of a page.
//!
//! ```text
//!   p_size = 15 AND p_type LIKE '%BRASS'                              l_shipdate from 1995-09-01 to 1995-09-30
//!      80 00 00 0F   and   42 52 41 53 53                                8F 97: what both ends begin with
//!
//!   page ─► which keys are in it? ─► the formula of these ─┬─ false: no row passes
//!                                                          └─ true: rows may pass
//! ```
//!
//! The matcher sees bytes and keys. It knows neither columns nor rows, so "both keys" is said of a page: one row may have the
//! first, and another the second. A key may also be found in the field of another column, or across two fields.
//!
//! Invariant: if a row of a page passes the filter, and the page holds the fields of the filter's columns as
//! [`lode_page::matchable`] has them, the formula is true. Source: YourSQL, section 3.1.2.

mod compile;
mod wire;

use lode_base::profile;
use memchr::memmem;

pub use compile::Declined;
pub use wire::{put_matcher, take_matcher};

/// The most keys of a matcher (PM1725, table 3 of the paper).
pub const KEYS_MAX: usize = profile::KEYS_MAX as usize;
/// The most bytes of a key.
pub const KEY_BYTES_MAX: usize = profile::KEY_BYTES_MAX as usize;

/// What a matcher takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most keys: 1 to [`KEYS_MAX`].
    pub keys: u8,
    /// The most bytes of one: 1 to [`KEY_BYTES_MAX`].
    pub key_bytes: u8,
}

impl Limits {
    /// The most that any matcher takes.
    pub const MOST: Self = Self { keys: profile::KEYS_MAX, key_bytes: profile::KEY_BYTES_MAX };
}

/// Keys, and what must be found of them.
#[derive(Clone, Debug)]
pub struct Matcher {
    keys: Vec<memmem::Finder<'static>>,
    /// Bit `h` says whether a page passes in which the keys with a bit in `h` were found.
    passes: u8,
}

impl Matcher {
    /// A matcher of these keys. Bit `h` of `passes` says whether a page passes in which exactly the keys with a bit in `h` are.
    ///
    /// # Errors
    /// A line that says what the hardware does not take.
    pub fn of_keys(keys: &[&[u8]], passes: u8) -> Result<Self, String> {
        if keys.is_empty() || keys.len() > KEYS_MAX {
            return Err(format!("a matcher takes 1 to {KEYS_MAX} keys, not {}", keys.len()));
        }
        if let Some(key) = keys.iter().find(|k| k.is_empty() || k.len() > KEY_BYTES_MAX) {
            return Err(format!("a key of a matcher has 1 to {KEY_BYTES_MAX} bytes, not {}", key.len()));
        }
        let keys = keys.iter().map(|k| memmem::Finder::new(k).into_owned()).collect();
        Ok(Self { keys, passes })
    }

    /// Whether hardware with these limits takes it.
    pub fn is_within(&self, limits: Limits) -> bool {
        self.keys.len() <= limits.keys.into() && self.keys().all(|k| k.len() <= limits.key_bytes.into())
    }

    /// The keys.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(memmem::Finder::needle)
    }

    /// Whether a page that has exactly the keys with a bit in `found` passes.
    pub fn passes_with(&self, found: u8) -> bool {
        self.passes >> found & 1 == 1
    }

    /// Bytes of the matcher in a command.
    pub fn link_bytes(&self) -> usize {
        5 + self.keys().map(|k| 4 + k.len()).sum::<usize>()
    }

    /// Whether rows of a page with these bytes may pass.
    pub fn may_match(&self, page: &[u8]) -> bool {
        let found = self.keys.iter().enumerate();
        let found = found.fold(0, |f, (i, key)| f | u8::from(key.find(page).is_some()) << i);
        self.passes_with(found)
    }
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Self) -> bool {
        self.passes == other.passes && self.keys().eq(other.keys())
    }
}

impl Eq for Matcher {}
