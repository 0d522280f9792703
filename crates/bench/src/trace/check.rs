//! The checks of every request, whatever the trace's format.
//!
//! ```text
//!   time never goes back ─► a length that some device could take ─► an end within the device
//! ```

use super::error::Fault;
use super::request::{Op, Request, TraceTime};

/// The largest read or write: 1 GiB, four times the largest NVMe command with blocks of 4 KB (65,536 blocks). A
/// longer one means that the file has another unit or format. A trim may be as long as the device.
pub const TRANSFER_BYTES_MAX: u64 = 1 << 30;

/// Checks requests in the order of the trace.
pub(super) struct Check {
    before: TraceTime,
    capacity: Option<u64>,
    wrap: bool,
}

impl Check {
    pub(super) fn new(capacity: Option<u64>) -> Self {
        Self { before: TraceTime::ZERO, capacity, wrap: false }
    }

    /// Sets whether requests past the capacity are folded back into it.
    pub(super) fn wrapping(self, wrap: bool) -> Self {
        Self { wrap, ..self }
    }

    /// Folds a request into the capacity, if that was asked for. A request longer than the capacity stays unchanged
    /// and is refused.
    pub(super) fn fold(&self, r: &mut Request) {
        let Some(capacity) = self.capacity.filter(|c| self.wrap && r.len <= *c) else { return };
        if r.offset.checked_add(r.len).is_some_and(|end| end > capacity) {
            r.offset = (r.offset % capacity).min(capacity - r.len);
        }
    }

    /// Checks a request that follows those before it.
    pub(super) fn next(&mut self, r: &Request) -> Result<(), Fault> {
        if r.at < self.before {
            return Err(Fault::Unsorted { at: r.at, before: self.before });
        }
        self.before = r.at;
        if r.op == Op::Flush {
            assert_eq!((r.offset, r.len), (0, 0), "a flush has no range");
            return Ok(());
        }
        if r.len == 0 {
            return Err(Fault::ZeroLength);
        }
        if r.op != Op::Trim && r.len > TRANSFER_BYTES_MAX {
            return Err(Fault::TooLong { bytes: r.len, max: TRANSFER_BYTES_MAX });
        }
        let end = r.offset.checked_add(r.len).ok_or(Fault::PastAll { offset: r.offset, len: r.len })?;
        match self.capacity {
            Some(capacity) if end > capacity => Err(Fault::PastEnd { end, capacity }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(requests: &[(u64, Op, u64, u64)], capacity: Option<u64>) -> String {
        let mut check = Check::new(capacity);
        for &(at, op, offset, len) in requests {
            let request = Request { at: TraceTime::from_ps(at), op, offset, len, line: 1 };
            if let Err(fault) = check.next(&request) {
                return fault.to_string();
            }
        }
        "good".into()
    }

    #[test]
    fn requests_past_the_end_fold_into_the_capacity_on_demand() {
        let folded = |offset, len| {
            let check = Check::new(Some(8192)).wrapping(true);
            let mut r = Request { at: TraceTime::ZERO, op: Op::Read, offset, len, line: 1 };
            check.fold(&mut r);
            (r.offset, r.len)
        };
        assert_eq!(folded(4096, 4096), (4096, 4096));
        assert_eq!(folded(8192, 4096), (0, 4096));
        assert_eq!(folded(5 * 4096, 1), (4096, 1));
        assert_eq!(folded(4096 + 512, 4096), (4096, 4096), "a request across the end is moved to the end");
        assert_eq!(folded(8192, 8193), (8192, 8193));
        assert_eq!(folded(u64::MAX, 1), (u64::MAX, 1), "a request past the address space is refused later");
        let mut r = Request { at: TraceTime::ZERO, op: Op::Read, offset: 8192, len: 1, line: 1 };
        Check::new(Some(8192)).fold(&mut r);
        assert_eq!(r.offset, 8192, "requests are not folded by default");
    }

    #[test]
    fn requests_are_in_order_and_within_bounds() {
        use Op::{Flush, Read, Trim, Write};
        assert_eq!(check(&[(5, Read, 0, 1), (5, Write, 0, 1), (6, Flush, 0, 0)], None), "good");
        assert_eq!(
            check(&[(5, Read, 0, 1), (4, Read, 0, 1)], None),
            "time goes back: 0.000000000004 s after 0.000000000005 s (the trace is not sorted)"
        );
        for op in [Read, Write, Trim] {
            assert_eq!(check(&[(0, op, 0, 0)], None), "the length is zero");
            assert_eq!(check(&[(0, op, 4096, 4096)], Some(8192)), "good");
            let past = check(&[(0, op, 4097, 4096)], Some(8192));
            assert_eq!(past, "the request ends at byte 8193, past the device's 8192");
            assert!(check(&[(0, op, u64::MAX, 1)], None).contains("past 2^64"));
        }
        assert_eq!(check(&[(0, Read, 0, 1 << 30), (0, Trim, 0, u64::MAX)], None), "good");
        assert_eq!(
            check(&[(0, Write, 0, (1 << 30) + 1)], None),
            "a length of 1073741825 bytes is more than a request may have (1073741824)"
        );
    }
}
