//! The services hold what they promise, and their bugs do not.

mod command;
mod search;
mod walks;
