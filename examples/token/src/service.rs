//! A token goes round. Whoever holds it may write, and nobody else.

use std::time::Duration;

use scry::{Context, NodeId, Property, Service};
use serde::{Deserialize, Serialize};

/// How long a node waits for thanks.
const PATIENCE: Duration = Duration::from_millis(200);

/// What a node knows.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Token {
    /// Whether it may write.
    pub holds: bool,
    /// How often the token was passed, as far as it knows.
    pub round: u32,
    /// To whom it passed the token, until that node has thanked it.
    pub passed_to: Option<NodeId>,
}

/// What nodes say to each other. `u32` is the round.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Message {
    /// The token is yours.
    Take(u32),
    /// I have it.
    Thanks(u32),
}

/// A node that passed the token waits for thanks.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Timer {
    /// It has waited long enough.
    NoThanks,
}

/// What the application may ask.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Call {
    /// To pass the token on.
    Pass,
}

/// What every node is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// The nodes in the order the token goes round. The first has it in the beginning.
    pub members: Vec<NodeId>,
    /// The bug: a node that gets no thanks takes the token back.
    pub hasty: bool,
}

impl Service for Token {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Setup;
    // All of it is kept, so that a reset node neither forgets the token nor invents one.
    type Disk = Self;

    fn start(cx: &mut Context<'_, Self>, disk: Option<Self>) -> Self {
        let holds = cx.setup().members.first() == Some(&cx.me());
        let token = disk.unwrap_or(Self {
            holds,
            round: 0,
            passed_to: None,
        });
        if token.passed_to.is_some() {
            cx.set_timer(Timer::NoThanks, PATIENCE);
        }
        token
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, Call::Pass: Call) {
        let members = &cx.setup().members;
        let Some(place) = members.iter().position(|&member| member == cx.me()) else {
            return;
        };
        if self.holds && members.len() > 1 {
            let next = members[(place + 1) % members.len()];
            *self = Self {
                holds: false,
                round: self.round + 1,
                passed_to: Some(next),
            };
            cx.send(next, Message::Take(self.round));
            cx.set_timer(Timer::NoThanks, PATIENCE);
        }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Take(round) => {
                // A token that was sent twice is taken once.
                if round > self.round {
                    *self = Self {
                        holds: true,
                        round,
                        passed_to: None,
                    };
                }
                cx.send(from, Message::Thanks(round));
            }
            Message::Thanks(round) if round == self.round && !self.holds => {
                self.passed_to = None;
                cx.cancel_timer(Timer::NoThanks);
            }
            Message::Thanks(_) => {}
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, Timer::NoThanks: Timer) {
        let Some(next) = self.passed_to else { return };
        if cx.setup().hasty {
            // Wrong: perhaps only the thanks are late.
            self.passed_to = None;
            self.holds = true;
        } else {
            cx.send(next, Message::Take(self.round));
            cx.set_timer(Timer::NoThanks, PATIENCE);
        }
    }

    fn disk(&self) -> Self {
        self.clone()
    }

    fn calls(&self, _: NodeId, _: &Setup) -> Vec<Call> {
        if self.holds {
            vec![Call::Pass]
        } else {
            Vec::new()
        }
    }

    fn neighbors(&self, me: NodeId, setup: &Setup) -> Option<Vec<NodeId>> {
        Some(
            setup
                .members
                .iter()
                .copied()
                .filter(|&member| member != me)
                .collect(),
        )
    }

    fn properties() -> Vec<Property<Self>> {
        vec![Property::pair(
            "at most one node holds the token",
            |view: &scry::View<'_, Self>| view.state.holds.then_some(()),
            |_, _| false,
        )]
    }
}
