//! Corpora in the repository: one file for each target, one input a line, with everything but plain letters escaped as
//! in a byte string of Rust.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How many bytes the file of one target may have.
const FILE_BYTES_MAX: usize = 8_000;

/// Returns the file that holds a target's corpus.
pub fn file(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target)
}

/// Reads a corpus.
///
/// # Errors
///
/// When there is none, or a line is not what [`write()`] writes.
pub fn read(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let file = file(target);
    let text = fs::read_to_string(&file)
        .map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
    let read = |(at, line): (usize, &str)| {
        unescape(line)
            .ok_or_else(|| io::Error::other(format!("{}:{}: not an input", file.display(), at + 1)))
    };
    text.lines().enumerate().map(read).collect()
}

/// Writes a corpus. If there is no room for all inputs, short and long ones are left out alike.
///
/// # Errors
///
/// When the disk does not take it.
pub fn write(target: &str, mut inputs: Vec<Vec<u8>>) -> io::Result<()> {
    inputs.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    inputs.dedup();
    let lines: Vec<String> = inputs
        .iter()
        .map(|input| format!("{}\n", input.escape_ascii()))
        .collect();
    let every = |step: usize| lines.iter().rev().step_by(step).rev();
    let fits = |step: &usize| every(*step).map(String::len).sum::<usize>() <= FILE_BYTES_MAX;
    let step = (1..=lines.len()).find(fits).unwrap_or(1);
    fs::write(
        file(target),
        every(step).map(String::as_str).collect::<String>(),
    )
}

fn unescape(line: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = line.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    Some(out)
}
