//! Planted faults: bugs that a test must find, one at a time. A crate lists its own with [`planted_faults!`], and they
//! are compiled in with its feature `planted` alone, for tests; without it every hook is `if false`.
//!
//! ```text
//!   test: plant(fault) ─► simulate seeds until one fails        crate: if planted::is(Planted::X) { the bug }
//! ```
//!
//! A hook is at the place of the bug, around one call that it leaves out (`unless`) or replaces (`instead`). A fault
//! is planted for one thread, so that tests on other threads are not affected. Source: mutation testing (DeMillo,
//! Lipton, Sayward, 1978), with mutants chosen by hand.

/// Lists the faults of a crate with a feature `planted`. It defines the enum `Planted`, the function `plant`, and
/// `unless`, `instead` and `is` for the hooks.
#[macro_export]
macro_rules! planted_faults {
    ($($name:ident: $about:literal,)*) => {
        /// A fault that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(feature = "planted"), allow(unreachable_pub))]
        pub enum Planted {
            $(#[doc = $about] $name,)*
        }

        #[cfg(feature = "planted")]
        impl Planted {
            /// All faults, and what each breaks.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, $about)),*];
        }

        #[cfg(feature = "planted")]
        thread_local! {
            static CURRENT: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
        }

        /// Plants a fault for this thread, and removes the one before.
        #[cfg(feature = "planted")]
        pub fn plant(fault: Option<Planted>) {
            CURRENT.set(fault);
        }

        /// Whether this fault is planted.
        #[cfg(feature = "planted")]
        pub(crate) fn is(fault: Planted) -> bool {
            CURRENT.get() == Some(fault)
        }

        /// Nothing is planted.
        #[cfg(not(feature = "planted"))]
        pub(crate) const fn is(_: Planted) -> bool {
            false
        }

        /// Makes a call, unless this fault is planted.
        #[inline]
        #[allow(dead_code)]
        pub(crate) fn unless(fault: Planted, call: impl FnOnce()) {
            if !is(fault) {
                call();
            }
        }

        /// Makes a call; or another one, if this fault is planted.
        #[inline]
        #[allow(dead_code)]
        pub(crate) fn instead<T>(
            fault: Planted,
            right: impl FnOnce() -> T,
            wrong: impl FnOnce() -> T,
        ) -> T {
            if is(fault) { wrong() } else { right() }
        }
    };
}
