//! The protocol: how a node gets its place, keeps it, and routes others to theirs.
//!
//! A joining node asks a contact. The question travels to the node closest to the asker's id, which answers with its leaf set. The
//! asker then greets those it was told of; who is greeted takes the greeter into its leaf set if it is near enough, and greets
//! back. Whoever hears of a node that belongs into its leaf set greets it too, and takes it in when it answers: so nobody is
//! a leaf on hearsay. All messages travel on connections, and a connection that fails erases the peer.
//!
//! A node that is restarted has the id it had. As long as its former leaves have not noticed, the node closest to its id is, for
//! them, itself. Greetings on the old connections would fail and tell them. But as soon as the new incarnation has asked one of
//! them, there is a new connection, on which greetings arrive (MaceMC §1: "its join messages were forwarded to unjoined nodes").
//! Two things mend it: who asks for a place has none, and is forgotten, with the connections to it; and a node without a place tells
//! so to whoever takes it for a member.
//!
//! A node that is left alone asks its contacts again. Two rings of several nodes each, left by many failures at once, do not
//! look for each other: that takes more than the membership of this example.

use std::collections::BTreeSet;

use scry::{Context, NodeId, Property, Service, Transport};
use serde::{Deserialize, Serialize};

use crate::leaves;
use crate::properties;
use crate::setup::Setup;

/// How often a question is passed on before it is dropped. Leaf sets that are behind the times may send it in circles.
const HOPS_MAX: u8 = 16;

/// A node of the ring.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Pastry {
    /// How far it has come.
    pub mode: Mode,
    /// Its leaf set: the members next to it, by rising id.
    pub leaves: BTreeSet<NodeId>,
    /// Those before it, nearest first.
    pub left: Vec<NodeId>,
    /// Those after it, nearest first.
    pub right: Vec<NodeId>,
    /// The node after it: itself if it is alone, nobody if it has no place.
    pub successor: Option<NodeId>,
    /// The nodes it has greeted and not heard from.
    pub greeted: BTreeSet<NodeId>,
    /// Whether it has asked for a place and, as far as it knows, will have an answer.
    pub asked: bool,
}

/// How far a node has come.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It has not been asked to join.
    Init,
    /// It waits for a place.
    Joining,
    /// It has a place, be it in a ring of its own.
    Joined,
}

/// What nodes say to each other.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// Asks the member closest to a node for that node's place.
    Join {
        /// Who wants it; not always the sender.
        node: NodeId,
        /// How often the question was passed on.
        hops: u8,
    },
    /// The sender is the member closest to the receiver.
    JoinReply {
        /// The sender's leaf set.
        leaves: BTreeSet<NodeId>,
    },
    /// The sender is a member, and wants to know whether the receiver is.
    Hello {
        /// The sender's leaf set.
        leaves: BTreeSet<NodeId>,
    },
    /// So is the sender.
    HelloReply {
        /// The sender's leaf set.
        leaves: BTreeSet<NodeId>,
    },
    /// The sender is not a member.
    NotMember,
}

/// The timers of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// While joining: nobody has answered.
    Retry,
    /// In the ring: time to greet the leaves.
    Maintain,
}

/// What the application may ask for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// Enter the ring.
    Join,
}

type Cx<'a> = Context<'a, Pastry>;

impl Service for Pastry {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = ();

    fn start(_: &mut Cx<'_>, _: Option<()>) -> Self {
        Self {
            mode: Mode::Init,
            leaves: BTreeSet::new(),
            left: Vec::new(),
            right: Vec::new(),
            successor: None,
            greeted: BTreeSet::new(),
            asked: false,
        }
    }

    fn on_call(&mut self, cx: &mut Cx<'_>, Call::Join: Call) {
        if self.mode != Mode::Init {
            return;
        }
        if cx.setup().is_founder(cx.me()) {
            self.enter(cx);
        } else {
            self.mode = Mode::Joining;
            cx.set_timer(Timer::Retry, cx.setup().retry_after());
            self.ask(cx);
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        match message {
            Message::Join { node, hops } if self.mode == Mode::Joined => {
                self.on_join(cx, from, node, hops);
            }
            Message::Join { node, .. } => {
                if node == cx.me() {
                    // It went round: nobody will answer this one.
                    self.asked = false;
                }
                self.deny(cx, from);
            }
            Message::JoinReply { leaves } => self.on_join_reply(cx, from, &leaves),
            Message::Hello { leaves } if self.mode == Mode::Joined => {
                self.insert(cx, from);
                let own = self.leaves.clone();
                cx.send(from, Message::HelloReply { leaves: own });
                self.hear_of(cx, &leaves);
            }
            Message::HelloReply { leaves } if self.mode == Mode::Joined => {
                self.greeted.remove(&from);
                self.insert(cx, from);
                self.hear_of(cx, &leaves);
            }
            Message::Hello { .. } | Message::HelloReply { .. } => self.deny(cx, from),
            Message::NotMember => self.lose(cx, from),
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Retry if self.mode == Mode::Joining => {
                cx.set_timer(Timer::Retry, cx.setup().retry_after());
                self.ask_again(cx);
            }
            Timer::Maintain if self.mode == Mode::Joined => {
                cx.set_timer(Timer::Maintain, cx.setup().maintain_after());
                if self.leaves.is_empty() {
                    // Alone, or left alone: the contacts may be in a ring.
                    self.ask_again(cx);
                }
                for leaf in self.leaves.clone() {
                    self.greet(cx, leaf);
                }
            }
            Timer::Retry | Timer::Maintain => {}
        }
    }

    fn on_disconnect(&mut self, cx: &mut Cx<'_>, peer: NodeId) {
        self.lose(cx, peer);
    }

    fn disk(&self) {}

    fn calls(&self, _: NodeId, _: &Setup) -> Vec<Call> {
        match self.mode {
            Mode::Init => vec![Call::Join],
            Mode::Joining | Mode::Joined => Vec::new(),
        }
    }

    fn neighbors(&self, me: NodeId, setup: &Setup) -> Option<Vec<NodeId>> {
        let mut all = self.leaves.clone();
        if self.mode == Mode::Joining {
            all.extend(setup.others(me));
        }
        Some(all.into_iter().collect())
    }

    fn properties() -> Vec<Property<Self>> {
        properties::all()
    }

    fn transport(_: &Message) -> Transport {
        Transport::Stream
    }
}

impl Pastry {
    /// Takes a place, as yet alone.
    fn enter(&mut self, cx: &mut Cx<'_>) {
        self.mode = Mode::Joined;
        self.asked = false;
        self.settle(cx);
        cx.cancel_timer(Timer::Retry);
        cx.set_timer(Timer::Maintain, cx.setup().maintain_after());
    }

    /// Asks one of the contacts for this node's place. Which one is left to chance, so that a dead one is not asked for ever.
    fn ask(&mut self, cx: &mut Cx<'_>) {
        let others = cx.setup().others(cx.me());
        if let Ok(count @ 1..) = u32::try_from(others.len()) {
            let contact = others[cx.choose(count) as usize];
            let node = cx.me();
            cx.send(contact, Message::Join { node, hops: 0 });
            self.asked = true;
        }
    }

    fn ask_again(&mut self, cx: &mut Cx<'_>) {
        if !(self.asked && cx.setup().patient) {
            self.ask(cx);
        }
    }

    /// A member is asked for another node's place.
    fn on_join(&mut self, cx: &mut Cx<'_>, from: NodeId, node: NodeId, hops: u8) {
        let me = cx.me();
        if node == me {
            // This node asked while it was alone, and has found a place since.
            self.asked = false;
            return;
        }
        if !cx.setup().bugs.rejoin {
            // Who asks for a place has none, whatever it had before.
            self.remove(cx, node);
        }
        let known = self.leaves.iter().copied().chain([me]);
        match leaves::closest(node, known) {
            Some(next) if next != me => {
                if hops < HOPS_MAX {
                    let hops = hops + 1;
                    cx.send(next, Message::Join { node, hops });
                }
            }
            _ => {
                if from != node && !cx.setup().bugs.rejoin {
                    // On a connection with its last incarnation the answer would be lost.
                    cx.disconnect(node);
                }
                let leaves = self.leaves.clone();
                cx.send(node, Message::JoinReply { leaves });
            }
        }
    }

    fn on_join_reply(&mut self, cx: &mut Cx<'_>, from: NodeId, leaves: &BTreeSet<NodeId>) {
        match self.mode {
            Mode::Init => return self.deny(cx, from),
            Mode::Joining => self.enter(cx),
            Mode::Joined => self.asked = false,
        }
        self.insert(cx, from);
        self.greet(cx, from);
        self.hear_of(cx, leaves);
    }

    /// Tells a node that takes this one for a member that it is none.
    fn deny(&mut self, cx: &mut Cx<'_>, from: NodeId) {
        // Wrong with the bug: the other will go on taking it for one.
        if !cx.setup().bugs.rejoin {
            cx.send(from, Message::NotMember);
        }
    }

    /// Greets a node, unless it has yet to answer.
    fn greet(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if self.greeted.insert(node) {
            let leaves = self.leaves.clone();
            cx.send(node, Message::Hello { leaves });
        }
    }

    /// Learns from others that nodes are members. They are taken in when they say so themselves.
    fn hear_of(&mut self, cx: &mut Cx<'_>, nodes: &BTreeSet<NodeId>) {
        for &node in nodes {
            if node != cx.me() && !self.leaves.contains(&node) && self.is_near(cx, node) {
                self.greet(cx, node);
            }
        }
    }

    /// Tells whether a node would be a leaf.
    fn is_near(&self, cx: &mut Cx<'_>, node: NodeId) -> bool {
        let mut known: Vec<NodeId> = self.leaves.iter().copied().collect();
        known.push(node);
        let (left, right) = leaves::split(cx.me(), &known, cx.setup().side_max.get());
        left.contains(&node) || right.contains(&node)
    }

    /// Takes in a node that says it is a member, if it is near enough.
    fn insert(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if node != cx.me() && self.leaves.insert(node) {
            self.settle(cx);
        }
    }

    fn remove(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        self.greeted.remove(&node);
        if self.leaves.remove(&node) {
            self.settle(cx);
        }
    }

    /// A node is gone, or is no member.
    fn lose(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        // It may be the one that was asked.
        self.asked = false;
        self.remove(cx, node);
    }

    /// Brings the sides in line with the leaves, and forgets those that are too far.
    fn settle(&mut self, cx: &mut Cx<'_>) {
        let known: Vec<NodeId> = self.leaves.iter().copied().collect();
        (self.left, self.right) = leaves::split(cx.me(), &known, cx.setup().side_max.get());
        self.leaves = self.left.iter().chain(&self.right).copied().collect();
        self.successor = (self.mode == Mode::Joined)
            .then(|| self.right.first().copied().unwrap_or_else(|| cx.me()));
    }
}
