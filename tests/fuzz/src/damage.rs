//! Damaged copies of inputs, for runs without an engine: what bit errors do, and what somebody who knows formats tries.

/// Chance that repeats itself (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Begins with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Draws a number below a bound; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() % (bound.max(1) as u64)) as usize
    }
}

/// What readers stumble over: MessagePack's marks with the greatest lengths, the ends of ranges, brackets and quotes.
const TRAPS: [&[u8]; 18] = [
    &[0x00],
    &[0x7f],
    &[0x80],
    &[0xff],
    &[0xc0],
    &[0xc1],
    &[0xc6, 0xff, 0xff, 0xff, 0xff],
    &[0xdb, 0xff, 0xff, 0xff, 0xff],
    &[0xdd, 0xff, 0xff, 0xff, 0xff],
    &[0xdf, 0xff, 0xff, 0xff, 0xff],
    &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xd3, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    b"18446744073709551615",
    b"\"",
    b"[[[[",
    b"((",
    "\u{202e}".as_bytes(),
];

/// Damages an input in one to four ways; `other` is what foreign parts are taken from.
pub fn damage(dice: &mut Dice, input: &[u8], other: &[u8], bytes_max: usize) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(out.len() + 1);
        let end = (at + dice.below(20)).min(out.len());
        match dice.below(8) {
            0 if at < out.len() => out[at] ^= 1 << dice.below(8),
            1 if at < out.len() => out[at] = dice.below(256) as u8,
            2 => out.truncate(at),
            3 => drop(out.drain(at..end)),
            4 => {
                let copy = out[at..end].to_vec();
                out.splice(at..at, copy);
            }
            5 => {
                let trap = TRAPS[dice.below(TRAPS.len())];
                let end = (at + trap.len()).min(out.len());
                out.splice(at..end, trap.iter().copied());
            }
            6 => {
                let trap = TRAPS[dice.below(TRAPS.len())];
                out.splice(at..at, trap.iter().copied());
            }
            _ => {
                let from = dice.below(other.len() + 1);
                let to = (from + dice.below(40)).min(other.len());
                out.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
    out.truncate(bytes_max);
    out
}
