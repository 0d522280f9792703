//! CREATE SEQUENCE, ALTER SEQUENCE, and the sequences of SERIAL and IDENTITY columns.
//!
//! ```text
//!   options ─► options.rs ─► definition, in the transaction's catalog (define.rs)
//!   numbers: crate::numbers, outside of transactions
//! ```

mod define;
mod filling;
mod options;

pub(crate) use define::{NewSequence, define, drop_owned, owned_by, restart_owned};
pub(crate) use filling::alter_filling;
pub(crate) use options::identity_options;
