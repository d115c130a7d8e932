//! The papers' bugs in the example services, each hunted in several ways and compared.
//!
//! | module | what it holds |
//! |---|---|
//! | [`catalogue`] | the bugs, and where each is to be found |
//! | [`hunt`] | the searches for one bug |
//! | [`row`] | what came of them |
//! | [`initial`] | breadth-first search from where nothing has happened yet, for as long as it is given |
//! | [`text`], [`json`] | the rows for people and for machines |
//! | [`liveness`] | the bugs that keep something from ever coming true |
//! | [`walks`] | how good walks are where the truth is known |

pub mod catalogue;
pub mod hunt;
pub mod initial;
pub mod json;
pub mod liveness;
pub mod row;
pub mod text;
pub mod walks;
