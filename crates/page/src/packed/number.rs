//! A number of a column in memory, as packed numbers are added to.

use bytemuck::Pod;

/// A number as a column has it in memory: 2, 4, 8 or 16 bytes.
pub trait Number: Pod {
    /// The low bits of a number.
    fn of(v: i128) -> Self;

    /// The number so much greater; it wraps.
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
