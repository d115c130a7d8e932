//! What an expression can see of a service: the fields of its state and the names of its timers.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::serialize::{Needs, value_of};
use crate::shape::{Record, Type, Words};
use crate::trace::trace;
use crate::value::{MappingKind, Value};
use scry_engine::service::Service;

/// What a field can hold, for services that say it at run time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FieldType {
    /// Anything: it is not checked.
    Any,
    /// A truth value.
    Bool,
    /// An integer of any width.
    Int,
    /// A floating point number.
    Double,
    /// A text.
    Text,
    /// Bytes.
    Bytes,
    /// What is there, or `null`.
    Optional(Box<FieldType>),
    /// Any number of elements.
    List(Box<FieldType>),
    /// Values by key.
    Map(Box<FieldType>, Box<FieldType>),
    /// All of these fields.
    Struct(BTreeMap<String, FieldType>),
    /// One of these variants, with data or without.
    Enum(BTreeMap<String, Option<FieldType>>),
}

impl FieldType {
    fn into_type(self) -> Type {
        let named = |fields: BTreeMap<String, Self>, variant| {
            Type::Record(Record {
                variant,
                open: false,
                fields: fields
                    .into_iter()
                    .map(|(name, of)| (name, of.into_type()))
                    .collect(),
            })
        };
        match self {
            Self::Any => Type::Any,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Double => Type::Double,
            Self::Text => Type::TEXT,
            Self::Bytes => Type::Bytes,
            Self::Optional(of) => of.into_type().join(Type::Null),
            Self::List(of) => Type::list(of.into_type()),
            Self::Map(key, value) => {
                Type::Map(Box::new(key.into_type()), Box::new(value.into_type()))
            }
            Self::Struct(fields) => named(fields, false),
            Self::Enum(variants) => {
                let (mut words, mut with_data) = (Vec::new(), BTreeMap::new());
                for (name, content) in variants {
                    if let Some(content) = content {
                        with_data.insert(name, content);
                    } else {
                        words.push(name);
                    }
                }
                let word = |name| Type::Text(Some([name].into()));
                let words = words.into_iter().map(word).fold(Type::Never, Type::join);
                match with_data.is_empty() {
                    true => words,
                    false => words.join(named(with_data, true)),
                }
            }
        }
    }
}

/// The shape of a service's state, which expressions are checked against.
#[derive(Clone, Debug)]
pub struct Schema {
    pub(crate) state: Record,
    pub(crate) timers: Words,
    /// Whether the state is a struct, so that a field left out by serde was an empty `Option`.
    pub(crate) is_struct: bool,
}

impl Schema {
    /// Learns the shape from the service's own serde implementation.
    ///
    /// What a type does not tell (an untagged enum, a type that reads itself by hand) is not checked.
    pub fn of<S: Service>() -> Self {
        let state = match trace::<S>() {
            Type::Record(record) => record,
            // A state that mixes variants with and without data is a variant or a word; words have no fields.
            Type::OneOf(choices) => choices
                .into_iter()
                .find_map(|choice| match choice {
                    Type::Record(record) => Some(record),
                    _ => None,
                })
                .unwrap_or_else(unknown),
            _ => unknown(),
        };
        Self {
            is_struct: !state.variant,
            timers: timer_names(trace::<S::Timer>()),
            state,
        }
    }

    /// Takes the shape as it is told, for a service whose types are known only at run time: the fields of its state, and the
    /// names of its timers. What its states hold is found under these names as they are serialized; see
    /// [`kind`](scry_engine::kind).
    pub fn told(
        fields: impl IntoIterator<Item = (String, FieldType)>,
        timers: impl IntoIterator<Item = String>,
    ) -> Self {
        let fields = fields.into_iter().map(|(name, of)| (name, of.into_type()));
        Self {
            state: Record {
                variant: false,
                open: false,
                fields: fields.collect(),
            },
            timers: Some(timers.into_iter().collect()),
            is_struct: true,
        }
    }

    /// Adds what states show of the parts that their type did not tell.
    #[must_use]
    pub fn with_samples<'s, S: Serialize + 's>(
        mut self,
        states: impl IntoIterator<Item = &'s S>,
    ) -> Self {
        let told_nothing = self.state.open && self.state.fields.is_empty();
        let mut all_structs = true;
        let mut known = Type::Record(self.state);
        let mut count = 0;
        for state in states {
            count += 1;
            let value = value_of(state, &Needs::All);
            all_structs &= matches!(&value, Value::Map(map) if map.kind == MappingKind::Struct);
            known.fill(Type::of_sample(&value));
        }
        self.state = match known {
            Type::Record(record) => record,
            _ => unreachable!("filling in keeps a record a record"),
        };
        // A struct shows all its fields at once.
        if told_nothing && all_structs && count > 0 {
            self.state.open = false;
        }
        self
    }

    /// Lists the fields, each with what is known of it, in words.
    pub fn fields(&self) -> impl Iterator<Item = (&str, String)> {
        self.state
            .fields
            .iter()
            .map(|(name, of)| (name.as_str(), of.to_string()))
    }
}

fn unknown() -> Record {
    Record {
        variant: false,
        open: true,
        fields: BTreeMap::new(),
    }
}

/// Timers go by the names of their variants, with data or without.
fn timer_names(timer: Type) -> Words {
    let mut names = std::collections::BTreeSet::new();
    for choice in timer.choices() {
        match choice {
            Type::Text(Some(words)) => names.extend(words.iter().cloned()),
            Type::Record(record) if record.variant => names.extend(record.fields.keys().cloned()),
            _ => return None,
        }
    }
    Some(names)
}
