//! The checker: from a snapshot to violations, remedies and replays, on the papers' stories and on services made for
//! one question each.

mod chance;
mod clock;
mod commit;
mod damage;
mod differential;
mod guest;
mod liveness;
#[expect(
    dead_code,
    reason = "shared with the fuzz tests of the protocol, which use all of it"
)]
#[path = "../../../protocol/tests/fuzz/mutate.rs"]
mod mutate;
mod pupil;
#[expect(
    dead_code,
    reason = "shared with the engine's tests, which use all of it"
)]
#[path = "../../engine/tests/engine/reference.rs"]
mod reference;
mod remedies;
mod replay;
mod restore;
mod snapshot;
mod stories;
mod support;
#[path = "../../engine/tests/engine/table.rs"]
mod table;
mod views;
