//! Paxos as local model checking was measured on (LMC §5): three nodes with all roles, one instance, at most one proposal of
//! each node, no learner that stops listening. `cargo bench -p scry --bench local` measures the same model.

use scry_engine::{Context, Faults, NodeId, Property, Service, Simulation, Transport, View};
use serde::{Deserialize, Serialize};

const NODES: u32 = 3;
const MAJORITY: u32 = 2;

/// A node.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Paxos {
    up: bool,
    proposed: bool,
    preparing: bool,
    /// Who has answered, by bits.
    answers: u8,
    /// The round and value of the answer that counts.
    best: (u8, u8),
    promised: u8,
    accepted: (u8, u8),
    /// Who has accepted what: round, value, nodes by bits.
    learned: Vec<(u8, u8, u8)>,
    pub(crate) chosen: u8,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Message {
    Prepare { round: u8, value: u8 },
    Promise { round: u8, accepted: u8, value: u8 },
    Accept { round: u8, value: u8 },
    Learn { round: u8, value: u8 },
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Call {
    Init,
    Propose,
}

/// What a node is told when it is made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    proposes: bool,
    /// Whether the last answer counts instead of that of the highest round.
    last_answer: bool,
}

impl Service for Paxos {
    type Message = Message;
    type Timer = ();
    type Call = Call;
    type Setup = Setup;
    type Disk = ();

    fn start(_: &mut Context<'_, Self>, _: Option<()>) -> Self {
        Self::default()
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        if !self.up {
            return;
        }
        let own = own_round(cx.me());
        match message {
            Message::Prepare { round, value } => {
                if round > self.promised {
                    self.promised = round;
                    let (accepted, value) = match self.accepted {
                        // An acceptor that has accepted nothing sends back what it was asked with.
                        (0, _) if cx.setup().last_answer => (0, value),
                        accepted => accepted,
                    };
                    let promise = Message::Promise {
                        round,
                        accepted,
                        value,
                    };
                    cx.send(from, promise);
                }
            }
            Message::Promise {
                round,
                accepted,
                value,
            } => {
                let bit = 1 << from.get();
                if !self.preparing || round != own || self.answers & bit != 0 {
                    return;
                }
                self.answers |= bit;
                if cx.setup().last_answer || accepted > self.best.0 {
                    self.best = (accepted, value);
                }
                if self.answers.count_ones() == MAJORITY {
                    let value = if self.best.1 == 0 { own } else { self.best.1 };
                    (self.preparing, self.answers, self.best) = (false, 0, (0, 0));
                    broadcast(cx, Message::Accept { round, value });
                }
            }
            Message::Accept { round, value } => {
                if round >= self.promised {
                    self.promised = round;
                    self.accepted = (round, value);
                    broadcast(cx, Message::Learn { round, value });
                }
            }
            Message::Learn { round, value } => {
                let known = self
                    .learned
                    .iter_mut()
                    .find(|it| (it.0, it.1) == (round, value));
                match known {
                    Some(known) => known.2 |= 1 << from.get(),
                    None => {
                        self.learned.push((round, value, 1 << from.get()));
                        self.learned.sort_unstable();
                    }
                }
                let mut chosen = self
                    .learned
                    .iter()
                    .filter(|it| it.2.count_ones() >= MAJORITY);
                if let (0, Some(&(_, value, _))) = (self.chosen, chosen.next()) {
                    self.chosen = value;
                }
            }
        }
    }

    fn on_timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}

    fn on_call(&mut self, cx: &mut Context<'_, Self>, call: Call) {
        match call {
            Call::Init => self.up = true,
            Call::Propose => {
                (self.proposed, self.preparing) = (true, true);
                let round = own_round(cx.me());
                broadcast(
                    cx,
                    Message::Prepare {
                        round,
                        value: round,
                    },
                );
            }
        }
    }

    fn disk(&self) {}

    fn calls(&self, _: NodeId, setup: &Setup) -> Vec<Call> {
        match (self.up, setup.proposes && !self.proposed) {
            (false, _) => vec![Call::Init],
            (true, true) => vec![Call::Propose],
            (true, false) => Vec::new(),
        }
    }

    fn transport(_: &Message) -> Transport {
        Transport::Datagram
    }
}

fn own_round(node: NodeId) -> u8 {
    node.get() as u8 + 1
}

fn broadcast(cx: &mut Context<'_, Paxos>, message: Message) {
    for node in 0..NODES {
        cx.send(NodeId::new(node), message);
    }
}

/// Three nodes that are not initialised yet, of which so many propose.
pub(crate) fn boot(proposers: u32, last_answer: bool) -> Simulation<Paxos> {
    let nodes = (0..NODES).map(|node| {
        let setup = Setup {
            proposes: node < proposers,
            last_answer,
        };
        (NodeId::new(node), setup)
    });
    Simulation::boot(nodes.collect(), Faults::NONE)
}

/// No two nodes choose different values.
pub(crate) fn agreement() -> Property<Paxos> {
    Property::pair(
        "all choose one value",
        |view: &View<'_, Paxos>| (view.state.chosen != 0).then_some(view.state.chosen),
        |(_, left), (_, right)| left == right,
    )
}
