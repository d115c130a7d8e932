//! RandTree against its properties: the papers' stories step by step, bounded searches, and long random walks.

mod searches;
mod stories;
mod support;
mod walks;
