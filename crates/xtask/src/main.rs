//! Test set-up.
fn main() {}
