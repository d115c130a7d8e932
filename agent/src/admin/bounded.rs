//! Connections of operators, bounded in number and in time: whoever opens many or says nothing keeps nobody out.
//!
//! A newcomer is always let in. If there are too many, the oldest connection goes: an operator's request takes
//! milliseconds, so among many that wait it is never the oldest.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

/// How many connections may be open at once, and how long they may last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// How many may be open; beyond, the oldest is closed.
    pub(super) connections_max: usize,
    /// How long one may be open before its first byte.
    pub(super) silence_max: Duration,
    /// How long one may be open at all. Clients that keep theirs open open another.
    pub(super) life_max: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections_max: 64,
            silence_max: Duration::from_secs(5),
            // Longer than the longest answer may take.
            life_max: super::SNAPSHOT_WAIT + Duration::from_secs(15),
        }
    }
}

/// A listener whose connections are bounded.
#[derive(Debug)]
pub(super) struct Bounded<L> {
    listener: L,
    bounds: Bounds,
    /// How to close each that may still be open, the oldest first.
    open: VecDeque<oneshot::Sender<()>>,
}

impl<L> Bounded<L> {
    pub(super) fn new(listener: L, bounds: Bounds) -> Self {
        Self {
            listener,
            bounds,
            open: VecDeque::new(),
        }
    }
}

impl<L: Listener> Listener for Bounded<L> {
    type Io = Connection<L::Io>;
    type Addr = L::Addr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (io, address) = self.listener.accept().await;
        // Those that ended dropped their ends.
        self.open.retain(|close| !close.is_closed());
        while self.open.len() >= self.bounds.connections_max {
            // Sending is enough; the connection sees it when it is polled next, which this wakes it for.
            if let Some(oldest) = self.open.pop_front() {
                let _ = oldest.send(());
            }
        }
        let (close, closed) = oneshot::channel();
        self.open.push_back(close);
        let connection = Connection {
            io,
            closed: Some(closed),
            end: Box::pin(sleep(self.bounds.silence_max)),
            life_end: Some(Instant::now() + self.bounds.life_max),
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection that ends when its time is over or its place is needed.
#[derive(Debug)]
pub(super) struct Connection<I> {
    io: I,
    /// `None` once it was heard.
    closed: Option<oneshot::Receiver<()>>,
    end: Pin<Box<Sleep>>,
    /// When it ends at the latest; `None` once the first byte came and `end` says so.
    life_end: Option<Instant>,
}

impl<I> Connection<I> {
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let pushed_out = match &mut self.closed {
            None => true,
            // The listener may be gone first, while the agent ends: then nobody needs the place.
            Some(closed) => matches!(Pin::new(closed).poll(context), Poll::Ready(Ok(()))),
        };
        if pushed_out {
            self.closed = None;
            return Poll::Ready(io::Error::from(io::ErrorKind::ConnectionAborted));
        }
        self.end
            .as_mut()
            .poll(context)
            .map(|()| io::ErrorKind::TimedOut.into())
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Connection<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let over = this.poll_over(context);
        // Whoever has said something was not silent, even if this process slept through the time in which it could be heard.
        let may_have_spoken = this.life_end.is_some() && this.closed.is_some();
        let over = match over {
            Poll::Ready(error) if !may_have_spoken => return Poll::Ready(Err(error)),
            over => over,
        };
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.io).poll_read(context, buffer);
        if buffer.filled().len() > before {
            if let Some(end) = this.life_end.take() {
                this.end.as_mut().reset(end);
            }
            return read;
        }
        match (read, over) {
            (Poll::Pending, Poll::Ready(error)) => Poll::Ready(Err(error)),
            (read, _) => read,
        }
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Connection<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // Whoever does not read its answer is not waited for either.
        match self.poll_over(context) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => Pin::new(&mut self.io).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.poll_over(context) {
            Poll::Ready(error) => Poll::Ready(Err(error)),
            Poll::Pending => Pin::new(&mut self.io).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::mpsc;

    struct Doors(mpsc::UnboundedReceiver<DuplexStream>);

    impl Listener for Doors {
        type Io = DuplexStream;
        type Addr = ();

        async fn accept(&mut self) -> (DuplexStream, ()) {
            (self.0.recv().await.unwrap(), ())
        }

        fn local_addr(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn bounded(bounds: Bounds) -> (mpsc::UnboundedSender<DuplexStream>, Bounded<Doors>) {
        let (knock, doors) = mpsc::unbounded_channel();
        (knock, Bounded::new(Doors(doors), bounds))
    }

    async fn come(
        knock: &mpsc::UnboundedSender<DuplexStream>,
        listener: &mut Bounded<Doors>,
    ) -> (DuplexStream, Connection<DuplexStream>) {
        let (mine, theirs) = duplex(64);
        knock.send(theirs).unwrap();
        (mine, listener.accept().await.0)
    }

    fn patient() -> Bounds {
        Bounds {
            connections_max: 2,
            silence_max: Duration::from_secs(600),
            life_max: Duration::from_secs(600),
        }
    }

    #[tokio::test]
    async fn the_oldest_goes_when_there_are_too_many_and_a_new_one_is_accepted() {
        let (knock, mut listener) = bounded(patient());
        let (_one, mut first) = come(&knock, &mut listener).await;
        let (mut two, mut second) = come(&knock, &mut listener).await;
        let (mut three, mut third) = come(&knock, &mut listener).await;
        let gone = first.read_u8().await.unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::ConnectionAborted);
        two.write_u8(2).await.unwrap();
        three.write_u8(3).await.unwrap();
        assert_eq!(second.read_u8().await.unwrap(), 2);
        assert_eq!(third.read_u8().await.unwrap(), 3);
        // One that ended by itself makes room.
        drop(second);
        let (_four, _fourth) = come(&knock, &mut listener).await;
        three.write_u8(4).await.unwrap();
        assert_eq!(third.read_u8().await.unwrap(), 4);
    }

    #[tokio::test]
    async fn one_that_says_nothing_ends() {
        let (knock, mut listener) = bounded(Bounds {
            silence_max: Duration::from_millis(5),
            ..patient()
        });
        let (_mine, mut silent) = come(&knock, &mut listener).await;
        let over = silent.read_u8().await.unwrap_err();
        assert_eq!(over.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn one_that_sends_a_byte_now_and_then_ends_too() {
        let (knock, mut listener) = bounded(Bounds {
            life_max: Duration::from_millis(50),
            ..patient()
        });
        let (mut mine, mut slow) = come(&knock, &mut listener).await;
        tokio::spawn(async move {
            while mine.write_u8(0).await.is_ok() {
                sleep(Duration::from_millis(5)).await;
            }
        });
        let over = loop {
            if let Err(error) = slow.read_u8().await {
                break error;
            }
        };
        assert_eq!(over.kind(), io::ErrorKind::TimedOut);
    }
}
