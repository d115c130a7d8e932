//! The command line of the Chord example.

fn main() {}
