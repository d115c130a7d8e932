//! Damage to encoded messages: what bit errors do, and what somebody who knows the format would try.

/// The fuzzer's dice (splitmix64).
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// Zero once in `many` times.
    pub(crate) fn one_in(&mut self, many: u64) -> u64 {
        self.below(many)
    }

    pub(crate) fn flag(&mut self) -> bool {
        self.draw() & 1 == 1
    }

    /// A number of any magnitude, small ones as likely as large ones.
    pub(crate) fn number(&mut self) -> u64 {
        let bits = self.below(63);
        self.draw() >> (63 - bits).max(2)
    }

    pub(crate) fn bytes(&mut self, max: u64) -> Vec<u8> {
        let length = self.below(max + 1);
        (0..length).map(|_| self.draw() as u8).collect()
    }

    /// Bytes with repetition in them, as states have.
    pub(crate) fn text_like(&mut self, max: u64) -> Vec<u8> {
        let length = self.below(max + 1) as usize;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let word = self.below(12) as u8;
            bytes.extend(std::iter::repeat_n(word, 1 + self.below(9) as usize));
        }
        bytes.truncate(length);
        bytes
    }
}

/// Values that decoders stumble over: MessagePack's markers with the largest lengths, the ends of ranges.
const TRAPS: [&[u8]; 14] = [
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
    &[0xc9, 0xff, 0xff, 0xff, 0xff, 0x00],
    &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xd3, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
];

/// Damages bytes in one to four ways; `other` is what foreign parts are taken from.
pub(crate) fn damage(dice: &mut Dice, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=dice.below(4) {
        let at = dice.below(out.len() as u64 + 1) as usize;
        let end = (at + dice.below(20) as usize).min(out.len());
        match dice.below(8) {
            0 if at < out.len() => out[at] ^= 1 << dice.below(8),
            1 if at < out.len() => out[at] = dice.draw() as u8,
            2 => out.truncate(at),
            3 => drop(out.drain(at..end)),
            4 => {
                let copy = out[at..end].to_vec();
                out.splice(at..at, copy);
            }
            5 => {
                let trap = TRAPS[dice.below(TRAPS.len() as u64) as usize];
                let end = (at + trap.len()).min(out.len());
                out.splice(at..end, trap.iter().copied());
            }
            6 => {
                let trap = TRAPS[dice.below(TRAPS.len() as u64) as usize];
                out.splice(at..at, trap.iter().copied());
            }
            _ => {
                let from = dice.below(other.len() as u64 + 1) as usize;
                let to = (from + dice.below(40) as usize).min(other.len());
                out.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
    out
}

/// Gives damaged bytes a header again that fits their length, so that the body is looked at.
pub(crate) fn mend(frame: &mut Vec<u8>, version: u8, kind: u8) {
    let body = frame.split_off(frame.len().min(3));
    *frame = vec![version, kind];
    let mut length = body.len();
    while length >= 0x80 {
        frame.push(length as u8 | 0x80);
        length >>= 7;
    }
    frame.push(length as u8);
    frame.extend(body);
}
