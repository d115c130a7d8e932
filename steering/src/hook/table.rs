//! The filters in force, laid out for the question asked before every handler: does one of them mean this event?
//!
//! A table is built anew whenever filters change, and never changed. Most events are of a kind that no filter names: one
//! bit says so. The others find their few candidates by (kind, sender), however many filters there are.

use std::hash::Hasher;
use std::sync::Arc;

use rustc_hash::FxHasher;
use scry_protocol::filter::{Action, Filter, Matcher, Mode};
use scry_protocol::{Digest, NodeId};

use crate::hook::gate::Occurrence;
use crate::hook::lease::Armed;

const MESSAGE: u8 = 0;
const TIMER: u8 = 1;
const CALL: u8 = 2;
const DISCONNECT: u8 = 3;

/// The filters in force at one moment.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// One bit for each value of a kind's hash, modulo their number.
    kinds: [u64; 4],
    /// Where each bucket of [`slots`](Self::slots) begins and ends; a power of two of them.
    buckets: Box<[(u32, u32)]>,
    /// By bucket, then by filter id.
    slots: Box<[Slot]>,
    /// Those that have events checked, whoever these come from: what one sender can cause, others can, too.
    checks: Box<[Arc<Armed>]>,
}

/// One filter in force.
#[derive(Debug)]
pub(super) struct Slot {
    key: u64,
    content: Option<Digest>,
    /// Whether it acts, or only watches.
    pub(super) acts: bool,
    pub(super) armed: Arc<Armed>,
}

/// The digest of an event's content, computed at most once and only if a filter asks for it.
#[derive(Default)]
pub(super) struct LazyDigest(Option<Digest>);

impl Table {
    /// Lays out the filters that concern this node and may do something in this mode.
    pub(super) fn build(me: NodeId, mode: Mode, armed: &[Arc<Armed>]) -> Self {
        let mut kinds = [0; 4];
        let checks = |armed: &&Arc<Armed>| {
            let Filter { action, .. } = armed.filter;
            action == Action::Check && armed.filter.mode.min(mode) == Mode::Steer
        };
        let checking = armed.iter().filter(checks).filter(|armed| {
            let meant = keys(me, &armed.filter);
            meant.is_some_and(|(kind, ..)| {
                kinds[word(kind)] |= bit(kind);
                true
            })
        });
        let checking: Box<[Arc<Armed>]> = checking.cloned().collect();
        let mut slots: Vec<Slot> = armed
            .iter()
            .filter(|armed| armed.filter.mode.min(mode) > Mode::Off && !checks(armed))
            .filter_map(|armed| {
                let (kind, key, content) = keys(me, &armed.filter)?;
                kinds[word(kind)] |= bit(kind);
                Some(Slot {
                    key,
                    content,
                    acts: armed.filter.mode.min(mode) == Mode::Steer,
                    armed: armed.clone(),
                })
            })
            .collect();
        let count = (slots.len() * 2).next_power_of_two();
        let bucket = |key: u64| (key >> 32) as usize & (count - 1);
        slots.sort_by_key(|slot| (bucket(slot.key), slot.armed.filter.id));
        let mut buckets = vec![(0, 0); count];
        for (at, slot) in (0u32..).zip(&slots) {
            let (begin, end) = &mut buckets[bucket(slot.key)];
            if *end == 0 {
                *begin = at;
            }
            *end = at + 1;
        }
        Self {
            kinds,
            buckets: buckets.into(),
            slots: slots.into(),
            checks: checking,
        }
    }

    /// Returns the filters in force.
    pub(super) fn filters(&self) -> impl Iterator<Item = &Filter> {
        let slots = self.slots.iter().map(|slot| &slot.armed);
        slots.chain(&self.checks).map(|armed| &armed.filter)
    }

    /// Returns the filter that has events like this one checked, if one does.
    pub(super) fn checking(&self, occurrence: &Occurrence<'_>) -> Option<&Armed> {
        let is_like = |armed: &&Arc<Armed>| match (&armed.filter.matcher, occurrence) {
            (Matcher::Message { kind, .. }, Occurrence::Message { kind: k, .. })
            | (Matcher::Timer { kind, .. }, Occurrence::Timer { kind: k, .. })
            | (Matcher::Call { kind, .. }, Occurrence::Call { kind: k, .. }) => kind == k,
            (Matcher::Disconnect { .. }, Occurrence::Disconnect { .. }) => true,
            _ => false,
        };
        self.checks.iter().find(is_like).map(|armed| &**armed)
    }

    /// Returns how many filters are in force.
    pub(super) fn len(&self) -> usize {
        self.slots.len() + self.checks.len()
    }

    /// Returns the filters that mean this event, by rising id.
    #[inline]
    pub(super) fn matching<'a>(
        &'a self,
        occurrence: &'a Occurrence<'_>,
        digest: &'a mut LazyDigest,
    ) -> impl Iterator<Item = &'a Slot> {
        let (class, name, source) = match *occurrence {
            Occurrence::Message { kind, from, .. } => (MESSAGE, kind, Some(from)),
            Occurrence::Timer { kind, .. } => (TIMER, kind, None),
            Occurrence::Call { kind, .. } => (CALL, kind, None),
            Occurrence::Disconnect { peer } => (DISCONNECT, "", Some(peer)),
        };
        let kind = hash(class, name);
        let candidates = if self.kinds[word(kind)] & bit(kind) == 0 {
            &[]
        } else {
            self.bucket(key(kind, source))
        };
        let key = key(kind, source);
        candidates.iter().filter(move |slot| {
            slot.key == key && slot.means(occurrence) && digest.is(slot.content, occurrence)
        })
    }

    fn bucket(&self, key: u64) -> &[Slot] {
        let at = (key >> 32) as usize & (self.buckets.len() - 1);
        let (begin, end) = self.buckets[at];
        &self.slots[begin as usize..end as usize]
    }
}

impl Slot {
    /// Compares in full what the key only hashes: an unlucky or chosen name must not be blocked in another's stead.
    fn means(&self, occurrence: &Occurrence<'_>) -> bool {
        match (&self.armed.filter.matcher, occurrence) {
            (Matcher::Message { kind, source, .. }, Occurrence::Message { kind: k, from, .. }) => {
                source == from && kind == k
            }
            (Matcher::Timer { kind, .. }, Occurrence::Timer { kind: k, .. })
            | (Matcher::Call { kind, .. }, Occurrence::Call { kind: k, .. }) => kind == k,
            (Matcher::Disconnect { peer }, Occurrence::Disconnect { peer: p }) => peer == p,
            _ => false,
        }
    }
}

impl LazyDigest {
    fn is(&mut self, wanted: Option<Digest>, occurrence: &Occurrence<'_>) -> bool {
        let Some(wanted) = wanted else {
            return true;
        };
        *self.0.get_or_insert_with(|| match occurrence {
            Occurrence::Message { content, .. }
            | Occurrence::Timer { content, .. }
            | Occurrence::Call { content, .. } => Digest::of(&content()),
            // It has no content that a filter could ask for.
            Occurrence::Disconnect { .. } => Digest::of(&[]),
        }) == wanted
    }
}

/// Returns the hash of a filter's kind, its key and the content it wants; nothing if it is meant for another node.
fn keys(me: NodeId, filter: &Filter) -> Option<(u64, u64, Option<Digest>)> {
    let (class, name, source, content) = match &filter.matcher {
        Matcher::Message {
            kind,
            source,
            destination,
            content,
        } => {
            if *destination != me {
                return None;
            }
            (MESSAGE, kind.as_str(), Some(*source), *content)
        }
        Matcher::Timer { kind, content } => (TIMER, kind.as_str(), None, *content),
        Matcher::Call { kind, content } => (CALL, kind.as_str(), None, *content),
        Matcher::Disconnect { peer } => (DISCONNECT, "", Some(*peer), None),
    };
    let kind = hash(class, name);
    Some((kind, key(kind, source), content))
}

#[inline]
fn hash(class: u8, name: &str) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(name.as_bytes());
    hasher.write_u8(class);
    hasher.finish()
}

#[inline]
fn key(kind: u64, source: Option<NodeId>) -> u64 {
    let source = source.map_or(0, |source| u64::from(source.get()) + 1);
    (kind ^ source).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline]
fn word(kind: u64) -> usize {
    (kind >> 6) as usize & 3
}

#[inline]
fn bit(kind: u64) -> u64 {
    1 << (kind & 63)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use scry_protocol::{FilterId, ViolationId};

    use super::*;

    const ME: NodeId = NodeId::new(1);

    /// Few names and nodes, so that filters and events often meet.
    fn name() -> impl Strategy<Value = String> {
        prop::sample::select(vec!["Join", "Joined", "Leave", "Probe", ""]).prop_map(str::to_owned)
    }

    fn content() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(0u8..2, 0..2)
    }

    fn matcher() -> impl Strategy<Value = Matcher> {
        let digest = || prop::option::of(content().prop_map(|content| Digest::of(&content)));
        prop_oneof![
            (name(), 0u32..4, 0u32..4, digest()).prop_map(
                |(kind, source, destination, content)| Matcher::Message {
                    kind,
                    source: NodeId::new(source),
                    destination: NodeId::new(destination),
                    content,
                }
            ),
            (name(), digest()).prop_map(|(kind, content)| Matcher::Timer { kind, content }),
            (name(), digest()).prop_map(|(kind, content)| Matcher::Call { kind, content }),
            (0u32..4).prop_map(|peer| Matcher::Disconnect {
                peer: NodeId::new(peer)
            }),
        ]
    }

    fn filters() -> impl Strategy<Value = Vec<Filter>> {
        let modes = prop::sample::select(vec![Mode::Off, Mode::Audit, Mode::Steer]);
        let filters = prop::collection::vec((matcher(), modes), 0..40);
        filters.prop_map(|filters| {
            let number = |(id, (matcher, mode))| Filter {
                id: FilterId::new(id),
                matcher,
                action: Action::Drop,
                ttl_ms: 1,
                hits_max: 1,
                mode,
                violation: ViolationId::new(1),
                property: String::new(),
                reason: String::new(),
            };
            (0..).zip(filters).map(number).collect()
        })
    }

    /// What a filter says, read as slowly and plainly as possible.
    fn means(filter: &Filter, occurrence: &Occurrence<'_>) -> bool {
        let is = |wanted: &Option<Digest>, content: &[u8]| {
            wanted.is_none_or(|wanted| wanted == Digest::of(content))
        };
        match (&filter.matcher, occurrence) {
            (
                Matcher::Message {
                    kind,
                    source,
                    destination,
                    content: wanted,
                },
                Occurrence::Message {
                    kind: name,
                    from,
                    content,
                },
            ) => kind == name && source == from && *destination == ME && is(wanted, &content()),
            (
                Matcher::Timer {
                    kind,
                    content: wanted,
                },
                Occurrence::Timer {
                    kind: name,
                    content,
                },
            )
            | (
                Matcher::Call {
                    kind,
                    content: wanted,
                },
                Occurrence::Call {
                    kind: name,
                    content,
                },
            ) => kind == name && is(wanted, &content()),
            (Matcher::Disconnect { peer }, Occurrence::Disconnect { peer: lost }) => peer == lost,
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn the_table_finds_what_a_linear_search_finds(
            filters in filters(), kind in name(), from in 0u32..4, content in content(),
            mode in prop::sample::select(vec![Mode::Audit, Mode::Steer]),
        ) {
            let armed: Vec<Arc<Armed>> =
                filters.iter().cloned().map(|filter| Arc::new(Armed::new(0, filter))).collect();
            let table = Table::build(ME, mode, &armed);
            let encode = || content.clone();
            let from = NodeId::new(from);
            for occurrence in [
                Occurrence::Message { kind: &kind, from, content: &encode },
                Occurrence::Timer { kind: &kind, content: &encode },
                Occurrence::Call { kind: &kind, content: &encode },
                Occurrence::Disconnect { peer: from },
            ] {
                let mut digest = LazyDigest::default();
                let found: Vec<(FilterId, bool)> = table
                    .matching(&occurrence, &mut digest)
                    .map(|slot| (slot.armed.filter.id, slot.acts))
                    .collect();
                let expect: Vec<(FilterId, bool)> = filters
                    .iter()
                    .filter(|filter| filter.mode > Mode::Off && means(filter, &occurrence))
                    .map(|filter| (filter.id, filter.mode.min(mode) == Mode::Steer))
                    .collect();
                prop_assert_eq!(found, expect);
            }
        }
    }
}
