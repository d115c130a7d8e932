//! One trial: the handler on a copy, and the properties on what comes of it.
//!
//! What is judged is the node's next state together with what is known of its neighbors. Guilt is found per witness: a
//! node, a pair, or all in view that a property is broken in with the event and was not without it. So a violation that
//! stands already neither hides a new one nor excuses it, and a node that missed one violation is not stopped for good.
//! There may always be nodes that are not in view, so what more nodes could change is unknown.
//!
//! Neighbors' states are other nodes' bytes, and properties are the service's own code: what comes of the two is contained.
//! A property that panics says nothing. What a process made for a trial died of, or could not end, is read off
//! [`blame`], and a [`Spot`] that is known to be bad is not touched again for a while.

use scry_protocol::NodeId;
use serde::{Deserialize, Serialize};

use crate::blame::{self, Phase};
use scry_checkpoint::cut::{Basis, Standing};
use scry_engine::context::Dice;
use scry_engine::interned::PANIC_PROPERTY;
use scry_engine::model::event::{Input, InputOf};
use scry_engine::model::handler::Local;
use scry_engine::model::live::{Performed, run};
use scry_engine::panics::in_silence;
use scry_engine::panics::{Panicked, caught};
use scry_engine::property::{Judgement, Property, Scope, Shape, View};
use scry_engine::service::Service;

/// A neighbor's state as it is judged with.
#[derive(Debug)]
pub(super) struct Neighbor<S: Service> {
    pub(super) node: NodeId,
    pub(super) setup: S::Setup,
    pub(super) local: Local<S>,
}

/// Where things go wrong: at a node's state as a whole, or where one property, by its position, looks at it. Without a node
/// it is everybody's.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(super) struct Spot {
    pub(super) node: Option<NodeId>,
    pub(super) property: Option<u32>,
}

/// What goes wrong there.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(super) enum How {
    /// A panic, which was caught, or bytes that are no state.
    Panics,
    /// The process that tried it ended.
    Dies,
    /// It did not end in time.
    Late,
    /// It took more steps than it may, and ended by itself.
    CutOff,
}

/// Something that could not be judged, or not even be read.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Trouble {
    pub(super) spot: Spot,
    pub(super) how: How,
    /// More about it, for people.
    pub(super) said: String,
}

/// What is asked about an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(super) enum What {
    /// What comes of it.
    Event,
    /// What comes of keeping this node's message from the handler.
    Refusal(NodeId),
    /// What comes of it after the connection with this node has broken.
    AfterBreak(NodeId),
}

/// What a trial is made with.
pub(super) struct Trial<'a, S: Service> {
    pub(super) me: NodeId,
    pub(super) setup: &'a S::Setup,
    pub(super) properties: &'a [Property<S>],
    pub(super) neighbors: Vec<&'a Neighbor<S>>,
    pub(super) standing: &'a [Standing],
    /// What is not to be touched.
    pub(super) bad: &'a [Spot],
}

/// What came of a trial.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// What the event would break.
    pub(super) accusations: Vec<Accusation>,
    /// Where properties could not be judged.
    pub(super) unjudged: Vec<Trouble>,
    /// How often the handler looked at dice or clock.
    pub(super) asked: u32,
}

/// A property that an event would break.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Accusation {
    pub(super) property: String,
    pub(super) explanation: String,
    /// The neighbors it would be broken with; none if the node breaks it alone.
    pub(super) witnesses: Vec<NodeId>,
    /// Whether all of it is one consistent cut; otherwise it is no more than a suspicion.
    pub(super) firm: bool,
}

/// No more of what a panic says is passed on: it may quote another node's state, and an answer has a limit.
const SAID_CHARS_MAX: usize = 200;

impl Trouble {
    pub(super) fn new(spot: Spot, how: How, said: &str) -> Self {
        Self {
            spot,
            how,
            said: said.chars().take(SAID_CHARS_MAX).collect(),
        }
    }
}

impl<S: Service> Trial<'_, S> {
    /// Runs the handler on a copy and judges where it leads.
    pub(super) fn run(
        &self,
        local: &Local<S>,
        input: &InputOf<S>,
        dice: Dice,
    ) -> (Verdict, Option<Performed<S>>) {
        let mut dice = dice;
        let ran = in_silence(|| {
            blame::on(Phase::Handling, Some(self.me), || {
                let mut copy = caught(|| local.clone())?;
                let effects = run(self.me, self.setup, &mut copy, input.clone(), &mut dice)?;
                Ok((copy, effects))
            })
        });
        let (copy, effects) = match ran {
            Ok(performed) => performed,
            Err(Panicked(said)) => {
                // Dice may have had a part in it, and what they said is lost: not to be remembered.
                let verdict = Verdict {
                    accusations: vec![panicking(format!("{}: {said}", self.me))],
                    unjudged: Vec::new(),
                    asked: 1,
                };
                return (verdict, None);
            }
        };
        let mut verdict = self.judge(local, &copy);
        verdict.asked = dice.asked;
        (verdict, Some((copy, effects)))
    }

    /// Says what is broken after a step of the node and was not before. A property that panics says nothing.
    pub(super) fn judge(&self, before: &Local<S>, after: &Local<S>) -> Verdict {
        let mut verdict = Verdict::default();
        if in_silence(|| caught(|| before == after)).unwrap_or(false) {
            return verdict;
        }
        for (position, property) in (0..).zip(self.properties) {
            if self.is_bad(self.me, position) {
                continue;
            }
            let at = |node| Spot {
                node,
                property: Some(position),
            };
            let cut_off = property.cut_off();
            let judged = in_silence(|| {
                blame::on(Phase::Judging(position), Some(self.me), || {
                    caught(|| self.accuse(position, property, before, after)).map_err(|panicked| {
                        (
                            blame::present().map_or(Some(self.me), |it| it.node),
                            panicked,
                        )
                    })
                })
            });
            if property.cut_off() > cut_off {
                verdict.unjudged.push(Trouble {
                    spot: at(Some(self.me)),
                    how: How::CutOff,
                    said: "it took more steps than it may".to_owned(),
                });
            }
            match judged {
                Ok(accusations) => verdict.accusations.extend(accusations),
                Err((node, Panicked(said))) => {
                    verdict
                        .unjudged
                        .push(Trouble::new(at(node), How::Panics, &said))
                }
            }
        }
        verdict
    }

    /// Says what would break at once if a message of a peer were kept from its handler: on a connection that means to break
    /// it, which both ends are told of. A handler or property that fails here says nothing good about the refusal.
    pub(super) fn refuse(&self, local: &Local<S>, from: NodeId, dice: Dice) -> Verdict {
        let input = Input::Disconnect(from);
        let (mut verdict, _) = self.run(local, &input, dice);
        let Some(peer) = self.neighbors.iter().find(|it| it.node == from) else {
            return verdict;
        };
        // For the time of the question the peer is the node, and this node one of its neighbors.
        let mine = Neighbor {
            node: self.me,
            setup: self.setup.clone(),
            local: local.clone(),
        };
        let others = self.neighbors.iter().filter(|it| it.node != from);
        let mut standing = self.standing.to_vec();
        for standing in standing.iter_mut().filter(|standing| standing.node == from) {
            standing.node = self.me;
        }
        let theirs = Trial {
            me: from,
            setup: &peer.setup,
            properties: self.properties,
            neighbors: others.copied().chain([&mine]).collect(),
            standing: &standing,
            bad: self.bad,
        };
        let (after, _) = theirs.run(&peer.local, &Input::Disconnect(self.me), dice);
        verdict.accusations.extend(after.accusations);
        verdict
    }

    /// Says what would break at once if the connection with a peer broke and the event came then.
    pub(super) fn run_after_break(
        &self,
        local: &Local<S>,
        peer: NodeId,
        input: &InputOf<S>,
        dice: Dice,
    ) -> Verdict {
        let broken = self.refuse(local, peer, dice);
        if !broken.accusations.is_empty() {
            return broken;
        }
        match self.run(local, &Input::Disconnect(peer), dice).1 {
            Some((after, _)) => self.run(&after, input, dice).0,
            None => broken,
        }
    }

    /// Answers a question.
    pub(super) fn answer(
        &self,
        what: What,
        local: &Local<S>,
        input: &InputOf<S>,
        dice: Dice,
    ) -> Verdict {
        match what {
            What::Event => self.run(local, input, dice).0,
            What::Refusal(from) => self.refuse(local, from, dice),
            What::AfterBreak(peer) => self.run_after_break(local, peer, input, dice),
        }
    }

    /// Tells whether a property must not look at a node's state.
    fn is_bad(&self, node: NodeId, property: u32) -> bool {
        self.bad.iter().any(|spot| {
            spot.property.is_none_or(|bad| bad == property)
                && spot.node.is_none_or(|bad| bad == node)
        })
    }

    fn accuse(
        &self,
        position: u32,
        property: &Property<S>,
        before: &Local<S>,
        after: &Local<S>,
    ) -> Vec<Accusation> {
        let own = |local| view(self.me, local);
        match property.shape() {
            Shape::Node(judge) => {
                let broken = |local| judge(&own(local)) == Judgement::Violated;
                let is_new = || !broken(before) || self.adds(property, before, after, &[]);
                match broken(after) && is_new() {
                    true => vec![self.accusation(property, after, &[], true)],
                    false => Vec::new(),
                }
            }
            Shape::Pair(project, judge) => {
                let (Some(then), now) = (project(&own(after)), project(&own(before))) else {
                    return Vec::new();
                };
                if now.as_ref() == Some(&then) {
                    return Vec::new();
                }
                let with = |neighbor: &&&Neighbor<S>| {
                    blame::on(Phase::Judging(position), Some(neighbor.node), || {
                        let theirs = project(&view(neighbor.node, &neighbor.local));
                        theirs.is_some_and(|theirs| {
                            let broken = |mine| {
                                let (mine, theirs) = ((self.me, mine), (neighbor.node, &theirs));
                                judge(mine, theirs) == Judgement::Violated
                                    || judge(theirs, mine) == Judgement::Violated
                            };
                            let is_new = || {
                                !now.as_ref().is_some_and(broken)
                                    || self.adds(property, before, after, &[neighbor])
                            };
                            broken(&then) && is_new()
                        })
                    })
                };
                let fine = |neighbor: &&&Neighbor<S>| !self.is_bad(neighbor.node, position);
                let guilty = self.neighbors.iter().filter(fine).filter(with);
                guilty
                    .map(|neighbor| {
                        let firm = self.is_firm(neighbor.node, property.name());
                        self.accusation(property, after, &[neighbor], firm)
                    })
                    .collect()
            }
            Shape::Global(..) => blame::on(Phase::Judging(position), None, || {
                self.accuse_together(position, property, before, after)
            }),
        }
    }

    /// A property of all in view: firm if those who may stand together break it, a suspicion if all that are known do.
    fn accuse_together(
        &self,
        position: u32,
        property: &Property<S>,
        before: &Local<S>,
        after: &Local<S>,
    ) -> Vec<Accusation> {
        // A node that is not in view is one that is not known: what it could change stays unknown.
        let fine = |neighbor: &&&Neighbor<S>| !self.is_bad(neighbor.node, position);
        let all: Vec<&Neighbor<S>> = self.neighbors.iter().filter(fine).copied().collect();
        let firm = |neighbor: &&&Neighbor<S>| self.is_firm(neighbor.node, property.name());
        let together: Vec<&Neighbor<S>> = all.iter().filter(firm).copied().collect();
        let broken = |local, with: &[&Neighbor<S>]| {
            let views = self.views(local, with);
            property.judge_in(Scope::Partial, &views) == Judgement::Violated
        };
        for (with, firm) in [(&together, true), (&all, false)] {
            let is_new = || !broken(before, with) || self.adds(property, before, after, with);
            if broken(after, with) && is_new() {
                return vec![self.accusation(property, after, with, firm)];
            }
        }
        Vec::new()
    }

    /// Tells whether something more is wrong after the event, where something was wrong before it.
    fn adds(
        &self,
        property: &Property<S>,
        before: &Local<S>,
        after: &Local<S>,
        with: &[&Neighbor<S>],
    ) -> bool {
        let all = |local| property.all_broken_in(Scope::Partial, &self.views(local, with));
        match (all(before), all(after)) {
            (Some(before), Some(after)) => !after.is_subset(&before),
            _ => false,
        }
    }

    fn is_firm(&self, node: NodeId, property: &str) -> bool {
        let standing = self.standing.iter().find(|standing| standing.node == node);
        match standing.map(|standing| &standing.basis) {
            Some(Basis::Usable) => true,
            Some(Basis::Lasting(properties)) => properties.iter().any(|name| name == property),
            Some(Basis::Stale) | None => false,
        }
    }

    fn accusation(
        &self,
        property: &Property<S>,
        after: &Local<S>,
        with: &[&Neighbor<S>],
        firm: bool,
    ) -> Accusation {
        let explanation = property.explain_in(Scope::Partial, &self.views(after, with));
        Accusation {
            property: property.name().to_owned(),
            explanation: explanation.unwrap_or_default(),
            witnesses: with.iter().map(|neighbor| neighbor.node).collect(),
            firm,
        }
    }

    fn views<'v>(&'v self, local: &'v Local<S>, with: &[&'v Neighbor<S>]) -> Vec<View<'v, S>> {
        let neighbors = with
            .iter()
            .map(|neighbor| view(neighbor.node, &neighbor.local));
        let mut views: Vec<View<'_, S>> = neighbors.chain([view(self.me, local)]).collect();
        views.sort_unstable_by_key(|view| view.id);
        views
    }
}

/// An event whose handler ends the process is broken whatever the neighbors do.
pub(super) fn panicking(explanation: String) -> Accusation {
    Accusation {
        property: PANIC_PROPERTY.to_owned(),
        explanation,
        witnesses: Vec::new(),
        firm: true,
    }
}

fn view<S: Service>(id: NodeId, local: &Local<S>) -> View<'_, S> {
    View {
        id,
        state: &local.service,
        timers: &local.timers,
    }
}

/// Tells whether any property looks at more than one node.
pub(super) fn looks_at_neighbors<S: Service>(properties: &[Property<S>]) -> bool {
    let several = |property: &Property<S>| !matches!(property.shape(), Shape::Node(_));
    properties.iter().any(several)
}
