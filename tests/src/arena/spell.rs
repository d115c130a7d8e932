//! What makes a state harm whoever reads, copies, shows, judges or runs it.
//!
//! A spell is cast by a call and travels with the node's state. It does nothing in the node that cast it and in that
//! node's speculator; it acts where somebody else has read it: in the services of other nodes, in their speculators, and in
//! every checker. So a cluster with one such node is what a service with a bug in its own types looks like, or one with a
//! neighbor that lies about its state.

use std::sync::OnceLock;
use std::time::Duration;

use scry::NodeId;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Tells a node's processes which node they belong to.
const OWNER: &str = "ARENA_NODE";
/// How deep a state that nests does so.
const DEPTH: u32 = 100_000;

/// What a spell does, and when.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Panics while it is read.
    ReadPanics,
    /// Never ends being read.
    ReadLoops,
    /// Ends the process that reads it.
    ReadAborts,
    /// Is read without end, deeper and deeper, until the stack is used up.
    ReadOverflows,
    /// Announces more than there can be, and ends.
    ReadBombs,
    /// Is nested deeper than anybody wants to read.
    ReadNests,
    /// Panics while it is dropped.
    DropPanics,
    /// Panics while it is copied.
    ClonePanics,
    /// Panics while it is shown.
    ShowPanics,
    /// Panics while it is written.
    WritePanics,
    /// Panics while it is compared.
    ComparePanics,
    /// A property panics on it.
    JudgePanics,
    /// A property never ends on it.
    JudgeLoops,
    /// A property ends the process on it.
    JudgeAborts,
    /// A property uses up the stack on it.
    JudgeOverflows,
    /// A handler panics on it.
    HandlePanics,
    /// A handler never ends on it.
    HandleLoops,
    /// A handler ends the process on it.
    HandleAborts,
}

/// A spell as it is found in a state.
#[derive(Default)]
pub(crate) struct Spell {
    cast: Option<(Kind, NodeId)>,
    /// Whether somebody else has read it.
    armed: bool,
}

impl Spell {
    /// Casts one.
    pub(crate) fn new(kind: Kind, owner: NodeId) -> Self {
        Self {
            cast: Some((kind, owner)),
            armed: false,
        }
    }

    fn acts(&self) -> Option<Kind> {
        let (kind, _) = self.cast?;
        self.armed.then_some(kind)
    }

    /// What a property meets that looks at it.
    pub(crate) fn judge(&self) {
        match self.acts() {
            Some(Kind::JudgePanics) => panic!("a property cannot judge this"),
            Some(Kind::JudgeLoops) => forever(),
            Some(Kind::JudgeAborts) => std::process::abort(),
            Some(Kind::JudgeOverflows) => drop(deeper(0)),
            _ => {}
        }
    }

    /// What a handler meets that runs on it.
    pub(crate) fn handle(&self) {
        match self.acts() {
            Some(Kind::HandlePanics) => panic!("a handler cannot bear this"),
            Some(Kind::HandleLoops) => forever(),
            Some(Kind::HandleAborts) => std::process::abort(),
            _ => {}
        }
    }

    fn is(&self, kind: Kind) -> bool {
        self.acts() == Some(kind)
    }
}

/// Computes for good: not asleep, since a handler that hangs uses its processor.
fn forever() {
    let mut count: u64 = 0;
    loop {
        count = std::hint::black_box(count.wrapping_add(1));
        if count.is_multiple_of(1 << 20) {
            // A machine with other tests on it has something better to do.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Uses up the stack.
#[expect(
    unconditional_recursion,
    reason = "that it has no end is what it is for"
)]
fn deeper(depth: u64) -> [u64; 64] {
    let frame = std::hint::black_box([depth; 64]);
    let mut below = deeper(frame[7] + 1);
    below[0] += frame[0];
    std::hint::black_box(below)
}

fn own_node() -> Option<u32> {
    static NODE: OnceLock<Option<u32>> = OnceLock::new();
    *NODE.get_or_init(|| std::env::var(OWNER).ok()?.parse().ok())
}

impl Serialize for Spell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is(Kind::WritePanics) {
            panic!("this cannot be written");
        }
        let mut written = serializer.serialize_seq(Some(2))?;
        written.serialize_element(&self.cast)?;
        match self.cast {
            Some((Kind::ReadBombs, _)) => written.serialize_element(&Bomb)?,
            Some((Kind::ReadNests, _)) => written.serialize_element(&Nested(DEPTH))?,
            _ => written.serialize_element(&())?,
        }
        written.end()
    }
}

impl<'de> Deserialize<'de> for Spell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (cast, _) = <(Option<(Kind, NodeId)>, Rest)>::deserialize(deserializer)?;
        let armed = cast.is_some_and(|(_, owner)| own_node() != Some(owner.get()));
        let spell = Self { cast, armed };
        match spell.acts() {
            Some(Kind::ReadPanics) => panic!("this cannot be read"),
            Some(Kind::ReadLoops) => forever(),
            Some(Kind::ReadAborts) => std::process::abort(),
            Some(Kind::ReadOverflows) => drop(deeper(0)),
            _ => {}
        }
        Ok(spell)
    }
}

/// What comes with a spell: nothing, a bomb or a nest.
struct Rest;

impl<'de> Deserialize<'de> for Rest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // What is nested is read level by level, as a service's own tree would be.
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Rest;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("nothing, or a list")
            }

            fn visit_unit<E>(self) -> Result<Rest, E> {
                Ok(Rest)
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Rest, A::Error> {
                while seq.next_element::<Rest>()?.is_some() {}
                Ok(Rest)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A list that says it has more entries than memory has bytes.
struct Bomb;

impl Serialize for Bomb {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_seq(Some(u32::MAX as usize))?.end()
    }
}

/// Lists in lists. It is written in one piece, without as much stack as it takes to read it.
struct Nested(u32);

impl Serialize for Nested {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // MessagePack: a list of one entry is announced by one byte; the service's own end of the link writes no more.
        let mut list = serializer.serialize_seq(Some(1))?;
        for _ in 1..self.0 {
            list.serialize_element(&Head)?;
        }
        list.serialize_element(&())?;
        list.end()
    }
}

/// The head of a list of one entry, without its entry.
struct Head;

impl Serialize for Head {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_seq(Some(1))?.end()
    }
}

impl Clone for Spell {
    fn clone(&self) -> Self {
        if self.is(Kind::ClonePanics) {
            panic!("this cannot be copied");
        }
        Self {
            cast: self.cast,
            armed: self.armed,
        }
    }
}

impl Drop for Spell {
    fn drop(&mut self) {
        if self.is(Kind::DropPanics) && !std::thread::panicking() {
            panic!("this cannot be dropped");
        }
    }
}

impl std::fmt::Debug for Spell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is(Kind::ShowPanics) {
            panic!("this cannot be shown");
        }
        match self.cast {
            None => f.write_str("none"),
            Some((kind, owner)) => write!(f, "{kind:?} of {owner}"),
        }
    }
}

impl PartialEq for Spell {
    fn eq(&self, other: &Self) -> bool {
        if self.is(Kind::ComparePanics) || other.is(Kind::ComparePanics) {
            panic!("this cannot be compared");
        }
        self.cast == other.cast
    }
}

impl Eq for Spell {}

impl std::hash::Hash for Spell {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.cast.hash(state);
    }
}
