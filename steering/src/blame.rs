//! The memory in which it is [noted](scry_engine::blame) whose state a process is working on.
//!
//! Where the service's code may take a process down, that is a process made for the purpose, and whoever made it has to know
//! which node's state it was. So both share memory.

#![expect(
    unsafe_code,
    reason = "memory that outlives a process has no safe form: it is mapped once and never given back"
)]

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};

use nix::libc;
use scry_engine::blame;
pub use scry_engine::blame::{BLAME_BYTES, Blame, Phase, THREADS_MAX};
pub(crate) use scry_engine::blame::{on, present, take};

/// The environment variable that tells a checker the descriptor of the file it notes in.
pub const BLAME_VARIABLE: &str = "SCRY_CHECKER_BLAME";

/// Shares memory with the children this process will fork; once is enough.
///
/// # Errors
///
/// If there is no memory.
pub(crate) fn share_with_children() -> std::io::Result<()> {
    map(-1, libc::MAP_SHARED | libc::MAP_ANONYMOUS)
}

/// Shares memory with whoever has the file of this descriptor.
///
/// # Errors
///
/// If there is no such file or no memory.
pub(crate) fn share_by_file(file: &File) -> std::io::Result<()> {
    if file.metadata()?.len() < BLAME_BYTES as u64 {
        // To touch what is beyond the end of a file ends the process.
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    map(file.as_raw_fd(), libc::MAP_SHARED)
}

fn map(file: RawFd, flags: libc::c_int) -> std::io::Result<()> {
    if blame::is_noted() {
        return Ok(());
    }
    // SAFETY: the kernel chooses a place where nothing is mapped, and the mapping is never taken back.
    let page = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            BLAME_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            file,
            0,
        )
    };
    if page == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the mapping has `BLAME_BYTES` bytes, any of which make words, is aligned to a page, and stays.
    let memory = unsafe { std::slice::from_raw_parts(page.cast(), BLAME_BYTES / size_of::<u64>()) };
    blame::note_in(memory);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use scry_protocol::NodeId;

    #[test]
    fn a_child_that_dies_leaves_what_it_did() {
        share_with_children().expect("memory");
        let node = NodeId::new(3);
        on(Phase::Handling, Some(node), || {
            let outer = present();
            on(Phase::Reading, None, || {
                assert_eq!(present().map(|blame| blame.phase), Some(Phase::Reading));
            });
            assert_eq!(present(), outer);
        });
        assert_eq!(take(), None);
    }
}
