//! What every case of the attack suite needs: a cluster of processes, and somebody who counts its answers.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and says where"
)]

mod agent;
mod cluster;
mod meter;
mod node;

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use agent::{Agent, Settings};
pub use cluster::{Cluster, Plan};
pub use meter::Meter;
pub use node::{Answer, Node, Start};

/// How long anything may take on a busy machine.
pub const WAIT: Duration = Duration::from_secs(300);

/// Returns a command of the arena that ends with this process. Cargo puts it beside the folder of the tests, and builds it
/// before them.
pub fn arena() -> Command {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(std::path::Path::parent).unwrap();
    let mut command = Command::new(folder.join("arena"));
    command.env("ARENA_PARENT", std::process::id().to_string());
    command
}

/// Asks again until the answer is there, or panics when that takes too long.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
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
#[derive(Debug)]
pub struct Scratch(
    /// Where.
    pub PathBuf,
);

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Scratch {
    /// Makes one.
    pub fn new() -> Self {
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
