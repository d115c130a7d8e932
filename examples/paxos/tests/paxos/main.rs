//! Paxos explored by brute force: every reachable state of a small system, in plain values.

mod packed;
mod plain;
mod search;
