//! The tree's state at one node and its handlers: joining in `join`, keeping and mending the tree in `recovery`.
//!
//! Every repair that a paper asked for in one handler is made in all handlers that touch the same lists; only the
//! handler the paper names can be switched back to its bug. In all of them these hold, whatever the network does:
//! parent, children and siblings are distinct, the root is neither child nor sibling, a root has no siblings, and from
//! the join on the recovery timer runs.
//!
//! What the papers leave open, and what searches and random walks of this implementation taught:
//!
//! - A tie is between two nodes and one of them may have forgotten it. Whoever is addressed as the parent or child it is
//!   not answers `Remove`, and whoever strikes off a child on a third node's word tells that child; without the second,
//!   a node that was placed twice could end up with a parent that had just dropped it.
//! - A peer that was reset in silence is noticed only by sending to it. The papers' timer probes nodes without a
//!   connection only, so such a tie can last for good; [`Setup::keepalive`] ends it.
//! - Nodes that lost their place ask the root. When that one has lost its own too, all of them wait for each other, so
//!   at its timer a designated node may also found a tree again.
//! - A parent, or a root, that asks for a place has been reset: its children take it for lost before they answer.

mod join;
mod recovery;

use std::collections::BTreeSet;

use scry::{NodeId, Property, Service, Transport};
use serde::{Deserialize, Serialize};

use crate::message::{Call, Message, Timer};
use crate::properties;
use crate::setup::Setup;

type Context<'a> = scry::Context<'a, RandTree>;

/// One node of the tree.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct RandTree {
    /// How far this node is.
    pub mode: Mode,
    /// The root, as far as this node knows; itself if it takes itself for the root.
    pub root: Option<NodeId>,
    /// The node that took this one in; nothing at the root.
    pub parent: Option<NodeId>,
    /// The nodes this one has taken in.
    pub children: BTreeSet<NodeId>,
    /// The other children of the root, known to children of the root only.
    pub siblings: BTreeSet<NodeId>,
    /// Nodes that may be in another tree, to be probed. None of them is parent or child.
    pub peers: BTreeSet<NodeId>,
    /// The node this root has offered its role to and which has not answered yet.
    pub heir: Option<NodeId>,
}

/// How far a node is on its way into the tree.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The application has not asked for anything yet.
    Init,
    /// It wants a place and has none. Children it had before it lost its parent stay with it.
    Joining,
    /// It is root, has a parent, or has just given its role away.
    Joined,
}

impl Service for RandTree {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = ();

    fn start(_cx: &mut Context<'_>, _disk: Option<()>) -> Self {
        Self {
            mode: Mode::Init,
            root: None,
            parent: None,
            children: BTreeSet::new(),
            siblings: BTreeSet::new(),
            peers: BTreeSet::new(),
            heir: None,
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_>, from: NodeId, message: Message) {
        match message {
            Message::Join {
                node,
                hops,
                handover: true,
            } => self.on_handover(cx, from, node, hops),
            Message::Join {
                node,
                hops,
                handover: false,
            } => self.on_join(cx, from, node, hops),
            Message::JoinReply { root } => self.on_join_reply(cx, from, root),
            Message::UpdateSibling { sibling } => self.on_update_sibling(cx, from, sibling),
            Message::NewRoot { root } => self.on_new_root(cx, from, root),
            Message::Remove => self.on_remove(cx, from),
            Message::Probe { root } => self.on_probe(cx, from, root),
            Message::ProbeReply { root } => self.on_probe_reply(cx, from, root),
            Message::Heartbeat { root } => self.on_heartbeat(cx, from, root),
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_>, timer: Timer) {
        match timer {
            Timer::Recovery => self.on_recovery(cx),
        }
    }

    fn on_call(&mut self, cx: &mut Context<'_>, call: Call) {
        match call {
            Call::Join => self.on_join_call(cx),
        }
    }

    fn on_disconnect(&mut self, cx: &mut Context<'_>, peer: NodeId) {
        self.lose(cx, peer);
    }

    fn disk(&self) {}

    fn calls(&self, _me: NodeId, _setup: &Setup) -> Vec<Call> {
        match self.mode {
            Mode::Init => vec![Call::Join],
            Mode::Joining | Mode::Joined => Vec::new(),
        }
    }

    fn neighbors(&self, _me: NodeId, _setup: &Setup) -> Option<Vec<NodeId>> {
        let mut all = self.children.clone();
        all.extend(&self.siblings);
        all.extend(self.parent);
        all.extend(self.root);
        Some(all.into_iter().collect())
    }

    fn properties() -> Vec<Property<Self>> {
        properties::all()
    }

    fn transport(message: &Message) -> Transport {
        message.transport()
    }
}

impl RandTree {
    /// Tells whether this node takes itself for the root.
    pub fn is_root(&self, me: NodeId) -> bool {
        self.root == Some(me)
    }

    /// Tells whether this node is in the tree and has no place under another.
    fn is_top(&self) -> bool {
        self.mode == Mode::Joined && self.parent.is_none()
    }

    fn on_update_sibling(&mut self, cx: &mut Context<'_>, from: NodeId, sibling: NodeId) {
        if self.parent != Some(from) {
            return self.decline(cx, from);
        }
        // Word of a sibling from a parent that is not the root is out of date: it was root when it sent it.
        if self.root != Some(from) || sibling == cx.me() || sibling == from {
            return;
        }
        if !cx.setup().bugs.update_sibling {
            self.dismiss(cx, sibling);
        }
        self.siblings.insert(sibling);
    }

    fn on_new_root(&mut self, cx: &mut Context<'_>, from: NodeId, root: NodeId) {
        if self.parent != Some(from) {
            return self.decline(cx, from);
        }
        if root == cx.me() {
            // The parent means an earlier incarnation of this node, which was root. It cannot stay above this one.
            cx.send(from, Message::Remove);
            return self.take_root(cx);
        }
        if !cx.setup().bugs.new_root {
            self.dismiss(cx, root);
            self.siblings.remove(&root);
        }
        if root != from {
            // Only children of the root keep siblings, and this is no longer one.
            self.siblings.clear();
        }
        self.follow(cx, root);
    }

    /// Takes over a new root and passes it on.
    fn follow(&mut self, cx: &mut Context<'_>, root: NodeId) {
        if self.root != Some(root) {
            self.root = Some(root);
            self.announce(cx);
        }
    }

    /// Tells the children who is root.
    fn announce(&self, cx: &mut Context<'_>) {
        if let Some(root) = self.root {
            for &child in self.children.iter().filter(|&&child| child != root) {
                cx.send(child, Message::NewRoot { root });
            }
        }
    }

    fn on_remove(&mut self, cx: &mut Context<'_>, from: NodeId) {
        self.peers.remove(&from);
        if self.children.contains(&from) {
            // It may have accepted a reply of this node meanwhile: then it must learn that it has lost its place.
            cx.send(from, Message::Remove);
        }
        self.lose(cx, from);
    }

    /// Strikes a node off the list of children, and tells it.
    fn dismiss(&mut self, cx: &mut Context<'_>, child: NodeId) {
        if self.children.remove(&child) {
            cx.send(child, Message::Remove);
        }
    }

    /// Tells a node that takes this one for its child or parent that it is not.
    fn decline(&mut self, cx: &mut Context<'_>, from: NodeId) {
        self.children.remove(&from);
        cx.send(from, Message::Remove);
    }

    fn arm(&self, cx: &mut Context<'_>) {
        cx.set_timer(Timer::Recovery, cx.setup().recovery_period());
    }
}
