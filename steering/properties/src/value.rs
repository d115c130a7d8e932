//! The values expressions work on: what serde makes of a state, and what CEL's operators make of that.
//!
//! [`Value::Unknown`] stands for both of CEL's ways to have no answer, an error and something out of view. It is never
//! inside a list or a map: whatever contains it is unknown as a whole.
//!
//! Where not every node is in view, a list made of the nodes is [`Value::Open`]: nodes out of view would add elements to
//! it, anywhere, and take none away; its size is [`Value::AtLeast`] what is seen. An operator answers for such a value
//! only if it would answer the same for every list or number that it may stand for. Inside a list or a map both are
//! unknown, so that nobody has to look for them there.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use scry_engine::property::Judgement;

/// What an expression can come to.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Value {
    Unknown,
    Null,
    Bool(bool),
    /// All integers are of one type, wide enough for serde's `i64` and `u64` alike.
    Int(i128),
    Double(Double),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    List(Arc<[Value]>),
    Map(Arc<Mapping>),
    /// A node in view, by position.
    Node(u32),
    /// A list to which nodes out of view would add.
    Open(Arc<[Value]>),
    /// A number that nodes out of view would make larger.
    AtLeast(i128),
}

/// Keys with their values, by rising key.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Mapping {
    pub(crate) kind: MappingKind,
    entries: Vec<(Value, Value)>,
}

/// What a mapping was before it was serialised.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum MappingKind {
    Struct,
    /// An enum's variant with data: one entry, named after the variant.
    Variant,
    Map,
}

/// A floating point number with an order and a hash, so that projections can be compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Double(pub(crate) f64);

impl Value {
    pub(crate) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        if items.iter().any(Self::is_uncertain) {
            return Self::Unknown;
        }
        Self::List(items.into())
    }

    /// Makes a list of what was made of the elements of another: open if that one is.
    pub(crate) fn list_like(&self, items: Vec<Self>) -> Self {
        match (Self::list(items), self) {
            (Self::List(items), Self::Open(_)) => Self::Open(items),
            (list, _) => list,
        }
    }

    /// Tells whether nodes out of view could make another value of it.
    pub(crate) fn is_uncertain(&self) -> bool {
        matches!(self, Self::Unknown | Self::Open(_) | Self::AtLeast(_))
    }

    pub(crate) fn map(kind: MappingKind, entries: Vec<(Self, Self)>) -> Self {
        if entries
            .iter()
            .any(|(key, value)| key.is_uncertain() || value.is_uncertain())
        {
            return Self::Unknown;
        }
        Self::Map(Arc::new(Mapping::new(kind, entries)))
    }

    pub(crate) fn judgement(&self) -> Judgement {
        match self {
            Self::Bool(true) => Judgement::Holds,
            Self::Bool(false) => Judgement::Violated,
            _ => Judgement::Unknown,
        }
    }

    /// CEL's `==`: numbers by value, everything else by type and value.
    pub(crate) fn equals(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Unknown, _) | (_, Self::Unknown) => Self::Unknown,
            (Self::Open(some), other) | (other, Self::Open(some)) => match other {
                Self::List(all) if some.len() > all.len() => Self::Bool(false),
                Self::List(_) | Self::Open(_) => Self::Unknown,
                _ => Self::Bool(false),
            },
            (Self::AtLeast(least), other) | (other, Self::AtLeast(least)) => {
                match other.compare(&Self::Int(*least)) {
                    Some(Ordering::Less) => Self::Bool(false),
                    _ => Self::Unknown,
                }
            }
            (a, b) => Self::Bool(a.is_same(b)),
        }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Double(a), Self::Double(b)) => a.0 == b.0,
            (Self::Int(int), Self::Double(double)) | (Self::Double(double), Self::Int(int)) => {
                compare_mixed(*int, double.0) == Some(Ordering::Equal)
            }
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| a.is_same(b))
            }
            (Self::Map(a), Self::Map(b)) => {
                a.entries.len() == b.entries.len()
                    && a.entries
                        .iter()
                        .all(|(key, value)| b.value(key).is_some_and(|other| value.is_same(other)))
            }
            (a, b) => a == b,
        }
    }

    /// CEL's order, or `None` where it has none.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Self::Double(a), Self::Double(b)) => a.0.partial_cmp(&b.0),
            (Self::Int(a), Self::Double(b)) => compare_mixed(*a, b.0),
            (Self::Double(a), Self::Int(b)) => compare_mixed(*b, a.0).map(Ordering::reverse),
            (Self::Text(a), Self::Text(b)) => Some(a.cmp(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            _ => None,
        }
    }

    /// CEL's `in`: an element of a list, or a key of a map.
    pub(crate) fn is_in(&self, container: &Self) -> Self {
        match (self, container) {
            (element, _) if element.is_uncertain() => Self::Unknown,
            (element, Self::List(items)) => {
                Self::Bool(items.iter().any(|item| item.is_same(element)))
            }
            (element, Self::Open(items)) => match items.iter().any(|item| item.is_same(element)) {
                true => Self::Bool(true),
                false => Self::Unknown,
            },
            (key, Self::Map(map)) => Self::Bool(map.value(key).is_some()),
            _ => Self::Unknown,
        }
    }

    /// CEL's `size`.
    pub(crate) fn size(&self) -> Self {
        let size = match self {
            Self::List(items) => items.len(),
            Self::Map(map) => map.entries.len(),
            Self::Text(text) => text.chars().count(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Open(items) => return Self::AtLeast(items.len() as i128),
            _ => return Self::Unknown,
        };
        Self::Int(size as i128)
    }

    /// CEL's `[]`.
    pub(crate) fn at(&self, index: &Self) -> Self {
        match (self, index) {
            (Self::List(items), Self::Int(index)) => usize::try_from(*index)
                .ok()
                .and_then(|index| items.get(index))
                .map_or(Self::Unknown, Clone::clone),
            (Self::Map(map), key) => map.value(key).map_or(Self::Unknown, Clone::clone),
            _ => Self::Unknown,
        }
    }

    /// Returns the value under a name, if this has names and one of them is it.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(map) => map.entries.iter().find_map(|(key, value)| match key {
                Self::Text(key) if **key == *name => Some(value),
                _ => None,
            }),
            _ => None,
        }
    }

    /// Returns what a macro walks over: a list's elements or a map's keys.
    pub(crate) fn elements(&self) -> Option<Vec<Self>> {
        match self {
            Self::List(items) | Self::Open(items) => Some(items.to_vec()),
            Self::Map(map) => Some(map.entries.iter().map(|(key, _)| key.clone()).collect()),
            _ => None,
        }
    }
}

impl Mapping {
    fn new(kind: MappingKind, mut entries: Vec<(Value, Value)>) -> Self {
        // A later entry of the same key wins, as in a serialised map.
        entries.reverse();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries.dedup_by(|(a, _), (b, _)| a == b);
        Self { kind, entries }
    }

    pub(crate) fn entries(&self) -> &[(Value, Value)] {
        &self.entries
    }

    fn value(&self, key: &Value) -> Option<&Value> {
        let exact = self.entries.binary_search_by(|(other, _)| other.cmp(key));
        match (exact, key) {
            (Ok(at), _) => Some(&self.entries[at].1),
            // A double can name an integer key.
            (Err(_), Value::Double(_)) => self
                .entries
                .iter()
                .find(|(other, _)| other.is_same(key))
                .map(|(_, value)| value),
            _ => None,
        }
    }
}

fn compare_mixed(int: i128, double: f64) -> Option<Ordering> {
    // Beyond 2^53 a conversion would round, so the double is taken apart instead.
    if double.is_nan() {
        return None;
    }
    if double >= 1e38 || double <= -1e38 {
        return Some(if double > 0.0 {
            Ordering::Less
        } else {
            Ordering::Greater
        });
    }
    let whole = double.trunc() as i128;
    Some(
        int.cmp(&whole)
            .then_with(|| 0.0_f64.total_cmp(&(double - double.trunc() + 0.0))),
    )
}

impl Double {
    fn bits(self) -> u64 {
        // Adding zero makes the two zeros one.
        (self.0 + 0.0).to_bits()
    }
}

impl PartialEq for Double {
    fn eq(&self, other: &Self) -> bool {
        self.bits() == other.bits()
    }
}

impl Eq for Double {}

impl Hash for Double {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.bits());
    }
}

impl Ord for Double {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0 + 0.0).total_cmp(&(other.0 + 0.0))
    }
}

impl PartialOrd for Double {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Double(value) => write!(f, "{:?}", value.0),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::Bytes(value) => write!(f, "{} bytes", value.len()),
            Self::List(items) | Self::Open(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str(if matches!(self, Self::Open(_)) {
                    ", …]"
                } else {
                    "]"
                })
            }
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::Map(map) => {
                f.write_str("{")?;
                for (at, (key, value)) in map.entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            Self::Node(position) => write!(f, "node #{position}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_compare_by_value_whatever_their_type() {
        let check = |int: i128, double: f64, expect| {
            assert_eq!(
                Value::Int(int).compare(&Value::Double(Double(double))),
                expect,
                "{int} {double}"
            );
        };
        check(1, 1.0, Some(Ordering::Equal));
        check(1, 1.5, Some(Ordering::Less));
        check(-1, -1.5, Some(Ordering::Greater));
        check(0, -0.5, Some(Ordering::Greater));
        check(0, -0.0, Some(Ordering::Equal));
        check((1 << 53) + 1, (1_u64 << 53) as f64, Some(Ordering::Greater));
        check(i128::MAX, f64::INFINITY, Some(Ordering::Less));
        check(0, f64::NAN, None);
    }

    #[test]
    fn maps_are_equal_whatever_they_were_before_serde() {
        let entries = || vec![(Value::text("a"), Value::Int(1))];
        let a = Value::map(MappingKind::Struct, entries());
        let b = Value::map(MappingKind::Map, entries());
        assert!(a.is_same(&b));
        assert_eq!(Value::text("a").is_in(&a), Value::Bool(true));
        assert_eq!(a.at(&Value::text("b")), Value::Unknown);
    }

    #[test]
    fn what_contains_the_unknown_is_unknown() {
        assert_eq!(
            Value::list(vec![Value::Null, Value::Unknown]),
            Value::Unknown
        );
    }
}
