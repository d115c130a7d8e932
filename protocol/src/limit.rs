//! How large anything that crosses a wire may be.
//!
//! The limits are checked by serde helpers while a value is read, before anything is allocated for it, and again while
//! it is written, so that a host with too large a state hears of it where it can still do something about it. They are
//! used as `#[serde(with = "limit::Bytes::<STATE_BYTES_MAX>")]`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A node's state as the service encodes it.
pub const STATE_BYTES_MAX: usize = 4 << 20;
/// A node's armed timers.
pub const TIMERS_BYTES_MAX: usize = 64 << 10;
/// The content of a checkpoint: state, timers and channel state, encoded.
pub const BODY_BYTES_MAX: usize = STATE_BYTES_MAX + (1 << 20);
/// Channels in one direction that a checkpoint describes.
pub const CHANNELS_MAX: usize = 512;
/// Unacknowledged messages a checkpoint keeps for one channel.
pub const UNACKNOWLEDGED_MAX: usize = 256;
/// One service message that is kept because it is unacknowledged.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// All unacknowledged messages of one checkpoint together.
pub const UNACKNOWLEDGED_BYTES_MAX: usize = 256 << 10;
/// Members of a snapshot: a node and its neighbors. How many neighbors count is a setting of the agent, below this.
pub const MEMBERS_MAX: usize = 512;
/// Neighbors that a service may name. More than a snapshot has room for, so that the agent can say that there are too many.
pub const NEIGHBORS_NAMED_MAX: usize = 4096;
/// Nodes of which a stamp or a checkpoint says when they last changed.
pub const PAST_ENTRIES_MAX: usize = 256;
/// Peers reported in one frame of observed contacts.
pub const CONTACTS_MAX: usize = 1024;
/// A name: of a service, a property, a message type, a timer.
pub const NAME_BYTES_MAX: usize = 256;
/// A sentence for people: a reason, an explanation.
pub const TEXT_BYTES_MAX: usize = 4 << 10;
/// Filters installed or withdrawn by one frame.
pub const FILTERS_MAX: usize = 256;
/// Properties of one job.
pub const PROPERTIES_MAX: usize = 256;
/// Properties whose harm a host counts one by one.
pub const HARM_MAX: usize = 64;
/// Files that forbid steering.
pub const SWITCHES_MAX: usize = 4;
/// A property file.
pub const PROPERTY_FILE_BYTES_MAX: usize = 1 << 20;
/// Past paths given with one job, and violations in one report.
pub const PATHS_MAX: usize = 256;
/// One path: its events, encoded by the service.
pub const PATH_BYTES_MAX: usize = 256 << 10;
/// A path spelled out for people, with every state along it.
pub const TRACE_BYTES_MAX: usize = 4 << 20;

/// A frame that carries only numbers and names.
pub const SMALL_FRAME_BYTES_MAX: usize = 64 << 10;
/// A frame that carries one checkpoint.
pub const CHECKPOINT_FRAME_BYTES_MAX: usize = BODY_BYTES_MAX + SMALL_FRAME_BYTES_MAX;
/// A frame that carries a whole snapshot, or all that was found in one.
pub const SNAPSHOT_FRAME_BYTES_MAX: usize = 64 << 20;

/// Byte strings of at most `MAX` bytes.
#[derive(Debug)]
pub struct Bytes<const MAX: usize>;

/// Texts of at most `MAX` bytes.
#[derive(Debug)]
pub struct Text<const MAX: usize>;

/// Lists of at most `MAX` elements.
#[derive(Debug)]
pub struct List<const MAX: usize>;

/// Lists of at most `MAX` elements that may be absent.
#[derive(Debug)]
pub struct OptionalList<const MAX: usize>;

fn too_long(length: usize, max: usize) -> String {
    format!("{length} where at most {max} are allowed")
}

impl<const MAX: usize> Bytes<MAX> {
    /// Writes a byte string.
    ///
    /// # Errors
    ///
    /// When it is too long.
    pub fn serialize<B: AsRef<[u8]>, S: Serializer>(
        value: &B,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = value.as_ref();
        if bytes.len() > MAX {
            return Err(S::Error::custom(too_long(bytes.len(), MAX)));
        }
        serializer.serialize_bytes(bytes)
    }

    /// Reads a byte string.
    ///
    /// # Errors
    ///
    /// When it is too long, or something else.
    pub fn deserialize<'de, B: From<Vec<u8>>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<B, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor::<MAX, B>(PhantomData))
    }
}

struct BytesVisitor<const MAX: usize, B>(PhantomData<B>);

impl<const MAX: usize, B: From<Vec<u8>>> Visitor<'_> for BytesVisitor<MAX, B> {
    type Value = B;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX} bytes")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<B, E> {
        if bytes.len() > MAX {
            return Err(E::custom(too_long(bytes.len(), MAX)));
        }
        Ok(bytes.to_vec().into())
    }
}

impl<const MAX: usize> Text<MAX> {
    /// Writes a text.
    ///
    /// # Errors
    ///
    /// When it is too long.
    pub fn serialize<T: AsRef<str>, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = value.as_ref();
        if text.len() > MAX {
            return Err(S::Error::custom(too_long(text.len(), MAX)));
        }
        serializer.serialize_str(text)
    }

    /// Reads a text.
    ///
    /// # Errors
    ///
    /// When it is too long, or something else.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(TextVisitor::<MAX>)
    }
}

struct TextVisitor<const MAX: usize>;

impl<const MAX: usize> Visitor<'_> for TextVisitor<MAX> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text of at most {MAX} bytes")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<String, E> {
        if text.len() > MAX {
            return Err(E::custom(too_long(text.len(), MAX)));
        }
        Ok(text.to_owned())
    }
}

impl<const MAX: usize> List<MAX> {
    /// Writes a list.
    ///
    /// # Errors
    ///
    /// When it is too long.
    pub fn serialize<T: Serialize, S: Serializer>(
        value: &[T],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        if value.len() > MAX {
            return Err(S::Error::custom(too_long(value.len(), MAX)));
        }
        serializer.collect_seq(value)
    }

    /// Reads a list.
    ///
    /// # Errors
    ///
    /// When it is too long, or something else.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(ListVisitor::<MAX, T>(PhantomData))
    }
}

struct ListVisitor<const MAX: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for ListVisitor<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
        if let Some(length) = sequence.size_hint()
            && length > MAX
        {
            return Err(A::Error::custom(too_long(length, MAX)));
        }
        // Grown as elements are read: a header that only claims many costs nothing.
        let mut list = Vec::new();
        while let Some(element) = sequence.next_element()? {
            if list.len() == MAX {
                return Err(A::Error::custom(too_long(MAX + 1, MAX)));
            }
            list.push(element);
        }
        Ok(list)
    }
}

impl<const MAX: usize> OptionalList<MAX> {
    /// Writes a list or its absence.
    ///
    /// # Errors
    ///
    /// When it is too long.
    pub fn serialize<T: Serialize, S: Serializer>(
        value: &Option<Vec<T>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(list) => List::<MAX>::serialize(list, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// Reads a list or its absence.
    ///
    /// # Errors
    ///
    /// When it is too long, or something else.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Vec<T>>, D::Error> {
        deserializer.deserialize_option(OptionVisitor::<MAX, T>(PhantomData))
    }
}

struct OptionVisitor<const MAX: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for OptionVisitor<MAX, T> {
    type Value = Option<Vec<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing, or a list of at most {MAX} elements")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        List::<MAX>::deserialize(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        #[serde(with = "Bytes::<3>")]
        bytes: Vec<u8>,
        #[serde(with = "Text::<3>")]
        text: String,
        #[serde(with = "List::<3>")]
        list: Vec<u32>,
        #[serde(with = "OptionalList::<3>")]
        optional: Option<Vec<u32>>,
    }

    fn check(length: usize, fits: bool) {
        let sample = |which: usize| Sample {
            bytes: vec![7; if which == 0 { length } else { 0 }],
            text: "x".repeat(if which == 1 { length } else { 0 }),
            list: vec![7; if which == 2 { length } else { 0 }],
            optional: (which == 3).then(|| vec![7; length]),
        };
        for which in 0..4 {
            let value = sample(which);
            let written = rmp_serde::to_vec(&value);
            assert_eq!(written.is_ok(), fits, "writing {value:?}");
            // The same bytes without the writer's own check: what a careless or hostile peer would send.
            let bytes =
                rmp_serde::to_vec(&(Raw(&value.bytes), &value.text, &value.list, &value.optional))
                    .unwrap();
            let read = crate::messagepack::from_slice::<Sample>(&bytes);
            assert_eq!(read.is_ok(), fits, "reading {value:?}");
            if let Ok(read) = read {
                assert_eq!(read, value);
            }
        }
    }

    struct Raw<'a>(&'a [u8]);

    impl Serialize for Raw<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(self.0)
        }
    }

    #[test]
    fn a_field_at_its_limit_passes_and_one_above_is_refused_both_ways() {
        check(0, true);
        check(3, true);
        check(4, false);
    }
}
