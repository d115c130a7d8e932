//! How values stand in a record: names as people write them, codes as words.

use std::fmt::{self, Debug, Display};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{FilterId, NodeId, RunId, ViolationId};

/// A name, written as it is shown (`n1`, `r12`, `v7`): a number of 64 bits would not survive every reader of JSON.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Shown<T>(pub T);

/// A code of the wire, written as the name of its variant in lower case with hyphens: `hits-used`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Word<T>(pub T);

impl<T> From<T> for Shown<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> From<T> for Word<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T: Display> Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Debug> Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hyphened(&format!("{:?}", self.0)))
    }
}

fn hyphened(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

impl<T: Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Shown<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl<T: Debug> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, T: TryFrom<u8> + Debug> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        (0..=u8::MAX)
            .filter_map(|code| T::try_from(code).ok().map(Self))
            .find(|word| word.to_string() == text)
            .ok_or_else(|| serde::de::Error::custom(format!("an unknown word: {text}")))
    }
}

/// A type that a field of a record may have.
pub(super) trait Field {
    /// What it is called in the documentation.
    const SHOWN: &'static str;

    /// Tells whether the field is left out.
    fn is_absent(&self) -> bool {
        false
    }
}

macro_rules! fields {
    ($($type:ty: $shown:literal,)*) => {
        $(impl Field for $type {
            const SHOWN: &'static str = $shown;
        })*
    };
}

fields! {
    u32: "number",
    u64: "number",
    bool: "true or false",
    String: "text",
    Shown<NodeId>: "node, `n1`",
    Shown<RunId>: "run, `r1`",
    Shown<ViolationId>: "violation, `v1`",
    Shown<FilterId>: "filter, `f1`",
    Vec<Shown<NodeId>>: "list of nodes",
    Vec<super::Absent>: "list of `{node, reason}`",
    Word<crate::filter::Mode>: "`off`, `audit` or `steer`",
    Word<crate::filter::Action>: "`drop`, `reset`, `postpone`, `refuse`, `hold` or `check`",
    Word<crate::link::host::Outcome>: "`cleared`, `refused`, `late`, `not-together`, `refusal-breaks` or `limited`",
    Word<crate::link::peer::PathOutcome>: "`prevented`, `not-confirmed`, `no-remedy` or `not-considered`",
}

impl<T: Field> Field for Option<T> {
    const SHOWN: &'static str = T::SHOWN;

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}
