//! The engine's own tests, with a connection between it and the drive.
#![allow(clippy::duplicate_mod, reason = "each of them brings what it shares with the others")]

mod support;

#[path = "../../engine/tests/tables.rs"]
mod tables;
#[path = "../../engine/tests/transactions.rs"]
mod transactions;
