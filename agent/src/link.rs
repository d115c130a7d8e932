//! The links of an agent: sockets and processes turned into facts, and work turned into bytes.
//!
//! | module | to whom |
//! |---|---|
//! | [`host`] | the service beside this agent, over a socket of the file system |
//! | [`peers`] | other agents, over QUIC with certificates on both sides |
//! | [`checker`] | the checker, a child process |
//! | `executable` | whether it runs the service's program |
//!
//! Nothing is decided here. Whatever arrives was decoded once, so that a malformed frame ends its own link and is never
//! heard of elsewhere.

pub(crate) mod checker;
mod executable;
pub(crate) mod host;
pub(crate) mod peers;
mod processor;

use scry_protocol::frame::{DecodeError, Decoder, Message};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How many bytes are read at once.
const READ_BYTES: usize = 64 << 10;

/// Why a stream of frames ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// It is not one of frames.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// Cuts a stream into messages.
#[derive(Debug)]
pub(crate) struct Receiver<R> {
    stream: R,
    decoder: Decoder,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Receiver<R> {
    /// Begins with an empty buffer.
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream,
            decoder: Decoder::default(),
            buffer: vec![0; READ_BYTES],
        }
    }

    /// Waits for the next message; `None` when the stream ended between two.
    ///
    /// What was read is kept if the caller stops waiting.
    ///
    /// # Errors
    ///
    /// When nothing more can be read.
    pub(crate) async fn next<M: Message>(&mut self) -> Result<Option<M>, ReceiveError> {
        loop {
            if let Some(message) = self.decoder.poll()? {
                return Ok(Some(message));
            }
            let read = self.stream.read(&mut self.buffer).await?;
            if read == 0 {
                std::mem::take(&mut self.decoder).finish()?;
                return Ok(None);
            }
            self.decoder.feed(&self.buffer[..read]);
        }
    }
}

/// Makes a text of somebody else's fit for a log: no control characters, no endless lines.
pub(crate) fn shown(text: &str) -> String {
    const CHARACTERS_MAX: usize = 200;
    let mut shown: String = text
        .chars()
        .take(CHARACTERS_MAX)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_somebody_else_cannot_forge_a_line() {
        assert_eq!(shown("a\nERROR b\u{1b}[2J"), "a\\nERROR b\\u{1b}[2J");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), 201);
    }
}
