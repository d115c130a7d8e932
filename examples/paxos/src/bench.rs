//! One node on the workbench: its handlers are called by hand, and what they ask of the world is looked at.

use std::time::Duration;

use scry::{Chance, Context, Effect, NodeId, Service, Stamp};

use crate::roles::Round;
use crate::service::{Call, Message, Paxos, Setup, Timer};

/// What a handler asked of the world.
pub(crate) type Effects = Vec<Effect<Message, Timer>>;

/// One node without any others.
pub(crate) struct Bench {
    pub(crate) node: Paxos,
    pub(crate) setup: Setup,
    /// What the start asked of the world.
    pub(crate) started: Effects,
    me: NodeId,
}

/// Paxos needs no luck: it draws only how long to wait.
struct NoLuck;

pub(crate) fn node(number: u32) -> NodeId {
    NodeId::new(number)
}

pub(crate) fn round(number: u32, leader: u32) -> Round {
    let leader = node(leader);
    Round { number, leader }
}

impl Bench {
    pub(crate) fn start(me: u32, setup: Setup) -> Self {
        let me = node(me);
        let mut started = Vec::new();
        let paxos = Paxos::start(
            &mut Context::new(me, &setup, &mut NoLuck, &mut started),
            None,
        );
        Self {
            node: paxos,
            setup,
            started,
            me,
        }
    }

    pub(crate) fn reset(&mut self) -> Effects {
        let disk = self.node.disk();
        self.run(|paxos, cx| *paxos = Paxos::start(cx, Some(disk)))
    }

    pub(crate) fn message(&mut self, from: u32, message: Message) -> Effects {
        self.run(|paxos, cx| paxos.on_message(cx, node(from), message))
    }

    pub(crate) fn timer(&mut self, timer: Timer) -> Effects {
        self.run(|paxos, cx| paxos.on_timer(cx, timer))
    }

    pub(crate) fn call(&mut self, call: Call) -> Effects {
        self.run(|paxos, cx| paxos.on_call(cx, call))
    }

    fn run(&mut self, handler: impl FnOnce(&mut Paxos, &mut Context<'_, Paxos>)) -> Effects {
        let mut effects = Vec::new();
        let mut chance = NoLuck;
        let cx = &mut Context::new(self.me, &self.setup, &mut chance, &mut effects);
        handler(&mut self.node, cx);
        effects
    }

    /// Returns the messages among the effects.
    pub(crate) fn sent(&self, effects: &Effects) -> Vec<(NodeId, Message)> {
        let sent = effects.iter().filter_map(|effect| match effect {
            Effect::Send { to, message } => Some((*to, message.clone())),
            _ => None,
        });
        sent.collect()
    }

    /// Returns what it is to send a message to every acceptor.
    pub(crate) fn to_all(&self, message: &Message) -> Vec<(NodeId, Message)> {
        let all = self.setup.acceptors.iter();
        all.map(|&to| (to, message.clone())).collect()
    }
}

impl Chance for NoLuck {
    fn choose(&mut self, _: u32) -> u32 {
        panic!("Paxos leaves nothing to chance")
    }

    fn random(&mut self) -> u64 {
        0
    }

    fn now(&mut self) -> Stamp {
        panic!("Paxos reads no clock")
    }

    fn expired(&mut self, _: Stamp, _: Duration) -> bool {
        panic!("Paxos reads no clock")
    }

    fn tick(&mut self) -> u64 {
        panic!("Paxos counts its rounds by itself")
    }
}
