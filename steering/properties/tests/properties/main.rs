//! Properties from files: against an interpreter of CEL, against hand-written Rust, part by part against the whole,
//! and with every kind of broken file.
//!
//! `SCRY_REGENERATE=1 cargo test -p scry-properties --test properties` writes the expected outputs anew;
//! `SCRY_FUZZ_SECONDS=600 cargo test --release -p scry-properties --test properties fuzz -- --nocapture` fuzzes for ten minutes.

#![expect(
    clippy::disallowed_methods,
    reason = "tests read files and the environment"
)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod catalogue;
mod cost;
mod differential;
mod explain;
mod fuzz;
mod golden;
mod oracle;
mod partial;
mod run_time;
mod schema;
mod zoo;
