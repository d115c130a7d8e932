//! What crosses a wire in scry, and nothing that performs IO.
//!
//! | module | what it holds |
//! |---|---|
//! | [`id`] | the names of things: nodes |

pub mod id;

pub use id::NodeId;
