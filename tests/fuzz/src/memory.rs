//! Counts what a target allocates.

#![expect(
    unsafe_code,
    reason = "an allocator that counts has to be an allocator"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Memory that may be taken whatever the input: the text of an error, say.
pub const SLACK_BYTES: usize = 16 << 10;
/// Memory per byte of input. An element of a list can be many times larger than its shortest encoding, and a growing
/// list holds its old and new self for a moment.
pub const EXPANSION: usize = 100;

/// The system's allocator, with a count per thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn note(change: isize) {
    // During a thread's end its counters are gone: nothing is measured then.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + change);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches thread-local cells only, which need no
// allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: the caller's promises about `pointer` and `layout` are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs something and returns the most bytes it held beyond what was held before.
pub fn measure<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = run();
    (result, (PEAK.get() - before).max(0) as usize)
}

/// Reads an input, and fails if that takes more memory than `fixed` bytes and [`EXPANSION`] for each byte of input.
///
/// # Panics
///
/// When it does.
pub fn frugally<T>(input: &[u8], fixed: usize, read: impl FnOnce() -> T) -> T {
    let (result, peak) = measure(read);
    let most = fixed + SLACK_BYTES + EXPANSION * input.len();
    assert!(peak <= most, "{peak} bytes for an input of {}", input.len());
    result
}
