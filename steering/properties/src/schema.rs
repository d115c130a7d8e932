//! What an expression can see of a service: the fields of its state and the names of its timers.

use std::collections::BTreeMap;

use crate::serialize::{Needs, value_of};
use crate::shape::{Record, Type, Words};
use crate::trace::trace;
use crate::value::{MappingKind, Value};
use scry_engine::service::Service;

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

    /// Adds what states show of the parts that their type did not tell.
    #[must_use]
    pub fn with_samples<'s, S: Service>(mut self, states: impl IntoIterator<Item = &'s S>) -> Self {
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
