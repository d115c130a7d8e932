//! Paxos explored by brute force: every reachable state of a small system, in plain values.

mod engine;
mod packed;
mod plain;
mod replica;
mod search;
