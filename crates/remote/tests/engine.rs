//! The engine's own tests, with a connection between it and the drive.

mod support;

#[path = "../../engine/tests/tables.rs"]
mod tables;
#[path = "../../engine/tests/transactions.rs"]
mod transactions;
