//! A whole system in plain values: slow, obvious, and independent of the engine's tables.
//!
//! It leads a system to its start state, replays every path before it is reported, and is the reference the engine is
//! compared with.

use std::collections::BTreeMap;
use std::sync::Arc;

use scry_protocol::NodeId;

use crate::model::event::{Event, EventOf, Input, InputOf, Step};
use crate::model::fault::{Fault, Faults};
use crate::model::handler::{self, Local, Outcome, Timed, Tosses};
use crate::model::network::{self, Inbox, Links, Parcel, Parcels};
use crate::model::steering::Steering;
use crate::property::{Scope, View};
use crate::service::Service;
use crate::stamp::{Origin, origins_in};
use crate::timing::moments::{Happened, Moments};

/// From so many stamps on, those that are nowhere any more are looked for.
const STAMPS_MANY: usize = 16;

/// One node with all that belongs to it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Node<S: Service> {
    /// What its handlers see.
    pub local: Local<S>,
    /// Its view of its connections.
    pub links: Links,
    /// What is on its way to it.
    pub inbox: Inbox<S::Message>,
}

/// A system at one moment.
#[derive(Clone, Debug)]
pub struct Simulation<S: Service> {
    setups: Arc<BTreeMap<NodeId, S::Setup>>,
    nodes: BTreeMap<NodeId, Node<S>>,
    faults: Faults,
    steering: Steering,
    scope: Scope,
    /// When what is armed was armed and what was read was read, if somebody keeps track. No part of the state: two
    /// systems that differ in nothing else are one.
    moments: Option<Arc<Moments<S::Timer>>>,
}

/// What a step makes of a system.
#[derive(Debug)]
pub(crate) struct Taken<S: Service> {
    faults: Faults,
    /// The node whose step it is, afterwards.
    pub(crate) node: Node<S>,
    /// What it leaves for others.
    pub(crate) parcels: Parcels<S::Message>,
    pub(crate) effect: Effectiveness,
    /// What its handler did that has to do with time, if one ran.
    pub(crate) timed: Option<Timed<S::Timer>>,
}

/// What an event leaves for others before a handler runs, and what the handler is given.
type Begun<S> = (Parcels<<S as Service>::Message>, Option<InputOf<S>>);

/// Why a step cannot be taken.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum StepError {
    /// The node is not part of the system.
    #[error("{0} is not a node of this system")]
    NoSuchNode(NodeId),
    /// The event cannot happen in this state.
    #[error("at {node}: {event} cannot happen here")]
    Impossible {
        /// Where.
        node: NodeId,
        /// What.
        event: String,
    },
    /// The allowance of this fault is used up.
    #[error("no {0} is left in the fault allowance")]
    NotAllowed(Fault),
}

impl<S: Service> Simulation<S> {
    /// Boots every node. Where a service makes choices while starting, the first is taken.
    pub fn boot(setups: BTreeMap<NodeId, S::Setup>, faults: Faults) -> Self {
        let mut parcels = Vec::new();
        let mut nodes = BTreeMap::new();
        let mut moments = Moments::new();
        for (&id, setup) in &setups {
            let origin = moments.next_origin();
            let outcome = handler::boot_at::<S>(id, setup, origin).all.swap_remove(0);
            moments.started_before(id, &outcome.timed);
            let mut node = Node {
                local: outcome.local,
                links: Links::default(),
                inbox: Inbox::default(),
            };
            let effects = outcome.effects;
            let left = network::after_handler(
                id,
                &mut node.links,
                &mut node.inbox,
                effects,
                S::transport,
                |to| setups.contains_key(&to),
                |_| false,
            );
            parcels.push((id, left));
            nodes.insert(id, node);
        }
        let mut simulation = Self {
            setups: Arc::new(setups),
            nodes,
            faults,
            steering: Steering::default(),
            scope: Scope::Whole,
            moments: Some(Arc::new(moments)),
        };
        for (from, left) in parcels {
            simulation.post(from, left);
        }
        simulation
    }

    /// Makes a system out of nodes that are running already, such as those of a snapshot.
    ///
    /// # Panics
    ///
    /// When a node has no setup.
    pub fn from_nodes(
        setups: BTreeMap<NodeId, S::Setup>,
        nodes: BTreeMap<NodeId, Node<S>>,
        faults: Faults,
    ) -> Self {
        assert!(
            nodes.keys().all(|id| setups.contains_key(id)),
            "every node of a system has a setup"
        );
        Self {
            setups: Arc::new(setups),
            nodes,
            faults,
            steering: Steering::default(),
            scope: Scope::Whole,
            moments: None,
        }
    }

    /// Returns the same system, with word on whether the service has nodes beside these. Properties that such nodes could
    /// mend are then unknown.
    #[must_use]
    pub fn in_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Tells whether these are all nodes of the service.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the same system with what is known of its moments.
    #[must_use]
    pub fn with_moments(mut self, moments: Option<Moments<S::Timer>>) -> Self {
        self.moments = moments.map(Arc::new);
        self
    }

    pub(crate) fn moments(&self) -> Option<&Moments<S::Timer>> {
        self.moments.as_deref()
    }

    /// Returns the same system with these filters in force, and no others.
    #[must_use]
    pub fn steered(mut self, steering: Steering) -> Self {
        self.steering = steering;
        self
    }

    /// Returns the filters in force.
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Returns the nodes by id.
    pub fn nodes(&self) -> &BTreeMap<NodeId, Node<S>> {
        &self.nodes
    }

    /// Returns what properties see of the nodes that are up.
    pub fn views(&self) -> Vec<View<'_, S>> {
        let up = self.nodes.iter().filter(|(_, node)| !node.local.down);
        let views = up.map(|(&id, Node { local, .. })| View {
            id,
            state: &local.service,
            timers: &local.timers,
        });
        views.collect()
    }

    /// Returns the static settings of the nodes by id.
    pub fn setups(&self) -> &BTreeMap<NodeId, S::Setup> {
        &self.setups
    }

    /// Returns the faults that may still happen.
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// Sets the faults that may still happen.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Lists what can happen at a node, allowance aside, in the order every strategy uses.
    pub fn enabled(&self, id: NodeId) -> Vec<EventOf<S>> {
        let Some(node) = self.nodes.get(&id) else {
            return Vec::new();
        };
        if node.local.panic.is_some() {
            return Vec::new();
        }
        let mut events = network::arrivals(id, &node.links, &node.inbox);
        if node.local.down {
            events.push(Event::Start);
            return events;
        }
        events.extend(node.local.timers.iter().cloned().map(Event::Timer));
        events.extend(
            node.local
                .service
                .calls(id, &self.setups[&id])
                .into_iter()
                .map(Event::Call),
        );
        events.push(Event::Reset { notice: true });
        events.push(Event::Reset { notice: false });
        events.push(Event::Stop);
        events.extend(network::network_faults(&node.links, &node.inbox));
        events
    }

    /// Lists every step and the system after it. Steps that change nothing are left out.
    pub fn successors(&self) -> Vec<(Step<S>, Self)> {
        let mut all = Vec::new();
        for &id in self.nodes.keys() {
            for event in self.enabled(id) {
                if event
                    .fault()
                    .is_some_and(|fault| self.faults.left(fault) == 0)
                {
                    continue;
                }
                all.extend(self.outcomes(id, &event));
            }
        }
        all
    }

    fn outcomes(&self, id: NodeId, event: &EventOf<S>) -> Vec<(Step<S>, Self)> {
        let mut all = Vec::new();
        for tosses in self.ways(id, event, Origin::SOMEWHERE) {
            let step = Step {
                node: id,
                event: event.clone(),
                tosses,
            };
            let mut next = self.clone();
            if next.step(&step) == Ok(Effectiveness::Changed) {
                all.push((step, next));
            }
        }
        all
    }

    /// Lists the ways in which the dice can fall while a node handles an event.
    pub(crate) fn ways(&self, id: NodeId, event: &EventOf<S>, origin: Origin) -> Vec<Tosses> {
        let node = &self.nodes[&id];
        let (mut links, mut inbox) = (node.links.clone(), node.inbox.clone());
        let ways = match self.before_handler(id, &mut links, &mut inbox, event) {
            Some((_, Some(input))) => {
                handler::run_all_at(id, &self.setups[&id], &node.local, &input, origin).all
            }
            _ => Vec::new(),
        };
        match ways.is_empty() {
            true => vec![Tosses::default()],
            false => ways.into_iter().map(|outcome| outcome.tosses).collect(),
        }
    }

    /// Takes one step, and tells whether it changed anything.
    ///
    /// # Errors
    ///
    /// When the step cannot be taken; the system is then as it was.
    pub fn step(&mut self, step: &Step<S>) -> Result<Effectiveness, StepError> {
        let origin = self
            .moments
            .as_ref()
            .map_or(Origin::SOMEWHERE, |moments| moments.next_origin());
        let taken = self.take(step, origin)?;
        let effect = taken.effect;
        if effect == Effectiveness::Changed {
            if let Some(moments) = self.moments.take() {
                self.moments = self.keep_time(moments, step, &taken);
            }
            self.put(step.node, taken);
            self.forget_stamps();
        }
        Ok(effect)
    }

    /// Forgets when stamps were read that are nowhere any more, once there are some to forget.
    fn forget_stamps(&mut self) {
        let many = |moments: &Arc<Moments<S::Timer>>| moments.stamps().len() > STAMPS_MANY;
        if self.moments.as_ref().is_some_and(many) {
            let held = self.origins();
            if let Some(moments) = &mut self.moments {
                Arc::make_mut(moments).forget_stamps(&held);
            }
        }
    }

    /// Lists the origins of the stamps in states and messages, in a fixed order.
    pub(crate) fn origins(&self) -> Vec<Origin> {
        let mut held = Vec::new();
        for node in self.nodes.values() {
            held.extend(origins_in(&node.local.service));
            for (_, message) in node.inbox.streams() {
                held.extend(origins_in(message));
            }
            for (_, message, _) in node.inbox.datagrams() {
                held.extend(origins_in(message));
            }
        }
        held
    }

    /// Notes when a step happens. If there is no time at which it could, nothing is known any more.
    fn keep_time(
        &self,
        mut moments: Arc<Moments<S::Timer>>,
        step: &Step<S>,
        taken: &Taken<S>,
    ) -> Option<Arc<Moments<S::Timer>>> {
        let kept = Arc::make_mut(&mut moments);
        if let Some(happened) = taken.happened(step) {
            kept.happen_freely(&happened);
        }
        kept.is_possible().then_some(moments)
    }

    /// Tells whether a node can do what only its local state decides about.
    fn is_enabled(&self, id: NodeId, local: &Local<S>, event: &EventOf<S>) -> bool {
        match event {
            Event::Timer(timer) => local.timers.contains(timer),
            Event::Call(call) => local.service.calls(id, &self.setups[&id]).contains(call),
            _ => true,
        }
    }

    /// Computes what a step makes of the system.
    pub(crate) fn take(&self, step: &Step<S>, origin: Origin) -> Result<Taken<S>, StepError> {
        let Step {
            node: id,
            event,
            tosses,
        } = step;
        let impossible = || StepError::Impossible {
            node: *id,
            event: event.to_string(),
        };
        let before = self.nodes.get(id).ok_or(StepError::NoSuchNode(*id))?;
        let faults = match event.fault() {
            Some(fault) => self
                .faults
                .after(fault)
                .ok_or(StepError::NotAllowed(fault))?,
            None => self.faults,
        };
        if before.local.panic.is_some() || !self.is_enabled(*id, &before.local, event) {
            return Err(impossible());
        }
        let mut node = before.clone();
        let (mut parcels, input) = self
            .before_handler(*id, &mut node.links, &mut node.inbox, event)
            .ok_or_else(impossible)?;
        let handed_over = node.clone();
        let filtered = input != event.input();
        let mut timed = None;
        if let Some(input) = input {
            let outcome =
                handler::run_at(*id, &self.setups[id], &node.local, &input, tosses, origin);
            let Outcome { local, effects, .. } = outcome;
            timed = Some(outcome.timed);
            node.local = local;
            let members = &self.nodes;
            parcels.extend(network::after_handler(
                *id,
                &mut node.links,
                &mut node.inbox,
                effects,
                S::transport,
                |to| members.contains_key(&to),
                |peer| self.steering.delays_news::<S>(*id, peer),
            ));
        }
        // A datagram that has no effect now may have one later: it stays on its way (the rule of `peers/`).
        let idle = !filtered && matches!(event, Event::Deliver { .. }) && node == handed_over;
        let effect = match parcels.is_empty() && (idle || node == *before) {
            true => Effectiveness::Unchanged,
            false => Effectiveness::Changed,
        };
        Ok(Taken {
            faults,
            node,
            parcels,
            effect,
            timed,
        })
    }

    /// Makes of the system what a step makes of it.
    pub(crate) fn put(&mut self, id: NodeId, taken: Taken<S>) {
        self.faults = taken.faults;
        self.nodes.insert(id, taken.node);
        self.post(id, taken.parcels);
    }

    /// Does what an event does to a node's connections and inbox before a handler runs, and returns what it leaves for
    /// others and what the handler is given; `None` if the event cannot happen.
    fn before_handler(
        &self,
        id: NodeId,
        links: &mut Links,
        inbox: &mut Inbox<S::Message>,
        event: &EventOf<S>,
    ) -> Option<Begun<S>> {
        match self.steering.action::<S>(id, event) {
            None => {
                let parcels = network::before_handler(id, links, inbox, event)?;
                Some((parcels, event.input()))
            }
            Some(action) => {
                let (parcels, lost) = network::under_filter(id, links, inbox, event, action)?;
                Some((parcels, lost.map(Input::Disconnect)))
            }
        }
    }

    /// Puts messages on their way.
    pub fn post(&mut self, from: NodeId, parcels: Vec<(NodeId, Parcel<S::Message>)>) {
        for (to, parcel) in parcels {
            // A node outside the system is the dummy: what is sent to it vanishes.
            if let Some(node) = self.nodes.get_mut(&to) {
                node.inbox.put(to, &node.links, from, parcel);
            }
        }
    }
}

impl<S: Service> Taken<S> {
    /// Returns what a step did that has to do with time; `None` if it happens at no time of the node's.
    pub(crate) fn happened<'a>(&'a self, step: &'a Step<S>) -> Option<Happened<'a, S::Timer>> {
        if matches!(step.event, Event::Lose { .. } | Event::Duplicate { .. }) {
            return None;
        }
        Some(Happened {
            node: step.node,
            fired: match &step.event {
                Event::Timer(timer) => Some(timer),
                _ => None,
            },
            reset: step.event.ends_incarnation(),
            timed: self.timed.as_ref(),
            left: &self.node.local.timers,
        })
    }
}

/// Whether a step had any effect. One without is not a transition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effectiveness {
    /// Something is different now.
    Changed,
    /// Nothing is different, and the system was left as it was.
    Unchanged,
}

impl<S: Service> PartialEq for Simulation<S> {
    fn eq(&self, other: &Self) -> bool {
        self.faults == other.faults && self.nodes == other.nodes
    }
}

impl<S: Service> Eq for Simulation<S> {}

impl<S: Service> std::hash::Hash for Simulation<S> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.faults.hash(state);
        self.nodes.hash(state);
    }
}
