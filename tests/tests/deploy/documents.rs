//! The pages in `docs/` say what is so.
