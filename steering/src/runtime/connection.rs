//! The tasks that serve one connection each: they move bytes, and tell the loop what came.
//!
//! A connection ends in one of four ways: the peer closes it or it fails (the loop is told), the loop lets go of its
//! queue (what is in it is sent, then the connection is closed), the loop resets it (RST, at once), or the node is gone.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::runtime::outflow::Outlet;
use crate::runtime::ports::{Admission, Ports};
use crate::runtime::wire::{self, HELLO_BYTES_MAX, Hello, WireError};

/// How long a peer is given to close its end after this one has been closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait when no connection can be accepted: the process is out of descriptors, say.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// How many bytes are read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// How many frames are handed over at a time.
const FRAMES_MAX: usize = 64;

/// Names one end of a connection within its node, for as long as the process lives.
pub(super) type Key = u64;

/// What a connection's task tells the loop.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A peer opened a connection.
    Accepted {
        stream: TcpStream,
        hello: Hello,
        admission: Admission,
    },
    /// Frames came, all of them whole.
    Frames { key: Key, frames: Vec<u8> },
    /// The connection is over.
    Ended { key: Key, reason: String },
}

/// What a task needs beside its socket.
#[derive(Debug)]
pub(super) struct Wiring {
    pub(super) key: Key,
    pub(super) outgoing: Outlet,
    /// Whether anything passes between the two nodes.
    pub(super) passable: watch::Receiver<bool>,
    /// Resolves when the connection shall be reset.
    pub(super) reset: oneshot::Receiver<()>,
    /// The longest frame that may come.
    pub(super) frame_bytes_max: usize,
    pub(super) arrivals: mpsc::Sender<Arrival>,
}

/// Starts a task that accepts connections and hears their hellos, until the loop is gone.
pub(super) fn accept(
    listener: TcpListener,
    ports: Arc<Ports>,
    arrivals: mpsc::Sender<Arrival>,
) -> JoinHandle<()> {
    tokio::spawn(accept_all(listener, ports, arrivals))
}

async fn accept_all(listener: TcpListener, ports: Arc<Ports>, arrivals: mpsc::Sender<Arrival>) {
    let mut greeted = JoinSet::new();
    let mut silent = Silent::default();
    loop {
        while greeted.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = arrivals.closed() => return,
        };
        let Ok((stream, from)) = accepted else {
            sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        // Who says nothing makes room for who may; if all have said who they are, the new one is dropped, and its opener
        // learns that at once.
        if !ports.has_room(from.ip()) && !silent.close_oldest(&ports, Some(from.ip())) {
            ports.count_crowded();
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            continue;
        }
        if silent.count() >= ports.limits.silent_max {
            silent.close_oldest(&ports, None);
        }
        let admission = ports.admit(from.ip());
        let arrivals = arrivals.clone();
        let greeting = greeted.spawn(async move {
            let limit = admission.ports().limits.silent_timeout;
            match timeout(limit, hear_hello(&stream)).await {
                Ok(Ok(hello)) => {
                    let accepted = Arrival::Accepted {
                        stream,
                        hello,
                        admission,
                    };
                    // If the loop is gone there is nobody to tell.
                    let _ = arrivals.send(accepted).await;
                }
                Ok(Err(_)) => {}
                Err(_) => admission.ports().count_silent(),
            }
        });
        silent.add(from.ip(), greeting);
    }
}

/// Connections that have not said who they are, by age.
#[derive(Debug, Default)]
struct Silent(VecDeque<(IpAddr, AbortHandle)>);

impl Silent {
    fn add(&mut self, from: IpAddr, greeting: AbortHandle) {
        self.0.push_back((from, greeting));
    }

    fn count(&mut self) -> usize {
        self.0.retain(|(_, greeting)| !greeting.is_finished());
        self.0.len()
    }

    /// Closes the one that has been silent longest, of an address or at all, and tells whether there was one.
    fn close_oldest(&mut self, ports: &Ports, from: Option<IpAddr>) -> bool {
        self.count();
        let of = |(address, _): &(IpAddr, AbortHandle)| from.is_none_or(|from| *address == from);
        let Some(at) = self.0.iter().position(of) else {
            return false;
        };
        if let Some((_, greeting)) = self.0.remove(at) {
            greeting.abort();
            ports.count_silent();
        }
        true
    }
}

/// Reads exactly the hello: what follows it stays in the socket.
async fn hear_hello(stream: &TcpStream) -> io::Result<Hello> {
    let mut bytes = Vec::new();
    loop {
        let missing = match wire::split(&bytes, HELLO_BYTES_MAX).map_err(io::Error::other)? {
            Some((content, _)) => return wire::read_hello(content).map_err(io::Error::other),
            None => match bytes.first_chunk::<4>() {
                None => 4 - bytes.len(),
                Some(length) => 4 + u32::from_be_bytes(*length) as usize - bytes.len(),
            },
        };
        let at = bytes.len();
        bytes.resize(at + missing, 0);
        stream.readable().await?;
        match stream.try_read(&mut bytes[at..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes.truncate(at + count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => bytes.truncate(at),
            Err(error) => return Err(error),
        }
    }
}

/// Opens a connection, says hello, and serves it.
pub(super) async fn open(
    address: Option<SocketAddr>,
    hello: Hello,
    connect_timeout: Duration,
    mut wiring: Wiring,
) {
    let opened = async {
        let address = address
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "its address is not known"))?;
        passing(&mut wiring.passable).await;
        let stream = timeout(connect_timeout, TcpStream::connect(address)).await??;
        write_all(&stream, &wire::hello(&hello)).await?;
        Ok::<_, io::Error>(stream)
    };
    let opened = tokio::select! {
        opened = opened => opened,
        _ = &mut wiring.reset => return,
    };
    match opened {
        Ok(stream) => serve(stream, wiring, None).await,
        Err(error) => tell_end(&wiring.arrivals, wiring.key, error.to_string()).await,
    }
}

/// Serves a connection until it ends. One that was accepted keeps its place until then.
pub(super) async fn serve(stream: TcpStream, wiring: Wiring, admission: Option<Admission>) {
    let Wiring {
        key,
        mut outgoing,
        passable,
        mut reset,
        frame_bytes_max,
        arrivals,
    } = wiring;
    let incoming = Incoming {
        stream: &stream,
        key,
        arrivals: &arrivals,
        frame_bytes_max,
        admission: admission.as_ref(),
    };
    // Messages are small and answers are waited for.
    let _ = stream.set_nodelay(true);
    let work = async {
        let mut reading = std::pin::pin!(incoming.read(passable.clone()));
        let writing = write(&stream, &mut outgoing, passable.clone());
        let written = tokio::select! {
            error = &mut reading => return error,
            written = writing => written,
        };
        match written {
            Ok(()) => timeout(CLOSE_TIMEOUT, reading)
                .await
                .unwrap_or_else(|late| late.into()),
            Err(error) => error,
        }
    };
    tokio::select! {
        error = work => tell_end(&arrivals, key, error.to_string()).await,
        order = &mut reset => if order.is_ok() {
            // With no time to linger the kernel answers with RST instead of closing in good order.
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
        },
    }
}

async fn tell_end(arrivals: &mpsc::Sender<Arrival>, key: Key, reason: String) {
    // If the loop is gone there is nobody to tell.
    let _ = arrivals.send(Arrival::Ended { key, reason }).await;
}

/// Waits until something may pass. Without a loop to say so, nothing ever will.
async fn passing(passable: &mut watch::Receiver<bool>) {
    if passable.wait_for(|passable| *passable).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// What comes on a connection.
struct Incoming<'a> {
    stream: &'a TcpStream,
    key: Key,
    arrivals: &'a mpsc::Sender<Arrival>,
    frame_bytes_max: usize,
    admission: Option<&'a Admission>,
}

impl Incoming<'_> {
    /// Reads frames until the connection ends, and returns why it did.
    async fn read(&self, mut passable: watch::Receiver<bool>) -> io::Error {
        let mut buffer = Vec::new();
        let mut spoke = false;
        loop {
            passing(&mut passable).await;
            if let Err(error) = self.readable(spoke).await {
                return error;
            }
            buffer.reserve(CHUNK_BYTES);
            match self.stream.try_read_buf(&mut buffer) {
                Ok(0) => return io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the peer"),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return error,
            }
            let mut used = 0;
            loop {
                let (length, end) = whole_frames(&buffer[used..], self.frame_bytes_max);
                if length > 0 {
                    spoke = true;
                    let frames = buffer[used..used + length].to_vec();
                    used += length;
                    let key = self.key;
                    let frames = Arrival::Frames { key, frames };
                    if self.arrivals.send(frames).await.is_err() {
                        return io::Error::other("the node is gone");
                    }
                }
                match end {
                    End::Full => {}
                    End::Incomplete => break,
                    End::Malformed(error) => return io::Error::other(error),
                }
            }
            buffer.drain(..used);
            // What one long frame took is not kept for ever.
            if buffer.capacity() > 4 * CHUNK_BYTES && buffer.len() <= CHUNK_BYTES {
                buffer.shrink_to(CHUNK_BYTES);
            }
        }
    }

    /// Waits until there is something to read. Whoever opens a connection does so to say something: one that has said
    /// nothing whole is not waited for long.
    async fn readable(&self, spoke: bool) -> io::Result<()> {
        let Some(admission) = self.admission.filter(|_| !spoke) else {
            return self.stream.readable().await;
        };
        let limit = admission.ports().limits.silent_timeout;
        match timeout(limit, self.stream.readable()).await {
            Ok(readable) => readable,
            Err(late) => {
                admission.ports().count_silent();
                Err(late.into())
            }
        }
    }
}

/// Why a run of whole frames ends.
enum End {
    /// There are more.
    Full,
    /// The next is not all there.
    Incomplete,
    Malformed(WireError),
}

/// Returns how many bytes the whole frames at the beginning take, and why there are not more.
fn whole_frames(bytes: &[u8], frame_bytes_max: usize) -> (usize, End) {
    let mut used = 0;
    for _ in 0..FRAMES_MAX {
        match wire::split(&bytes[used..], frame_bytes_max) {
            Ok(Some((_, length))) => used += length,
            Ok(None) => return (used, End::Incomplete),
            Err(error) => return (used, End::Malformed(error)),
        }
    }
    (used, End::Full)
}

/// Writes what the loop sends, and closes this direction when it lets go of its end.
async fn write(
    stream: &TcpStream,
    outgoing: &mut Outlet,
    mut passable: watch::Receiver<bool>,
) -> io::Result<()> {
    while let Some((frames, due)) = outgoing.take().await {
        if let Some(due) = due.filter(|due| *due > Instant::now()) {
            sleep_until(due).await;
        }
        passing(&mut passable).await;
        write_all(stream, frames).await?;
    }
    passing(&mut passable).await;
    SockRef::from(stream).shutdown(std::net::Shutdown::Write)
}

async fn write_all(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
