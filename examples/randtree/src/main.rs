//! Checks and runs RandTree from the command line.
fn main() {}
