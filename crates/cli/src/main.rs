//! The octant binary.
fn main() {}
