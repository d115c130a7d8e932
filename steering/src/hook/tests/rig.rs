//! A host and its agent in one test: the agent speaks the real protocol over a real socket.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use scry_protocol::filter::{Action, Filter, Matcher, Mode};
use scry_protocol::frame::{self, Decoder};
use scry_protocol::link::host::{
    AgentToHost, AskNeighbors, FilterEnd, FilterEnded, HostToAgent, InstallFilters, Welcome,
};
use scry_protocol::{FilterId, NodeId, RunId, ViolationId};

use crate::hook::{Hook, Occurrence, Options, Request, Verdict};
use scry_checkpoint::Time;
use scry_checkpoint::recorder::Capture;

pub(super) const ME: NodeId = NodeId::new(1);
pub(super) const PEER: NodeId = NodeId::new(2);
pub(super) const NOW: Time = Time::from_millis(0);

/// After so long something that should happen is not going to.
const PATIENCE: Duration = Duration::from_secs(20);

/// A directory of one test's own.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("scry-hook-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory for the test");
        Self(path)
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until something is so.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The agent's end of one connection.
pub(super) struct Agent {
    pub(super) stream: UnixStream,
    decoder: Decoder,
    /// Frames that were passed over while waiting for another.
    kept: VecDeque<HostToAgent>,
}

impl Agent {
    pub(super) fn accept(listener: &UnixListener) -> Self {
        listener.set_nonblocking(true).expect("a listener");
        let mut accepted = None;
        until("the host connects", || {
            accepted = listener.accept().ok();
            accepted.is_some()
        });
        let (stream, _) = accepted.expect("accepted");
        stream.set_nonblocking(false).expect("a stream");
        stream.set_read_timeout(Some(PATIENCE)).expect("a stream");
        Self {
            stream,
            decoder: Decoder::default(),
            kept: VecDeque::new(),
        }
    }

    pub(super) fn send(&mut self, message: impl Into<AgentToHost>) {
        let bytes = frame::encode(&message.into()).expect("a frame");
        self.stream.write_all(&bytes).expect("the host reads");
    }

    /// Returns the next frame, or `None` if the host closed the connection.
    pub(super) fn next(&mut self) -> Option<HostToAgent> {
        if let Some(message) = self.kept.pop_front() {
            return Some(message);
        }
        loop {
            if let Some(message) = self.decoder.poll().expect("the host sends frames") {
                return Some(message);
            }
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.decoder.feed(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("waited in vain for a frame: {error}"),
            }
        }
    }

    /// Skips frames until one is wanted.
    pub(super) fn expect<T>(&mut self, wanted: impl Fn(HostToAgent) -> Option<T>) -> T {
        loop {
            let message = self.next().expect("the host does not close");
            if let Some(found) = wanted(message) {
                return found;
            }
        }
    }

    pub(super) fn expect_ended(&mut self) -> FilterEnded {
        self.expect(|message| match message {
            HostToAgent::FilterEnded(ended) => Some(ended),
            _ => None,
        })
    }

    pub(super) fn expect_closed(&mut self) {
        while self.next().is_some() {}
    }
}

/// A host whose agent has attached.
pub(super) struct Rig {
    pub(super) hook: Hook,
    pub(super) agent: Agent,
    pub(super) listener: UnixListener,
    /// What turns returned so far.
    pub(super) requests: Vec<Request>,
    pub(super) directory: Directory,
}

pub(super) fn options(socket: &Path) -> Options {
    let mut options = Options::new(ME, "test", "1");
    options.born = 1u32.into();
    options.incarnation = scry_protocol::Incarnation::new(1);
    options.clock_ms = 1;
    options.socket = Some(socket.to_owned());
    options.backoff.least_ms = 1;
    options
}

pub(super) fn capture() -> Capture {
    Capture {
        state: b"state".to_vec(),
        timers: Vec::new(),
        neighbors: Some(vec![PEER]),
    }
}

impl Rig {
    /// Attaches an agent that allows everything.
    pub(super) fn new() -> Self {
        Self::with(Mode::Steer, |_| {})
    }

    pub(super) fn with(mode: Mode, adapt: impl FnOnce(&mut Options)) -> Self {
        let directory = Directory::new();
        let socket = directory.join("agent");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let mut options = options(&socket);
        adapt(&mut options);
        let hook = Hook::connect(options, NOW, capture);
        let mut agent = Agent::accept(&listener);
        agent.send(welcome(mode));
        let mut rig = Self {
            hook,
            agent,
            listener,
            requests: Vec::new(),
            directory,
        };
        rig.settle();
        // Who the host is has been read.
        rig.agent.kept.clear();
        rig
    }

    /// Waits until the hook has acted on everything the agent sent: frames are acted on in order, and the answer to
    /// the last can be seen.
    pub(super) fn settle(&mut self) {
        self.agent.send(AskNeighbors {});
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "the hook does not read");
            self.requests.extend(self.hook.turn(NOW, capture));
            self.agent
                .stream
                .set_read_timeout(Some(Duration::from_millis(5)))
                .expect("a stream");
            let mut bytes = [0; 4096];
            if let Ok(count) = self.agent.stream.read(&mut bytes) {
                self.agent.decoder.feed(&bytes[..count]);
            }
            self.agent
                .stream
                .set_read_timeout(Some(PATIENCE))
                .expect("a stream");
            while let Some(message) = self.agent.decoder.poll().expect("the host sends frames") {
                if let HostToAgent::Neighbors(answer) = message {
                    assert_eq!(answer.neighbors, Some(vec![PEER]));
                    return;
                }
                self.agent.kept.push_back(message);
            }
        }
    }

    pub(super) fn install(&mut self, filters: impl IntoIterator<Item = Filter>) {
        self.agent.send(InstallFilters {
            run: RunId::new(1),
            filters: filters.into_iter().collect(),
        });
        self.settle();
    }

    /// Turns until the loop is told that a filter ended, and returns why.
    pub(super) fn wait_ended(&mut self, filter: u64) -> FilterEnd {
        let mut found = None;
        until("the loop learns that the filter ended", || {
            self.requests.extend(self.hook.turn(NOW, capture));
            found = self.requests.iter().find_map(|request| match request {
                Request::Ended(ended) if ended.filter.get() == filter => Some(ended.end),
                _ => None,
            });
            found.is_some()
        });
        found.expect("found")
    }

    pub(super) fn message(&mut self, kind: &str, from: NodeId, content: &[u8]) -> Verdict {
        let content = || content.to_vec();
        self.hook.admit(&Occurrence::Message {
            kind,
            from,
            content: &content,
        })
    }

    pub(super) fn timer(&mut self, kind: &str, content: &[u8]) -> Verdict {
        let content = || content.to_vec();
        self.hook.admit(&Occurrence::Timer {
            kind,
            content: &content,
        })
    }

    pub(super) fn call(&mut self, kind: &str) -> Verdict {
        self.hook.admit(&Occurrence::Call {
            kind,
            content: &|| Vec::new(),
        })
    }

    pub(super) fn lost(&mut self, peer: NodeId) -> Verdict {
        self.hook.admit(&Occurrence::Disconnect { peer })
    }
}

pub(super) fn welcome(mode: Mode) -> Welcome {
    Welcome {
        version: "test".to_owned(),
        mode,
    }
}

pub(super) fn filter(id: u64, matcher: Matcher, action: Action) -> Filter {
    Filter {
        id: FilterId::new(id),
        matcher,
        action,
        ttl_ms: 60_000,
        hits_max: 1_000,
        mode: Mode::Steer,
        violation: ViolationId::new(1),
        property: "a property".to_owned(),
        reason: "a test".to_owned(),
    }
}

/// A filter on `Join` from the peer.
pub(super) fn join(id: u64, action: Action) -> Filter {
    filter(id, message("Join", PEER), action)
}

pub(super) fn message(kind: &str, source: NodeId) -> Matcher {
    Matcher::Message {
        kind: kind.to_owned(),
        source,
        destination: ME,
        content: None,
    }
}
