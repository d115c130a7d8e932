//! Chance with a seed, so that two runs meet the same faults.

use scry::{Chance, Dice, Stamp};

/// A stream of drawn numbers.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    dice: Dice,
}

impl Draw {
    /// Starts a stream.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed, Stamp::default(), 0),
        }
    }

    /// Draws a word.
    pub(crate) fn word(&mut self) -> u64 {
        self.dice.random()
    }

    /// Draws a number from 0 up to, but without, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a number between two others.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    /// Draws an index below `of`, which is not 0.
    pub(crate) fn below(&mut self, of: usize) -> usize {
        ((u128::from(self.word()) * of as u128) >> 64) as usize
    }

    /// Draws the time to the next of events that come `rate` times a unit on average.
    pub(crate) fn wait(&mut self, rate: f64) -> f64 {
        -(1.0 - self.unit()).ln() / rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        let draws = |seed| {
            let mut draw = Draw::new(seed);
            [draw.word(), draw.word(), draw.word()]
        };
        assert_eq!(draws(3), draws(3));
        assert_ne!(draws(3), draws(4));
    }

    #[test]
    fn waits_have_their_mean_and_indices_their_bound() {
        let mut draw = Draw::new(1);
        let mean = (0..10_000).map(|_| draw.wait(4.0)).sum::<f64>() / 10_000.0;
        assert!((mean - 0.25).abs() < 0.01, "{mean}");
        assert!((0..1000).all(|_| draw.below(3) < 3));
    }
}
