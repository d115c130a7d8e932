//! Messages on their own, and those among them that an emulated link still has.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::UdpSocket;
use tokio::time::Instant;

/// How many late datagrams are kept. Beyond it, a datagram is lost.
const LATE_MAX: usize = 1 << 16;

/// When it is due, how many came before it, where it goes, and what it is.
type Late = (Instant, u64, SocketAddr, Vec<u8>);

/// The sending half of a node's datagrams.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: Arc<UdpSocket>,
    late: BinaryHeap<Reverse<Late>>,
    counted: u64,
}

impl Datagrams {
    pub(super) fn new(socket: Arc<UdpSocket>) -> Self {
        Self {
            socket,
            late: BinaryHeap::new(),
            counted: 0,
        }
    }

    /// Sends a datagram, and tells whether it left.
    pub(super) fn send(&self, to: SocketAddr, bytes: &[u8]) -> bool {
        self.socket.try_send_to(bytes, to).is_ok()
    }

    /// Keeps a datagram until it is due, and tells whether there was room.
    pub(super) fn send_at(&mut self, due: Instant, to: SocketAddr, bytes: Vec<u8>) -> bool {
        if self.late.len() >= LATE_MAX {
            return false;
        }
        self.counted += 1;
        self.late.push(Reverse((due, self.counted, to, bytes)));
        true
    }

    /// Returns when the next late datagram is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.late.peek().map(|Reverse((due, ..))| *due)
    }

    /// Sends the late datagrams that are due, and returns how many could not be.
    pub(super) fn send_due(&mut self, now: Instant) -> u64 {
        let mut lost = 0;
        while self.due().is_some_and(|due| due <= now)
            && let Some(Reverse((_, _, to, bytes))) = self.late.pop()
        {
            lost += u64::from(!self.send(to, &bytes));
        }
        lost
    }
}

/// Binds both transports to one port, any free one if the port is 0.
pub(super) fn bind_both(
    listen: SocketAddr,
) -> io::Result<(std::net::TcpListener, std::net::UdpSocket)> {
    bind_both_with(listen, |_| {})
}

/// The same, and lets somebody act `between` the one and the other.
fn bind_both_with(
    listen: SocketAddr,
    mut between: impl FnMut(SocketAddr),
) -> io::Result<(std::net::TcpListener, std::net::UdpSocket)> {
    // The port the kernel picks for one transport may be taken for the other: then another is picked.
    const TRIES: usize = 32;
    let mut tries = 0;
    loop {
        tries += 1;
        let listener = std::net::TcpListener::bind(listen)?;
        let address = SocketAddr::new(listen.ip(), listener.local_addr()?.port());
        between(address);
        match std::net::UdpSocket::bind(address) {
            Ok(socket) => {
                listener.set_nonblocking(true)?;
                socket.set_nonblocking(true)?;
                return Ok((listener, socket));
            }
            Err(error) if listen.port() != 0 || tries == TRIES => return Err(error),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_in_between_costs_another_try() {
        let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
        let mut takers = Vec::new();
        let bound = bind_both_with(any, |address| {
            // Somebody else is faster, three times.
            if takers.len() < 3 {
                takers.push(std::net::UdpSocket::bind(address));
            }
        });
        let (listener, socket) = bound.expect("a port of its own");
        let address = listener.local_addr().expect("bound");
        assert_eq!(address, socket.local_addr().expect("bound"));
        assert_eq!(takers.len(), 3);
        // A port that was asked for is not exchanged for another.
        assert!(bind_both(address).is_err());
    }
}
