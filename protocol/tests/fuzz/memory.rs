//! Counts what a decoder allocates.

#![expect(
    unsafe_code,
    reason = "an allocator that counts has to be an allocator"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

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
pub(crate) fn measure<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = run();
    (result, (PEAK.get() - before).max(0) as usize)
}

#[test]
fn what_is_allocated_is_counted() {
    let (kept, peak) = measure(|| {
        drop(vec![0u8; 100_000]);
        vec![0u8; 1_000]
    });
    assert_eq!(kept.len(), 1_000);
    assert!((100_000..110_000).contains(&peak), "{peak}");
}
