//! The engine's tests, with a connection between the engine and the drive.
#![allow(clippy::duplicate_mod, reason = "each of them brings what it shares with the others")]

mod support;

#[path = "../../engine/tests/alter.rs"]
mod alter;
#[path = "../../engine/tests/tables.rs"]
mod tables;
#[path = "../../engine/tests/transactions.rs"]
mod transactions;
