//! Bodies of a few bytes: fields one after the other, numbers as varints, without any marks between them.
//!
//! For what agents say to each other every few seconds, where MessagePack's marks and full-width numbers would be most of
//! the bytes.

use crate::compress::Packed;
use crate::digest::ShortDigest;
use crate::id::CheckpointNumber;
use crate::varint;

/// Can be written without marks.
pub(crate) trait Compact: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);

    /// Takes a value from the front, or says that there is none.
    fn take(input: &mut &[u8]) -> Option<Self>;
}

/// Reads a value that fills its bytes exactly.
pub(crate) fn read_exactly<T: Compact>(mut bytes: &[u8]) -> Result<T, String> {
    match T::take(&mut bytes) {
        Some(value) if bytes.is_empty() => Ok(value),
        Some(_) => Err("more bytes follow it".to_owned()),
        None => Err("it is cut off, or a number in it is out of range".to_owned()),
    }
}

impl Compact for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, *self);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        varint::take(input)
    }
}

impl Compact for CheckpointNumber {
    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.get());
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Self::new(varint::take(input)?).ok()
    }
}

impl Compact for ShortDigest {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        array(input).map(Self)
    }
}

/// Takes all that is left: nothing can follow it.
impl Compact for Packed {
    fn put(&self, out: &mut Vec<u8>) {
        let (unpacked, bytes) = self.parts();
        varint::put(out, unpacked.into());
        out.extend_from_slice(bytes);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        let unpacked = u32::try_from(varint::take(input)?).ok()?;
        Self::from_parts(unpacked, std::mem::take(input))
    }
}

/// Takes as many bytes as the array has.
pub(crate) fn array<const LENGTH: usize>(input: &mut &[u8]) -> Option<[u8; LENGTH]> {
    let (first, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_or_cut_off_is_refused() {
        let mut bytes = Vec::new();
        CheckpointNumber::from(300).put(&mut bytes);
        assert_eq!(read_exactly(&bytes), Ok(CheckpointNumber::from(300)));
        assert!(read_exactly::<CheckpointNumber>(&bytes[..1]).is_err());
        bytes.push(0);
        assert!(read_exactly::<CheckpointNumber>(&bytes).is_err());
        let mut beyond = Vec::new();
        varint::put(&mut beyond, u64::MAX);
        assert!(read_exactly::<CheckpointNumber>(&beyond).is_err());
    }

    #[test]
    fn packed_bytes_fill_what_is_left() {
        for bytes in [vec![], vec![1, 2, 3], vec![7; 500]] {
            let packed = Packed::pack(bytes.clone());
            let mut out = Vec::new();
            packed.put(&mut out);
            let back: Packed = read_exactly(&out).unwrap();
            assert_eq!(back, packed);
            assert_eq!(back.unpack(1000), Ok(bytes));
        }
    }
}
