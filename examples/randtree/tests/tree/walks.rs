//! Long random walks.
