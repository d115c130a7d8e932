//! From a service's state to a [`Value`], by its own serde implementation, reading only what a property needs.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};

use serde::ser::{self, Serialize, Serializer};

use crate::value::{Double, MappingKind, Value};
use scry_engine::kind::{RECORD, VARIANT};

/// Which parts of a state are read. What is not needed is never serialised.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Needs {
    All,
    Fields(BTreeMap<String, Needs>),
}

impl Needs {
    pub(crate) fn nothing() -> Self {
        Self::Fields(BTreeMap::new())
    }

    /// Adds what is found under a path of names.
    pub(crate) fn add(&mut self, path: &[&str]) {
        let Self::Fields(fields) = self else { return };
        match path {
            [] => *self = Self::All,
            [first, rest @ ..] => fields
                .entry((*first).to_owned())
                .or_insert_with(Self::nothing)
                .add(rest),
        }
    }

    fn of(&self, name: &str) -> Option<&Self> {
        match self {
            Self::All => Some(&Self::All),
            Self::Fields(fields) => fields.get(name),
        }
    }
}

/// Serialises what is needed of a state. A state that refuses is unknown.
pub(crate) fn value_of<T: Serialize>(state: &T, needs: &Needs) -> Value {
    state
        .serialize(ToValue::of(needs))
        .unwrap_or(Value::Unknown)
}

/// Returns the name properties know a timer by: the variant's name of an enum, else its debug form.
pub(crate) fn timer_name<T: Serialize + Debug>(timer: &T) -> Value {
    match value_of(timer, &Needs::All) {
        name @ Value::Text(_) => name,
        Value::Map(map) if map.kind == MappingKind::Variant => map
            .entries()
            .first()
            .map_or(Value::Unknown, |(name, _)| name.clone()),
        _ => Value::text(&format!("{timer:?}")),
    }
}

struct ToValue<'n> {
    needs: &'n Needs,
    /// What a map is, if names that are known only at run time make it one of those.
    map: MappingKind,
}

/// Collects the parts of a list, a map or a variant.
struct Builder<'n> {
    needs: &'n Needs,
    kind: MappingKind,
    items: Vec<Value>,
    entries: Vec<(Value, Value)>,
    key: Option<Value>,
    variant: Option<&'static str>,
}

/// Why a state cannot be serialised: its own words.
#[derive(Debug, thiserror::Error)]
pub(crate) struct ToValueError(String);

impl Display for ToValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ser::Error for ToValueError {
    fn custom<T: Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

impl<'n> ToValue<'n> {
    fn of(needs: &'n Needs) -> Self {
        Self {
            needs,
            map: MappingKind::Map,
        }
    }

    fn builder(self, kind: MappingKind, variant: Option<&'static str>) -> Builder<'n> {
        let needs = match variant {
            Some(variant) => self.needs.of(variant).unwrap_or(self.needs),
            None => self.needs,
        };
        Builder {
            needs,
            kind,
            items: Vec::new(),
            entries: Vec::new(),
            key: None,
            variant,
        }
    }
}

impl Builder<'_> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ToValueError> {
        // The elements of a list are read whole.
        self.items.push(value.serialize(ToValue::of(&Needs::All))?);
        Ok(())
    }

    fn entry<T: Serialize + ?Sized>(&mut self, key: Value, value: &T) -> Result<(), ToValueError> {
        let needs = match (&key, self.needs) {
            (_, Needs::All) => Some(&Needs::All),
            (Value::Text(name), needs) => needs.of(name),
            _ => None,
        };
        if let Some(needs) = needs {
            self.entries
                .push((key, value.serialize(ToValue::of(needs))?));
        }
        Ok(())
    }

    fn finish(self, value: Value) -> Value {
        match self.variant {
            Some(variant) => Value::map(MappingKind::Variant, vec![(Value::text(variant), value)]),
            None => value,
        }
    }

    fn finish_list(mut self) -> Value {
        let items = std::mem::take(&mut self.items);
        self.finish(Value::list(items))
    }

    fn finish_map(mut self) -> Value {
        let entries = std::mem::take(&mut self.entries);
        let kind = self.kind;
        self.finish(Value::map(kind, entries))
    }
}

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {
        $(fn $name(self, value: $type) -> Result<Value, ToValueError> {
            Ok(Value::Int(i128::from(value)))
        })*
    };
}

impl<'n> Serializer for ToValue<'n> {
    type Ok = Value;
    type Error = ToValueError;
    type SerializeSeq = Builder<'n>;
    type SerializeTuple = Builder<'n>;
    type SerializeTupleStruct = Builder<'n>;
    type SerializeTupleVariant = Builder<'n>;
    type SerializeMap = Builder<'n>;
    type SerializeStruct = Builder<'n>;
    type SerializeStructVariant = Builder<'n>;

    integers!(
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64
    );

    fn serialize_u128(self, value: u128) -> Result<Value, ToValueError> {
        Ok(i128::try_from(value).map_or_else(|_| Value::text(&value.to_string()), Value::Int))
    }

    fn serialize_bool(self, value: bool) -> Result<Value, ToValueError> {
        Ok(Value::Bool(value))
    }

    fn serialize_f32(self, value: f32) -> Result<Value, ToValueError> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Result<Value, ToValueError> {
        Ok(Value::Double(Double(value)))
    }

    fn serialize_char(self, value: char) -> Result<Value, ToValueError> {
        Ok(Value::text(value.encode_utf8(&mut [0; 4])))
    }

    fn serialize_str(self, value: &str) -> Result<Value, ToValueError> {
        Ok(Value::text(value))
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<Value, ToValueError> {
        Ok(Value::Bytes(value.into()))
    }

    fn serialize_none(self) -> Result<Value, ToValueError> {
        Ok(Value::Null)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Value, ToValueError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Value, ToValueError> {
        Ok(Value::Null)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Result<Value, ToValueError> {
        Ok(Value::Null)
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<Value, ToValueError> {
        Ok(Value::text(variant))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Value, ToValueError> {
        let map = match name {
            VARIANT => MappingKind::Variant,
            RECORD => MappingKind::Struct,
            _ => self.map,
        };
        value.serialize(ToValue { map, ..self })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<Value, ToValueError> {
        let mut builder = self.builder(MappingKind::Variant, None);
        builder.entry(Value::text(variant), value)?;
        Ok(builder.finish_map())
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Builder<'n>, ToValueError> {
        Ok(self.builder(MappingKind::Map, None))
    }

    fn serialize_tuple(self, _len: usize) -> Result<Builder<'n>, ToValueError> {
        Ok(self.builder(MappingKind::Map, None))
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Builder<'n>, ToValueError> {
        Ok(self.builder(MappingKind::Map, None))
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Builder<'n>, ToValueError> {
        Ok(self.builder(MappingKind::Map, Some(variant)))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Builder<'n>, ToValueError> {
        let kind = self.map;
        Ok(self.builder(kind, None))
    }

    fn serialize_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Builder<'n>, ToValueError> {
        Ok(self.builder(MappingKind::Struct, None))
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Builder<'n>, ToValueError> {
        Ok(self.builder(MappingKind::Struct, Some(variant)))
    }
}

macro_rules! lists {
    ($($trait:ident::$method:ident),*) => {
        $(impl ser::$trait for Builder<'_> {
            type Ok = Value;
            type Error = ToValueError;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ToValueError> {
                self.item(value)
            }

            fn end(self) -> Result<Value, ToValueError> {
                Ok(self.finish_list())
            }
        })*
    };
}

lists!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! structs {
    ($($trait:ident),*) => {
        $(impl ser::$trait for Builder<'_> {
            type Ok = Value;
            type Error = ToValueError;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Result<(), ToValueError> {
                match self.needs.of(key) {
                    Some(_) => self.entry(Value::text(key), value),
                    None => Ok(()),
                }
            }

            fn end(self) -> Result<Value, ToValueError> {
                Ok(self.finish_map())
            }
        })*
    };
}

structs!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Builder<'_> {
    type Ok = Value;
    type Error = ToValueError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), ToValueError> {
        self.key = Some(key.serialize(ToValue::of(&Needs::All))?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), ToValueError> {
        let key = self
            .key
            .take()
            .ok_or_else(|| ToValueError("a map's value came before its key".into()))?;
        self.entry(key, value)
    }

    fn end(self) -> Result<Value, ToValueError> {
        Ok(self.finish_map())
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;

    #[derive(Serialize)]
    struct State {
        number: u8,
        maybe: Option<&'static str>,
        phase: Phase,
        inner: Inner,
    }

    #[derive(Serialize)]
    struct Inner {
        a: bool,
        b: (u8, u8),
    }

    #[derive(Debug, Serialize)]
    enum Phase {
        Idle,
        Leading { term: u64 },
    }

    fn state(phase: Phase) -> State {
        State {
            number: 3,
            maybe: None,
            phase,
            inner: Inner { a: true, b: (1, 2) },
        }
    }

    #[test]
    fn a_state_is_read_as_serde_writes_it() {
        let value = value_of(&state(Phase::Leading { term: 4 }), &Needs::All);
        assert_eq!(
            value.to_string(),
            r#"{"inner": {"a": true, "b": [1, 2]}, "maybe": null, "number": 3, "phase": {"Leading": {"term": 4}}}"#
        );
    }

    #[test]
    fn only_what_is_needed_is_read() {
        let mut needs = Needs::nothing();
        needs.add(&["inner", "b"]);
        needs.add(&["phase", "Leading", "term"]);
        let check = |phase, expect| {
            assert_eq!(value_of(&state(phase), &needs).to_string(), expect);
        };
        check(
            Phase::Leading { term: 4 },
            r#"{"inner": {"b": [1, 2]}, "phase": {"Leading": {"term": 4}}}"#,
        );
        check(Phase::Idle, r#"{"inner": {"b": [1, 2]}, "phase": "Idle"}"#);
    }

    #[test]
    fn a_timer_goes_by_its_variant() {
        assert_eq!(timer_name(&Phase::Idle), Value::text("Idle"));
        assert_eq!(
            timer_name(&Phase::Leading { term: 1 }),
            Value::text("Leading")
        );
        assert_eq!(timer_name(&3), Value::text("3"));
    }
}
