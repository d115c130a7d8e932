//! The types of expressions: what is known of a value before any state is seen.
//!
//! A type is a promise only as far as it goes: [`Type::Any`] is not checked, and a [`Type::Never`] is a part nobody has
//! seen a value of, which is not checked either.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::value::{MappingKind, Value};

/// What is known of a value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum Type {
    /// Nothing was seen yet.
    #[default]
    Never,
    /// It can be anything but a node.
    Any,
    Null,
    Bool,
    Int,
    Double,
    Text(Words),
    Bytes,
    List(Box<Type>),
    Map(Box<Type>, Box<Type>),
    Record(Record),
    Node,
    /// One of several, none of which is `Never`, `Any` or another choice, at most one of a kind.
    OneOf(Vec<Type>),
}

/// Which texts there can be: those of an enum without data, or any.
pub(crate) type Words = Option<BTreeSet<String>>;

/// A struct, or the variants of an enum that carry data.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Record {
    /// Whether exactly one field is there (an enum's variant) rather than all (a struct).
    pub(crate) variant: bool,
    /// Whether there may be fields nobody has seen.
    pub(crate) open: bool,
    pub(crate) fields: BTreeMap<String, Type>,
}

/// The kinds of values that operators tell apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sort {
    Null,
    Bool,
    Number,
    Text,
    Bytes,
    List,
    Map,
    Node,
}

impl Type {
    pub(crate) const TEXT: Self = Self::Text(None);

    pub(crate) fn list(element: Self) -> Self {
        Self::List(Box::new(element))
    }

    pub(crate) fn is_unchecked(&self) -> bool {
        matches!(self, Self::Any | Self::Never)
    }

    /// Lists what it can be.
    pub(crate) fn choices(&self) -> &[Self] {
        match self {
            Self::OneOf(choices) => choices,
            other => std::slice::from_ref(other),
        }
    }

    fn sort(&self) -> Option<Sort> {
        Some(match self {
            Self::Null => Sort::Null,
            Self::Bool => Sort::Bool,
            Self::Int | Self::Double => Sort::Number,
            Self::Text(_) => Sort::Text,
            Self::Bytes => Sort::Bytes,
            Self::List(_) => Sort::List,
            Self::Map(..) | Self::Record(_) => Sort::Map,
            Self::Node => Sort::Node,
            Self::Never | Self::Any | Self::OneOf(_) => return None,
        })
    }

    /// Tells whether it can be of a sort.
    pub(crate) fn can_be(&self, sort: Sort) -> bool {
        match self {
            Self::Any | Self::Never => sort != Sort::Node,
            other => other
                .choices()
                .iter()
                .any(|choice| choice.sort() == Some(sort)),
        }
    }

    /// Tells whether it can be nothing but of this sort.
    pub(crate) fn is_only(&self, sort: Sort) -> bool {
        !self.is_unchecked()
            && self
                .choices()
                .iter()
                .all(|choice| choice.sort() == Some(sort))
    }

    /// Tells whether a node is it or in it.
    pub(crate) fn has_node(&self) -> bool {
        match self {
            Self::Node => true,
            Self::List(element) => element.has_node(),
            Self::Map(key, value) => key.has_node() || value.has_node(),
            Self::OneOf(choices) => choices.iter().any(Self::has_node),
            _ => false,
        }
    }

    /// Tells whether a double can be it or in it, which need not equal itself.
    pub(crate) fn may_hold_double(&self) -> bool {
        match self {
            Self::Never | Self::Any | Self::Double => true,
            Self::List(element) => element.may_hold_double(),
            Self::Map(key, value) => key.may_hold_double() || value.may_hold_double(),
            Self::Record(record) => {
                record.open || record.fields.values().any(Self::may_hold_double)
            }
            Self::OneOf(choices) => choices.iter().any(Self::may_hold_double),
            Self::Null | Self::Bool | Self::Int | Self::Text(_) | Self::Bytes | Self::Node => false,
        }
    }

    /// Tells whether a value of one and a value of the other can be equal.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        if self.is_unchecked() || other.is_unchecked() {
            return !self.has_node() && !other.has_node();
        }
        let overlap = |a: &Self, b: &Self| match (a, b) {
            (Self::List(a), Self::List(b)) => a.overlaps(b) || !(a.has_node() || b.has_node()),
            (a, b) => a.sort() == b.sort(),
        };
        self.choices()
            .iter()
            .any(|a| other.choices().iter().any(|b| overlap(a, b)))
    }

    /// Returns the type of a value that is of one of two types.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Never, other) | (other, Self::Never) => other,
            (Self::Any, _) | (_, Self::Any) => Self::Any,
            (a, b) => {
                let mut choices = Vec::new();
                for choice in a.into_choices().into_iter().chain(b.into_choices()) {
                    add_choice(&mut choices, choice);
                }
                match choices.len() {
                    1 => choices.remove(0),
                    _ => Self::OneOf(choices),
                }
            }
        }
    }

    fn into_choices(self) -> Vec<Self> {
        match self {
            Self::OneOf(choices) => choices,
            other => vec![other],
        }
    }

    /// Returns the type of one value as far as a single sight of it tells.
    pub(crate) fn of_sample(value: &Value) -> Self {
        match value {
            // An `Option` that was never full says nothing about what it would hold.
            Value::Unknown | Value::Null | Value::Node(_) => Self::Any,
            // Only expressions over nodes make these.
            Value::Open(_) | Value::AtLeast(_) => Self::Any,
            Value::Bool(_) => Self::Bool.or_null(),
            Value::Int(_) => Self::Int.or_null(),
            Value::Double(_) => Self::Double.or_null(),
            // Another sight might show an enum's variant with data instead of a word.
            Value::Text(_) => Self::Any,
            Value::Bytes(_) => Self::Bytes.or_null(),
            Value::List(items) => {
                let element = items
                    .iter()
                    .map(Self::of_sample)
                    .fold(Self::Never, Self::join);
                Self::list(element).or_null()
            }
            Value::Map(map) => {
                let entries = map.entries();
                match map.kind {
                    MappingKind::Map => {
                        let value = entries.iter().map(|(_, value)| Self::of_sample(value));
                        let value = value.fold(Self::Never, Self::join);
                        Self::Map(Box::new(Self::Any), Box::new(value)).or_null()
                    }
                    MappingKind::Variant => Self::Any,
                    MappingKind::Struct => {
                        let named = entries.iter().filter_map(|(key, value)| match key {
                            Value::Text(name) => Some((name.to_string(), Self::of_sample(value))),
                            _ => None,
                        });
                        Self::Record(Record {
                            variant: false,
                            open: false,
                            fields: named.collect(),
                        })
                        .or_null()
                    }
                }
            }
        }
    }

    fn or_null(self) -> Self {
        self.join(Self::Null)
    }

    /// Fills in what was not seen with what a sample shows.
    pub(crate) fn fill(&mut self, sample: Self) {
        match (self, sample) {
            (this @ Self::Never, sample) => *this = sample,
            (Self::Record(this), sample) if !this.variant => {
                for choice in sample.into_choices() {
                    let Self::Record(sample) = choice else {
                        continue;
                    };
                    for (name, field) in sample.fields {
                        this.fields.entry(name).or_default().fill(field);
                    }
                }
            }
            _ => {}
        }
    }
}

fn add_choice(choices: &mut Vec<Type>, new: Type) {
    for choice in choices.iter_mut() {
        match (&mut *choice, &new) {
            (Type::Text(a), Type::Text(b)) => {
                match (a.as_mut(), b) {
                    (Some(a), Some(b)) => a.extend(b.iter().cloned()),
                    _ => *a = None,
                }
                return;
            }
            (Type::List(a), Type::List(b)) => {
                **a = std::mem::take(&mut **a).join((**b).clone());
                return;
            }
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                **key = std::mem::take(&mut **key).join((**other_key).clone());
                **value = std::mem::take(&mut **value).join((**other_value).clone());
                return;
            }
            (Type::Record(a), Type::Record(b)) => {
                a.variant |= b.variant;
                a.open |= b.open;
                for (name, field) in &b.fields {
                    let joined = a.fields.remove(name).unwrap_or_default();
                    a.fields.insert(name.clone(), joined.join(field.clone()));
                }
                return;
            }
            (a, b) if a == b => return,
            _ => {}
        }
    }
    choices.push(new);
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never | Self::Any => f.write_str("anything"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("a bool"),
            Self::Int => f.write_str("an integer"),
            Self::Double => f.write_str("a double"),
            Self::Text(None) => f.write_str("a string"),
            Self::Text(Some(words)) => {
                const SHOWN_MAX: usize = 6;
                f.write_str("one of ")?;
                for (at, word) in words.iter().take(SHOWN_MAX).enumerate() {
                    write!(f, "{}{word:?}", if at > 0 { ", " } else { "" })?;
                }
                if words.len() > SHOWN_MAX {
                    f.write_str(", …")?;
                }
                Ok(())
            }
            Self::Bytes => f.write_str("bytes"),
            Self::List(element) if element.is_unchecked() => f.write_str("a list"),
            Self::List(element) => write!(f, "a list of {}", plural(element)),
            Self::Map(..) => f.write_str("a map"),
            Self::Record(record) if record.variant => f.write_str("a variant"),
            Self::Record(_) => f.write_str("a struct"),
            Self::Node => f.write_str("a node"),
            Self::OneOf(choices) => {
                for (at, choice) in choices.iter().enumerate() {
                    write!(f, "{}{choice}", if at > 0 { " or " } else { "" })?;
                }
                Ok(())
            }
        }
    }
}

fn plural(element: &Type) -> String {
    match element {
        Type::Null => "nulls".into(),
        Type::Bool => "bools".into(),
        Type::Int => "integers".into(),
        Type::Double => "doubles".into(),
        Type::Text(None) => "strings".into(),
        Type::List(_) => "lists".into(),
        Type::Map(..) => "maps".into(),
        Type::Record(_) => "structs".into(),
        Type::Node => "nodes".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_keeps_one_choice_of_a_kind() {
        let word = |word: &str| Type::Text(Some([word.to_owned()].into()));
        let joined = word("a").join(Type::Null).join(word("b"));
        assert_eq!(joined.to_string(), r#"one of "a", "b" or null"#);
        assert_eq!(joined.join(Type::TEXT).to_string(), "a string or null");
        assert_eq!(Type::Int.join(Type::Any), Type::Any);
    }

    #[test]
    fn types_that_share_no_value_do_not_overlap() {
        let option = Type::Int.join(Type::Null);
        assert!(option.overlaps(&Type::Null));
        assert!(option.overlaps(&Type::Double));
        assert!(!option.overlaps(&Type::TEXT));
        assert!(!Type::Node.overlaps(&Type::Any));
        assert!(!Type::list(Type::Node).overlaps(&Type::list(Type::Int)));
    }
}
