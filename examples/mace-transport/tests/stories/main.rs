//! The paper's story played step by step, searches that find and prove it, and the repaired transport, in searches and live.

mod command;
mod live;
mod search;
