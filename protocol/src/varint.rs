//! Numbers in as few bytes as they need: seven bits a byte, lowest first.

/// No number is longer.
pub(crate) const BYTES_MAX: usize = 10;

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; BYTES_MAX];
    let length = set(&mut bytes, 0, value);
    out.extend_from_slice(&bytes[..length]);
}

/// Writes a number at a place, and returns the place after it. There must be room for the longest.
pub(crate) fn set(bytes: &mut [u8], at: usize, value: u64) -> usize {
    let length = length(value);
    let Some(word) = bytes[at..].first_chunk_mut().filter(|_| length <= 8) else {
        return set_bytewise(bytes, at, value);
    };
    // Pulls the number apart in halves, quarters and eighths, so that each byte has seven bits of it.
    let mut spread = (value & 0x0fff_ffff) | ((value & 0x00ff_ffff_f000_0000) << 4);
    spread = (spread & 0x0000_3fff_0000_3fff) | ((spread & 0x0fff_c000_0fff_c000) << 2);
    spread = (spread & 0x007f_007f_007f_007f) | ((spread & 0x3f80_3f80_3f80_3f80) << 1);
    let all_but_last = (1u64 << (8 * (length - 1))) - 1;
    *word = (spread | (all_but_last & 0x8080_8080_8080_8080)).to_le_bytes();
    at + length
}

fn set_bytewise(bytes: &mut [u8], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        bytes[at] = (value as u8) | 0x80;
        value >>= 7;
        at += 1;
    }
    bytes[at] = value as u8;
    at + 1
}

/// Returns how many bytes a number needs.
pub(crate) fn length(value: u64) -> usize {
    // Seven bits a byte, and zero needs one too: a division by seven, rounded up, of what is at most 64.
    ((64 - (value | 1).leading_zeros() as usize) * 9 + 64) / 64
}

/// Reads a number and moves `input` past it; `None` if the input ends first or the number is longer than it need be.
pub(crate) fn take(input: &mut &[u8]) -> Option<u64> {
    let Some(word) = input.first_chunk() else {
        return take_bytewise(input);
    };
    let word = u64::from_le_bytes(*word);
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return take_bytewise(input);
    }
    let length = ends.trailing_zeros() as usize / 8 + 1;
    // Puts the seven bits of each byte together: to eighths, quarters and halves of the number.
    let mut value = word & (u64::MAX >> (64 - 8 * length)) & 0x7f7f_7f7f_7f7f_7f7f;
    value = (value & 0x007f_007f_007f_007f) | ((value & 0x7f00_7f00_7f00_7f00) >> 1);
    value = (value & 0x0000_3fff_0000_3fff) | ((value & 0x3fff_0000_3fff_0000) >> 2);
    value = (value & 0x0fff_ffff) | ((value & 0x0fff_ffff_0000_0000) >> 4);
    *input = &input[length..];
    (self::length(value) == length).then_some(value)
}

fn take_bytewise(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (at, &byte) in input.iter().enumerate().take(BYTES_MAX) {
        let bits = u64::from(byte & 0x7f);
        if at == BYTES_MAX - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if byte & 0x80 == 0 {
            if byte == 0 && at > 0 {
                return None;
            }
            *input = &input[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Folds the sign into the lowest bit, so that small negative numbers stay short.
pub(crate) fn fold_sign(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Undoes [`fold_sign`].
pub(crate) fn unfold_sign(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_read_back(value: u64, shift in 0..64, signed: i64, rest: Vec<u8>) {
            let value = value >> shift;
            let mut out = Vec::new();
            put(&mut out, value);
            prop_assert_eq!(length(value), out.len());
            out.extend(&rest);
            let mut input = out.as_slice();
            prop_assert_eq!(take(&mut input), Some(value));
            prop_assert_eq!(input, rest.as_slice());
            prop_assert_eq!(unfold_sign(fold_sign(signed)), signed);
        }

        #[test]
        fn eight_bytes_at_once_are_the_same_as_one_by_one(value: u64, shift in 0..64, bytes: Vec<u8>) {
            let value = value >> shift;
            let (mut at_once, mut one_by_one) = ([0; BYTES_MAX], [0; BYTES_MAX]);
            let length = set(&mut at_once, 0, value);
            prop_assert_eq!(length, set_bytewise(&mut one_by_one, 0, value));
            prop_assert_eq!(&at_once[..length], &one_by_one[..length]);
            let (mut left, mut right) = (bytes.as_slice(), bytes.as_slice());
            let taken = take(&mut left);
            prop_assert_eq!(taken, take_bytewise(&mut right));
            prop_assert!(taken.is_none() || left == right);
        }
    }

    #[test]
    fn overlong_and_unfinished_numbers_are_refused() {
        assert_eq!(take(&mut [0x80].as_slice()), None);
        assert_eq!(take(&mut [0x81, 0x00].as_slice()), None);
        assert_eq!(take(&mut [0xff; 11].as_slice()), None);
    }
}
