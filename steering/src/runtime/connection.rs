//! The tasks that serve one connection each: they move bytes, and tell the loop what came.
//!
//! A connection ends in one of four ways: the peer closes it or it fails (the loop is told), the loop lets go of its
//! queue (what is in it is sent, then the connection is closed), the loop resets it (RST, at once), or the node is gone.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::runtime::outflow::Outlet;
use crate::runtime::wire::{self, FRAME_BYTES_MAX, HELLO_BYTES_MAX, Hello, WireError};

/// How long an opener may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How many openers may be about to say hello.
const GREETING_MAX: usize = 256;
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
    Accepted { stream: TcpStream, hello: Hello },
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
    pub(super) arrivals: mpsc::Sender<Arrival>,
}

/// Accepts connections and hears their hellos, until the loop is gone.
pub(super) async fn accept(listener: TcpListener, arrivals: mpsc::Sender<Arrival>) {
    let greeting = Arc::new(Semaphore::new(GREETING_MAX));
    let mut greeted = JoinSet::new();
    loop {
        while greeted.try_join_next().is_some() {}
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = arrivals.closed() => return,
        };
        let Ok((stream, _)) = accepted else {
            sleep(ACCEPT_BACKOFF).await;
            continue;
        };
        // Above the limit a connection is dropped, and its opener learns that at once.
        let Ok(permit) = Arc::clone(&greeting).try_acquire_owned() else {
            continue;
        };
        let arrivals = arrivals.clone();
        greeted.spawn(async move {
            let _permit = permit;
            if let Ok(Ok(hello)) = timeout(HELLO_TIMEOUT, hear_hello(&stream)).await {
                // If the loop is gone there is nobody to tell.
                let _ = arrivals.send(Arrival::Accepted { stream, hello }).await;
            }
        });
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
        Ok(stream) => serve(stream, wiring).await,
        Err(error) => tell_end(&wiring.arrivals, wiring.key, error.to_string()).await,
    }
}

/// Serves a connection until it ends.
pub(super) async fn serve(stream: TcpStream, wiring: Wiring) {
    let Wiring {
        key,
        mut outgoing,
        passable,
        mut reset,
        arrivals,
    } = wiring;
    // Messages are small and answers are waited for.
    let _ = stream.set_nodelay(true);
    let work = async {
        let mut reading = std::pin::pin!(read(&stream, key, &arrivals, passable.clone()));
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

/// Reads frames until the connection ends, and returns why it did.
async fn read(
    stream: &TcpStream,
    key: Key,
    arrivals: &mpsc::Sender<Arrival>,
    mut passable: watch::Receiver<bool>,
) -> io::Error {
    let mut buffer = Vec::new();
    loop {
        passing(&mut passable).await;
        if let Err(error) = stream.readable().await {
            return error;
        }
        buffer.reserve(CHUNK_BYTES);
        match stream.try_read_buf(&mut buffer) {
            Ok(0) => return io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the peer"),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return error,
        }
        let mut used = 0;
        loop {
            let (length, end) = whole_frames(&buffer[used..]);
            if length > 0 {
                let frames = buffer[used..used + length].to_vec();
                used += length;
                if arrivals
                    .send(Arrival::Frames { key, frames })
                    .await
                    .is_err()
                {
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
fn whole_frames(bytes: &[u8]) -> (usize, End) {
    let mut used = 0;
    for _ in 0..FRAMES_MAX {
        match wire::split(&bytes[used..], FRAME_BYTES_MAX) {
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
