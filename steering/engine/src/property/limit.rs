//! How much work one judgement may be.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bound of one property's judgements, and how often it was reached.
#[derive(Debug)]
pub struct StepLimit {
    max: u64,
    cut_off: AtomicU64,
}

impl StepLimit {
    /// Bounds judgements by so many steps; 0 for no bound.
    pub fn new(max: u64) -> Self {
        Self {
            max: if max == 0 { u64::MAX } else { max },
            cut_off: AtomicU64::new(0),
        }
    }

    /// Returns the steps one judgement may take.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Notes that a judgement was cut off.
    #[cold]
    pub fn note_cut_off(&self) {
        self.cut_off.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many judgements were cut off.
    pub fn cut_off(&self) -> u64 {
        self.cut_off.load(Ordering::Relaxed)
    }
}
