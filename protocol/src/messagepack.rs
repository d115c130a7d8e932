//! MessagePack: written by rmp-serde, and read as it writes it, with little code for each type that is read.
//!
//! The reader of rmp-serde is compiled anew for every type, with all that may stand in the bytes: of what a small service
//! compiled, a sixth was that. Here the bytes are read by code that is compiled once, and for a type there is only what it makes
//! of them. Tests hold both readers together: what one reads or refuses, the other does. Extension types alone are refused: nobody
//! here writes them.

use std::fmt;
use std::io;
use std::str::Utf8Error;

use rmp::Marker;
use rmp::decode::RmpRead;
pub use rmp_serde::decode::Error;
pub use rmp_serde::encode::Error as WriteError;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IgnoredAny, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::{Deserialize, Serialize};

/// How deep values may lie in each other.
const DEPTH_MAX: u16 = 1024;

/// Reads a value; what follows it is not looked at.
///
/// # Errors
///
/// When the bytes end too soon, or are not what the type is made of.
pub fn from_slice<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, Error> {
    T::deserialize(&mut Reader::new(bytes))
}

/// Writes a value.
///
/// # Errors
///
/// When the type's own code fails, or has a length that it does not know in advance.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, WriteError> {
    let mut out = Vec::new();
    write(&mut out, value)?;
    Ok(out)
}

/// Appends a value: the one writer that there is code for in every type.
///
/// # Errors
///
/// As [`to_vec`].
pub fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), WriteError> {
    rmp_serde::encode::write(out, value)
}

/// Begins a list of so many values, which are [written](write()) one by one.
pub fn write_list(out: &mut Vec<u8>, length: u32) {
    rmp::encode::write_array_len(out, length).expect("a vector takes everything");
}

/// A value as it stands in the bytes, for whoever knows its type. Only a [`Reader`] reads it, and not as the content of an
/// option.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Raw<'de>(&'de [u8]);

impl<'de> Raw<'de> {
    const NAME: &'static str = "scry_protocol::messagepack::Raw";

    /// Reads it.
    ///
    /// # Errors
    ///
    /// As [`from_slice`].
    pub fn read<T: Deserialize<'de>>(self) -> Result<T, Error> {
        from_slice(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;

        impl<'de> Visitor<'de> for Bytes {
            type Value = Raw<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value that our own reader reads")
            }

            fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Raw(bytes))
            }
        }

        deserializer.deserialize_newtype_struct(Self::NAME, Bytes)
    }
}

/// Reads values one after the other.
#[derive(Debug)]
pub struct Reader<'de> {
    rest: &'de [u8],
    /// What was read of the next value already.
    marker: Option<Marker>,
    depth: u16,
    /// Whether every byte is a number of its own, as it is where bytes stand for a list.
    is_raw: bool,
}

/// One step through the bytes.
#[derive(Clone, Copy, Debug)]
enum Token<'de> {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Single(f32),
    Double(f64),
    Text(&'de str),
    /// What should be a text.
    NoText(&'de [u8], Utf8Error),
    Bytes(&'de [u8]),
    Array(u32),
    Map(u32),
}

impl Token<'_> {
    /// Says that it is not what a type is made of.
    #[cold]
    fn refuse(self, expected: &dyn Expected) -> Error {
        let found = match self {
            Token::Nil => Unexpected::Unit,
            Token::Bool(value) => Unexpected::Bool(value),
            Token::Unsigned(value) => Unexpected::Unsigned(value),
            Token::Signed(value) => Unexpected::Signed(value),
            Token::Single(value) => Unexpected::Float(value.into()),
            Token::Double(value) => Unexpected::Float(value),
            Token::Text(text) => Unexpected::Str(text),
            Token::NoText(_, error) => return Error::Utf8Error(error),
            Token::Bytes(bytes) => Unexpected::Bytes(bytes),
            Token::Array(_) => Unexpected::Seq,
            Token::Map(_) => Unexpected::Map,
        };
        Error::invalid_type(found, expected)
    }
}

impl<'de> Reader<'de> {
    /// Starts at the first of these bytes.
    #[must_use]
    pub fn new(bytes: &'de [u8]) -> Self {
        Self {
            rest: bytes,
            marker: None,
            depth: DEPTH_MAX,
            is_raw: false,
        }
    }

    /// Tells whether there are no more bytes.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty() && self.marker.is_none()
    }

    /// Begins a list of so many values, which are read one by one.
    ///
    /// # Errors
    ///
    /// When there is something else.
    pub fn read_list(&mut self, length: u32) -> Result<(), Error> {
        match self.token()? {
            Token::Array(found) if found == length => Ok(()),
            Token::Array(_) => Err(Error::LengthMismatch(length)),
            token => Err(token.refuse(&"a list")),
        }
    }

    /// Passes over a value, and returns its bytes.
    fn raw(&mut self) -> Result<&'de [u8], Error> {
        let from = self.rest;
        if self.marker.is_some() {
            return Err(Error::Uncategorized("a raw value in an option".to_owned()));
        }
        IgnoredAny::deserialize(&mut *self)?;
        Ok(&from[..from.len() - self.rest.len()])
    }

    fn take_marker(&mut self) -> Result<Marker, Error> {
        match self.marker.take() {
            Some(marker) => Ok(marker),
            None if self.is_raw && !self.rest.is_empty() => Ok(Marker::U8),
            None => Ok(rmp::decode::read_marker(&mut self.rest)?),
        }
    }

    fn token(&mut self) -> Result<Token<'de>, Error> {
        let marker = self.take_marker()?;
        self.token_at(marker)
    }

    fn token_at(&mut self, marker: Marker) -> Result<Token<'de>, Error> {
        let rest = &mut self.rest;
        Ok(match marker {
            Marker::Null => Token::Nil,
            Marker::True => Token::Bool(true),
            Marker::False => Token::Bool(false),
            Marker::FixPos(value) => Token::Unsigned(value.into()),
            Marker::FixNeg(value) => Token::Signed(value.into()),
            Marker::U8 => Token::Unsigned(rest.read_data_u8()?.into()),
            Marker::U16 => Token::Unsigned(rest.read_data_u16()?.into()),
            Marker::U32 => Token::Unsigned(rest.read_data_u32()?.into()),
            Marker::U64 => Token::Unsigned(rest.read_data_u64()?),
            Marker::I8 => Token::Signed(rest.read_data_i8()?.into()),
            Marker::I16 => Token::Signed(rest.read_data_i16()?.into()),
            Marker::I32 => Token::Signed(rest.read_data_i32()?.into()),
            Marker::I64 => Token::Signed(rest.read_data_i64()?),
            Marker::F32 => Token::Single(rest.read_data_f32()?),
            Marker::F64 => Token::Double(rest.read_data_f64()?),
            Marker::FixStr(length) => self.text(length.into())?,
            Marker::Str8 => {
                let length = rest.read_data_u8()?;
                self.text(length.into())?
            }
            Marker::Str16 => {
                let length = rest.read_data_u16()?;
                self.text(length.into())?
            }
            Marker::Str32 => {
                let length = rest.read_data_u32()?;
                self.text(length)?
            }
            Marker::Bin8 => {
                let length = rest.read_data_u8()?;
                Token::Bytes(self.bytes(length.into())?)
            }
            Marker::Bin16 => {
                let length = rest.read_data_u16()?;
                Token::Bytes(self.bytes(length.into())?)
            }
            Marker::Bin32 => {
                let length = rest.read_data_u32()?;
                Token::Bytes(self.bytes(length)?)
            }
            Marker::FixArray(length) => Token::Array(length.into()),
            Marker::Array16 => Token::Array(rest.read_data_u16()?.into()),
            Marker::Array32 => Token::Array(rest.read_data_u32()?),
            Marker::FixMap(length) => Token::Map(length.into()),
            Marker::Map16 => Token::Map(rest.read_data_u16()?.into()),
            Marker::Map32 => Token::Map(rest.read_data_u32()?),
            other => return Err(Error::TypeMismatch(other)),
        })
    }

    /// Reads what a type asked for that is a number or a truth value.
    fn number(&mut self) -> Result<Token<'de>, Error> {
        let marker = self.take_marker()?;
        match marker {
            Marker::FixStr(_)
            | Marker::Str8
            | Marker::Str16
            | Marker::Str32
            | Marker::Bin8
            | Marker::Bin16
            | Marker::Bin32
            | Marker::FixArray(_)
            | Marker::Array16
            | Marker::Array32
            | Marker::FixMap(_)
            | Marker::Map16
            | Marker::Map32 => Err(Error::TypeMismatch(marker)),
            _ => self.token_at(marker),
        }
    }

    fn large_number(&mut self) -> Result<i128, Error> {
        let marker = self.take_marker()?;
        match self.token_at(marker)? {
            Token::Unsigned(value) => Ok(value.into()),
            Token::Signed(value) => Ok(value.into()),
            Token::Bytes(bytes) if marker == Marker::Bin8 => {
                let bytes = bytes.try_into().map_err(|_| Error::LengthMismatch(16))?;
                Ok(i128::from_be_bytes(bytes))
            }
            _ => Err(Error::TypeMismatch(marker)),
        }
    }

    fn bytes(&mut self, length: u32) -> Result<&'de [u8], Error> {
        let split = self.rest.split_at_checked(length as usize);
        let (bytes, rest) = split
            .ok_or_else(|| Error::InvalidDataRead(io::Error::from(io::ErrorKind::UnexpectedEof)))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn text(&mut self, length: u32) -> Result<Token<'de>, Error> {
        let bytes = self.bytes(length)?;
        Ok(match std::str::from_utf8(bytes) {
            Ok(text) => Token::Text(text),
            Err(error) => Token::NoText(bytes, error),
        })
    }

    fn enter(&mut self) -> Result<(), Error> {
        self.depth -= 1;
        match self.depth {
            0 => Err(Error::DepthLimitExceeded),
            _ => Ok(()),
        }
    }

    /// Leaves a list or a map of so many entries, of which so many were not read.
    fn leave(&mut self, length: u32, left: u32) -> Result<(), Error> {
        self.depth += 1;
        match left {
            0 => Ok(()),
            _ => Err(Error::LengthMismatch(length - left)),
        }
    }

    fn list<V: Visitor<'de>>(&mut self, length: u32, visitor: V) -> Result<V::Value, Error> {
        self.enter()?;
        let mut entries = Entries {
            reader: self,
            left: length,
        };
        let value = visitor.visit_seq(&mut entries)?;
        let left = entries.left;
        self.leave(length, left)?;
        Ok(value)
    }

    fn map<V: Visitor<'de>>(&mut self, length: u32, visitor: V) -> Result<V::Value, Error> {
        self.enter()?;
        let mut entries = Entries {
            reader: self,
            left: length,
        };
        let value = visitor.visit_map(&mut entries)?;
        let left = entries.left;
        self.leave(length, left)?;
        Ok(value)
    }

    /// Reads what is a list or a map, by the type that asked for it; bytes are a list of numbers.
    fn container<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Array(length) => self.list(length, visitor),
            Token::Map(length) => self.map(length, visitor),
            Token::Bytes(bytes) => {
                let mut numbers = Reader {
                    is_raw: true,
                    ..Reader::new(bytes)
                };
                visitor.visit_seq(&mut Entries {
                    reader: &mut numbers,
                    left: bytes.len() as u32,
                })
            }
            token => Err(token.refuse(&visitor)),
        }
    }
}

macro_rules! numbers {
    ($($method:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.number()? {
                Token::Bool(value) => visitor.visit_bool(value),
                Token::Unsigned(value) => visitor.visit_u64(value),
                Token::Signed(value) => visitor.visit_i64(value),
                Token::Single(value) => visitor.visit_f32(value),
                Token::Double(value) => visitor.visit_f64(value),
                token => Err(token.refuse(&visitor)),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Error;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Nil => visitor.visit_unit(),
            Token::Bool(value) => visitor.visit_bool(value),
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Signed(value) => visitor.visit_i64(value),
            Token::Single(value) => visitor.visit_f32(value),
            Token::Double(value) => visitor.visit_f64(value),
            Token::Text(text) => visitor.visit_borrowed_str(text),
            // Whoever takes bytes may have them.
            Token::NoText(bytes, error) => visitor
                .visit_borrowed_bytes(bytes)
                .map_err(|_: Error| Error::Utf8Error(error)),
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            Token::Array(length) => self.list(length, visitor),
            Token::Map(length) => self.map(length, visitor),
        }
    }

    numbers! {
        deserialize_bool deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_f32 deserialize_f64
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i128(self.large_number()?)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_u128(self.large_number()?.cast_unsigned())
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let marker = self.take_marker()?;
        if marker == Marker::Null {
            return visitor.visit_none();
        }
        self.marker = Some(marker);
        visitor.visit_some(self)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Nil | Token::Array(0) => visitor.visit_unit(),
            token => Err(token.refuse(&visitor)),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match name == Raw::NAME {
            true => visitor.visit_borrowed_bytes(self.raw()?),
            false => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.container(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.container(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.container(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.container(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let marker = self.take_marker()?;
        // A variant with something in it is a map of one entry; one with nothing is just its name or number.
        let has_content = matches!(marker, Marker::FixMap(_) | Marker::Map16 | Marker::Map32);
        if !has_content {
            self.marker = Some(marker);
        } else if let Token::Map(length @ (0 | 2..)) = self.token_at(marker)? {
            return Err(Error::LengthMismatch(length));
        }
        visitor.visit_enum(Variant {
            reader: self,
            has_content,
        })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.token()? {
            Token::Unsigned(value) => visitor.visit_u64(value),
            Token::Text(text) => visitor.visit_borrowed_str(text),
            Token::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            token => Err(token.refuse(&visitor)),
        }
    }

    serde::forward_to_deserialize_any! {
        bytes byte_buf unit map str string char ignored_any
    }
}

/// The entries of a list or of a map.
struct Entries<'a, 'de> {
    reader: &'a mut Reader<'de>,
    left: u32,
}

impl Entries<'_, '_> {
    fn has_next(&mut self) -> bool {
        let has = self.left > 0;
        self.left -= u32::from(has);
        has
    }
}

impl<'de> SeqAccess<'de> for Entries<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        match self.has_next() {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        match self.has_next() {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left as usize)
    }
}

/// A variant of an enum.
struct Variant<'a, 'de> {
    reader: &'a mut Reader<'de>,
    has_content: bool,
}

impl Variant<'_, '_> {
    fn expect_content(&self, expected: &'static str) -> Result<(), Error> {
        match self.has_content {
            true => Ok(()),
            false => Err(Error::invalid_type(Unexpected::UnitVariant, &expected)),
        }
    }
}

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Error> {
        Ok((seed.deserialize(&mut *self.reader)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        if !self.has_content {
            return Ok(());
        }
        match self.reader.take_marker()? {
            Marker::Null => Ok(()),
            marker => Err(Error::TypeMismatch(marker)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        self.expect_content("newtype variant")?;
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, Error> {
        self.expect_content("tuple variant")?;
        self.reader.container(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.expect_content("struct variant")?;
        self.reader.container(visitor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use proptest::prelude::*;
    use serde::de::DeserializeOwned;

    use super::*;

    /// Something of everything that types are made of.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Sample {
        Unit,
        Newtype(Option<u16>),
        Tuple(i8, (f32, f64), char),
        Struct {
            text: String,
            list: Vec<Sample>,
            map: BTreeMap<i64, Vec<u8>>,
        },
        Nested(Wrapped, Plain, Option<Box<Sample>>),
        Large(i128, u128, [u8; 4]),
        Bytes(Blob),
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Wrapped(bool);

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Plain;

    /// Bytes that are written as such.
    #[derive(Clone, Debug, PartialEq)]
    struct Blob(Vec<u8>);

    impl Serialize for Blob {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(&self.0)
        }
    }

    impl<'de> Deserialize<'de> for Blob {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            // As a list, which rmp-serde reads from bytes too.
            Vec::deserialize(deserializer).map(Self)
        }
    }

    fn sample() -> impl Strategy<Value = Sample> {
        let leaf = prop_oneof![
            Just(Sample::Unit),
            any::<Option<u16>>().prop_map(Sample::Newtype),
            (any::<i8>(), -1e3..1e3f32, -1e9..1e9f64, any::<char>())
                .prop_map(|(a, b, c, d)| Sample::Tuple(a, (b, c), d)),
            any::<(i64, u64, [u8; 4])>().prop_map(|(a, b, c)| Sample::Large(a.into(), b.into(), c)),
            any::<Vec<u8>>().prop_map(|bytes| Sample::Bytes(Blob(bytes))),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            let list = prop::collection::vec(inner.clone(), 0..4);
            let map = prop::collection::btree_map(any::<i64>(), any::<Vec<u8>>(), 0..3);
            prop_oneof![
                (any::<String>(), list, map).prop_map(|(text, list, map)| Sample::Struct {
                    text,
                    list,
                    map
                }),
                (any::<bool>(), prop::option::of(inner)).prop_map(|(value, inner)| {
                    Sample::Nested(Wrapped(value), Plain, inner.map(Box::new))
                }),
            ]
        })
    }

    /// Reads with both readers, which must agree in what they read and in what they say is wrong.
    fn check<T: DeserializeOwned + PartialEq + Debug>(bytes: &[u8]) {
        let ours = from_slice::<T>(bytes).map_err(|error| error.to_string());
        let theirs = rmp_serde::from_slice::<T>(bytes).map_err(|error| error.to_string());
        assert_eq!(ours, theirs, "{bytes:02x?}");
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(sample in sample()) {
            for bytes in [rmp_serde::to_vec(&sample), rmp_serde::to_vec_named(&sample)] {
                let bytes = bytes.expect("a sample can be written");
                prop_assert_eq!(&from_slice::<Sample>(&bytes).expect("it is read"), &sample);
                check::<Sample>(&bytes);
            }
        }

        #[test]
        fn what_is_damaged_is_read_and_refused_as_by_rmp_serde(
            sample in sample(),
            places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
            length in any::<prop::sample::Index>(),
        ) {
            let mut bytes = rmp_serde::to_vec(&sample).expect("a sample can be written");
            for (place, byte) in places {
                let place = place.index(bytes.len());
                // Extension types are refused, whatever is in them.
                bytes[place] = if (0xc7..=0xc9).contains(&byte) || (0xd4..=0xd8).contains(&byte) { 0xc0 } else { byte };
            }
            bytes.truncate(length.index(bytes.len() + 1));
            // Where several things are wrong, one reader may see another of them first.
            let theirs = rmp_serde::from_slice::<Sample>(&bytes);
            prop_assert_eq!(from_slice::<Sample>(&bytes).ok(), theirs.ok(), "{:02x?}", bytes);
        }

        #[test]
        fn small_types_are_read_from_anything_as_by_rmp_serde(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut bytes = bytes;
            bytes.retain(|byte| !(0xc7..=0xc9).contains(byte) && !(0xd4..=0xd8).contains(byte));
            check::<u8>(&bytes);
            check::<i32>(&bytes);
            check::<bool>(&bytes);
            check::<String>(&bytes);
            check::<Option<u64>>(&bytes);
            check::<(u8, i16)>(&bytes);
            check::<Vec<u8>>(&bytes);
            check::<BTreeMap<u8, bool>>(&bytes);
            check::<Plain>(&bytes);
            check::<Wrapped>(&bytes);
        }
    }

    #[test]
    fn what_lies_too_deep_is_refused() {
        let bytes = [vec![0x91; 2000], vec![0xc0]].concat();
        check::<serde::de::IgnoredAny>(&bytes[1990..]);
        assert!(from_slice::<serde::de::IgnoredAny>(&bytes).is_err());
    }

    #[test]
    fn a_raw_value_is_read_later() {
        let sample = Sample::Newtype(Some(5));
        let bytes = to_vec(&(1, &sample, "end")).expect("it can be written");
        let (first, raw, last): (u8, Raw<'_>, &str) = from_slice(&bytes).expect("it can be read");
        assert_eq!((first, last), (1, "end"));
        assert_eq!(raw.read::<Sample>().expect("it can be read"), sample);
    }

    #[test]
    fn what_is_written_and_read_one_by_one_is_the_same() {
        let mut bytes = Vec::new();
        write_list(&mut bytes, 2);
        write(&mut bytes, &7_u8).expect("a number can be written");
        write(&mut bytes, "text").expect("a text can be written");
        assert_eq!(
            bytes,
            rmp_serde::to_vec(&(7, "text")).expect("it can be written")
        );
        let mut reader = Reader::new(&bytes);
        reader.read_list(2).expect("a list of two");
        assert_eq!(u8::deserialize(&mut reader).expect("a number"), 7);
        assert_eq!(<&str>::deserialize(&mut reader).expect("a text"), "text");
        assert!(
            Reader::new(&bytes).read_list(3).is_err() && Reader::new(&[0x01]).read_list(1).is_err()
        );
    }

    #[test]
    fn the_end_is_known() {
        let mut reader = Reader::new(&[1, 2]);
        assert_eq!(u8::deserialize(&mut reader).expect("a number"), 1);
        assert!(!reader.is_at_end());
        assert_eq!(u8::deserialize(&mut reader).expect("a number"), 2);
        assert!(reader.is_at_end());
    }
}
