//! Traces: files of requests to a block device, and what a replay of one measures.
//!
//! ```text
//!   file ─► lines ─► msr | blkparse | iolog | own ─► check ─┐
//!   seed ─► synthetic ──────────────────────────────────────┴─► Request ─► replay ─► Target
//! ```
//!
//! A trace is read as it is replayed, never held in memory. Of the requests that it gives holds: time never goes back;
//! a read, write or trim has a length and ends within the address space (and the capacity, if one is given), a flush
//! has neither offset nor length. What breaks this, or is not understood, is an error that names the line.
//!
//! Offsets past the capacity may be folded into it on demand ([`Options::wrap`]).
//!
//! Equal time stamps are allowed in every format: each counts in ticks (100 ns, 1 ns, 1 us), so that requests of one
//! tick say nothing of their order but that of their lines. Stamps that go back are refused, not sorted: a trace that
//! is not in order was cut or merged by something, and its reader would have to hold it all.

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

/// All formats: a new one is a file and a line here.
pub static FORMATS: [Format; 4] = [
    Format {
        name: "lode",
        about: "our own: time in ps, what, offset and length in bytes",
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
    /// The format of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|f| f.name == name)
    }
}

fn format_names() -> String {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}
