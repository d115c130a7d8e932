//! The messages a channel keeps until they are known to have arrived.
//!
//! They come at one end and go at the other, nearly always: their bytes lie one after the other in one piece of memory, and
//! keeping one costs a copy and nothing else.

use scry_protocol::CheckpointNumber;
use scry_protocol::channel::{Received, Unacknowledged};
use scry_protocol::limit::MESSAGE_BYTES_MAX;

use crate::Time;

/// Messages one after the other, as a service encoded them.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

impl Messages {
    /// Adds the message that `encode` appends, and returns it; `None` if it has more than [`MESSAGE_BYTES_MAX`] bytes and
    /// was not added.
    ///
    /// # Errors
    ///
    /// When `encode` fails.
    #[inline]
    pub fn push_with<E>(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Option<&[u8]>, E> {
        let begin = self.bytes.len();
        let encoded = encode(&mut self.bytes);
        if encoded.is_err() || self.bytes.len() - begin > MESSAGE_BYTES_MAX {
            self.bytes.truncate(begin);
            return encoded.map(|()| None);
        }
        self.ends.push(self.bytes.len() as u32);
        Ok(Some(&self.bytes[begin..]))
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns how many bytes they have.
    pub fn bytes_len(&self) -> usize {
        self.bytes.len()
    }

    /// Lets go of all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// Messages by rising place and time.
#[derive(Debug, Default)]
pub(super) struct Kept {
    messages: Queue<Message>,
    bytes: Queue<u8>,
    /// How many bytes there ever were.
    end: u64,
}

/// What is known of a message beside its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message {
    pub(super) sequence: u64,
    pub(super) at: Time,
    number: CheckpointNumber,
    /// Where its bytes end, counted from the channel's first.
    end: u64,
}

impl Kept {
    pub(super) fn len(&self) -> usize {
        self.messages.rest().len()
    }

    /// Returns the place of the oldest.
    pub(super) fn oldest(&self) -> Option<u64> {
        let oldest = self.messages.rest().first()?;
        Some(oldest.sequence)
    }

    #[inline]
    pub(super) fn push(
        &mut self,
        sequence: u64,
        number: CheckpointNumber,
        at: Time,
        message: &[u8],
    ) {
        self.bytes.all.extend_from_slice(message);
        self.end += message.len() as u64;
        self.messages.all.push(Message {
            sequence,
            at,
            number,
            end: self.end,
        });
    }

    /// Keeps several messages, the first of which has this place.
    pub(super) fn push_run(
        &mut self,
        first: u64,
        number: CheckpointNumber,
        at: Time,
        messages: &Messages,
    ) {
        let begin = self.end;
        self.end += messages.bytes.len() as u64;
        self.bytes.all.extend_from_slice(&messages.bytes);
        let ends = (first..).zip(&messages.ends);
        self.messages
            .all
            .extend(ends.map(|(sequence, end)| Message {
                sequence,
                at,
                number,
                end: begin + u64::from(*end),
            }));
    }

    /// Lets go of messages from the oldest on while they match, and returns how many bytes that freed. If one does not,
    /// no later one may.
    pub(super) fn pop_while(&mut self, matches: impl Fn(&Message) -> bool) -> usize {
        let rest = self.messages.rest();
        let gone = rest.partition_point(matches);
        let Some(last) = gone.checked_sub(1) else {
            return 0;
        };
        let freed = (rest[last].end - self.begin()) as usize;
        self.messages.pop(gone);
        self.bytes.pop(freed);
        freed
    }

    /// Lets go of what has arrived, and returns how many bytes that freed.
    pub(super) fn acknowledge(&mut self, received: &Received) -> usize {
        let freed = self.pop_while(|message| message.sequence <= received.up_to());
        if received.newest() == received.up_to() {
            return freed;
        }
        // Some have overtaken others: what is left is put together anew.
        let mut left = Self::default();
        for (message, bytes) in self.iter() {
            if !received.contains(message.sequence) {
                left.push(message.sequence, message.number, message.at, bytes);
            }
        }
        let freed = freed + self.bytes.rest().len() - left.bytes.rest().len();
        *self = left;
        freed
    }

    pub(super) fn describe(&self) -> Vec<Unacknowledged> {
        self.iter()
            .map(|(message, bytes)| Unacknowledged {
                sequence: message.sequence,
                number: message.number,
                message: bytes.to_vec(),
            })
            .collect()
    }

    fn iter(&self) -> impl Iterator<Item = (&Message, &[u8])> {
        let (begin, bytes) = (self.begin(), self.bytes.rest());
        let mut from = 0;
        self.messages.rest().iter().map(move |message| {
            let to = (message.end - begin) as usize;
            let this = &bytes[from..to];
            from = to;
            (message, this)
        })
    }

    /// Returns how many bytes are gone.
    fn begin(&self) -> u64 {
        self.end - self.bytes.rest().len() as u64
    }
}

/// A queue in one piece: what was taken stays until it is most of it.
#[derive(Debug)]
struct Queue<T> {
    all: Vec<T>,
    taken: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            taken: 0,
        }
    }
}

impl<T> Queue<T> {
    fn rest(&self) -> &[T] {
        &self.all[self.taken..]
    }

    fn pop(&mut self, count: usize) {
        self.taken += count;
        // Whatever is moved up has been paid for by as many that were taken.
        if self.taken >= self.all.len() - self.taken {
            self.all.drain(..self.taken);
            self.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_too_long_or_fails_is_not_added() {
        let mut messages = Messages::default();
        let mut push = |length, result: Result<(), &'static str>| {
            let pushed = messages.push_with(|out| {
                out.resize(out.len() + length, 7);
                result
            });
            let length = pushed.map(|message| message.map(<[u8]>::len));
            (length, messages.len(), messages.bytes_len())
        };
        assert_eq!(push(3, Ok(())), (Ok(Some(3)), 1, 3));
        assert_eq!(push(3, Err("no")), (Err("no"), 1, 3));
        assert_eq!(push(MESSAGE_BYTES_MAX + 1, Ok(())), (Ok(None), 1, 3));
        assert_eq!(push(0, Ok(())), (Ok(Some(0)), 2, 3));
    }
}
