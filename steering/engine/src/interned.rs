//! The interned world: every value has one integer, every handler runs once.
//!
//! A global state is a vector of one `u32` per node plus one for the fault allowance. What happens at a node depends on
//! that node's word alone, so its successors are computed once and kept; a step of the search is a look-up, a patch of
//! one or a few words, and an update of the fingerprint. ARCHITECTURE.md says more ("The world in integers").
//!
//! | module | what it holds |
//! |---|---|
//! | [`id`], [`intern`] | small integers for equal values |
//! | [`transitions`] | where a node's next states come from: a typed service behind a trait of ids |
//! | [`judge`] | properties, remembered by the ids they depend on |
//! | [`world`] | node states, their successors, and what parcels do to them |
//! | [`tables`] | the flat arrays the search reads, and nothing else |
//! | [`sleep`] | which steps need not be taken, because another way to the same state is |
//! | [`allowance`] | what is left of the fault allowance, as one word |

pub mod allowance;
pub mod content;
pub mod id;
pub mod intern;
pub mod judge;
pub mod sleep;
pub mod tables;
pub mod transitions;
pub mod world;

pub use judge::{Finding, Goal, PANIC_PROPERTY, Unjudged};
pub use transitions::{Executor, Filters, Referee, Transitions, Typed};
pub use world::{Space, StepIds, World};
