//! Telling the processor what will be read soon. The only unsafe code of the engine.

/// Starts to fetch the cache line of a value. Only a hint: nothing depends on it but time.
#[inline]
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "the intrinsic takes a raw pointer; a search waits for memory without it"
)]
pub(crate) fn prefetch<T>(value: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: prefetching has no effect that a program can observe, at any address; this one is valid besides.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) }
}

/// Does nothing on processors whose hint is not known here.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn prefetch<T>(_value: &T) {}
