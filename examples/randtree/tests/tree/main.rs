//! RandTree at work and against its properties: ordinary days, the papers' stories step by step, bounded searches, and
//! long random walks.

mod protocol;
mod searches;
mod stories;
mod support;
mod walks;
