//! 1Paxos over Paxos: what searches find with its bug and without, long walks with faults, and real processes.

mod live;
mod search;
mod walks;
