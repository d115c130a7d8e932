//! Whether two processes run the same program: a checker of another build predicts what the service does not do.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How much of a file is compared at once.
const PIECE_BYTES: usize = 64 << 10;

/// Returns where a process's executable is, whatever has become of its name.
pub(super) fn of(process: i32) -> PathBuf {
    format!("/proc/{process}/exe").into()
}

/// Tells whether two files are the same, or have the same content.
///
/// # Errors
///
/// When one cannot be read: it may belong to somebody else, or be gone.
pub(super) fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    let (first, second) = (one.metadata()?, other.metadata()?);
    if (first.dev(), first.ino()) == (second.dev(), second.ino()) {
        return Ok(true);
    }
    if first.len() != second.len() {
        return Ok(false);
    }
    let [mut left, mut right] =
        [one, other].map(|file| BufReader::with_capacity(PIECE_BYTES, file));
    let (mut a, mut b) = (Vec::new(), Vec::new());
    loop {
        a.clear();
        b.clear();
        left.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut a)?;
        right
            .by_ref()
            .take(PIECE_BYTES as u64)
            .read_to_end(&mut b)?;
        if a != b {
            return Ok(false);
        }
        if a.is_empty() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_the_same_by_what_is_in_them() {
        let folder = std::env::temp_dir().join(format!("scry-executable-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, content: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let long = vec![7; 3 * PIECE_BYTES];
        let mut other = long.clone();
        *other.last_mut().unwrap() = 8;
        let one = write("one", &long);
        assert!(is_same(&one, &one).unwrap());
        assert!(is_same(&one, &write("copy", &long)).unwrap());
        assert!(!is_same(&one, &write("other", &other)).unwrap());
        assert!(!is_same(&one, &write("short", &long[1..])).unwrap());
        assert!(is_same(&one, &folder.join("gone")).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
