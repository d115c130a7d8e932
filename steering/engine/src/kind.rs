//! What an event is called in filters, logs and reports: the name its author gave it, as serde knows it.

use std::fmt::{self, Display};

use serde::Serialize;
use serde::ser::{self, Impossible};

/// Returns the kind of a message, timer or call: the name of its variant, or of its type if that is a struct.
///
/// Only the name is asked for: nothing of the value is encoded. What has neither name is called after its shape.
///
/// ```
/// #[derive(serde::Serialize)]
/// enum Message {
///     Join { rank: u32 },
///     Welcome,
/// }
/// assert_eq!(scry_engine::kind::kind_of(&Message::Join { rank: 3 }), "Join");
/// assert_eq!(scry_engine::kind::kind_of(&Message::Welcome), "Welcome");
/// assert_eq!(scry_engine::kind::kind_of(&()), "unit");
/// ```
pub fn kind_of<T: Serialize + ?Sized>(value: &T) -> &'static str {
    match value.serialize(Namer) {
        Err(Found(name)) => name,
        Ok(never) => match never {},
    }
}

/// Serializes nothing: every value ends it with the name that was found.
struct Namer;

/// The name, on its way out as the error that ends the serialization.
#[derive(Debug)]
struct Found(&'static str);

/// There is no result: a name always comes first.
enum Never {}

impl Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Found {}

impl ser::Error for Found {
    /// A value that refuses to be serialized has no name either.
    fn custom<T: Display>(_: T) -> Self {
        Self("unnamed")
    }
}

macro_rules! shapes {
    ($($method:ident($($value:ty)?) is $name:literal;)*) => {$(
        fn $method(self $(, _: $value)?) -> Result<Never, Found> {
            Err(Found($name))
        }
    )*};
}

impl ser::Serializer for Namer {
    type Ok = Never;
    type Error = Found;
    type SerializeSeq = Impossible<Never, Found>;
    type SerializeTuple = Impossible<Never, Found>;
    type SerializeTupleStruct = Impossible<Never, Found>;
    type SerializeTupleVariant = Impossible<Never, Found>;
    type SerializeMap = Impossible<Never, Found>;
    type SerializeStruct = Impossible<Never, Found>;
    type SerializeStructVariant = Impossible<Never, Found>;

    shapes! {
        serialize_bool(bool) is "bool";
        serialize_i8(i8) is "integer";
        serialize_i16(i16) is "integer";
        serialize_i32(i32) is "integer";
        serialize_i64(i64) is "integer";
        serialize_i128(i128) is "integer";
        serialize_u8(u8) is "integer";
        serialize_u16(u16) is "integer";
        serialize_u32(u32) is "integer";
        serialize_u64(u64) is "integer";
        serialize_u128(u128) is "integer";
        serialize_f32(f32) is "float";
        serialize_f64(f64) is "float";
        serialize_char(char) is "char";
        serialize_str(&str) is "text";
        serialize_bytes(&[u8]) is "bytes";
        serialize_none() is "none";
        serialize_unit() is "unit";
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<Never, Found> {
        Err(Found(name))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Never, Found> {
        value.serialize(self)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Never, Found> {
        Err(Found(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: &T,
    ) -> Result<Never, Found> {
        Err(Found(name))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: &T,
    ) -> Result<Never, Found> {
        Err(Found(variant))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Found> {
        Err(Found("sequence"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Found> {
        Err(Found("tuple"))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Found> {
        Err(Found(name))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Found> {
        Err(Found(variant))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Found> {
        Err(Found("map"))
    }

    fn serialize_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStruct, Found> {
        Err(Found(name))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Found> {
        Err(Found(variant))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    enum Message {
        Unit,
        Newtype(u8),
        Tuple(u8, u8),
        Struct {
            field: Option<Box<Message>>,
        },
        #[serde(rename = "other name")]
        Renamed,
    }

    #[derive(Serialize)]
    struct Plain {
        field: u8,
    }

    #[derive(Serialize)]
    struct Nothing;

    #[test]
    fn each_shape_has_its_name() {
        let field = Some(Box::new(Message::Unit));
        assert_eq!(kind_of(&Message::Unit), "Unit");
        assert_eq!(kind_of(&Message::Newtype(1)), "Newtype");
        assert_eq!(kind_of(&Message::Tuple(1, 2)), "Tuple");
        assert_eq!(kind_of(&Message::Struct { field }), "Struct");
        assert_eq!(kind_of(&Message::Renamed), "other name");
        assert_eq!(kind_of(&Plain { field: 1 }), "Plain");
        assert_eq!(kind_of(&Nothing), "Nothing");
        assert_eq!(kind_of(&Some(Message::Unit)), "Unit");
        assert_eq!(kind_of("x"), "text");
        assert_eq!(kind_of(&(1, 2)), "tuple");
        assert_eq!(kind_of(&[1][..]), "sequence");
    }
}
