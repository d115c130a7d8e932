//! What a value is called: the name of its variant, as serde knows it.

use std::fmt;

use serde::ser::{Error, Impossible, Serialize, Serializer};

/// Returns the name of an enum's variant, or else of the struct; of a value that has neither, what it is.
pub(crate) fn kind_of<T: Serialize>(value: &T) -> &'static str {
    match value.serialize(Namer) {
        Ok(never) => match never {},
        Err(Named(name)) => name,
    }
}

/// Stops at the first name, which it returns as its error.
struct Namer;

enum Never {}

#[derive(Debug)]
struct Named(&'static str);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Named {}

impl Error for Named {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self("unnamed")
    }
}

macro_rules! plain {
    ($($method:ident($type:ty) $name:literal,)*) => {$(
        fn $method(self, _: $type) -> Result<Never, Named> {
            Err(Named($name))
        }
    )*};
}

impl Serializer for Namer {
    type Ok = Never;
    type Error = Named;
    type SerializeSeq = Impossible<Never, Named>;
    type SerializeTuple = Impossible<Never, Named>;
    type SerializeTupleStruct = Impossible<Never, Named>;
    type SerializeTupleVariant = Impossible<Never, Named>;
    type SerializeMap = Impossible<Never, Named>;
    type SerializeStruct = Impossible<Never, Named>;
    type SerializeStructVariant = Impossible<Never, Named>;

    plain! {
        serialize_bool(bool) "bool",
        serialize_i8(i8) "i8",
        serialize_i16(i16) "i16",
        serialize_i32(i32) "i32",
        serialize_i64(i64) "i64",
        serialize_u8(u8) "u8",
        serialize_u16(u16) "u16",
        serialize_u32(u32) "u32",
        serialize_u64(u64) "u64",
        serialize_f32(f32) "f32",
        serialize_f64(f64) "f64",
        serialize_char(char) "char",
        serialize_str(&str) "str",
        serialize_bytes(&[u8]) "bytes",
    }

    fn serialize_none(self) -> Result<Never, Named> {
        Err(Named("None"))
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<Never, Named> {
        Err(Named("Some"))
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<Never, Named> {
        Err(Named(name))
    }

    fn serialize_unit(self) -> Result<Never, Named> {
        Err(Named("unit"))
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Never, Named> {
        Err(Named(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        _: &T,
    ) -> Result<Never, Named> {
        Err(Named(name))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: &T,
    ) -> Result<Never, Named> {
        Err(Named(variant))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Named> {
        Err(Named("seq"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Named> {
        Err(Named("tuple"))
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Named> {
        Err(Named(name))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Named> {
        Err(Named(variant))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Named> {
        Err(Named("map"))
    }

    fn serialize_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStruct, Named> {
        Err(Named(name))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Named> {
        Err(Named(variant))
    }
}
