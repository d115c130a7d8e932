//! Files that forbid steering. One that is there forbids it, unless it says `on`: so `touch` is enough to switch it off,
//! and so is a file that is always there and says `off`, such as a mounted ConfigMap.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A file that is longer than this does not say `on`.
const CONTENT_BYTES_MAX: usize = 64;

/// Tells whether a file forbids steering: it is there, and what it says is not `on`.
///
/// It never waits: what is no ordinary file is not read, and one that cannot be read forbids steering.
pub fn forbids_steering(file: &Path) -> bool {
    match file.metadata() {
        Err(_) => false,
        Ok(metadata) if !metadata.is_file() => true,
        Ok(_) => !says_on(file),
    }
}

fn says_on(file: &Path) -> bool {
    // What is an ordinary file now may be a pipe when it is opened.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(file);
    let read = |file: File| {
        let mut content = Vec::with_capacity(CONTENT_BYTES_MAX);
        let limited = file
            .take(CONTENT_BYTES_MAX as u64)
            .read_to_end(&mut content);
        limited.map(|_| content)
    };
    let content = opened.and_then(read).unwrap_or_default();
    content.trim_ascii().eq_ignore_ascii_case(b"on")
}
