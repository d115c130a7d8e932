//! What an event is called in filters, logs and reports: the name its author gave it, as serde knows it.
//!
//! Serde knows the names of Rust's types, which are part of the program. A service whose types are known only at run time, such
//! as one in another language, wraps its values in [`Variant`] and [`Record`] when it serializes them: names then count as
//! those of an enum or a struct, for kinds of events and for properties alike.

use std::borrow::Cow;
use std::fmt::{self, Display};

use serde::ser::{self, Impossible, SerializeMap as _};
use serde::{Serialize, Serializer};

/// The name under which serde is shown a [`Variant`]. A serializer that does not know it sees through it.
pub const VARIANT: &str = "$scry::Variant";
/// The name under which serde is shown a [`Record`]. A serializer that does not know it sees through it.
pub const RECORD: &str = "$scry::Record";

/// A variant of an enum whose name is known only at run time.
///
/// Serialized it is what the variant of a Rust enum would be: its name if it carries nothing, else a map of one entry.
///
/// ```
/// use scry_engine::kind::{Variant, kind_of};
///
/// let name = String::from("Join");
/// assert_eq!(kind_of(&Variant { name: &name, content: Some(&3) }), "Join");
/// assert_eq!(kind_of(&Variant::<()> { name: &name, content: None }), "Join");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a, T> {
    /// What it is called.
    pub name: &'a str,
    /// What it carries.
    pub content: Option<&'a T>,
}

/// A struct whose fields are known only at run time: what its value serializes to must be a map with texts for keys.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a, T>(pub &'a T);

/// What is in a [`Variant`], as serializers see it that do not know it.
struct Tagged<'a, T>(Variant<'a, T>);

impl<T: Serialize> Serialize for Variant<'_, T> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        let Self { name, content } = *self;
        serializer.serialize_newtype_struct(VARIANT, &Tagged(Variant { name, content }))
    }
}

impl<T: Serialize> Serialize for Tagged<'_, T> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        let Some(content) = self.0.content else {
            return serializer.serialize_str(self.0.name);
        };
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0.name, content)?;
        map.end()
    }
}

impl<T: Serialize> Serialize for Record<'_, T> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.serialize_newtype_struct(RECORD, self.0)
    }
}

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
pub fn kind_of<T: Serialize + ?Sized>(value: &T) -> Cow<'static, str> {
    match value.serialize(Namer { tagged: false }) {
        Err(Found(name)) => name,
        Ok(never) => match never {},
    }
}

/// Serializes nothing: every value ends it with the name that was found.
struct Namer {
    /// Whether this is the inside of a [`Variant`].
    tagged: bool,
}

/// The map of a [`Variant`]: its key is the name.
struct Tag;

/// The name, on its way out as the error that ends the serialization.
#[derive(Debug)]
struct Found(Cow<'static, str>);

/// There is no result: a name always comes first.
enum Never {}

impl Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Found {}

impl From<&'static str> for Found {
    fn from(name: &'static str) -> Self {
        Self(name.into())
    }
}

impl ser::Error for Found {
    /// A value that refuses to be serialized has no name either.
    fn custom<T: Display>(_: T) -> Self {
        Self("unnamed".into())
    }
}

macro_rules! shapes {
    ($($method:ident($($value:ty)?) is $name:literal;)*) => {$(
        fn $method(self $(, _: $value)?) -> Result<Never, Found> {
            Err($name.into())
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
    type SerializeMap = Tag;
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
        serialize_bytes(&[u8]) is "bytes";
        serialize_none() is "none";
        serialize_unit() is "unit";
    }

    fn serialize_str(self, text: &str) -> Result<Never, Found> {
        Err(match self.tagged {
            true => Found(text.to_owned().into()),
            false => "text".into(),
        })
    }

    fn serialize_unit_struct(self, name: &'static str) -> Result<Never, Found> {
        Err(name.into())
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
        Err(variant.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Never, Found> {
        match name {
            VARIANT => value.serialize(Self { tagged: true }),
            RECORD => Err("struct".into()),
            _ => Err(name.into()),
        }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: &T,
    ) -> Result<Never, Found> {
        Err(variant.into())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Found> {
        Err("sequence".into())
    }

    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Found> {
        Err("tuple".into())
    }

    fn serialize_tuple_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Found> {
        Err(name.into())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Found> {
        Err(variant.into())
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Tag, Found> {
        match self.tagged {
            true => Ok(Tag),
            false => Err("map".into()),
        }
    }

    fn serialize_struct(
        self,
        name: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStruct, Found> {
        Err(name.into())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Found> {
        Err(variant.into())
    }
}

impl ser::SerializeMap for Tag {
    type Ok = Never;
    type Error = Found;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Found> {
        match key.serialize(Namer { tagged: true }) {
            Err(found) => Err(found),
            Ok(never) => match never {},
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, _: &T) -> Result<(), Found> {
        Ok(())
    }

    fn end(self) -> Result<Never, Found> {
        Err("unnamed".into())
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

    #[test]
    fn a_variant_that_is_named_at_run_time_reads_as_one_of_an_enum() {
        let named = |name: &str, content: Option<&u8>| {
            let variant = Variant { name, content };
            (
                kind_of(&variant).into_owned(),
                serde_json::to_string(&variant).expect("it is text and numbers"),
                rmp_serde::to_vec(&variant).expect("it is text and numbers"),
            )
        };
        let rust = |value: &Message| {
            (
                kind_of(value).into_owned(),
                serde_json::to_string(value).expect("it is text and numbers"),
                rmp_serde::to_vec(value).expect("it is text and numbers"),
            )
        };
        assert_eq!(named("Unit", None), rust(&Message::Unit));
        assert_eq!(named("Newtype", Some(&1)), rust(&Message::Newtype(1)));
        assert_eq!(kind_of(&Record(&"x")), "struct");
    }
}
