//! What every case needs: a cluster of processes, and somebody who counts its answers.

mod agent;
mod cluster;
mod meter;
mod node;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(crate) use agent::Agent;
pub(crate) use cluster::{Cluster, Plan};
pub(crate) use meter::Meter;
pub(crate) use node::Node;

/// How long anything may take on a busy machine.
pub(crate) const WAIT: Duration = Duration::from_secs(120);

/// Returns a command of the arena that ends with this process.
pub(crate) fn arena() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arena"));
    command.env("ARENA_PARENT", std::process::id().to_string());
    command
}

/// Asks again until the answer is there, or panics when that takes too long.
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + WAIT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A folder of a test, gone when the test is over, unless it failed.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("scry-attacks-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("what the processes said is in {}", self.0.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}
