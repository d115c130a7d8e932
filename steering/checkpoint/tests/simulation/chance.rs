//! The simulation's dice: one seed, one sequence.

use scry_engine::{Dice, Stamp};

/// Draws numbers.
#[derive(Debug)]
pub(crate) struct Chance(Dice);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Dice::new(seed, Stamp::default(), 0))
    }

    pub(crate) fn draw(&mut self) -> u64 {
        scry_engine::Chance::random(&mut self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    pub(crate) fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + self.below(range.end - range.start)
    }

    /// True so many times in a thousand.
    pub(crate) fn per_mille(&mut self, chance: u64) -> bool {
        self.below(1000) < chance
    }

    /// True so many times in a million.
    pub(crate) fn per_million(&mut self, chance: u64) -> bool {
        self.below(1_000_000) < chance
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize])
    }
}
