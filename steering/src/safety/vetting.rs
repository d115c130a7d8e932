//! Neighbors' states are tried in a process of their own before anybody else works with them.
//!
//! They are other nodes' bytes, read by the service's own code: that may panic, abort, use up the stack or never end. So a
//! child reads each state, copies, compares, shows and writes it, and has every property look at it. What the child dies of
//! is known from [`blame`]; that is left out, and another child tries the rest. A state that was fine once is not
//! tried again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use scry_protocol::link::host::{Neighbor as Raw, Surroundings};
use scry_protocol::{Body, NodeId};

use crate::blame::{self, Blame, Phase};
use crate::capture::{self, Captured};
use crate::safety::child::{CheckError, Forker};
use crate::safety::trial::{How, Neighbor, Spot, Trouble};
use scry_engine::panics::in_silence;
use scry_engine::panics::{Panicked, caught};
use scry_engine::property::{Property, Shape, View};
use scry_engine::service::Service;

/// How long something bad is left alone at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(600));
/// After so many times its pause without more of it, a spot counts as new.
const FORGET: u32 = 4;
/// So many children may use up their time, each for another node's state.
pub(super) const CHILDREN_MAX: u32 = 4;
/// How many spots are remembered. There are more only if nearly everything is bad, and then everything may be.
const SPOTS_MAX: usize = 1024;

/// What goes wrong where, and until when it is left alone.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    spots: BTreeMap<Spot, Rest>,
}

#[derive(Debug)]
struct Rest {
    until: Instant,
    pause: Duration,
    /// Whether it is left alone until then, or only not told again.
    untouched: bool,
}

impl Troubles {
    /// Keeps quiet about a spot for a while, longer each time, and leaves it alone until then if that is wanted. Tells whether
    /// it is to be told.
    pub(super) fn note(&mut self, now: Instant, spot: Spot, untouched: bool) -> bool {
        if self.spots.len() >= SPOTS_MAX {
            self.spots.retain(|_, rest| now < rest.until);
        }
        let known = self.spots.get(&spot);
        if known.is_some_and(|rest| now < rest.until) || self.spots.len() >= SPOTS_MAX {
            return false;
        }
        let pause = match known {
            Some(rest) if now < rest.until + rest.pause * FORGET => (rest.pause * 2).min(PAUSE.1),
            _ => PAUSE.0,
        };
        let until = now + pause;
        let rest = Rest {
            until,
            pause,
            untouched,
        };
        self.spots.insert(spot, rest);
        true
    }

    /// Lists what is to be left alone now.
    pub(super) fn present(&self, now: Instant) -> Vec<Spot> {
        let resting = self
            .spots
            .iter()
            .filter(|(_, rest)| rest.untouched && now < rest.until);
        resting.map(|(spot, _)| *spot).collect()
    }

    /// Forgets everything: the properties are others now.
    pub(super) fn clear(&mut self) {
        self.spots.clear();
    }
}

/// Returns the surroundings without the neighbors whose states are to be left alone.
pub(super) fn without(surroundings: &Surroundings, bad: &[Spot]) -> Surroundings {
    let is_bad = |node: NodeId| {
        bad.iter()
            .any(|spot| spot.property.is_none() && spot.node == Some(node))
    };
    let neighbors = surroundings.neighbors.iter();
    Surroundings {
        number: surroundings.number,
        answers: surroundings.answers,
        neighbors: neighbors
            .filter(|neighbor| !is_bad(neighbor.node))
            .cloned()
            .collect(),
    }
}

/// Tries states in children.
#[derive(Debug, Default)]
pub(super) struct Vetting {
    forker: Forker,
    /// States that were fine, by node.
    fine: BTreeMap<NodeId, Body>,
}

impl Vetting {
    /// Tries the states that are new, and says what is wrong with which. Whatever is not said to be wrong may be worked with.
    ///
    /// One child has so much time, and all of them [`CHILDREN_MAX`] times as much; what there is no time for is wrong too. What is
    /// `resting` is left alone and not said again: every new state would cost a child otherwise.
    pub(super) fn vet<S: Service>(
        &mut self,
        surroundings: &Surroundings,
        properties: &[Property<S>],
        limit: Duration,
        resting: &[Spot],
    ) -> Vec<Trouble> {
        let try_all = |waiting: &[&Raw], bad: &[Spot]| try_all::<S>(waiting, properties, bad);
        self.vet_by(surroundings, limit, resting, &try_all)
    }

    /// As [`vet`](Self::vet), whatever the service is.
    fn vet_by(
        &mut self,
        surroundings: &Surroundings,
        limit: Duration,
        resting: &[Spot],
        try_all: &TryAll<'_>,
    ) -> Vec<Trouble> {
        let begun = Instant::now();
        let raw = &surroundings.neighbors;
        self.fine
            .retain(|node, _| raw.iter().any(|neighbor| neighbor.node == *node));
        let is_new = |neighbor: &&Raw| self.fine.get(&neighbor.node) != Some(&neighbor.body);
        let mut waiting: Vec<&Raw> = raw.iter().filter(is_new).collect();
        let mut troubles: Vec<Trouble> = Vec::new();
        // Without it nobody could say what a child died of.
        let shared = blame::share_with_children();
        while !waiting.is_empty() {
            let left = (limit * CHILDREN_MAX)
                .saturating_sub(begun.elapsed())
                .min(limit);
            let bad = all_bad(resting, &troubles);
            let tried = match &shared {
                Err(error) => Err(CheckError::Gone(error.to_string())),
                Ok(()) if left.is_zero() => Err(CheckError::Late(limit)),
                Ok(()) => self.forker.run(left, || try_all(&waiting, &bad)),
            };
            let blamed = blame::take();
            match tried {
                Ok(found) => {
                    troubles.extend(found);
                    break;
                }
                Err(error) => {
                    // What it died of with nobody's state at hand would happen again with all of them.
                    let spot = blamed.and_then(spot_of).filter(|spot| !bad.contains(spot));
                    let Some(spot) = spot else {
                        let everybody = waiting.iter().map(|neighbor| state_of(neighbor.node));
                        troubles.extend(everybody.map(|spot| died(spot, &error)));
                        break;
                    };
                    troubles.push(died(spot, &error));
                    waiting.retain(|neighbor| {
                        spot.property.is_some() || Some(neighbor.node) != spot.node
                    });
                }
            }
        }
        self.remember(raw, &all_bad(resting, &troubles));
        troubles
    }

    /// Keeps in mind whose states were fine: everybody's but those in whom something is bad.
    fn remember(&mut self, raw: &[Raw], bad: &[Spot]) {
        let bad: BTreeSet<NodeId> = bad.iter().filter_map(|spot| spot.node).collect();
        for neighbor in raw.iter().filter(|neighbor| !bad.contains(&neighbor.node)) {
            self.fine.insert(neighbor.node, neighbor.body.clone());
        }
        self.fine.retain(|node, _| !bad.contains(node));
    }

    /// Forgets what was fine: properties have changed.
    pub(super) fn clear(&mut self) {
        self.fine.clear();
    }
}

/// Lists what is left alone and what was found bad.
fn all_bad(resting: &[Spot], troubles: &[Trouble]) -> Vec<Spot> {
    let found = troubles.iter().map(|trouble| trouble.spot);
    resting.iter().copied().chain(found).collect()
}

/// Says what a child was at when it died, if it was at somebody's state.
fn spot_of(blame: Blame) -> Option<Spot> {
    let property = match blame.phase {
        Phase::Judging(property) => Some(property),
        Phase::Reading | Phase::Handling => None,
    };
    let node = Some(blame.node?);
    Some(Spot { node, property })
}

/// A node's state, whichever property looks at it.
fn state_of(node: NodeId) -> Spot {
    Spot {
        node: Some(node),
        property: None,
    }
}

fn died(spot: Spot, error: &CheckError) -> Trouble {
    let how = match error {
        CheckError::Late(_) => How::Late,
        _ => How::Dies,
    };
    let said = error.to_string();
    Trouble { spot, how, said }
}

/// What a child does, whatever the service.
type TryAll<'a> = dyn Fn(&[&Raw], &[Spot]) -> Vec<Trouble> + 'a;

/// What a child does.
fn try_all<S: Service>(waiting: &[&Raw], properties: &[Property<S>], bad: &[Spot]) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    for neighbor in waiting {
        let node = Some(neighbor.node);
        let mut tell = |property, said: String| {
            let spot = Spot { node, property };
            troubles.push(Trouble::new(spot, How::Panics, &said));
        };
        let read = blame::on(Phase::Reading, node, || read_vetted::<S>(neighbor));
        let local = match read {
            Ok((_, captured)) => captured.local,
            Err(said) => {
                tell(None, said);
                continue;
            }
        };
        let view = View {
            id: neighbor.node,
            state: &local.service,
            timers: &local.timers,
        };
        for (position, property) in (0..).zip(properties) {
            let spot = Spot {
                node,
                property: Some(position),
            };
            if bad.contains(&spot) {
                continue;
            }
            let looked = in_silence(|| {
                blame::on(Phase::Judging(position), node, || {
                    caught(|| match property.shape() {
                        Shape::Node(judge) => drop(judge(&view)),
                        Shape::Pair(project, _) | Shape::Global(project, _) => drop(project(&view)),
                    })
                })
            });
            if let Err(Panicked(said)) = looked {
                tell(Some(position), said);
            }
        }
        let dropped = blame::on(Phase::Reading, node, || {
            in_silence(|| caught(|| drop(local)))
        });
        if let Err(Panicked(said)) = dropped {
            tell(
                None,
                format!("the service panics when it is dropped: {said}"),
            );
        }
    }
    troubles
}

fn read_vetted<S: Service>(neighbor: &Raw) -> Result<(S::Setup, Captured<S>), String> {
    let content = neighbor.body.read().map_err(|error| error.to_string())?;
    capture::vet::<S>(&content)
}

/// Neighbors' states as values. Each is dropped by itself, and a panic then stays here.
#[derive(Debug)]
pub(super) struct Neighbors<S: Service>(pub(super) Vec<Neighbor<S>>);

impl<S: Service> Neighbors<S> {
    /// Reads states that were vetted.
    pub(super) fn read(surroundings: &Surroundings) -> Self {
        let mut all = Vec::new();
        for neighbor in &surroundings.neighbors {
            let Ok(content) = neighbor.body.read() else {
                continue;
            };
            let read = in_silence(|| caught(|| capture::read::<S>(&content)));
            if let Ok(Ok((setup, captured))) = read {
                all.push(Neighbor {
                    node: neighbor.node,
                    setup,
                    local: captured.local,
                });
            }
        }
        Self(all)
    }

    /// Returns them one by one.
    pub(super) fn all(&self) -> Vec<&Neighbor<S>> {
        self.0.iter().collect()
    }
}

impl<S: Service> Drop for Neighbors<S> {
    fn drop(&mut self) {
        for neighbor in self.0.drain(..) {
            // What panics there has been told, if anything was, when it was vetted.
            let _ = in_silence(|| caught(|| drop(neighbor)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spot_rests_longer_each_time_and_is_new_after_a_long_peace() {
        let mut troubles = Troubles::default();
        let spot = Spot {
            node: Some(NodeId::new(3)),
            property: None,
        };
        let start = Instant::now();
        assert!(troubles.note(start, spot, true));
        assert!(!troubles.note(start + PAUSE.0 / 2, spot, true), "it rests");
        assert_eq!(troubles.present(start), [spot]);
        let again = start + PAUSE.0;
        assert_eq!(troubles.present(again), []);
        assert!(troubles.note(again, spot, true));
        assert_eq!(troubles.present(again + PAUSE.0), [spot], "twice as long");
        let much_later = again + PAUSE.0 * 2 * (FORGET + 2);
        assert!(troubles.note(much_later, spot, true));
        assert_eq!(troubles.present(much_later + PAUSE.0), []);
    }

    #[test]
    fn no_more_spots_are_remembered_than_there_is_room_for() {
        let mut troubles = Troubles::default();
        let now = Instant::now();
        for node in 0..2 * SPOTS_MAX as u32 {
            let spot = Spot {
                node: Some(NodeId::new(node)),
                property: None,
            };
            troubles.note(now, spot, true);
        }
        assert_eq!(troubles.spots.len(), SPOTS_MAX);
    }
}
