//! The allocator of the process, and its settings for a limit of memory.
//!
//! mimalloc has separate pages for each size and each thread. If a thread frees memory that another allocated, such
//! as a tree's frame that one thread commits and another evicts, many pages end up neither full nor empty. Resident
//! memory then grows to twice the memory in use.

use std::ffi::c_long;

use libmimalloc_sys::mi_option_t;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The option for the milliseconds for which unused memory is kept: a second by default. These constants are the
/// numbers of the options in mimalloc 3.
const PURGE_DELAY: mi_option_t = 15;
/// The option for how often a thread collects the memory that others freed for it: once in this many allocations that
/// find no free block. The default is 10,000.
const GENERIC_COLLECT: mi_option_t = 34;
/// The option for how many pages of a size a thread may reclaim. A thread that frees into an abandoned full page
/// reclaims the page, by default without limit. With scattered frees by eviction, each thread then had hundreds of
/// pages with few gaps, and took new memory in addition.
const PAGE_MAX_RECLAIM: mi_option_t = 41;

/// A limit of memory below this one is to be kept, rather than one that a command has by default.
const SMALL_LIMIT_BYTES: u64 = 1_000_000_000;

/// Sets up the allocator if a limit of memory is small. Must be called before other threads start.
pub(crate) fn keep_to_small_limit(bytes: u64) {
    if bytes < SMALL_LIMIT_BYTES {
        keep_to_a_limit();
    }
}

/// Sets up the allocator for a process with a limit of memory: unused memory goes back to the system at once, and
/// threads collect more often. A process without a limit is faster if it keeps memory. Must be called before other
/// threads start.
pub(crate) fn keep_to_a_limit() {
    set(PURGE_DELAY, 0);
    set(GENERIC_COLLECT, 500);
    set(PAGE_MAX_RECLAIM, 64);
    without_huge_pages();
}

#[allow(unsafe_code)]
fn set(option: mi_option_t, value: c_long) {
    // SAFETY: the function checks that the option exists and stores a number. No other thread exists yet that could
    // read it at the same time.
    unsafe { libmimalloc_sys::mi_option_set(option, value) }
}

/// Turns off huge pages for this process. The allocator asks for huge pages of 2 MB, and such a page is resident as a
/// whole even if little of it is used.
fn without_huge_pages() {
    #[cfg(target_os = "linux")]
    // A system that does not support this call keeps its behaviour.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(unsafe_code)]
    fn get(option: mi_option_t) -> c_long {
        // SAFETY: the function checks that the option exists and reads a number.
        unsafe { libmimalloc_sys::mi_option_get(option) }
    }

    #[test]
    fn the_numbers_are_those_of_the_options() {
        // Another version of mimalloc may have other numbers.
        let options = || (get(PURGE_DELAY), get(GENERIC_COLLECT), get(PAGE_MAX_RECLAIM));
        assert_eq!(options(), (1000, 10_000, -1));
        keep_to_a_limit();
        assert_eq!(options(), (0, 500, 64));
    }
}
