//! What one event does at one node, apart from any state of the whole system.
//!
//! For strategies that do not keep whole states: they hold a node's local state, its connections and what waits on these
//! apart from the datagrams on their way, and ask for one event at a time. The handlers' memo is that of the world.

use crate::interned::id::{
    EventId, Id, InboxId, LinksId, LocalId, MessageId, NodeStateId, TossesId,
};
use crate::interned::judge::{Finding, Reads};
use crate::interned::transitions::{EventIds, Transitions};
use crate::interned::world::{StepIds, World};
use crate::model::event::Event;
use crate::model::network::{self, Inbox, Parcel};

/// What a node leaves for another, or for itself.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Posted {
    /// The position of the sender.
    pub(crate) from: u16,
    /// The position of the receiver.
    pub(crate) to: u16,
    pub(crate) parcel: Parcel<MessageId>,
}

/// One way an event can end.
#[derive(Clone, Debug)]
pub(crate) struct Reaction {
    pub(crate) local: LocalId,
    pub(crate) links: LinksId,
    /// What waits on the node's connections then. What it sent to itself on one is among it.
    pub(crate) inbox: InboxId,
    /// What it leaves for others, and the datagrams it leaves for itself.
    pub(crate) posts: Vec<Posted>,
    /// How the dice fell, if a handler ran.
    pub(crate) tosses: Option<TossesId>,
}

/// A node in a state, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Apart {
    pub(crate) local: LocalId,
    pub(crate) links: LinksId,
    /// What waits on its connections.
    pub(crate) inbox: InboxId,
    /// The datagrams on their way to it.
    pub(crate) datagrams: Vec<Posted>,
}

impl<T: Transitions + ?Sized> World<T> {
    /// Takes one node of a state apart.
    pub(crate) fn take_apart(&mut self, word: u32) -> Apart {
        let state = *self.states.value(NodeStateId::from_index(word as usize));
        let mut inbox = self.inboxes.value(state.inbox).clone();
        let datagrams = self.posted_datagrams(state.position as usize, &mut inbox);
        Apart {
            local: state.local,
            links: state.links,
            inbox: self.inboxes.intern(inbox),
            datagrams,
        }
    }

    /// Returns the inbox in which nothing waits.
    pub(crate) fn empty_inbox(&mut self) -> InboxId {
        self.inboxes.intern(Inbox::default())
    }

    /// Returns what is in an inbox after one more parcel of a connection has come.
    pub(crate) fn post(&mut self, links: LinksId, inbox: InboxId, posted: &Posted) -> InboxId {
        let me = self.members[usize::from(posted.to)];
        let from = self.members[usize::from(posted.from)];
        let mut inbox = self.inboxes.value(inbox).clone();
        inbox.put(me, self.links.value(links), from, posted.parcel.clone());
        self.inboxes.intern(inbox)
    }

    /// Lists what can happen at a node: what it does by itself, and what waits on its connections. Datagrams come apart.
    pub(crate) fn events_apart(
        &mut self,
        position: usize,
        local: LocalId,
        links: LinksId,
        inbox: InboxId,
    ) -> Vec<EventIds> {
        self.events_with(position, local, links, inbox)
    }

    /// Tells whether a node with these connections is down.
    pub(crate) fn is_down(&self, links: LinksId) -> bool {
        self.links.value(links).is_down()
    }

    /// Returns the event of a datagram's arrival at a node, unless nothing arrives there any more.
    pub(crate) fn arrival(
        &self,
        local: LocalId,
        links: LinksId,
        posted: &Posted,
    ) -> Option<EventIds> {
        let Parcel::Datagram(message) = posted.parcel else {
            return None;
        };
        let deaf = self.transitions.is_over(local) || self.links.value(links).is_down();
        (!deaf).then_some(Event::Deliver {
            from: self.members[usize::from(posted.from)],
            message,
        })
    }

    /// Returns every way a possible event can end at a node. A datagram that arrives is not part of the inbox.
    pub(crate) fn react(
        &mut self,
        position: usize,
        local: LocalId,
        links: LinksId,
        inbox: InboxId,
        event: &EventIds,
    ) -> Vec<Reaction> {
        let me = self.members[position];
        let links = self.links.value(links).clone();
        let mut inbox = self.inboxes.value(inbox).clone();
        if let Event::Deliver { from, message } = event {
            inbox.put(me, &links, *from, Parcel::Datagram(*message));
        }
        let all = self.happen(position, local, links, inbox, event);
        let mut reactions = Vec::with_capacity(all.len());
        for mut after in all {
            let mut posts = self.posted_datagrams(position, &mut after.inbox);
            posts.extend(self.posted(position, after.parcels));
            reactions.push(Reaction {
                local: after.local,
                links: self.links.intern(after.links),
                inbox: self.inboxes.intern(after.inbox),
                posts,
                tosses: after.tosses,
            });
        }
        reactions
    }

    /// Lists what waits on a node's connections.
    pub(crate) fn waiting(&self, to: usize, inbox: InboxId) -> Vec<Posted> {
        let parcels = self.inboxes.value(inbox).parcels();
        let known = parcels.into_iter().filter_map(|(from, parcel)| {
            let from = self.members.binary_search(&from).ok()? as u16;
            let to = to as u16;
            Some(Posted { from, to, parcel })
        });
        known.collect()
    }

    fn posted_datagrams(&self, to: usize, inbox: &mut Inbox<MessageId>) -> Vec<Posted> {
        let mut posts = Vec::new();
        for (from, message, count) in inbox.take_datagrams() {
            let Ok(from) = self.members.binary_search(&from) else {
                continue;
            };
            let posted = Posted {
                from: from as u16,
                to: to as u16,
                parcel: Parcel::Datagram(message),
            };
            posts.extend((0..count).map(|_| posted.clone()));
        }
        posts
    }

    fn posted(&self, from: usize, parcels: network::Parcels<MessageId>) -> Vec<Posted> {
        let known = parcels.into_iter().filter_map(|(to, parcel)| {
            let to = self.members.binary_search(&to).ok()?;
            Some(Posted {
                from: from as u16,
                to: to as u16,
                parcel,
            })
        });
        known.collect()
    }

    /// Gives an event its id.
    pub(crate) fn intern_event(&mut self, event: EventIds) -> EventId {
        self.events.intern(event)
    }

    /// Returns the event of an id.
    pub(crate) fn event(&self, event: EventId) -> &EventIds {
        self.events.value(event)
    }

    /// Returns a step of a path by its parts.
    pub(crate) fn step(
        &self,
        position: usize,
        event: EventIds,
        tosses: Option<TossesId>,
    ) -> StepIds {
        StepIds {
            node: self.members[position],
            event,
            tosses,
        }
    }

    /// Tells how many nodes each property looks at, that about panics last.
    pub(crate) fn reads(&self) -> Vec<Reads> {
        self.transitions.reads()
    }

    /// Returns the class of a local state for a property: what is of one class at one node is judged alike, whatever the
    /// others are. `None` if the node has no part in a violation.
    pub(crate) fn class(&mut self, property: usize, local: LocalId) -> Option<u32> {
        self.transitions.class(property, local)
    }

    /// Tells whether a handler panicked on the way to a local state.
    pub(crate) fn is_panicked(&mut self, local: LocalId) -> bool {
        let panics = self.transitions.reads().len() - 1;
        self.transitions.class(panics, local).is_some()
    }

    /// Lists what is wrong with nodes in these local states.
    pub(crate) fn findings_of(&mut self, locals: &[LocalId]) -> Vec<Finding> {
        self.transitions.findings(locals, None)
    }
}
