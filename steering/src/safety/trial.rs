//! One trial: the handler on a copy, and the properties on what comes of it.
//!
//! What is judged is the node's next state together with what is known of its neighbors. Guilt is found per witness: a
//! node, a pair, or all in view that a property is broken in with the event and was not without it. So a violation that
//! stands already neither hides a new one nor excuses it, and a node that missed one violation is not stopped for good.
//! There may always be nodes that are not in view, so what more nodes could change is unknown.

use scry_protocol::NodeId;
use scry_protocol::link::host::Surroundings;
use serde::{Deserialize, Serialize};

use crate::capture;
use crate::checkpoint::cut::{Basis, Standing};
use crate::context::Dice;
use crate::engine::PANIC_PROPERTY;
use crate::model::event::InputOf;
use crate::model::handler::{Local, in_silence};
use crate::property::{Judgement, Property, Scope, Shape, View};
use crate::runtime::run::{Panicked, Performed, caught, run};
use crate::service::Service;

/// A neighbor's state as it is judged with.
#[derive(Debug)]
pub(super) struct Neighbor<S: Service> {
    pub(super) node: NodeId,
    pub(super) setup: S::Setup,
    pub(super) local: Local<S>,
}

/// What is said of a property whose judgement took more steps than it may.
pub(super) const CUT_OFF: &str = "it took more steps than it may";

/// What a trial is made with.
pub(super) struct Trial<'a, S: Service> {
    pub(super) me: NodeId,
    pub(super) setup: &'a S::Setup,
    pub(super) properties: &'a [Property<S>],
    pub(super) neighbors: &'a [Neighbor<S>],
    pub(super) standing: &'a [Standing],
}

/// What came of a trial.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// What the event would break.
    pub(super) accusations: Vec<Accusation>,
    /// Properties that could not be judged because they panicked or took too long, with what is said of that.
    pub(super) unjudged: Vec<(String, String)>,
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

impl<S: Service> Trial<'_, S> {
    /// Runs the handler on a copy and judges where it leads.
    pub(super) fn run(
        &self,
        local: &Local<S>,
        input: &InputOf<S>,
        dice: Dice,
    ) -> (Verdict, Option<Performed<S>>) {
        let (mut copy, mut dice) = (local.clone(), dice);
        let ran = in_silence(|| run(self.me, self.setup, &mut copy, input.clone(), &mut dice));
        let effects = match ran {
            Ok(effects) => effects,
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
        if before == after {
            return verdict;
        }
        for property in self.properties {
            let cut_off = property.cut_off();
            let judged = in_silence(|| caught(|| self.accuse(property, before, after)));
            if property.cut_off() > cut_off {
                let name = property.name().to_owned();
                verdict.unjudged.push((name, CUT_OFF.to_owned()));
            }
            match judged {
                Ok(accusations) => verdict.accusations.extend(accusations),
                Err(Panicked(said)) => verdict.unjudged.push((property.name().to_owned(), said)),
            }
        }
        verdict
    }

    fn accuse(
        &self,
        property: &Property<S>,
        before: &Local<S>,
        after: &Local<S>,
    ) -> Vec<Accusation> {
        let own = |local| view(self.me, local);
        match property.shape() {
            Shape::Node(judge) => {
                let broken = |local| judge(&own(local)) == Judgement::Violated;
                match broken(after) && !broken(before) {
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
                let with = |neighbor: &&Neighbor<S>| {
                    let theirs = project(&view(neighbor.node, &neighbor.local));
                    theirs.is_some_and(|theirs| {
                        let broken = |mine| {
                            let (mine, theirs) = ((self.me, mine), (neighbor.node, &theirs));
                            judge(mine, theirs) == Judgement::Violated
                                || judge(theirs, mine) == Judgement::Violated
                        };
                        broken(&then) && !now.as_ref().is_some_and(broken)
                    })
                };
                let guilty = self.neighbors.iter().filter(with);
                guilty
                    .map(|neighbor| {
                        let firm = self.is_firm(neighbor.node, property.name());
                        self.accusation(property, after, &[neighbor], firm)
                    })
                    .collect()
            }
            Shape::Global(..) => self.accuse_together(property, before, after),
        }
    }

    /// A property of all in view: firm if those who may stand together break it, a suspicion if all that are known do.
    fn accuse_together(
        &self,
        property: &Property<S>,
        before: &Local<S>,
        after: &Local<S>,
    ) -> Vec<Accusation> {
        let all: Vec<&Neighbor<S>> = self.neighbors.iter().collect();
        let firm = |neighbor: &&&Neighbor<S>| self.is_firm(neighbor.node, property.name());
        let together: Vec<&Neighbor<S>> = all.iter().filter(firm).copied().collect();
        let broken = |local, with: &[&Neighbor<S>]| {
            let views = self.views(local, with);
            property.judge_in(Scope::Partial, &views) == Judgement::Violated
        };
        for (with, firm) in [(&together, true), (&all, false)] {
            if broken(after, with) && !broken(before, with) {
                return vec![self.accusation(property, after, with, firm)];
            }
        }
        Vec::new()
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

/// Reads the neighbors that can be read, and says what is wrong with the others. Their bytes are another node's: reading
/// them must not end this process, whatever the service's own types do with them.
pub(super) fn neighbors<S: Service>(
    surroundings: &Surroundings,
) -> (Vec<Neighbor<S>>, Vec<String>) {
    let mut readable = Vec::new();
    let mut errors = Vec::new();
    for neighbor in &surroundings.neighbors {
        let content = neighbor.body.read().map_err(|error| error.to_string());
        let read = content.and_then(|content| {
            let read = in_silence(|| caught(|| capture::read::<S>(&content)));
            match read {
                Ok(read) => read.map_err(|error| error.to_string()),
                Err(Panicked(said)) => Err(format!("the service panics on it: {said}")),
            }
        });
        match read {
            Ok((setup, captured)) => readable.push(Neighbor {
                node: neighbor.node,
                setup,
                local: captured.local,
            }),
            Err(error) => errors.push(format!("{}: {error}", neighbor.node)),
        }
    }
    (readable, errors)
}
