//! Where a node's next states come from.
//!
//! The engine knows ids only. What runs handlers is an [`Executor`], what judges a [`Referee`], what knows the filters in force
//! [`Filters`]. Behind them stands a typed Rust service ([`Typed`]) or anything else that can run a handler, such as an
//! executor in another language: since each (local state, input) is asked for once, it may be slow.
//!
//! A service whose types are known only at run time is a [`Service`] too: its values are names and contents, its settings say
//! what to do with them, and [`kind`](crate::kind) has what it takes for the names to count as those of Rust's types do.

use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use scry_protocol::NodeId;
use scry_protocol::filter::Action;
use serde::Serialize;

use crate::context::Effect;
use crate::interned::content::fingerprint_of;
use crate::interned::id::{CallId, LocalId, MessageId, PlainId, TimerId, TossesId};
use crate::interned::intern::Interner;
use crate::interned::judge::{Finding, Goal, Judges, Reads, Seen, Unjudged};
use crate::model::event::{Event, EventOf, Input};
use crate::model::handler::{self, Local, Tosses};
use crate::model::simulation::Simulation;
use crate::model::steering::Steering;
use crate::property::{Judgement, Property, Scope, View};
use crate::service::{Service, Transport};

/// An input in ids.
pub type InputIds = Input<MessageId, TimerId, CallId>;
/// An event in ids.
pub type EventIds = Event<MessageId, TimerId, CallId>;

/// One way a handler can end, in ids.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The node's local state afterwards.
    pub local: LocalId,
    /// What it asked of the network.
    pub effects: Vec<Effect<MessageId, TimerId>>,
    /// The choices that led here.
    pub tosses: TossesId,
}

/// Runs handlers, in ids.
pub trait Executor {
    /// Returns every way the handler for an input can end. Asked for once per (local state, input).
    fn outcomes(&mut self, local: LocalId, input: &InputIds) -> Vec<Ended>;
    /// Returns the timers armed in a local state.
    fn timers(&mut self, local: LocalId) -> Vec<TimerId>;
    /// Returns the calls an application might make in a local state.
    fn calls(&mut self, local: LocalId) -> Vec<CallId>;
    /// Tells whether nothing happens any more in a local state.
    fn is_over(&self, local: LocalId) -> bool;
    /// Returns how a message travels.
    fn transport(&self, message: MessageId) -> Transport;
    /// Returns the fingerprint of a local state, made of its content: the same in every process.
    fn local_fingerprint(&self, local: LocalId) -> u64;
    /// Returns the fingerprint of a message, likewise.
    fn message_fingerprint(&self, message: MessageId) -> u64;
    /// Returns how many times a handler ran.
    fn handler_runs(&self) -> u64;
    /// Returns how many different local states there are.
    fn local_states(&self) -> u64;
    /// Tells whether some handler had more outcomes than are explored.
    fn is_truncated(&self) -> bool;
    /// Returns about how many bytes all that was interned takes.
    fn bytes(&self) -> usize;
}

/// Judges states by the properties, in ids.
pub trait Referee {
    /// Tells whether a step from one local state to another could make a state violate a property.
    fn is_noteworthy(&mut self, before: LocalId, after: LocalId) -> bool;
    /// Returns a word that stands for all that the properties see of a local state.
    fn stance(&mut self, local: LocalId) -> u64;
    /// Lists the properties that are not about every single state.
    fn goals(&self) -> &[Goal];
    /// Returns a word that stands for all that those see of a local state.
    fn goal_stance(&mut self, local: LocalId) -> u64;
    /// Judges each of those in a state.
    fn judge_goals(&mut self, locals: &[LocalId]) -> Vec<Judgement>;
    /// Lists what is wrong in a state: everything, or only what involves the node at one position.
    fn findings(&mut self, locals: &[LocalId], changed: Option<usize>) -> Vec<Finding>;
    /// Tells how many nodes each property looks at, that about panics last.
    fn reads(&self) -> Vec<Reads>;
    /// Returns the class of a local state for a property: what is of one class at one node is judged alike, whatever the
    /// others are. `None` if the node has no part in a violation.
    fn class(&mut self, property: usize, local: LocalId) -> Option<u32>;
}

/// Knows the filters in force, in ids.
pub trait Filters {
    /// Returns what a filter makes of an event at the node of a local state, or `None` if the event runs.
    fn filtered(&self, local: LocalId, event: &EventIds) -> Option<Action>;
}

/// All that a world needs of a service.
pub trait Transitions: Executor + Referee + Filters {}

impl<T: Executor + Referee + Filters> Transitions for T {}

/// A Rust service as a source of transitions.
#[derive(Debug)]
pub struct Typed<S: Service> {
    setups: Vec<(NodeId, S::Setup)>,
    /// By position: the first node with the same settings.
    twins: Vec<usize>,
    plains: Interner<PlainId, Local<S>>,
    locals: Interner<LocalId, (usize, PlainId)>,
    messages: Interner<MessageId, S::Message>,
    timers: Interner<TimerId, S::Timer>,
    calls: Interner<CallId, S::Call>,
    tosses: Interner<TossesId, Tosses>,
    memo: HashMap<(LocalId, InputIds), Vec<Ended>, FxBuildHasher>,
    /// Where to find what a handler did that never asked which node it runs on, for all nodes with its settings.
    anonymous: HashMap<(usize, PlainId, InputIds), LocalId, FxBuildHasher>,
    judges: Judges<S>,
    steering: Steering,
    handler_runs: u64,
    truncated: bool,
}

impl<S: Service> Typed<S> {
    /// Prepares to explore what can become of a system.
    pub fn new(start: &Simulation<S>, properties: Vec<Property<S>>) -> Self {
        let setups: Vec<(NodeId, S::Setup)> = start
            .nodes()
            .keys()
            .map(|id| (*id, start.setups()[id].clone()))
            .collect();
        let members = setups.iter().map(|(id, _)| *id).collect();
        let judges = Judges::new(members, properties, start.scope());
        Self {
            twins: twins(&setups),
            setups,
            plains: Interner::default(),
            locals: Interner::default(),
            messages: Interner::default(),
            timers: Interner::default(),
            calls: Interner::default(),
            tosses: Interner::default(),
            memo: HashMap::default(),
            anonymous: HashMap::default(),
            judges,
            steering: start.steering().clone(),
            handler_runs: 0,
            truncated: false,
        }
    }

    /// Returns the properties that are judged.
    pub fn properties(&self) -> &[Property<S>] {
        self.judges.properties()
    }

    /// Tells whether the nodes are all that the service has.
    pub fn scope(&self) -> Scope {
        self.judges.scope()
    }

    /// Lists the properties that had no answer in any state so far, goals only if those are judged.
    pub fn unjudged(&self, goals: bool) -> Vec<Unjudged> {
        self.judges.unjudged(goals)
    }

    /// Lists the properties of which judgements were cut off because they took too many steps, with how many.
    pub fn cut_off(&self) -> Vec<(String, u64)> {
        self.judges.cut_off()
    }

    /// Returns the filters in force.
    pub fn steering(&self) -> &Steering {
        &self.steering
    }

    /// Returns the static settings of the nodes, by position.
    pub fn setups(&self) -> &[(NodeId, S::Setup)] {
        &self.setups
    }

    /// Gives a local state of the node at a position its id.
    pub fn intern_local(&mut self, position: usize, local: Local<S>) -> LocalId {
        let plain = self.plains.intern(local);
        self.locals.intern((position, plain))
    }

    /// Gives a message its id.
    pub fn intern_message(&mut self, message: S::Message) -> MessageId {
        self.messages.intern(message)
    }

    /// Returns the local state of an id.
    pub fn local(&self, id: LocalId) -> &Local<S> {
        self.plains.value(self.locals.value(id).1)
    }

    /// Returns the message of an id.
    pub fn message(&self, id: MessageId) -> &S::Message {
        self.messages.value(id)
    }

    /// Returns how the dice fell.
    pub fn tosses(&self, id: TossesId) -> &Tosses {
        self.tosses.value(id)
    }

    /// Translates an event to plain values.
    pub fn event(&self, event: &EventIds) -> EventOf<S> {
        event.clone().map(
            |message| self.messages.value(message).clone(),
            |timer| self.timers.value(timer).clone(),
            |call| self.calls.value(call).clone(),
        )
    }

    fn run(&mut self, local: LocalId, input: &InputIds) -> Vec<Ended> {
        let (position, plain) = *self.locals.value(local);
        let shared = (self.twins[position], plain, input.clone());
        if let Some(&twin) = self.anonymous.get(&shared) {
            return self.same_as(twin, position, input);
        }
        let value = match input {
            Input::Message { from, message } => Input::Message {
                from: *from,
                message: self.messages.value(*message).clone(),
            },
            Input::Timer(timer) => Input::Timer(self.timers.value(*timer).clone()),
            Input::Call(call) => Input::Call(self.calls.value(*call).clone()),
            Input::Disconnect(peer) => Input::Disconnect(*peer),
            Input::Restart => Input::Restart,
            Input::Stop => Input::Stop,
        };
        let (node, setup) = &self.setups[position];
        let outcomes = handler::run_all::<S>(*node, setup, self.plains.value(plain), &value);
        self.handler_runs += outcomes.all.len() as u64;
        self.truncated |= outcomes.truncated;
        if outcomes.all.iter().all(|outcome| outcome.anonymous) {
            self.anonymous.insert(shared, local);
        }
        outcomes
            .all
            .into_iter()
            .map(|outcome| self.intern_outcome(position, outcome))
            .collect()
    }

    /// Returns what happened at a twin, as it would happen here.
    fn same_as(&mut self, twin: LocalId, position: usize, input: &InputIds) -> Vec<Ended> {
        let mut all = self.memo[&(twin, input.clone())].clone();
        for ended in &mut all {
            let (_, plain) = *self.locals.value(ended.local);
            ended.local = self.locals.intern((position, plain));
        }
        all
    }

    fn intern_outcome(&mut self, position: usize, outcome: handler::Outcome<S>) -> Ended {
        let effects = outcome
            .effects
            .into_iter()
            .filter_map(|effect| match effect {
                Effect::Send { to, message } => Some(Effect::Send {
                    to,
                    message: self.messages.intern(message),
                }),
                Effect::Disconnect { peer } => Some(Effect::Disconnect { peer }),
                // Timers are in the local state already.
                Effect::Arm { .. } | Effect::Cancel { .. } => None,
            });
        let effects = effects.collect();
        Ended {
            local: self.intern_local(position, outcome.local),
            effects,
            tosses: self.tosses.intern(outcome.tosses),
        }
    }
}

impl<S: Service> Executor for Typed<S> {
    fn outcomes(&mut self, local: LocalId, input: &InputIds) -> Vec<Ended> {
        if let Some(known) = self.memo.get(&(local, input.clone())) {
            return known.clone();
        }
        let ended = self.run(local, input);
        self.memo.insert((local, input.clone()), ended.clone());
        ended
    }

    fn timers(&mut self, local: LocalId) -> Vec<TimerId> {
        let armed = self.local(local).timers.clone();
        armed
            .into_iter()
            .map(|timer| self.timers.intern(timer))
            .collect()
    }

    fn calls(&mut self, local: LocalId) -> Vec<CallId> {
        let (position, plain) = *self.locals.value(local);
        let (node, setup) = &self.setups[position];
        let calls = self.plains.value(plain).service.calls(*node, setup);
        calls
            .into_iter()
            .map(|call| self.calls.intern(call))
            .collect()
    }

    fn is_over(&self, local: LocalId) -> bool {
        self.local(local).panic.is_some()
    }

    fn transport(&self, message: MessageId) -> Transport {
        S::transport(self.messages.value(message))
    }

    fn local_fingerprint(&self, local: LocalId) -> u64 {
        fingerprint_of(self.local(local))
    }

    fn message_fingerprint(&self, message: MessageId) -> u64 {
        fingerprint_of(self.messages.value(message))
    }

    fn handler_runs(&self) -> u64 {
        self.handler_runs
    }

    fn local_states(&self) -> u64 {
        self.locals.len() as u64
    }

    fn is_truncated(&self) -> bool {
        self.truncated
    }

    fn bytes(&self) -> usize {
        let memo = self.memo.capacity() * size_of::<((LocalId, InputIds), Vec<Ended>)>();
        self.locals.bytes()
            + self.plains.bytes()
            + self.messages.bytes()
            + self.timers.bytes()
            + self.calls.bytes()
            + memo
    }
}

impl<S: Service> Referee for Typed<S> {
    fn is_noteworthy(&mut self, before: LocalId, after: LocalId) -> bool {
        let (locals, plains, setups) = (&self.locals, &self.plains, &self.setups);
        self.judges
            .is_noteworthy(before, after, |id| view(locals, plains, setups, id))
    }

    fn stance(&mut self, local: LocalId) -> u64 {
        let (position, _) = *self.locals.value(local);
        let (locals, plains, setups) = (&self.locals, &self.plains, &self.setups);
        self.judges.stance(position, local, false, |id| {
            view(locals, plains, setups, id)
        })
    }

    fn goals(&self) -> &[Goal] {
        self.judges.goals()
    }

    fn goal_stance(&mut self, local: LocalId) -> u64 {
        let (position, _) = *self.locals.value(local);
        let (locals, plains, setups) = (&self.locals, &self.plains, &self.setups);
        self.judges
            .stance(position, local, true, |id| view(locals, plains, setups, id))
    }

    fn judge_goals(&mut self, ids: &[LocalId]) -> Vec<Judgement> {
        let (locals, plains, setups) = (&self.locals, &self.plains, &self.setups);
        self.judges
            .judge_goals(ids, |id| view(locals, plains, setups, id))
    }

    fn findings(&mut self, ids: &[LocalId], changed: Option<usize>) -> Vec<Finding> {
        let (locals, plains, setups) = (&self.locals, &self.plains, &self.setups);
        self.judges
            .findings(ids, changed, |id| view(locals, plains, setups, id))
    }

    fn reads(&self) -> Vec<Reads> {
        self.judges.reads()
    }

    fn class(&mut self, property: usize, local: LocalId) -> Option<u32> {
        let (locals, plains, setups) = (&self.locals, &self.plains, &self.setups);
        self.judges
            .class(property, local, |id| view(locals, plains, setups, id))
    }
}

impl<S: Service> Filters for Typed<S> {
    fn filtered(&self, local: LocalId, event: &EventIds) -> Option<Action> {
        if self.steering.is_empty() {
            return None;
        }
        let (position, _) = *self.locals.value(local);
        let (node, _) = &self.setups[position];
        self.steering.action::<S>(*node, &self.event(event))
    }
}

/// Finds for each node the first one with the same settings. Settings that cannot be compared are taken to differ.
///
/// Settings need not be `Eq`, so they are compared by all that can be seen of them: as they are serialized, and as they
/// are shown for debugging. Either alone is not enough: `#[serde(skip)]` hides a field that a handler may well read, and
/// a hand-written `Debug` may hide another.
fn twins<Setup: Serialize + std::fmt::Debug>(setups: &[(NodeId, Setup)]) -> Vec<usize> {
    let spelled: Vec<Option<(String, String)>> = setups
        .iter()
        .map(|(_, setup)| Some((serde_json::to_string(setup).ok()?, format!("{setup:?}"))))
        .collect();
    let first = |at: usize| {
        spelled
            .iter()
            .position(|other| other.is_some() && *other == spelled[at])
    };
    (0..setups.len())
        .map(|at| first(at).unwrap_or(at))
        .collect()
}

fn view<'a, S: Service>(
    locals: &Interner<LocalId, (usize, PlainId)>,
    plains: &'a Interner<PlainId, Local<S>>,
    setups: &[(NodeId, S::Setup)],
    id: LocalId,
) -> Seen<'a, S> {
    let (position, plain) = *locals.value(id);
    let local = plains.value(plain);
    let view = View {
        id: setups[position].0,
        state: &local.service,
        timers: &local.timers,
    };
    Seen {
        view,
        panicked: local.panic.is_some(),
        down: local.down,
    }
}
