//! Paths that fit in time: generated services against a reference that counts milliseconds, leases, and what a path
//! must not do.

mod lease;
mod live;
mod reference;
mod rules;
mod table;
