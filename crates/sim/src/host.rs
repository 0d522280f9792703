//! The host of a drive. It runs one command to its end, or several in one queue.

use lode_base::VirtualTime;
use lode_command::{Command, CommandError, Completion, Device, Outcome, Queue, Reply, ScanUnit, Tag, Until};

use crate::failure::{FailureKind, Wrong, wrong};

/// The final answers of commands, in the order of their completion.
pub(crate) type Answers = Vec<(Tag, Result<Reply, CommandError>)>;

/// Runs one command to its end.
pub(crate) fn run(device: &dyn Device, c: Command) -> Result<Result<Reply, CommandError>, Wrong> {
    let mut q = open_queue(device, 1)?;
    submit(&mut *q, c)?;
    let mut answers = Vec::new();
    complete(&mut *q, 1, |_, answer| answers.push(answer))?;
    Ok(answers.pop().expect("one command was submitted"))
}

/// Opens a queue of this depth, or of the drive's maximum.
pub(crate) fn open_queue(device: &dyn Device, depth: usize) -> Result<Box<dyn Queue>, Wrong> {
    let depth = (depth as u32).clamp(1, device.identity().queue_depth_max);
    device.open_queue(depth).map_err(|e| Wrong { kind: FailureKind::Answer, what: e.to_string() })
}

pub(crate) fn submit(q: &mut dyn Queue, c: Command) -> Result<Tag, Wrong> {
    match q.submit(VirtualTime::ZERO, c) {
        Ok(tag) => Ok(tag),
        Err(_) => wrong(FailureKind::Answer, "a queue that is not full refused a command"),
    }
}

/// Completes until `count` commands have ended. Checks that each ends once.
pub(crate) fn complete(
    q: &mut dyn Queue,
    count: usize,
    mut ended: impl FnMut(Tag, Result<Reply, CommandError>),
) -> Result<(), Wrong> {
    let mut seen = Vec::new();
    while seen.len() < count {
        for c in one(q)? {
            match c.outcome {
                Outcome::Done(answer) if !seen.contains(&c.tag) => {
                    seen.push(c.tag);
                    ended(c.tag, answer);
                }
                Outcome::Done(_) => return wrong(FailureKind::Answer, "a command ended twice"),
                Outcome::Unit(_) => return wrong(FailureKind::Answer, "a unit of no scan"),
            }
        }
    }
    Ok(())
}

/// Runs a scan and returns its units and its final answer. The host cancels the scan after `cancel_after` units.
pub(crate) fn scan(
    device: &dyn Device,
    c: Command,
    cancel_after: Option<usize>,
) -> Result<(Vec<ScanUnit>, Result<Reply, CommandError>), Wrong> {
    let mut q = open_queue(device, 1)?;
    let tag = submit(&mut *q, c)?;
    let mut units = Vec::new();
    loop {
        if cancel_after == Some(units.len()) {
            q.cancel(tag);
        }
        for c in one(&mut *q)? {
            match c.outcome {
                Outcome::Unit(unit) => units.push(unit),
                Outcome::Done(answer) => return Ok((units, answer)),
            }
        }
    }
}

fn one(q: &mut dyn Queue) -> Result<Vec<Completion>, Wrong> {
    let mut out = Vec::new();
    q.complete(VirtualTime::ZERO, Until::One, &mut out)
        .map_err(|e| Wrong { kind: FailureKind::Answer, what: e.to_string() })?;
    if out.is_empty() {
        return wrong(FailureKind::Answer, "a command never ends");
    }
    Ok(out)
}
