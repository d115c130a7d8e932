//! Yet to come.
