//! Ctrl-C: once, and whatever runs reports what it has; twice, and the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use crate::cli::EXIT_INTERRUPTED;

/// Whether the process was asked to end, by Ctrl-C or by a signal that means the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens from now on. Where that is not possible, a signal ends the process as ever.
    pub(crate) fn listen() -> Self {
        let interrupt = Self::default();
        let here = interrupt.clone();
        // A thread of its own: a search has no time to ask anybody.
        let _ = thread::Builder::new()
            .name("interrupt".to_owned())
            .spawn(move || here.wait());
        interrupt
    }

    /// Tells whether it has come.
    pub(crate) fn is_here(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// As if it had come.
    #[cfg(test)]
    pub(super) fn come(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn wait(&self) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let both = (
                signal(SignalKind::interrupt()),
                signal(SignalKind::terminate()),
            );
            let (Ok(mut interrupted), Ok(mut terminated)) = both else {
                return;
            };
            loop {
                tokio::select! {
                    _ = interrupted.recv() => {}
                    _ = terminated.recv() => {}
                }
                if self.0.swap(true, Ordering::Relaxed) {
                    std::process::exit(EXIT_INTERRUPTED.into());
                }
                eprintln!("\rinterrupted: reporting what was found (once more to end at once)");
            }
        });
    }
}
