//! Traces: files of requests to a block device, and their replay.
//!
//! ```text
//!   file ─► lines ─► msr | blkparse | iolog | own ─► check ─┐
//!   seed ─► synthetic ──────────────────────────────────────┴─► Request ─► replay ─► Target
//! ```
//!
//! A trace is read during the replay and never held in memory. Its requests satisfy: time never goes back; a read,
//! write or trim has a length and ends within the address space (and within the capacity, if one is given); a flush
//! has neither offset nor length. A line that violates this, or cannot be parsed, is an error that names the line.
//!
//! Offsets past the capacity can be folded into it ([`Options::wrap`]).
//!
//! Equal time stamps are allowed in every format. Each format counts in ticks (100 ns, 1 ns, 1 us), and requests of
//! the same tick are in the order of their lines. Time stamps that go back are an error. They are not sorted, because
//! a trace that is not in order was cut or merged, and sorting it would need the whole trace in memory.

mod blkparse;
mod check;
mod error;
mod fields;
mod format;
mod iolog;
mod lines;
pub mod modelled;
mod msr;
mod own;
mod read;
pub mod replay;
mod request;
pub mod synthetic;
#[cfg(test)]
mod tests;

pub use check::TRANSFER_BYTES_MAX;
pub use error::{Fault, TraceError};
pub use format::{Action, Format, Options};
pub use own::Writer;
pub use read::Trace;
pub use request::{Op, Request, TraceTime};

/// All formats. A new format needs a file and a line here.
pub static FORMATS: [Format; 4] = [
    Format {
        name: "lode",
        about: "our own: time in ps, operation, offset and length in bytes",
        recognises: own::recognises,
        stamped: |_| true,
        parser: |_| Box::new(own::Own::default()),
    },
    Format {
        name: "iolog",
        about: "fio's write_iolog, versions 2 and 3",
        recognises: iolog::recognises,
        stamped: iolog::is_stamped,
        parser: |o| Box::new(iolog::Iolog::new(o)),
    },
    Format {
        name: "msr",
        about: "MSR-Cambridge CSV",
        recognises: msr::recognises,
        stamped: |_| true,
        parser: |o| Box::new(msr::Msr::new(o)),
    },
    Format {
        name: "blkparse",
        about: "blkparse's default text output",
        recognises: blkparse::recognises,
        stamped: |_| true,
        parser: |o| Box::new(blkparse::Blkparse::new(o)),
    },
];

impl Format {
    /// The format with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|f| f.name == name)
    }
}

fn format_names() -> String {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}
