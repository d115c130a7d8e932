//! Node states, their successors, and what parcels do to them, each computed once.
//!
//! Filling the tables needs `&mut World`; a search reads them through `&World` from as many threads as it likes, and
//! comes back with what it did not find.

mod reactions;

use scry_protocol::NodeId;
use scry_protocol::filter::Action;

use crate::interned::allowance::{AllowanceTooLarge, Allowances};
use crate::interned::content;
use crate::interned::id::{
    ActorId, BundleId, EventId, Id, InboxId, LinksId, LocalId, MessageId, NodeStateId, TossesId,
};
use crate::interned::intern::Interner;
use crate::interned::judge::{Finding, Goal};
use crate::interned::sleep;
use crate::interned::tables::{Details, Looked, Range, Reach, Send, Successor, Tables};
use crate::interned::transitions::{EventIds, Transitions, Typed};
use crate::model::event::{Event, Input, Step};
use crate::model::handler::{Local, Tosses};
use crate::model::network::{self, Inbox, Links, Parcel};
use crate::model::simulation::{Node, Simulation};
use crate::property::{Judgement, Property};
use crate::service::Service;

pub(crate) use reactions::Posted;

/// One word of a global state, spelled out.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct NodeState {
    position: u32,
    local: LocalId,
    links: LinksId,
    inbox: InboxId,
}

/// What a successor is called, kept apart from what the inner loop reads.
#[derive(Clone, Copy, Debug)]
struct Label {
    event: EventId,
    tosses: Option<TossesId>,
}

/// A step by node, event and how the dice fell.
pub(crate) type StepName = (u16, EventId, Option<TossesId>);
/// One way an event can end at a node.
#[derive(Debug)]
struct Happened {
    /// How the dice fell, if a handler ran.
    tosses: Option<TossesId>,
    local: LocalId,
    links: Links,
    inbox: Inbox<MessageId>,
    parcels: network::Parcels<MessageId>,
}

type BundleParts = (NodeId, Vec<Parcel<MessageId>>);

/// Everything known about a system so far, in ids.
#[derive(Debug)]
pub struct World<T: ?Sized> {
    /// By position: the checker counts nodes 0, 1, 2 …, everyone else uses their ids.
    members: Vec<NodeId>,
    links: Interner<LinksId, Links>,
    inboxes: Interner<InboxId, Inbox<MessageId>>,
    states: Interner<NodeStateId, NodeState>,
    agents: Interner<ActorId, (LocalId, Vec<NodeId>)>,
    /// By receiver, so that numbers stay small where they are used as addresses.
    bundles: Vec<Interner<BundleId, BundleParts>>,
    events: Interner<EventId, EventIds>,
    labels: Vec<Label>,
    tables: Tables,
    /// The local states of the state being judged.
    locals: Vec<LocalId>,
    /// The last field, so that a reference to a world of any service is one to a [`Space`].
    transitions: T,
}

/// The world of any service: what strategies see.
pub type Space = World<dyn Transitions>;

/// A step of a path, in ids: what happened at which node, and how the dice fell.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StepIds {
    /// The node.
    pub node: NodeId,
    /// What happened there.
    pub event: EventIds,
    /// How the dice fell, if a handler ran.
    pub tosses: Option<TossesId>,
}

impl<S: Service> World<Typed<S>> {
    /// Makes the world of a system and returns it with the start state.
    ///
    /// # Errors
    ///
    /// When the fault allowance is too large to number.
    pub fn of(
        start: &Simulation<S>,
        properties: Vec<Property<S>>,
    ) -> Result<(Self, Vec<u32>), AllowanceTooLarge> {
        let allowances = Allowances::new(start.faults())?;
        let members: Vec<NodeId> = start.nodes().keys().copied().collect();
        let mut world = Self {
            transitions: Typed::new(start, properties),
            links: Interner::default(),
            inboxes: Interner::default(),
            states: Interner::default(),
            agents: Interner::default(),
            bundles: members.iter().map(|_| Interner::default()).collect(),
            events: Interner::default(),
            labels: Vec::new(),
            locals: Vec::new(),
            tables: Tables::new(allowances),
            members,
        };
        let mut words: Vec<u32> = Vec::new();
        for (position, node) in start.nodes().values().enumerate() {
            let local = world.transitions.intern_local(position, node.local.clone());
            let inbox = node
                .inbox
                .clone()
                .map(|message| world.transitions.intern_message(message));
            words.push(
                world
                    .admit(position, local, node.links.clone(), inbox)
                    .index() as u32,
            );
        }
        words.push(0);
        Ok((world, words))
    }

    /// Spells a state out in plain values.
    pub fn decode(&self, words: &[u32]) -> Simulation<S> {
        let setups = self.transitions.setups().iter().cloned().collect();
        let nodes = self.members.iter().zip(words).map(|(&id, &word)| {
            let state = self.states.value(NodeStateId::from_index(word as usize));
            let inbox = self.inboxes.value(state.inbox).clone();
            let node = Node {
                local: self.transitions.local(state.local).clone(),
                links: self.links.value(state.links).clone(),
                inbox: inbox.map(|message| self.transitions.message(message).clone()),
            };
            (id, node)
        });
        let faults = self.tables.allowances.value(words[self.members.len()]);
        Simulation::from_nodes(setups, nodes.collect(), faults)
            .steered(self.transitions.steering().clone())
            .in_scope(self.transitions.scope())
    }

    /// Spells a step out in plain values.
    pub fn spell(&self, step: &StepIds) -> Step<S> {
        let tosses = step
            .tosses
            .map_or_else(Tosses::default, |id| self.transitions.tosses(id).clone());
        Step {
            node: step.node,
            event: self.transitions.event(&step.event),
            tosses,
        }
    }

    /// Returns the local states that a node was seen in, each once, up to so many.
    pub(crate) fn locals_of(&self, position: usize, max: usize) -> Vec<&Local<S>> {
        let mut ids: Vec<LocalId> = (0..self.states.len())
            .map(|at| self.states.value(NodeStateId::from_index(at)))
            .filter(|state| state.position as usize == position)
            .map(|state| state.local)
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids.truncate(max);
        ids.into_iter()
            .map(|id| self.transitions.local(id))
            .collect()
    }

    /// Returns the properties that are judged.
    pub fn properties(&self) -> &[Property<S>] {
        self.transitions.properties()
    }
}

impl<T: Transitions + ?Sized> World<T> {
    /// Returns the nodes by position.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    /// Returns where the handlers run.
    pub fn transitions(&self) -> &T {
        &self.transitions
    }

    /// Returns how many different node states there are.
    pub fn node_states(&self) -> u64 {
        self.states.len() as u64
    }

    /// Returns about how many bytes the world takes.
    pub fn bytes(&self) -> usize {
        let bundles: usize = self.bundles.iter().map(Interner::bytes).sum();
        let interned =
            self.links.bytes() + self.inboxes.bytes() + self.states.bytes() + self.agents.bytes();
        let labels = self.labels.capacity() * size_of::<Label>() + self.events.bytes();
        self.tables.bytes() + self.transitions.bytes() + interned + bundles + labels
    }

    /// Returns which step of a path a successor is.
    pub(crate) fn step_of(&self, successor: u32) -> StepIds {
        let label = self.labels[successor as usize];
        StepIds {
            node: self.members[usize::from(self.tables.details[successor as usize].node)],
            event: self.events.value(label.event).clone(),
            tosses: label.tosses,
        }
    }

    /// Returns what happens in a step.
    pub(crate) fn event_of(&self, successor: u32) -> &EventIds {
        self.events.value(self.labels[successor as usize].event)
    }

    /// Returns what a step is, whatever state it is taken in.
    pub(crate) fn name_of(&self, successor: u32) -> StepName {
        let label = self.labels[successor as usize];
        let node = self.tables.details[successor as usize].node;
        (node, label.event, label.tosses)
    }

    /// Lists the successors that are possible in a state.
    pub(crate) fn steps_from(&mut self, words: &[u32]) -> Vec<u32> {
        let fingerprint = self.tables.fingerprint(words);
        let mut possible = Vec::new();
        for &word in &words[..self.members.len()] {
            for successor in self.successors_of(word) {
                if let Looked::Up(_) = self.look(words, fingerprint, successor) {
                    possible.push(successor);
                }
            }
        }
        possible
    }

    /// Returns the successors of a node state.
    pub(crate) fn successors_of(&mut self, word: u32) -> std::ops::Range<u32> {
        self.expand(word);
        let range = self.tables.ranges[word as usize];
        range.start..range.start + range.all
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Lists what is wrong in a state: everything, or what involves the node at one position.
    pub(crate) fn findings(&mut self, words: &[u32], changed: Option<usize>) -> Vec<Finding> {
        self.gather_locals(words);
        self.transitions.findings(&self.locals, changed)
    }

    /// Lists the properties that are not about every single state.
    pub fn goals(&self) -> &[Goal] {
        self.transitions.goals()
    }

    /// Returns what the goals see of a node state, spread: states with the same sum over their nodes are judged alike.
    pub(crate) fn goal_stance(&mut self, word: u32) -> u64 {
        let state = self.states.value(NodeStateId::from_index(word as usize));
        self.transitions.goal_stance(state.local)
    }

    /// Judges each goal in a state.
    pub(crate) fn judge_goals(&mut self, words: &[u32]) -> Vec<Judgement> {
        self.gather_locals(words);
        self.transitions.judge_goals(&self.locals)
    }

    fn gather_locals(&mut self, words: &[u32]) {
        let nodes = &words[..self.members.len()];
        let local_of = |&word: &u32| {
            self.states
                .value(NodeStateId::from_index(word as usize))
                .local
        };
        self.locals.clear();
        self.locals.extend(nodes.iter().map(local_of));
    }

    fn admit(
        &mut self,
        position: usize,
        local: LocalId,
        links: Links,
        inbox: Inbox<MessageId>,
    ) -> NodeStateId {
        let links = self.links.intern(links);
        let inbox = self.inboxes.intern(inbox);
        self.admit_interned(NodeState {
            position: position as u32,
            local,
            links,
            inbox,
        })
    }

    fn admit_interned(&mut self, state: NodeState) -> NodeStateId {
        let id = self.states.intern(state);
        if id.index() == self.tables.mixed.len() {
            // The peers a node is connected to decide which connections it can see break; which of several
            // connections in a row it is does not. With it, a node that keeps reconnecting would look new for ever.
            let peers = self.links.value(state.links).peers().collect();
            let agent = self.agents.intern((state.local, peers));
            self.tables
                .push(agent.index() as u32, self.transitions.stance(state.local));
        }
        id
    }

    /// Returns the fingerprint of a state, made of its content: every process gives it the same, whatever it met before. The
    /// search itself goes by ids, which only this process understands.
    pub fn content_fingerprint(&self, words: &[u32]) -> u64 {
        let (allowance, nodes) = words
            .split_last()
            .expect("a state has at least its allowance word");
        let nodes = nodes.iter().map(|&word| self.fingerprint_of_node(word));
        let allowance = self.tables.allowances.value(*allowance);
        nodes.fold(content::fingerprint_of(&allowance), |sum, node| sum ^ node)
    }

    /// Returns the fingerprint of one node of a state, with its connections and its inbox.
    pub fn fingerprint_of_node(&self, word: u32) -> u64 {
        let state = self.states.value(NodeStateId::from_index(word as usize));
        let inbox = self.inboxes.value(state.inbox).clone();
        let inbox = inbox.map(|message| self.transitions.message_fingerprint(message));
        content::fingerprint_of(&(
            self.members[state.position as usize],
            self.transitions.local_fingerprint(state.local),
            self.links.value(state.links),
            inbox,
        ))
    }

    /// Computes what can happen at a node state, if it is not known yet.
    pub(crate) fn expand(&mut self, word: u32) {
        if !self.tables.ranges[word as usize].is_unknown() {
            return;
        }
        let state = *self.states.value(NodeStateId::from_index(word as usize));
        let start = self.tables.successors.len();
        let (arrivals, internal) = self.events_at(&state);
        for event in arrivals {
            self.add_successors(word, &state, event);
        }
        let arrivals_end = self.tables.successors.len();
        for event in internal {
            self.add_successors(word, &state, event);
        }
        for (number, details) in self.tables.details[start..].iter_mut().enumerate() {
            details.number = number as u32;
        }
        self.tables.ranges[word as usize] = Range {
            mixed: self.tables.mixed[word as usize],
            start: u32::try_from(start).expect("fewer than four billion successors"),
            arrivals: (arrivals_end - start) as u32,
            all: (self.tables.successors.len() - start) as u32,
            plain: self.tables.successors[start..]
                .iter()
                .all(|successor| successor.plain),
        };
    }

    /// Lists what can happen at a node state: what the network brings, and what the node does by itself.
    fn events_at(&mut self, state: &NodeState) -> (Vec<EventIds>, Vec<EventIds>) {
        let events = self.events_with(
            state.position as usize,
            state.local,
            state.links,
            state.inbox,
        );
        events.into_iter().partition(|event| !event.is_internal())
    }

    /// Lists what can happen at a node with these connections and this inbox.
    fn events_with(
        &mut self,
        position: usize,
        local: LocalId,
        links: LinksId,
        inbox: InboxId,
    ) -> Vec<EventIds> {
        if self.transitions.is_over(local) {
            return Vec::new();
        }
        let me = self.members[position];
        let (links, inbox) = (self.links.value(links), self.inboxes.value(inbox));
        let mut events = network::arrivals(me, links, inbox);
        if links.is_down() {
            events.push(Event::Start);
            return events;
        }
        let mut faults = network::network_faults(links, inbox);
        faults.extend([
            Event::Reset { notice: true },
            Event::Reset { notice: false },
            Event::Stop,
        ]);
        let timers = self.transitions.timers(local);
        events.extend(timers.into_iter().map(Event::Timer));
        let calls = self.transitions.calls(local);
        events.extend(calls.into_iter().map(Event::Call));
        let allowances = &self.tables.allowances;
        let allowed = |event: &EventIds| event.fault().is_some_and(|it| allowances.allows(it));
        events.extend(faults.into_iter().filter(allowed));
        events
    }

    fn add_successors(&mut self, word: u32, state: &NodeState, event: EventIds) {
        let links = self.links.value(state.links).clone();
        let inbox = self.inboxes.value(state.inbox).clone();
        let position = state.position as usize;
        let all = self.happen(position, state.local, links, inbox, &event);
        if all.is_empty() {
            return;
        }
        let event = self.events.intern(event);
        for after in all {
            let label = Label {
                event,
                tosses: after.tosses,
            };
            self.add_successor(
                word,
                state,
                label,
                after.local,
                after.links,
                after.inbox,
                after.parcels,
            );
        }
    }

    /// Returns every way a listed event can end at a node with these connections and this inbox, if it has an effect at all.
    fn happen(
        &mut self,
        position: usize,
        local: LocalId,
        mut links: Links,
        mut inbox: Inbox<MessageId>,
        event: &EventIds,
    ) -> Vec<Happened> {
        let me = self.members[position];
        let filtered = self.transitions.filtered(local, event);
        let (parcels, input) = match filtered {
            None => {
                let parcels = network::before_handler(me, &mut links, &mut inbox, event)
                    .expect("an event that is listed can happen");
                (parcels, event.input())
            }
            Some(action) => {
                match network::under_filter(me, &mut links, &mut inbox, event, action) {
                    Some((parcels, lost)) => (parcels, lost.map(Input::Disconnect)),
                    None => return Vec::new(),
                }
            }
        };
        let Some(input) = input else {
            return vec![Happened {
                tosses: None,
                local,
                links,
                inbox,
                parcels,
            }];
        };
        let mut all = Vec::new();
        for ended in self.transitions.outcomes(local, &input) {
            let (mut links_after, mut inbox_after) = (links.clone(), inbox.clone());
            let (transitions, members) = (&self.transitions, &self.members);
            let mut left = parcels.clone();
            left.extend(network::after_handler(
                me,
                &mut links_after,
                &mut inbox_after,
                ended.effects,
                |message| transitions.transport(*message),
                |to| members.binary_search(&to).is_ok(),
                |peer| {
                    let lost = EventIds::Break { peer };
                    transitions.filtered(local, &lost) == Some(Action::Postpone)
                },
            ));
            // A datagram that has no effect now may have one later: it stays on its way (the rule of `peers/`).
            let idle = filtered.is_none()
                && matches!(event, Event::Deliver { .. })
                && left.is_empty()
                && ended.local == local
                && links_after == links
                && inbox_after == inbox;
            if !idle {
                all.push(Happened {
                    tosses: Some(ended.tosses),
                    local: ended.local,
                    links: links_after,
                    inbox: inbox_after,
                    parcels: left,
                });
            }
        }
        all
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one step, named by the caller"
    )]
    fn add_successor(
        &mut self,
        word: u32,
        state: &NodeState,
        label: Label,
        local: LocalId,
        links: Links,
        inbox: Inbox<MessageId>,
        parcels: Vec<(NodeId, Parcel<MessageId>)>,
    ) {
        let next = self.admit(state.position as usize, local, links, inbox);
        let plain = self.states.value(next).links == state.links
            && sleep::is_plain(self.events.value(label.event), &parcels);
        let sends_start = self.tables.sends.len();
        self.add_sends(self.members[state.position as usize], parcels);
        let sends_count = self.tables.sends.len() - sends_start;
        if next.index() == word as usize && sends_count == 0 {
            return;
        }
        let noteworthy = self.transitions.is_noteworthy(state.local, local);
        let fault = self.events.value(label.event).fault();
        self.labels.push(label);
        let reach = match (sends_count, fault) {
            (0, None) => Reach::Nobody,
            (1, None) => Reach::One,
            _ => Reach::Further,
        };
        let sends = &self.tables.sends[sends_start..];
        let asleep = if plain {
            sleep::after(state.position as usize, sends)
        } else {
            0
        };
        let first = sends.first();
        self.tables.successors.push(Successor {
            next: next.index() as u32,
            bundle: first.map_or(BundleId::ZERO, |send| send.bundle),
            to: first.map_or(0, |send| send.to),
            reach,
            plain,
        });
        self.tables.details.push(Details {
            sends_start: u32::try_from(sends_start).expect("fewer than four billion sends"),
            sends_count: u16::try_from(sends_count)
                .expect("a step sends to fewer than 65 536 nodes"),
            node: u16::try_from(state.position).expect("a system has fewer than 65 536 nodes"),
            fault,
            noteworthy,
            number: 0,
            asleep,
        });
    }

    /// Ties the parcels of one step into one bundle per receiver.
    fn add_sends(&mut self, from: NodeId, mut parcels: Vec<(NodeId, Parcel<MessageId>)>) {
        parcels.sort_by_key(|(to, _)| *to);
        for same in parcels.chunk_by(|(a, _), (b, _)| a == b) {
            let Ok(to) = self.members.binary_search(&same[0].0) else {
                continue;
            };
            let mut contents: Vec<_> = same.iter().map(|(_, parcel)| parcel.clone()).collect();
            if contents
                .iter()
                .all(|parcel| matches!(parcel, Parcel::Datagram(_)))
            {
                // Datagrams have no order, so bundles that differ only in it are one.
                contents.sort_unstable();
            }
            let bundle = self.bundles[to].intern((from, contents));
            self.tables.sends.push(Send {
                to: to as u16,
                bundle,
            });
        }
    }

    /// Looks up where a step leads, computing what is not known yet.
    pub(crate) fn look(&mut self, words: &[u32], fingerprint: u64, number: u32) -> Looked {
        let successor = self.tables.successors[number as usize];
        let details = self.tables.details[number as usize];
        let rest = fingerprint ^ self.tables.mixed[words[usize::from(details.node)] as usize];
        let looked = self.tables.look(words, rest, number, &successor);
        if looked != Looked::Unknown {
            return looked;
        }
        self.deliver(words, details);
        self.tables.look(words, rest, number, &successor)
    }

    /// Computes what the parcels of a step make of their receivers, if it is not known yet.
    fn deliver(&mut self, words: &[u32], details: Details) {
        let start = details.sends_start as usize;
        for at in start..start + usize::from(details.sends_count) {
            let Send { to, bundle } = self.tables.sends[at];
            let word = words[usize::from(to)];
            if self.tables.deliveries.look(word, bundle).is_some() {
                continue;
            }
            let state = *self.states.value(NodeStateId::from_index(word as usize));
            let me = self.members[usize::from(to)];
            let (from, parcels) = self.bundles[usize::from(to)].value(bundle);
            let links = self.links.value(state.links);
            let mut inbox = self.inboxes.value(state.inbox).clone();
            for parcel in parcels {
                inbox.put(me, links, *from, parcel.clone());
            }
            let inbox = self.inboxes.intern(inbox);
            let next = self.admit_interned(NodeState { inbox, ..state });
            self.tables.deliveries.insert(word, bundle, next);
        }
    }
}
