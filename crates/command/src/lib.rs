//! The narrow waist: all commands of a drive, and all its answers.
//!
//! ```text
//!   engine ── Command ─► Queue ─► drive          a queue's commands run on the thread that calls `complete`
//!   engine ◄─ Completion ─ Queue ◄─ drive        every command ends in exactly one final completion
//! ```

pub mod batch;
pub mod completion;
pub mod device;
mod error;
mod hidden;
pub mod indexed;
pub mod scan;
#[cfg(feature = "testing")]
pub mod testing;
pub mod wire;

pub use batch::{Align, Batch, Command, PageWrite, ReadRequest, SessionWrite};
pub use completion::{ANSWER_BYTES_MAX, Completion, ExtentInfo, IndexedPage, Outcome, Reply, check_answer};
pub use device::{Budget, Device, Identity, Progress, Queue, Refused, Tag, Until};
pub use error::{CommandError, DeviceError};
pub use hidden::HiddenRows;
pub use indexed::{Among, IndexedRead, KeysRule, Registration};
pub use lode_program::{Answer, GroupRows, PageRows, ScanCounts};
pub use scan::{PageHints, PageRange, ScanTask, ScanUnit, Skip, WholePage};
