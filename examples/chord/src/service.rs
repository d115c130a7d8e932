//! The protocol: how a node joins the ring, keeps its place, and answers others.
//!
//! A joining node asks a contact for its predecessor with [`FindPred`](Message::FindPred), which travels along the
//! ring to the last node before the asker's key. That node's answer holds its successors; the asker takes the place in
//! front of them and says so to the first with [`UpdatePred`](Message::UpdatePred). The predecessor is not told: it
//! finds the new node when it asks its successor for its predecessor, which every node does whenever its stabilize
//! timer fires (the revised protocol of MaceMC §6). All messages travel on connections; a connection that fails
//! erases the peer everywhere.
//!
//! The papers' protocol stops there. Walks with resets and breaks (`tests/stories/healing.rs`) show that it then does
//! not always recover, for four reasons, each with its cure:
//!
//! - A node that loses everyone, or founds the ring anew after a reset, is alone and stays so. It keeps asking its
//!   contacts for a place.
//! - Two rings of several nodes each, left by a few broken connections, never hear of each other. Nodes ask a contact
//!   for their place now and then even while they have one ([`reunite_ms`](Setup::reunite_ms)).
//! - A node that was reset and has not joined again still takes messages, so it stays in others' lists. It hangs up on
//!   whoever takes it for a member.
//! - Nobody ever sends to its predecessor, so nobody notices that it is gone, and its successor keeps naming it to the
//!   next node in line. When another node claims the place, the [predecessor is probed](Message::Probe).

use scry::{Context, NodeId, Property, Service, Transport};
use serde::{Deserialize, Serialize};

use crate::properties;
use crate::ring::Key;
use crate::setup::Setup;

/// A node of the ring.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Chord {
    /// How far it has come.
    pub mode: Mode,
    /// Its place on the ring: its own id.
    pub position: Key,
    /// The node before it, if it knows.
    pub predecessor: Option<NodeId>,
    /// The node after it: the first of the successors, by itself for properties that follow it.
    pub successor: Option<NodeId>,
    /// The nodes after it, in ring order; only itself if it is alone.
    pub successors: Vec<NodeId>,
    /// Nodes further away, in ring order.
    pub fingers: Vec<NodeId>,
    /// Whom it asked last, as long as nobody has answered, if it is [patient](Setup::patient).
    #[serde(default)]
    pub asked: Option<NodeId>,
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
    /// Asks the last node before `key` to answer the asker.
    FindPred {
        /// Who wants to know.
        asker: NodeId,
        /// The point of the ring in question: the asker's own place when it joins.
        key: Key,
    },
    /// The sender is the last node before `key`.
    FindPredReply {
        /// The point that was asked for.
        key: Key,
        /// The sender's successors.
        successors: Vec<NodeId>,
    },
    /// The sender takes the receiver for its successor.
    UpdatePred,
    /// As [`Message::UpdatePred`], and asks for the receiver's view.
    GetPred,
    /// The sender's view.
    GetPredReply {
        /// Its predecessor.
        predecessor: Option<NodeId>,
        /// Its successors.
        successors: Vec<NodeId>,
    },
    /// The sender takes the receiver for its predecessor, and would notice if it were gone.
    Probe,
}

/// The timers of a node.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// While joining: nobody has answered.
    Retry,
    /// In the ring: time to ask the successor.
    Stabilize,
    /// In the ring: time to look up a finger.
    Fingers,
    /// In the ring: time to see whether the contacts are in another one.
    Reunite,
}

/// What the application may ask for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// Enter the ring.
    Join,
}

type Cx<'a> = Context<'a, Chord>;

impl Service for Chord {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    type Disk = ();

    fn start(cx: &mut Cx<'_>, _disk: Option<()>) -> Self {
        Self {
            mode: Mode::Init,
            position: cx.me().get(),
            predecessor: None,
            successor: None,
            successors: Vec::new(),
            fingers: Vec::new(),
            asked: None,
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        let answers = match message {
            Message::FindPredReply { key, .. } => key == self.position,
            Message::GetPredReply { .. } => true,
            _ => false,
        };
        if answers {
            self.asked = None;
        }
        match (self.mode, message) {
            // Who asks for itself only hopes that this node is in the ring, and asks elsewhere by and by.
            (Mode::Init, Message::FindPred { asker, .. }) if asker == from => {}
            // The answer to a question of this node's last incarnation.
            (Mode::Init, Message::FindPredReply { .. }) => {}
            // All others count on this node as a member, which it was in its last incarnation.
            (Mode::Init, _) => cx.disconnect(from),
            (Mode::Joining, Message::FindPredReply { key, successors }) if key == self.position => {
                self.join_after(cx, from, successors);
            }
            // The sender asks again, and may then find this node in its place.
            (Mode::Joining, _) => {}
            (Mode::Joined, Message::FindPred { asker, key }) => self.find_pred(cx, asker, key),
            (Mode::Joined, Message::FindPredReply { key, successors }) => {
                self.found_pred(cx, from, key, successors);
            }
            (Mode::Joined, Message::UpdatePred) => self.update_pred(cx, from),
            (Mode::Joined, Message::GetPred) => {
                self.hear_claim(cx, from);
                cx.send(
                    from,
                    Message::GetPredReply {
                        predecessor: self.predecessor,
                        successors: self.successors.clone(),
                    },
                );
            }
            (
                Mode::Joined,
                Message::GetPredReply {
                    predecessor,
                    successors,
                },
            ) => self.stabilized(cx, from, predecessor, &successors),
            (Mode::Joined, Message::Probe) => {
                if !cx.setup().bugs.stale_successor {
                    self.learn(cx.setup(), from);
                }
            }
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Retry => self.ask_contact(cx),
            Timer::Stabilize => self.stabilize(cx),
            Timer::Fingers => self.look_up_finger(cx),
            Timer::Reunite => {
                self.ask_contact(cx);
                if let Some(after) = cx.setup().reunite_after() {
                    cx.set_timer(Timer::Reunite, after);
                }
            }
        }
    }

    fn on_call(&mut self, cx: &mut Cx<'_>, Call::Join: Call) {
        if self.mode != Mode::Init {
            return;
        }
        if cx.setup().is_founder(cx.me()) {
            self.stand_alone();
            self.arm_timers(cx);
        } else {
            self.mode = Mode::Joining;
            self.ask_contact(cx);
        }
    }

    fn on_disconnect(&mut self, cx: &mut Cx<'_>, peer: NodeId) {
        self.asked = self.asked.filter(|asked| *asked != peer);
        if self.mode == Mode::Joined {
            self.erase(cx.setup(), peer);
        }
    }

    fn disk(&self) {}

    fn calls(&self, _me: NodeId, _setup: &Setup) -> Vec<Call> {
        match self.mode {
            Mode::Init => vec![Call::Join],
            Mode::Joining | Mode::Joined => Vec::new(),
        }
    }

    fn neighbors(&self, _me: NodeId, _setup: &Setup) -> Option<Vec<NodeId>> {
        let mut neighbors: Vec<NodeId> = self.predecessor.into_iter().collect();
        neighbors.extend_from_slice(&self.successors);
        neighbors.extend_from_slice(&self.fingers);
        neighbors.retain(|node| *node != self.me());
        neighbors.sort_unstable();
        neighbors.dedup();
        Some(neighbors)
    }

    fn properties() -> Vec<Property<Self>> {
        properties::all()
    }

    fn transport(_message: &Message) -> Transport {
        Transport::Stream
    }
}

impl Chord {
    /// Asks one of the contacts for this node's place. Which one is left to chance, so that a dead one is not asked
    /// for ever.
    fn ask_contact(&mut self, cx: &mut Cx<'_>) {
        let others = cx.setup().others(cx.me());
        if self.asked.is_none()
            && let Ok(count @ 1..) = u32::try_from(others.len())
        {
            let contact = others[cx.choose(count) as usize];
            let (asker, key) = (cx.me(), self.position);
            self.question(cx, contact, Message::FindPred { asker, key });
        }
        if self.mode == Mode::Joining {
            cx.set_timer(Timer::Retry, cx.setup().retry_after());
        }
    }

    fn question(&mut self, cx: &mut Cx<'_>, to: NodeId, question: Message) {
        cx.send(to, question);
        self.asked = cx.setup().patient.then_some(to);
    }

    fn find_pred(&mut self, cx: &mut Cx<'_>, asker: NodeId, key: Key) {
        if self.precedes(key) {
            let successors = self.successors.clone();
            cx.send(asker, Message::FindPredReply { key, successors });
        } else if let Some(next) = self.closest_before(key) {
            cx.send(next, Message::FindPred { asker, key });
        }
    }

    fn found_pred(&mut self, cx: &mut Cx<'_>, from: NodeId, key: Key, successors: Vec<NodeId>) {
        if key != self.position {
            if let Some(&owner) = successors.first() {
                self.point_finger(cx.setup(), key, owner);
            }
        } else if self.is_alone() {
            self.join_after(cx, from, successors);
        } else {
            // From the predecessor this is nothing new; from another node it is a way into its ring.
            self.hear_claim(cx, from);
        }
    }

    fn join_after(&mut self, cx: &mut Cx<'_>, predecessor: NodeId, successors: Vec<NodeId>) {
        let its_first = successors.first().copied();
        self.take_place(cx.setup(), predecessor, successors);
        cx.cancel_timer(Timer::Retry);
        self.arm_timers(cx);
        // CrystalBall, Figure 10: if the predecessor missed this node's reset, its first successor is this node.
        let told = match its_first {
            Some(first) if cx.setup().bugs.self_predecessor => Some(first),
            _ => self.successor,
        };
        if let Some(told) = told {
            cx.send(told, Message::UpdatePred);
        }
    }

    fn update_pred(&mut self, cx: &mut Cx<'_>, from: NodeId) {
        if from == cx.me() {
            if cx.setup().bugs.self_predecessor && self.predecessor.is_none() {
                self.predecessor = Some(from);
            }
            return;
        }
        self.hear_claim(cx, from);
    }

    fn hear_claim(&mut self, cx: &mut Cx<'_>, claimant: NodeId) {
        if let Some(rival) = self.admit_claim(cx.setup(), claimant) {
            cx.send(rival, Message::Probe);
        }
    }

    fn stabilize(&mut self, cx: &mut Cx<'_>) {
        cx.set_timer(Timer::Stabilize, cx.setup().stabilize_after());
        match self.successor {
            _ if self.is_alone() => self.ask_contact(cx),
            Some(successor) if successor != cx.me() && self.asked.is_none() => {
                self.question(cx, successor, Message::GetPred);
            }
            _ => {}
        }
    }

    fn stabilized(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        predecessor: Option<NodeId>,
        successors: &[NodeId],
    ) {
        // An answer that a closer successor has overtaken would undo it.
        if self.successor != Some(from) {
            return;
        }
        if self.follow(cx.setup(), from, predecessor, successors)
            && let Some(closer) = self.successor
        {
            cx.send(closer, Message::UpdatePred);
        }
    }

    fn look_up_finger(&mut self, cx: &mut Cx<'_>) {
        let setup = cx.setup();
        if let Some(after) = setup.fingers_after() {
            cx.set_timer(Timer::Fingers, after);
        }
        let Ok(count @ 1..) = u32::try_from(setup.fingers.len()) else {
            return;
        };
        let key = self
            .position
            .wrapping_add(setup.fingers[cx.choose(count) as usize]);
        // What the successor owns needs no lookup.
        if !self.precedes(key)
            && let Some(next) = self.closest_before(key)
        {
            let asker = cx.me();
            cx.send(next, Message::FindPred { asker, key });
        }
    }

    fn arm_timers(&mut self, cx: &mut Cx<'_>) {
        let setup = cx.setup();
        cx.set_timer(Timer::Stabilize, setup.stabilize_after());
        if let Some(after) = setup.fingers_after() {
            cx.set_timer(Timer::Fingers, after);
        }
        if let Some(after) = setup.reunite_after() {
            cx.set_timer(Timer::Reunite, after);
        }
    }
}
