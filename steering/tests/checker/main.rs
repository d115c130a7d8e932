//! The checker: from a snapshot to violations, remedies and replays, on the papers' stories and on services made for
//! one question each.

mod differential;
mod pupil;
mod remedies;
mod replay;
mod restore;
mod snapshot;
mod stories;
mod support;
#[expect(
    dead_code,
    reason = "shared with the engine's tests, which use all of it"
)]
#[path = "../engine/table.rs"]
mod table;
