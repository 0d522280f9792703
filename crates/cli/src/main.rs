//! lode
fn main() {}
