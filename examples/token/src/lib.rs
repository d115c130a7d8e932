//! A token that goes round: the service of the tutorial on the front page of crate `scry`.
//!
//! | module | what it holds |
//! |---|---|
//! | [`service`] | the protocol, and its bug |
//! | [`scenarios`] | what the command line can start from |

pub mod scenarios;
pub mod service;

pub use service::{Call, Message, Setup, Timer, Token};
