//! Reading files that somebody named: never endless, never waited for.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// How large a file may be. Configurations, properties and certificates are far smaller.
pub(crate) const FILE_BYTES_MAX: u64 = 16 << 20;

/// Reads a plain file. A pipe or a device, from which nothing or without end may come, is refused at once.
///
/// # Errors
///
/// When it cannot be read, is no plain file or too large.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what);
    // Opening a pipe waits for its other end, unless it is told not to.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(wrong("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(wrong("it is larger than 16 MiB")),
        false => Ok(bytes),
    }
}

/// Reads a plain file that is text.
///
/// # Errors
///
/// As [`read`], and when it is not UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::scratch::Scratch;

    #[test]
    fn a_pipe_is_not_waited_for_and_a_device_is_not_read() {
        let scratch = Scratch::new();
        let pipe = scratch.path().join("scry.toml");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
        for path in [&pipe, Path::new("/dev/zero"), scratch.path()] {
            let error = read(path).unwrap_err();
            assert_eq!(error.to_string(), "it is not a plain file", "{path:?}");
        }
        // A secret of Kubernetes is a link to a plain file.
        let file = scratch.path().join("file");
        std::fs::write(&file, "text").unwrap();
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(read_text(&link).unwrap(), "text");
    }

    #[test]
    fn too_large_a_file_is_refused() {
        let scratch = Scratch::new();
        let path = scratch.path().join("large");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(FILE_BYTES_MAX + 1).unwrap();
        assert!(read(&path).is_err());
        file.set_len(FILE_BYTES_MAX).unwrap();
        assert!(read(&path).is_ok());
    }
}
