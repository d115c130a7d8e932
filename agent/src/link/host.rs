//! The socket of the service beside this agent: who may use it, one at a time.

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use scry_protocol::NodeId;
use scry_protocol::frame;
use scry_protocol::link::host::{AgentToHost, Hello, HostToAgent};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedWriteHalf, UCred};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, Semaphore, mpsc};
use tracing::{debug, info, warn};

use super::{Receiver, shown};
use crate::daemon::Fact;

/// How long a connection may take to say who it is.
const HELLO_WAIT: Duration = Duration::from_secs(5);
/// How many connections may be about to say so.
const STRANGERS_MAX: usize = 16;
/// How many frames may wait for the service before it counts as gone.
const QUEUE_MAX: usize = 1024;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    /// Another process listens there.
    #[error("another process listens on {}", .0.display())]
    InUse(PathBuf),
    /// Something else is there.
    #[error("{} is there and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// It cannot be made.
    #[error("cannot listen on {}: {source}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A service that is attached.
#[derive(Clone, Debug)]
pub(crate) struct HostLink {
    /// Tells links apart: what an earlier one said last may come late.
    pub(crate) serial: u64,
    /// The service's process.
    pub(crate) process: Option<i32>,
    frames: mpsc::Sender<AgentToHost>,
    stop: Arc<Notify>,
}

impl HostLink {
    /// Passes a message on without waiting. A service that reads too slowly loses its link, and with it its filters.
    pub(crate) fn send(&self, message: AgentToHost) {
        if self.frames.try_send(message).is_err() {
            self.close();
        }
    }

    /// Ends the link.
    pub(crate) fn close(&self) {
        self.stop.notify_one();
    }
}

/// Makes a socket that only its owner may use, in place of one that nobody listens on.
///
/// # Errors
///
/// When somebody does, or when something that is no socket is there.
pub(crate) fn listen(path: &Path, owner: Option<u32>) -> Result<UnixListener, ListenError> {
    let failed = |source| ListenError::Io {
        path: path.to_owned(),
        source,
    };
    if let Ok(metadata) = path.symlink_metadata() {
        if !metadata.file_type().is_socket() {
            return Err(ListenError::NotASocket(path.to_owned()));
        }
        match std::os::unix::net::UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::fs::remove_file(path).map_err(failed)?;
            }
            _ => return Err(ListenError::InUse(path.to_owned())),
        }
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    if owner.is_some() {
        chown(path, owner, None).map_err(failed)?;
    }
    Ok(listener)
}

/// Lets services in.
pub(crate) struct Host {
    listener: UnixListener,
    node: NodeId,
    users: Vec<u32>,
    facts: mpsc::Sender<Fact>,
    attached: Mutex<Option<HostLink>>,
    serial: AtomicU64,
}

impl Host {
    /// Prepares to let in services of one node, run by one of these users.
    pub(crate) fn new(
        listener: UnixListener,
        node: NodeId,
        users: Vec<u32>,
        facts: mpsc::Sender<Fact>,
    ) -> Self {
        Self {
            listener,
            node,
            users,
            facts,
            attached: Mutex::new(None),
            serial: AtomicU64::new(0),
        }
    }

    /// Accepts connections for as long as the agent runs.
    pub(crate) async fn run(self) {
        let host = Arc::new(self);
        let strangers = Arc::new(Semaphore::new(STRANGERS_MAX));
        loop {
            let Ok(place) = Arc::clone(&strangers).acquire_owned().await else {
                return;
            };
            match host.listener.accept().await {
                Ok((stream, _)) => {
                    let host = Arc::clone(&host);
                    tokio::spawn(async move {
                        let Some((link, receiver, stop, writer, queue)) = host.admit(stream).await
                        else {
                            return;
                        };
                        drop(place);
                        host.serve(link, receiver, stop, writer, queue).await;
                    });
                }
                Err(error) => {
                    // Out of descriptors, most likely: waiting is all that helps.
                    warn!(%error, "cannot accept a service's connection");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    }

    /// Finds out who it is, and says in one line why it is not let in.
    async fn admit(&self, stream: UnixStream) -> Option<Admitted> {
        let process = self.credentials(&stream)?.pid();
        let (reader, writer) = stream.into_split();
        let mut receiver = Receiver::new(reader);
        let hello = first_words(&mut receiver, process).await?;
        if hello.node != self.node {
            let why = format!("it is {}, not {}", hello.node, self.node);
            refused(process, &why);
            return None;
        }
        let stop = Arc::new(Notify::new());
        let (frames, queue) = mpsc::channel(QUEUE_MAX);
        let link = HostLink {
            serial: self.serial.fetch_add(1, Ordering::Relaxed) + 1,
            process,
            frames,
            stop: Arc::clone(&stop),
        };
        if !self.attach(&link) {
            refused(process, "another service is attached");
            return None;
        }
        info!(
            process,
            service = shown(&hello.service),
            version = shown(&hello.version),
            number = hello.number.get(),
            "the service is attached"
        );
        let up = Fact::HostUp {
            link: link.clone(),
            hello,
        };
        self.facts.send(up).await.ok()?;
        Some((link, receiver, stop, writer, queue))
    }

    /// Asks the system whose connection it is. There are none unless it is one of the service's users.
    fn credentials(&self, stream: &UnixStream) -> Option<UCred> {
        let credentials = match stream.peer_cred() {
            Ok(credentials) => credentials,
            Err(error) => {
                warn!(%error, "refused a connection on the service's socket: whose it is cannot be told");
                return None;
            }
        };
        let (user, process) = (credentials.uid(), credentials.pid());
        if !self.users.contains(&user) {
            warn!(
                user,
                process, "refused a connection on the service's socket: not the service's user"
            );
            return None;
        }
        Some(credentials)
    }

    /// Makes this the attached service, unless another one is.
    fn attach(&self, link: &HostLink) -> bool {
        let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = attached.as_ref() {
            if is_alive(other.process) {
                return false;
            }
            // Its socket may be open yet, in a child that outlived it.
            other.close();
        }
        *attached = Some(link.clone());
        true
    }

    async fn serve(
        &self,
        link: HostLink,
        mut receiver: Receiver<tokio::net::unix::OwnedReadHalf>,
        stop: Arc<Notify>,
        writer: OwnedWriteHalf,
        queue: mpsc::Receiver<AgentToHost>,
    ) {
        let serial = link.serial;
        let mut writing = tokio::spawn(write(writer, queue));
        let why = loop {
            tokio::select! {
                biased;
                () = stop.notified() => break "the agent closed the link".to_owned(),
                _ = &mut writing => break "it cannot be written to".to_owned(),
                message = receiver.next() => match message {
                    Ok(Some(HostToAgent::Hello(Hello { .. }))) => break "it said twice who it is".to_owned(),
                    Ok(Some(message)) => {
                        if self.facts.send(Fact::Host { serial, message }).await.is_err() {
                            break "the agent ends".to_owned();
                        }
                    }
                    Ok(None) => break "it closed its end".to_owned(),
                    Err(error) => break shown(&error.to_string()),
                },
            }
        };
        writing.abort();
        {
            let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
            if attached
                .as_ref()
                .is_some_and(|other| other.serial == serial)
            {
                *attached = None;
            }
        }
        warn!(
            process = link.process,
            "the service is no longer attached: {why}"
        );
        // If nobody listens any more, the agent ends.
        let _ = self.facts.send(Fact::HostGone { serial }).await;
    }
}

type Admitted = (
    HostLink,
    Receiver<tokio::net::unix::OwnedReadHalf>,
    Arc<Notify>,
    OwnedWriteHalf,
    mpsc::Receiver<AgentToHost>,
);

/// Waits until a connection says who it is.
async fn first_words(
    receiver: &mut Receiver<tokio::net::unix::OwnedReadHalf>,
    process: Option<i32>,
) -> Option<Hello> {
    match tokio::time::timeout(HELLO_WAIT, receiver.next()).await {
        Err(_) => refused(process, "it did not say who it is"),
        Ok(Err(error)) => refused(process, &shown(&error.to_string())),
        Ok(Ok(None)) => debug!(process, "a connection on the service's socket said nothing"),
        Ok(Ok(Some(HostToAgent::Hello(hello)))) => return Some(hello),
        Ok(Ok(Some(_))) => refused(process, "its first frame does not say who it is"),
    }
    None
}

fn refused(process: Option<i32>, why: &str) {
    warn!(
        process,
        "refused a connection on the service's socket: {why}"
    );
}

async fn write(
    mut writer: OwnedWriteHalf,
    mut queue: mpsc::Receiver<AgentToHost>,
) -> io::Result<()> {
    while let Some(message) = queue.recv().await {
        match frame::encode(&message) {
            Ok(frame) => writer.write_all(&frame).await?,
            Err(error) => warn!(%error, "a frame for the service was left out"),
        }
    }
    Ok(())
}

/// Tells whether a process runs: one that ended but was not waited for does not.
fn is_alive(process: Option<i32>) -> bool {
    let Some(process) = process else { return true };
    match std::fs::read_to_string(format!("/proc/{process}/stat")) {
        // The state follows the name, which is in brackets and may contain anything.
        Ok(stat) => !stat
            .rsplit_once(')')
            .is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X'])),
        Err(_) => false,
    }
}
