//! Names for contents: the first bytes of their BLAKE3 hash.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A content's name, long enough that nobody can make two contents share one.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Digest([u8; 16]);

/// The first bytes of a [`Digest`]: enough to notice an accident between two agents that trust each other to speak about
/// themselves, and few, since every request and every difference carries one. A base is looked for by its number and
/// this among a handful, and what is made from it is compared once more.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ShortDigest(pub(crate) [u8; 4]);

impl Digest {
    /// Names a content.
    pub fn of(content: &[u8]) -> Self {
        let hash = blake3::hash(content);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash.as_bytes()[..16]);
        Self(bytes)
    }

    /// Returns the first bytes.
    pub fn short(self) -> ShortDigest {
        let [a, b, c, d, ..] = self.0;
        ShortDigest([a, b, c, d])
    }
}

macro_rules! as_bytes {
    ($name:ident, $length:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_bytes(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let bytes: Vec<u8> = crate::limit::Bytes::<$length>::deserialize(deserializer)?;
                bytes
                    .try_into()
                    .map(Self)
                    .map_err(|_| serde::de::Error::custom("a digest of another length"))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}

as_bytes!(Digest, 16);
as_bytes!(ShortDigest, 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_start_of_the_published_hash() {
        // BLAKE3's own test vector for the empty input begins like this.
        assert_eq!(
            Digest::of(b"").to_string(),
            "af1349b9f5f9a1a6a0404dea36dcc949"
        );
        assert_eq!(Digest::of(b"").short().to_string(), "af1349b9");
    }

    #[test]
    fn a_digest_of_another_length_is_refused() {
        let digest = Digest::of(b"x");
        let bytes = rmp_serde::to_vec(&digest).unwrap();
        assert_eq!(
            crate::messagepack::from_slice::<Digest>(&bytes).unwrap(),
            digest
        );
        assert!(crate::messagepack::from_slice::<ShortDigest>(&bytes).is_err());
    }
}
