//! An agent that does nothing by itself: the other end of a hook's socket.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use scry_protocol::filter::{Action, Filter, Matcher, Mode};
use scry_protocol::frame::{self, Decoder};
use scry_protocol::link::host::{AgentToHost, HostToAgent, InstallFilters, Welcome};
use scry_protocol::{FilterId, RunId, ViolationId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::cluster::LIMIT;

/// Where a hook finds its agent.
pub(crate) struct Socket {
    pub path: PathBuf,
    listener: UnixListener,
}

/// The agent's end of a link.
pub(crate) struct Agent {
    stream: UnixStream,
    decoder: Decoder,
}

impl Socket {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("scry-runtime-{}-{number}.socket", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path).expect("a fresh path");
        Self { path, listener }
    }

    /// Waits for the hook, hears its hello, and lets filters act.
    pub(crate) async fn accept(&self) -> Agent {
        let accepted = timeout(LIMIT, self.listener.accept()).await;
        let (stream, _) = accepted.expect("the hook connects").expect("it is there");
        let mut agent = Agent {
            stream,
            decoder: Decoder::default(),
        };
        agent
            .wait("hello", |message| matches!(message, HostToAgent::Hello(_)))
            .await;
        agent
            .send(&AgentToHost::Welcome(Welcome {
                version: "test".to_owned(),
                mode: Mode::Steer,
            }))
            .await;
        agent
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Nobody misses a socket in the directory for temporary files.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Agent {
    pub(crate) async fn send(&mut self, message: &AgentToHost) {
        let bytes = frame::encode(message).expect("within its limits");
        self.stream.write_all(&bytes).await.expect("the hook reads");
    }

    /// Waits for a frame, skipping others.
    pub(crate) async fn wait(
        &mut self,
        what: &str,
        fits: impl Fn(&HostToAgent) -> bool,
    ) -> HostToAgent {
        let found = async {
            let mut bytes = vec![0; 1 << 16];
            loop {
                while let Some(message) = self.decoder.poll().expect("frames") {
                    if fits(&message) {
                        return message;
                    }
                }
                let count = self.stream.read(&mut bytes).await.expect("a socket");
                assert!(count > 0, "the hook is gone, without {what}");
                self.decoder.feed(&bytes[..count]);
            }
        };
        timeout(LIMIT, found)
            .await
            .unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"))
    }

    pub(crate) async fn install(&mut self, matcher: Matcher, action: Action) {
        let filter = Filter {
            id: FilterId::new(9),
            matcher,
            action,
            ttl_ms: 60_000,
            hits_max: 1_000,
            mode: Mode::Steer,
            violation: ViolationId::new(1),
            property: "nothing breaks".to_owned(),
            reason: "a test".to_owned(),
        };
        let filters = vec![filter];
        let run = RunId::new(1);
        self.send(&AgentToHost::InstallFilters(InstallFilters {
            run,
            filters,
        }))
        .await;
    }
}
