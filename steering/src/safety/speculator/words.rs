//! What host and speculator say to each other. Both are the same executable, so it needs no version.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use scry_protocol::NodeId;
use scry_protocol::link::host::Surroundings;
use scry_protocol::messagepack;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::safety::child::VERDICT_BYTES_MAX;
use crate::safety::trial::{Spot, Trouble, Verdict, What};
use scry_checkpoint::cut::Standing;
use scry_engine::context::Dice;

/// No message is longer: a state, an event, and what surrounds them.
const MESSAGE_BYTES_MAX: usize = 80 << 20;
/// What is written at once where time counts.
const PIECE_BYTES: usize = 16 << 10;
/// A message begins with its kind and its length.
const HEAD_BYTES: usize = 5;

/// What the host says beside questions: the ground they are judged on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// The text of the property file.
    CheckSettings(String),
    /// The neighbors' states.
    Surroundings(Told),
}

/// The neighbors' states as the speculator is told them.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::safety) struct Told {
    /// How many there were before them.
    pub(in crate::safety) count: u64,
    /// Those that may be tried.
    pub(in crate::safety) surroundings: Surroundings,
    /// What is known to be bad, and left alone for a while: to try it with every new state would leave no time for anything
    /// else.
    pub(in crate::safety) left_out: Vec<Spot>,
}

/// A question.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Check {
    pub(super) id: u64,
    pub(super) me: NodeId,
    #[serde(with = "scry_protocol::limit::Bytes::<MESSAGE_BYTES_MAX>")]
    pub(super) state: Vec<u8>,
    #[serde(with = "scry_protocol::limit::Bytes::<MESSAGE_BYTES_MAX>")]
    pub(super) timers: Vec<u8>,
    #[serde(with = "scry_protocol::limit::Bytes::<MESSAGE_BYTES_MAX>")]
    pub(super) input: Vec<u8>,
    pub(super) dice: Dice,
    pub(super) standing: Vec<Standing>,
    /// What is not to be touched.
    pub(super) bad: Vec<Spot>,
    /// What is asked.
    pub(super) what: What,
    /// How long the trial may take, in microseconds.
    pub(super) limit_us: u64,
}

/// What the speculator says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) id: u64,
    pub(super) said: Said,
    /// Which of the neighbors' states it was judged with, and what is wrong with them.
    pub(super) vetted: u64,
    pub(super) troubles: Vec<Trouble>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    Verdict(Verdict),
    Late,
    /// No child could be forked, by error number.
    ForkFailed(i32),
    /// No answer to a question: something is wrong with the neighbors' states. Whoever asks may have given up waiting long
    /// before that is known.
    Vetted,
    Unreadable(String),
}

/// A message with a kind that can be told from its first byte.
pub(super) trait Spoken: Serialize + DeserializeOwned {
    const KIND: u8;
    const BYTES_MAX: usize;
}

impl Spoken for Order {
    const KIND: u8 = 1;
    const BYTES_MAX: usize = MESSAGE_BYTES_MAX;
}

impl Spoken for Check {
    const KIND: u8 = 2;
    const BYTES_MAX: usize = MESSAGE_BYTES_MAX;
}

impl Spoken for Answer {
    const KIND: u8 = 3;
    const BYTES_MAX: usize = VERDICT_BYTES_MAX;
}

/// Writes a message at once, so that the other side wakes once.
fn write<T: Spoken>(stream: &mut impl Write, message: &T) -> std::io::Result<()> {
    let mut bytes = vec![0; HEAD_BYTES];
    messagepack::write(&mut bytes, message).map_err(std::io::Error::other)?;
    let length = bytes.len() - HEAD_BYTES;
    if length > T::BYTES_MAX {
        return Err(std::io::Error::other("too long a message"));
    }
    bytes[0] = T::KIND;
    bytes[1..HEAD_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    stream.write_all(&bytes)
}

/// Writes a message within a time, of which encoding and every part of the sending take theirs. What reads slowly but reads
/// cannot make it last longer.
pub(super) fn write_within<T: Spoken>(
    stream: &mut UnixStream,
    message: &T,
    within: Duration,
) -> std::io::Result<()> {
    write(&mut Within::new(stream, within), message)
}

/// A stream that is written to until a moment.
struct Within<'a> {
    stream: &'a mut UnixStream,
    begun: Instant,
    within: Duration,
}

impl<'a> Within<'a> {
    fn new(stream: &'a mut UnixStream, within: Duration) -> Self {
        Self {
            stream,
            begun: Instant::now(),
            within,
        }
    }
}

impl Write for Within<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let left = self.within.checked_sub(self.begun.elapsed());
        let left = left
            .filter(|left| !left.is_zero())
            .ok_or(ErrorKind::TimedOut)?;
        self.stream.set_write_timeout(Some(left))?;
        // The kernel takes this time for each of the pieces that it makes of a write: so each is a write of its own.
        self.stream.write(&bytes[..bytes.len().min(PIECE_BYTES)])
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

// Each of these is compiled here, once, and not for every service.

/// Reads an order, waiting for all of it.
pub(super) fn read_order(stream: &mut UnixStream) -> std::io::Result<Order> {
    read(stream)
}

/// Reads a question, waiting for all of it.
pub(super) fn read_check(stream: &mut UnixStream) -> std::io::Result<Check> {
    read(stream)
}

/// Writes an answer at once.
pub(super) fn write_answer(stream: &mut UnixStream, answer: &Answer) -> std::io::Result<()> {
    write(stream, answer)
}

/// Reads a message, waiting for all of it.
fn read<T: Spoken>(stream: &mut UnixStream) -> std::io::Result<T> {
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head)?;
    let mut bytes = vec![0; length::<T>(&head)?];
    stream.read_exact(&mut bytes)?;
    messagepack::from_slice(&bytes).map_err(std::io::Error::other)
}

/// Takes a message off what was read so far, if all of it is there.
pub(super) fn take<T: Spoken>(bytes: &mut Vec<u8>) -> std::io::Result<Option<T>> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
        return Ok(None);
    };
    let length = length::<T>(head)?;
    let Some(message) = rest.get(..length) else {
        return Ok(None);
    };
    let message = messagepack::from_slice(message).map_err(std::io::Error::other)?;
    bytes.drain(..HEAD_BYTES + length);
    Ok(Some(message))
}

fn length<T: Spoken>(&[kind, ref length @ ..]: &[u8; HEAD_BYTES]) -> std::io::Result<usize> {
    let length = u32::from_le_bytes(*length) as usize;
    if kind != T::KIND || length > T::BYTES_MAX {
        return Err(std::io::Error::other("a message out of place"));
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_reads_a_little_at_a_time_does_not_stretch_the_deadline() {
        let (mut here, mut there) = UnixStream::pair().expect("a pair of sockets");
        let reading = std::thread::spawn(move || {
            let mut piece = vec![0; 16 << 10];
            // Each piece comes within the time that one write may take; all of them would take far longer.
            while there.read(&mut piece).is_ok_and(|read| read > 0) {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let order = Order::CheckSettings("x".repeat(16 << 20));
        let within = Duration::from_millis(100);
        let written = write_within(&mut here, &order, within);
        drop(here);
        reading.join().expect("it reads to the end");
        assert!(written.is_err());
    }
}
