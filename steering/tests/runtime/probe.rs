//! A service that does what it is told and remembers what happened to it.

use std::time::Duration;

use scry::{Context, NodeId, Service, Transport};
use serde::{Deserialize, Serialize};

use crate::cluster::{ONE, TWO};

/// Remembers everything.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Probe {
    pub heard: Vec<(NodeId, Word)>,
    pub lost: Vec<NodeId>,
    pub fired: Vec<Alarm>,
    pub ticks: Vec<u64>,
    pub kept: u32,
    pub calls: u32,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Word {
    /// Wants an echo.
    Ask { number: u32, by: Way },
    /// Wants nothing.
    Tell { number: u32, by: Way },
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Way {
    Stream,
    Datagram,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Alarm {
    First,
    Second,
    /// Arms itself again until it has fired so often.
    Often(usize),
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Call {
    Ask { to: NodeId, by: Way },
    Tell { to: NodeId, by: Way, count: u32 },
    Disconnect(NodeId),
    Arm(Alarm, u64),
    Cancel(Alarm),
    Keep(u32),
    Tick,
    Panic,
}

impl Service for Probe {
    type Message = Word;
    type Timer = Alarm;
    type Call = Call;
    type Setup = ();
    type Disk = u32;

    fn start(_: &mut Context<'_, Self>, disk: Option<u32>) -> Self {
        Self {
            kept: disk.unwrap_or_default(),
            ..Self::default()
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, word: Word) {
        if let Word::Ask { number, by } = word {
            cx.send(from, Word::Tell { number, by });
        }
        self.heard.push((from, word));
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, alarm: Alarm) {
        self.fired.push(alarm);
        if let Alarm::Often(count) = alarm
            && self.fired.len() < count
        {
            cx.set_timer(alarm, Duration::from_millis(1));
        }
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, call: Call) {
        self.calls += 1;
        match call {
            Call::Ask { to, by } => cx.send(to, Word::Ask { number: 0, by }),
            Call::Tell { to, by, count } => {
                for number in 0..count {
                    cx.send(to, Word::Tell { number, by });
                }
            }
            Call::Disconnect(peer) => cx.disconnect(peer),
            Call::Arm(alarm, ms) => cx.set_timer(alarm, Duration::from_millis(ms)),
            Call::Cancel(alarm) => cx.cancel_timer(alarm),
            Call::Keep(number) => self.kept = number,
            Call::Tick => self.ticks.push(cx.tick()),
            Call::Panic => panic!("told to"),
        }
    }

    /// What the schedules of `meaning.rs` ask of a node.
    fn calls(&self, me: NodeId, (): &()) -> Vec<Call> {
        let (to, by) = (if me == ONE { TWO } else { ONE }, Way::Stream);
        let tell = |count| Call::Tell { to, by, count };
        vec![Call::Ask { to, by }, tell(1), tell(3), Call::Disconnect(to)]
    }

    fn on_disconnect(&mut self, _: &mut Context<'_, Self>, peer: NodeId) {
        self.lost.push(peer);
    }

    fn disk(&self) -> u32 {
        self.kept
    }

    fn transport(word: &Word) -> Transport {
        match word {
            Word::Ask { by, .. } | Word::Tell { by, .. } => match by {
                Way::Stream => Transport::Stream,
                Way::Datagram => Transport::Datagram,
            },
        }
    }
}
