//! The check of a whole database.
