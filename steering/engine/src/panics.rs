//! Panics of the service's own code, caught: in a search they are findings, beside a running service they are told.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// A handler panicked, and said this. The state it ran on is not to be used any more.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a handler panicked: {0}")]
pub struct Panicked(pub String);

/// Catches a panic of the service's own code. The state behind it is given up by every caller.
///
/// # Errors
///
/// When it panics.
pub fn caught<R>(run: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| Panicked(said(payload)))
}

fn said(payload: Box<dyn Any + Send>) -> String {
    if let Some(said) = payload.downcast_ref::<String>() {
        return said.clone();
    }
    if let Some(said) = payload.downcast_ref::<&str>() {
        return (*said).to_owned();
    }
    // Whatever else it is may panic again when it is dropped.
    std::mem::forget(payload);
    "no message".to_owned()
}

/// Keeps panics on this thread from being reported, while `run` catches them.
pub fn in_silence<R>(run: impl FnOnce() -> R) -> R {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                usual(info);
            }
        }));
    });
    let before = QUIET.replace(true);
    let result = run();
    QUIET.set(before);
    result
}
