//! The paper's story, searches that find and prove it, and the repaired ring, in searches and live.

mod live;
mod search;
