//! Speaks to an agent on this machine, for the commands that do.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::{EXIT_FAILED, EXIT_USAGE};
use crate::configuration::{AdminAddress, Lenient, environment};

/// How long an answer may take.
const WAIT: Duration = Duration::from_secs(10);
/// How long an answer may be.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Where the agent is.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// The agent's address: `127.0.0.1:7701` or the path of its socket. Without it, what the configuration says, and
    /// 127.0.0.1:7701 if that cannot be read.
    #[arg(long, visible_alias = "address")]
    admin: Option<String>,
    /// The agent's configuration. Only `admin.listen` of it is needed, whatever is wrong with the rest.
    #[arg(long, default_value = "/etc/scry/scry.toml")]
    config: PathBuf,
}

impl Target {
    /// Sends a request and returns the answer, or says what went wrong and returns the exit code.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, u8> {
        self.try_ask(method, path, body).map_err(|error| {
            eprintln!("error: {error}");
            match error {
                AskError::Address(_) => EXIT_USAGE,
                AskError::NoAnswer { .. } | AskError::Refused(_) => EXIT_FAILED,
            }
        })
    }

    /// Sends a request and returns the answer. What could not be read of the configuration is told on the way.
    ///
    /// # Errors
    ///
    /// When there is no answer, or it is no.
    pub(crate) fn try_ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, AskError> {
        let address = self.address()?;
        let (status, text) = exchange(&address, method, path, body).map_err(|source| {
            let address = show(&address);
            AskError::NoAnswer { address, source }
        })?;
        let answer: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if status == 200 {
            return Ok(answer);
        }
        let why = answer.get("error").and_then(Value::as_str);
        let why = why.unwrap_or("the agent refused");
        Err(AskError::Refused(why.to_owned()))
    }

    /// Returns the kill file that the configuration names.
    pub(crate) fn kill_file(&self) -> Option<PathBuf> {
        Lenient::read(&self.config, &environment()).kill_file
    }

    fn address(&self) -> Result<AdminAddress, AskError> {
        if let Some(text) = &self.admin {
            return AdminAddress::parse(text).map_err(AskError::Address);
        }
        let lenient = Lenient::read(&self.config, &environment());
        for note in &lenient.notes {
            eprintln!("note: {note}");
        }
        if !lenient.notes.is_empty() {
            eprintln!("note: asking the agent at {}", show(&lenient.admin));
        }
        Ok(lenient.admin)
    }
}

/// Why there is no good answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// The address on the command line is none.
    #[error("--admin {0}")]
    Address(&'static str),
    /// Nobody answers there.
    #[error("no answer from the agent at {address}: {source}")]
    NoAnswer {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The agent says no.
    #[error("{0}")]
    Refused(String),
}

fn show(address: &AdminAddress) -> String {
    match address {
        AdminAddress::Loopback(address) => address.to_string(),
        AdminAddress::Socket(path) => path.display().to_string(),
    }
}

fn exchange(
    address: &AdminAddress,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<(u16, String)> {
    match address {
        AdminAddress::Loopback(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_read_timeout(Some(WAIT))?;
            stream.set_write_timeout(Some(WAIT))?;
            speak(stream, method, path, body)
        }
        AdminAddress::Socket(path_of_socket) => {
            let stream = UnixStream::connect(path_of_socket)?;
            stream.set_read_timeout(Some(WAIT))?;
            speak(stream, method, path, body)
        }
    }
}

/// One request, one answer, and the connection ends: all of HTTP that is needed. Version 1.0 so that nothing is chunked.
fn speak(
    mut stream: impl Read + Write,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> io::Result<(u16, String)> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.0\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    // At once: an agent that needs no body may answer and close before the rest of a request in pieces is out.
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "not an answer in HTTP");
    let (head, text) = answer.split_once("\r\n\r\n").ok_or_else(malformed)?;
    let status = head
        .split_ascii_whitespace()
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or_else(malformed)?;
    Ok((status, text.to_owned()))
}
