//! Numbers in as few bytes as they need: seven bits a byte, lowest first.

/// Appends a number.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns how many bytes a number needs.
pub(crate) fn length(value: u64) -> usize {
    // Seven bits a byte, and zero needs one too.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads a number and moves `input` past it; `None` if the input ends first or the number is longer than it need be.
pub(crate) fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (at, &byte) in input.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7f);
        if at == 9 && bits > 1 {
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
        fn numbers_read_back(value: u64, signed: i64, rest: Vec<u8>) {
            let mut out = Vec::new();
            put(&mut out, value);
            prop_assert_eq!(length(value), out.len());
            out.extend(&rest);
            let mut input = out.as_slice();
            prop_assert_eq!(take(&mut input), Some(value));
            prop_assert_eq!(input, rest.as_slice());
            prop_assert_eq!(unfold_sign(fold_sign(signed)), signed);
        }
    }

    #[test]
    fn overlong_and_unfinished_numbers_are_refused() {
        assert_eq!(take(&mut [0x80].as_slice()), None);
        assert_eq!(take(&mut [0x81, 0x00].as_slice()), None);
        assert_eq!(take(&mut [0xff; 11].as_slice()), None);
    }
}
