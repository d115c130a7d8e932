//! Stands in for an agent: reads what hooks send and throws it away, and asks each for a checkpoint now and then.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::bail;
use scry_protocol::CheckpointNumber;
use scry_protocol::filter::Mode;
use scry_protocol::frame;
use scry_protocol::link::host::{AgentToHost, TakeCheckpoint, Welcome};

/// How often a checkpoint is asked for: ten times as often as the papers' agents do.
const PERIOD: Duration = Duration::from_millis(100);

/// A socket that hooks may connect to.
pub(crate) struct Drain {
    path: PathBuf,
    hooks: Arc<AtomicU32>,
}

impl Drain {
    pub(crate) fn start() -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("scry-bench-{}-{number}.socket", std::process::id());
        let path = std::env::temp_dir().join(name);
        let listener = UnixListener::bind(&path)?;
        let hooks = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&hooks);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                thread::spawn(move || drain(stream, &count));
            }
        });
        Ok(Self { path, hooks })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until so many hooks have been heard.
    pub(crate) fn wait_for_hooks(&self, count: u32) -> anyhow::Result<()> {
        let limit = Instant::now() + Duration::from_secs(30);
        while self.hooks.load(Ordering::Acquire) < count {
            if Instant::now() > limit {
                bail!("the hooks do not connect");
            }
            thread::yield_now();
        }
        Ok(())
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // Nobody misses a socket in the directory for temporary files.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn drain(mut stream: UnixStream, hooks: &AtomicU32) {
    let welcome = AgentToHost::Welcome(Welcome {
        version: "bench".to_owned(),
        mode: Mode::Steer,
    });
    let mut send = stream.try_clone().expect("a descriptor is free");
    let mut say = move |message: &AgentToHost| {
        let bytes = frame::encode(message).expect("within its limits");
        send.write_all(&bytes)
    };
    let mut bytes = vec![0; 1 << 16];
    let mut welcomed = false;
    thread::spawn({
        let mut asking = stream.try_clone().expect("a descriptor is free");
        move || {
            for ahead in 0u64.. {
                thread::sleep(PERIOD);
                // Above any number a node of this bench begins with.
                let number = CheckpointNumber::new((1 << 50) + ahead).expect("in range");
                let take = AgentToHost::TakeCheckpoint(TakeCheckpoint { number });
                let bytes = frame::encode(&take).expect("within its limits");
                if asking.write_all(&bytes).is_err() {
                    return;
                }
            }
        }
    });
    while let Ok(count) = stream.read(&mut bytes) {
        if count == 0 {
            return;
        }
        if !welcomed {
            welcomed = true;
            // A hook that is gone already needs no welcome.
            let _ = say(&welcome);
            hooks.fetch_add(1, Ordering::Release);
        }
    }
}
