//! The services hold what they promise, and their bugs do not.

mod search;
mod walks;
