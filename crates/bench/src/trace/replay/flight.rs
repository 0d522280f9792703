//! The requests in flight, by tag.
//!
//! ```text
//!   tag: │ generation (32 bits) │ slot (32 bits) │      a slot is used again under its next generation,
//!                                                       so a second completion of a request names nothing
//! ```

use super::super::{Op, Request, TraceTime};
use super::{ReplayError, Tag};

/// The most missing requests that an error names.
const NAMED_MAX: usize = 8;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) line: u64,
    pub(super) op: Op,
    pub(super) len: u64,
    /// When it arrived at the host.
    pub(super) arrival: TraceTime,
    /// When it was submitted to the device.
    pub(super) submitted: TraceTime,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    request: Option<InFlight>,
}

/// All requests in flight.
#[derive(Default)]
pub(super) struct Flight {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Flight {
    /// The number of requests in flight.
    pub(super) fn count(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Adds a request.
    pub(super) fn add(&mut self, request: &Request, arrival: TraceTime, submitted: TraceTime) -> Tag {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        let &Request { op, len, line, .. } = request;
        slot.request = Some(InFlight { line, op, len, arrival, submitted });
        Tag(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// Removes a request, if it is in flight.
    pub(super) fn end(&mut self, tag: Tag) -> Option<InFlight> {
        let index = tag.0 as u32;
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation != (tag.0 >> 32) as u32 {
            return None;
        }
        let ended = slot.request.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        Some(ended)
    }

    /// The error that names the requests that never completed.
    pub(super) fn missing(&self) -> ReplayError {
        let mut lines: Vec<u64> = self.slots.iter().filter_map(|s| s.request).map(|r| r.line).collect();
        lines.sort_unstable();
        let count = lines.len() as u64;
        lines.truncate(NAMED_MAX);
        ReplayError::Missing { count, lines }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_once_under_its_tag() {
        let mut flight = Flight::default();
        let add = |flight: &mut Flight, line| {
            let request = Request { at: TraceTime::ZERO, op: Op::Read, offset: 0, len: 1, line };
            flight.add(&request, TraceTime::ZERO, TraceTime::ZERO)
        };
        let (a, b) = (add(&mut flight, 1), add(&mut flight, 2));
        assert_eq!(flight.end(a).map(|r| r.line), Some(1));
        assert!(flight.end(a).is_none());
        let c = add(&mut flight, 3);
        assert!(flight.end(a).is_none() && c != a, "the slot is used again, the tag is not");
        assert_eq!(flight.count(), 2);
        assert_eq!(flight.missing().to_string(), "2 requests never completed: of lines 2, 3");
        assert!(flight.end(Tag(99)).is_none());
        assert_eq!((flight.end(b).map(|r| r.line), flight.end(c).map(|r| r.line)), (Some(2), Some(3)));
        assert_eq!(flight.count(), 0);
    }
}
