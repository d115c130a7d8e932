//! Which nodes a system has, and the script of events that leads them to the state a search starts from.
//!
//! A start state is always reached by running the service's own handlers, never written down by hand.

use std::collections::BTreeMap;

use scry_protocol::NodeId;

use crate::model::event::{Event, EventOf, Step};
use crate::model::fault::Faults;
use crate::model::handler::Tosses;
use crate::model::network::{self, Inbox};
use crate::model::simulation::{Effectiveness, Simulation, StepError};
use crate::service::Service;

/// How many events a script may need to settle before it is taken for one that never does.
const SETTLE_STEPS_MAX: usize = 100_000;

/// A system as it is before anything is explored.
#[derive(Clone, Debug)]
pub struct System<S: Service> {
    /// The nodes and their settings.
    pub setups: BTreeMap<NodeId, S::Setup>,
    /// What happens before the search starts.
    pub script: Vec<Act<S>>,
    /// The faults a path may contain. The script's own are free.
    pub faults: Faults,
}

/// One line of a script.
#[derive(Clone, Debug)]
pub enum Act<S: Service> {
    /// The application calls a node.
    Call(NodeId, S::Call),
    /// A timer fires.
    Timer(NodeId, S::Timer),
    /// The next message from one node reaches the other: on connections the oldest, of datagrams the least.
    Deliver {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
    },
    /// The first message that fits reaches the receiver. On a connection, only its oldest message can.
    DeliverWhere {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Which message.
        fits: fn(&S::Message) -> bool,
    },
    /// The first datagram that fits is lost.
    LoseWhere {
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
        /// Which message.
        fits: fn(&S::Message) -> bool,
    },
    /// A node is reset.
    Reset {
        /// Which.
        node: NodeId,
        /// Whether its peers are told.
        notice: bool,
    },
    /// A node goes down. Before anything else of a script, this is a node that is not up yet.
    Stop(NodeId),
    /// A node that is down starts.
    Start(NodeId),
    /// The connection of two nodes breaks, and `node` sees it first.
    Break {
        /// This end.
        node: NodeId,
        /// The other end.
        peer: NodeId,
    },
    /// All messages arrive, also those sent meanwhile, until none is on its way.
    Settle,
    /// As [`Act::Settle`], but only messages between the given nodes arrive.
    SettleAmong(Vec<NodeId>),
    /// One of the others, with the choices its handler shall make instead of the first ones.
    Picking(Vec<u32>, Box<Act<S>>),
}

/// Why a script failed.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum ScriptError {
    /// A step was not possible.
    #[error("script line {line}: {error}")]
    Step {
        /// Counting from 1.
        line: usize,
        /// Why.
        error: StepError,
    },
    /// There was no such message.
    #[error("script line {line}: no message from {from} to {to} is there to be taken")]
    NoMessage {
        /// Counting from 1.
        line: usize,
        /// The sender.
        from: NodeId,
        /// The receiver.
        to: NodeId,
    },
    /// Messages breed messages.
    #[error(
        "script line {line}: messages are still on their way after {SETTLE_STEPS_MAX} deliveries"
    )]
    NeverSettles {
        /// Counting from 1.
        line: usize,
    },
}

impl<S: Service> System<S> {
    /// Makes a system without script and faults.
    pub fn new(setups: impl IntoIterator<Item = (NodeId, S::Setup)>) -> Self {
        Self {
            setups: setups.into_iter().collect(),
            script: Vec::new(),
            faults: Faults::NONE,
        }
    }

    /// Sets what happens before the search starts.
    #[must_use]
    pub fn script(mut self, script: impl IntoIterator<Item = Act<S>>) -> Self {
        self.script = script.into_iter().collect();
        self
    }

    /// Sets the faults a path may contain.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Boots the nodes and runs the script. Returns the start state and the steps that led to it.
    ///
    /// # Errors
    ///
    /// When a line of the script cannot be carried out.
    pub fn start(&self) -> Result<(Simulation<S>, Vec<Step<S>>), ScriptError> {
        // The script's own faults do not count, so it runs with an allowance it cannot use up.
        let plenty = Faults {
            resets: 255,
            silent_resets: 255,
            breaks: 255,
            losses: 255,
            duplicates: 255,
            late_starts: 255,
        };
        let mut play = Play {
            simulation: Simulation::boot(self.setups.clone(), plenty),
            steps: Vec::new(),
        };
        for (index, act) in self.script.iter().enumerate() {
            play.act(index + 1, act, &Tosses::default())?;
            play.simulation.set_faults(plenty);
        }
        play.simulation.set_faults(self.faults);
        Ok((play.simulation, play.steps))
    }
}

struct Play<S: Service> {
    simulation: Simulation<S>,
    steps: Vec<Step<S>>,
}

impl<S: Service> Play<S> {
    fn act(&mut self, line: usize, act: &Act<S>, tosses: &Tosses) -> Result<(), ScriptError> {
        let (node, event) = match act {
            Act::Picking(picks, act) => {
                let picks = picks.iter().map(|&pick| (u32::MAX, pick)).collect();
                return self.act(
                    line,
                    act,
                    &Tosses {
                        picks,
                        draws: Vec::new(),
                    },
                );
            }
            Act::Settle => return self.settle(line, |_| true),
            Act::SettleAmong(nodes) => return self.settle(line, |node| nodes.contains(&node)),
            Act::Call(node, call) => (*node, Event::Call(call.clone())),
            Act::Timer(node, timer) => (*node, Event::Timer(timer.clone())),
            Act::Reset { node, notice } => (*node, Event::Reset { notice: *notice }),
            Act::Stop(node) => (*node, Event::Stop),
            Act::Start(node) => (*node, Event::Start),
            Act::Break { node, peer } => (*node, Event::Break { peer: *peer }),
            Act::Deliver { from, to } => (*to, self.find(line, *from, *to, |_| true)?),
            Act::DeliverWhere { from, to, fits } => (*to, self.find(line, *from, *to, fits)?),
            Act::LoseWhere { from, to, fits } => {
                let found = self
                    .simulation
                    .nodes()
                    .get(to)
                    .and_then(|node| find_datagram(&node.inbox, *from, fits));
                let message = found.ok_or(ScriptError::NoMessage {
                    line,
                    from: *from,
                    to: *to,
                })?;
                (
                    *to,
                    Event::Lose {
                        from: *from,
                        message,
                    },
                )
            }
        };
        self.take(
            line,
            Step {
                node,
                event,
                tosses: tosses.clone(),
            },
        )
        .map(drop)
    }

    fn take(&mut self, line: usize, step: Step<S>) -> Result<Effectiveness, ScriptError> {
        let effect = self
            .simulation
            .step(&step)
            .map_err(|error| ScriptError::Step { line, error })?;
        if effect == Effectiveness::Changed {
            self.steps.push(step);
        }
        Ok(effect)
    }

    fn arrivals(&self, to: NodeId) -> Vec<EventOf<S>> {
        let node = self.simulation.nodes().get(&to);
        node.map_or_else(Vec::new, |node| {
            network::arrivals(to, &node.links, &node.inbox)
        })
    }

    fn find(
        &self,
        line: usize,
        from: NodeId,
        to: NodeId,
        fits: impl Fn(&S::Message) -> bool,
    ) -> Result<EventOf<S>, ScriptError> {
        let found = self.arrivals(to).into_iter().find(|event| match event {
            Event::Deliver {
                from: sender,
                message,
            }
            | Event::Receive {
                from: sender,
                message,
                ..
            } => *sender == from && fits(message),
            _ => false,
        });
        found.ok_or(ScriptError::NoMessage { line, from, to })
    }

    /// Delivers in rounds over the nodes, one arrival at a time, so that no node is starved.
    fn settle(&mut self, line: usize, among: impl Fn(NodeId) -> bool) -> Result<(), ScriptError> {
        let nodes: Vec<NodeId> = self
            .simulation
            .nodes()
            .keys()
            .copied()
            .filter(|&node| among(node))
            .collect();
        let mut idle = BTreeMap::new();
        for _ in 0..SETTLE_STEPS_MAX {
            let mut quiet = true;
            for &node in &nodes {
                let skip: &Vec<EventOf<S>> = idle.entry(node).or_default();
                let arrival = self.arrivals(node).into_iter().find(|event| {
                    let from = match event {
                        Event::Deliver { from, .. }
                        | Event::Receive { from, .. }
                        | Event::Refuse { from, .. }
                        | Event::Hangup { from, .. }
                        | Event::Disconnect { from, .. } => *from,
                        _ => node,
                    };
                    among(from) && !skip.contains(event)
                });
                let Some(event) = arrival else { continue };
                quiet = false;
                let step = Step {
                    node,
                    event: event.clone(),
                    tosses: Tosses::default(),
                };
                match self.take(line, step)? {
                    Effectiveness::Changed => idle.remove(&node).is_some(),
                    // A datagram without effect stays on its way; it is tried again only after a change here.
                    Effectiveness::Unchanged => {
                        idle.entry(node).or_default().push(event);
                        true
                    }
                };
            }
            if quiet {
                return Ok(());
            }
        }
        Err(ScriptError::NeverSettles { line })
    }
}

fn find_datagram<M: Clone + Ord>(
    inbox: &Inbox<M>,
    from: NodeId,
    fits: impl Fn(&M) -> bool,
) -> Option<M> {
    inbox
        .datagrams()
        .find(|(sender, message, _)| *sender == from && fits(message))
        .map(|(_, message, _)| message.clone())
}
