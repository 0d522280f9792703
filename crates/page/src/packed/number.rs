//! The integers that packed numbers are unpacked to.

use bytemuck::Pod;

/// A number of a column in memory: 2, 4, 8 or 16 bytes. Codes of a dictionary may also take 1 byte.
pub trait Number: Pod {
    /// Returns the low bits of `v`.
    fn of(v: i128) -> Self;

    /// Returns the sum of the number and `offset`. The addition wraps.
    fn plus(self, offset: u64) -> Self;
}

macro_rules! number {
    ($($t:ty)*) => { $(impl Number for $t {
        #[inline]
        fn of(v: i128) -> Self {
            v as $t
        }

        #[inline]
        fn plus(self, offset: u64) -> Self {
            self.wrapping_add(offset as $t)
        }
    })* };
}
number!(u8 u16 u32 u64 i16 i32 i64 i128);
