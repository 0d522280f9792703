//! Typed programs that the drive runs: checked once, then evaluated over the columns of one page. Pure.
pub mod expr;
pub use expr::{ArithOp, CompareOp, Expr};
