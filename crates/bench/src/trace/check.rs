//! What holds of the requests of every trace, whatever its format.
//!
//! ```text
//!   time never goes back ─► a length that some device could take ─► an end within the device
//! ```

use super::{Fault, Op, Request, TraceTime};

/// The most bytes that one read or write may have: 1 GiB, four times what an NVMe command can move in blocks of 4 KB
/// (65,536 of them). More is a file in another unit or format. A trim may be as long as the device.
pub const TRANSFER_BYTES_MAX: u64 = 1 << 30;

/// Checks requests in the order of the trace.
pub(super) struct Check {
    before: TraceTime,
    capacity: Option<u64>,
}

impl Check {
    pub(super) fn new(capacity: Option<u64>) -> Self {
        Self { before: TraceTime::ZERO, capacity }
    }

    /// Whether a request may follow those before it.
    pub(super) fn next(&mut self, r: &Request) -> Result<(), Fault> {
        if r.at < self.before {
            return Err(Fault::Unsorted { at: r.at, before: self.before });
        }
        self.before = r.at;
        if r.op == Op::Flush {
            assert_eq!((r.offset, r.len), (0, 0), "a flush is of all");
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
            "a length of 1073741825 bytes: more than the 1073741824 that a request may have"
        );
    }
}
