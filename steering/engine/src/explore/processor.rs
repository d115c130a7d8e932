//! What the engine asks of the processor: to fetch what will be read soon, and to compare several words at a time where it can.
//! The only unsafe code of the engine.

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

/// Does `work`, compiled for processors that compare four words at a time if this is one: most of the last ten years are, and
/// nobody has to tell the compiler so when he builds.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[expect(
    unsafe_code,
    reason = "code for instructions that not every processor has may run only on those that have them"
)]
pub(crate) fn with_wide_compares<R>(work: impl Wide<R>) -> R {
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn wide<R>(work: impl Wide<R>) -> R {
        work.run()
    }
    let is_wide = std::arch::is_x86_feature_detected!("avx2")
        && std::arch::is_x86_feature_detected!("bmi1")
        && std::arch::is_x86_feature_detected!("bmi2")
        && std::arch::is_x86_feature_detected!("lzcnt")
        && std::arch::is_x86_feature_detected!("popcnt");
    match is_wide {
        // SAFETY: the processor was asked for each of these.
        true => unsafe { wide(work) },
        false => work.run(),
    }
}

/// Does `work`.
#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn with_wide_compares<R>(work: impl Wide<R>) -> R {
    work.run()
}

/// Work that is compiled twice. A closure may stay a function of its own, compiled for any processor; `run` has to be
/// `#[inline(always)]`.
pub(crate) trait Wide<R> {
    /// Does it.
    fn run(self) -> R;
}
