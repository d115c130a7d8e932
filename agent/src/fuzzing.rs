//! What the fuzz targets in `tests/fuzz` need of this crate's inside. No interface for anybody else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, watch};

use crate::admin;
use crate::configuration::{AdminAddress, Loaded};

/// How long an answer may take. A machine that does much else may be slow; one that never answers is wrong.
const ANSWER_WAIT: Duration = Duration::from_secs(20);

/// Reads a configuration as far as that goes without the files it names, and returns it as JSON or what is wrong with it.
///
/// # Errors
///
/// Everything that is wrong with it.
pub fn configuration(
    source: &str,
    environment: &BTreeMap<String, String>,
) -> Result<String, String> {
    Loaded::read_text("fuzz.toml", source, environment)
}

/// An admin interface of its own, beside an agent that is about to end.
#[derive(Debug)]
pub struct Admin {
    runtime: Runtime,
    folder: PathBuf,
    socket: PathBuf,
    /// While it is there, the interface is.
    _shutdown: watch::Sender<bool>,
}

impl Admin {
    /// Starts it.
    ///
    /// # Panics
    ///
    /// When there is no room for a socket.
    pub fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("scry-fuzz-admin-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let socket = folder.join("admin.sock");
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a thread can wait for a socket");
        let (facts, _) = mpsc::channel(1);
        let (shutdown, stopped) = watch::channel(false);
        let address = AdminAddress::Socket(socket.clone());
        runtime
            .block_on(admin::serve(&address, facts, stopped))
            .expect("there is room for a socket");
        Self {
            runtime,
            folder,
            socket,
            _shutdown: shutdown,
        }
    }

    /// Sends bytes on a connection of their own and returns what is answered.
    ///
    /// # Panics
    ///
    /// When the connection is not closed in time.
    pub fn answer(&self, request: &[u8]) -> Vec<u8> {
        let answer = async {
            let mut answer = Vec::new();
            let mut stream = UnixStream::connect(&self.socket)
                .await
                .expect("the interface is there");
            // It may close before it has heard everything.
            let _ = stream.write_all(request).await;
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut answer).await;
            answer
        };
        let timed = async { tokio::time::timeout(ANSWER_WAIT, answer).await };
        let answer = self.runtime.block_on(timed);
        answer.expect("the connection is closed in time")
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
