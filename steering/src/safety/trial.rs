//! One trial: the handler on a copy, and the properties on what comes of it.

use scry_protocol::NodeId;
use scry_protocol::link::host::Surroundings;
use serde::{Deserialize, Serialize};

use crate::capture;
use crate::context::Dice;
use crate::engine::PANIC_PROPERTY;
use crate::model::event::InputOf;
use crate::model::handler::{Local, in_silence};
use crate::property::{Judgement, Property, Scope, View};
use crate::runtime::run::{Panicked, Performed, run};
use crate::service::Service;

/// What a trial is made with.
pub(super) struct Trial<'a, S: Service> {
    pub(super) me: NodeId,
    pub(super) setup: &'a S::Setup,
    pub(super) properties: &'a [Property<S>],
    pub(super) neighbors: &'a [(NodeId, Local<S>)],
    /// Whether node and neighbors are all nodes of the service. Unless that is known, they are not.
    pub(super) scope: Scope,
}

/// What came of a trial.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    /// All that the event would break: each property may have a mode of its own.
    pub(super) broken: Vec<Broken>,
    /// How often the handler looked at dice or clock.
    pub(super) asked: u32,
}

/// A property that an event would break.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(super) struct Broken {
    pub(super) property: String,
    pub(super) explanation: String,
}

impl<S: Service> Trial<'_, S> {
    /// Runs the handler on a copy and judges where it leads.
    ///
    /// What is broken already is not held against the event: a node that missed one violation must not be stopped for
    /// good.
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
                let broken = Broken {
                    property: PANIC_PROPERTY.to_owned(),
                    explanation: format!("{}: {said}", self.me),
                };
                // Dice may have had a part in it, and what they said is lost: not to be remembered.
                let verdict = Verdict {
                    broken: vec![broken],
                    asked: 1,
                };
                return (verdict, None);
            }
        };
        let broken = self.broken(local, &copy);
        let asked = dice.asked;
        (Verdict { broken, asked }, Some((copy, effects)))
    }

    /// Lists what holds, or is not known to be violated, in one state and is violated in the next; a property in several
    /// parts once.
    fn broken(&self, before: &Local<S>, after: &Local<S>) -> Vec<Broken> {
        let views = self.views(after);
        let is_violated = |property: &Property<S>, views: &[View<'_, S>]| {
            property.judge_in(self.scope, views) == Judgement::Violated
        };
        let mut all: Vec<Broken> = Vec::new();
        for property in self.properties {
            let known = all.iter().any(|broken| broken.property == property.name());
            if !known
                && is_violated(property, &views)
                && !is_violated(property, &self.views(before))
            {
                let explanation = property.explain_in(self.scope, &views);
                all.push(Broken {
                    property: property.name().to_owned(),
                    explanation: explanation.unwrap_or_default(),
                });
            }
        }
        all
    }

    fn views<'v>(&'v self, local: &'v Local<S>) -> Vec<View<'v, S>> {
        let neighbors = self.neighbors.iter().map(|(id, local)| (*id, local));
        let mut views: Vec<View<'_, S>> = neighbors
            .chain([(self.me, local)])
            .map(|(id, local)| View {
                id,
                state: &local.service,
                timers: &local.timers,
            })
            .collect();
        views.sort_unstable_by_key(|view| view.id);
        views
    }
}

/// Reads the neighbors that can be read, and says what is wrong with the others.
pub(super) fn neighbors<S: Service>(
    surroundings: &Surroundings,
) -> (Vec<(NodeId, Local<S>)>, Vec<String>) {
    let mut readable = Vec::new();
    let mut errors = Vec::new();
    for neighbor in &surroundings.neighbors {
        let content = neighbor.body.read().map_err(|error| error.to_string());
        let read = content
            .and_then(|content| capture::read::<S>(&content).map_err(|error| error.to_string()));
        match read {
            Ok((_, captured)) => readable.push((neighbor.node, captured.local)),
            Err(error) => errors.push(format!("{}: {error}", neighbor.node)),
        }
    }
    (readable, errors)
}
