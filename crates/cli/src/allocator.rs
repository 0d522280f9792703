//! The allocator of the process, and how it keeps to a limit of memory.
//!
//! mimalloc has pages for each size and each thread. Where threads free what others allocated, as frames of trees that one commits
//! and another evicts, many pages are neither full nor empty, and what is resident grows to twice what is in use.

use std::ffi::c_long;

use libmimalloc_sys::mi_option_t;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Milliseconds that memory is kept for which nobody uses: a second by default. The number is that of mimalloc 3.
const PURGE_DELAY: mi_option_t = 15;
/// A thread looks for what others freed of its memory once in so many allocations that find none at hand: 10,000 by default.
const GENERIC_COLLECT: mi_option_t = 34;
/// A thread that frees into one of its pages that is full takes it back, unless it has so many of that size: without limit by
/// default. Where eviction frees a value here and a value there, each thread had hundreds of pages with few gaps, and took new
/// memory beside them.
const PAGE_MAX_RECLAIM: mi_option_t = 41;

/// For a process that has a limit: memory goes back to the system at once, and is looked for earlier. One that has none is
/// better off to keep it. Called before there are other threads.
pub(crate) fn keep_to_a_limit() {
    set(PURGE_DELAY, 0);
    set(GENERIC_COLLECT, 500);
    set(PAGE_MAX_RECLAIM, 64);
    without_huge_pages();
}

#[allow(unsafe_code)]
fn set(option: mi_option_t, value: c_long) {
    // SAFETY: it stores a number where mimalloc reads it, after a check that there is such an option; no other thread is there
    // that could read it meanwhile.
    unsafe { libmimalloc_sys::mi_option_set(option, value) }
}

/// Has the system give this process pages one by one: the allocator asks for huge ones, of 2 MB, which are resident whole
/// however little is in them.
fn without_huge_pages() {
    #[cfg(target_os = "linux")]
    // Where the system does not know that, it is as it was.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(unsafe_code)]
    fn get(option: mi_option_t) -> c_long {
        // SAFETY: it reads a number, after a check that there is such an option.
        unsafe { libmimalloc_sys::mi_option_get(option) }
    }

    #[test]
    fn the_numbers_are_those_of_the_options() {
        // Another version of mimalloc may have others.
        let options = || (get(PURGE_DELAY), get(GENERIC_COLLECT), get(PAGE_MAX_RECLAIM));
        assert_eq!(options(), (1000, 10_000, -1));
        keep_to_a_limit();
        assert_eq!(options(), (0, 500, 64));
    }
}
