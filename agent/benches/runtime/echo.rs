//! A service that asks and answers as fast as it can.

use std::time::Duration;

use scry::{Context, NodeId, Property, Service, Transport, View};
use serde::{Deserialize, Serialize};

/// How long to wait for an answer before a lost question is asked again.
const RETRY: Duration = Duration::from_millis(200);

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Echo {
    pub answers: u32,
    goal: Option<(NodeId, Way, u32)>,
    asked: u32,
    /// Answers when the clock was last looked at.
    seen: u32,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Way {
    Datagram,
    Stream,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Message {
    Question(Way, [u8; 16]),
    Answer(Way, [u8; 16]),
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Call {
    /// Ask until so many answers came in all, so many questions at a time.
    Go {
        to: NodeId,
        way: Way,
        window: u32,
        rounds: u32,
    },
}

impl Way {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Datagram => "UDP",
            Self::Stream => "TCP",
        }
    }
}

impl Echo {
    fn ask(&mut self, cx: &mut Context<'_, Self>) {
        if let Some((to, way, rounds)) = self.goal
            && self.asked < rounds
        {
            self.asked += 1;
            cx.send(to, Message::Question(way, [7; 16]));
        }
    }
}

impl Service for Echo {
    type Message = Message;
    type Timer = ();
    type Call = Call;
    type Setup = ();
    type Disk = ();

    fn start(_: &mut Context<'_, Self>, _: Option<()>) -> Self {
        Self::default()
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Question(way, load) => cx.send(from, Message::Answer(way, load)),
            Message::Answer(..) => {
                self.answers += 1;
                self.ask(cx);
            }
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, (): ()) {
        if let Some((to, way, rounds)) = self.goal
            && self.answers < rounds
        {
            if self.seen == self.answers {
                cx.send(to, Message::Question(way, [7; 16]));
            }
            self.seen = self.answers;
            cx.set_timer((), RETRY);
        }
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, call: Call) {
        let Call::Go {
            to,
            way,
            window,
            rounds,
        } = call;
        self.goal = Some((to, way, rounds));
        self.asked = self.answers;
        for _ in 0..window {
            self.ask(cx);
        }
        cx.set_timer((), RETRY);
    }

    fn disk(&self) {}

    /// One of each kind that is judged while a message waits: of one node, and of two, by something that every answer
    /// changes.
    fn properties() -> Vec<Property<Self>> {
        vec![
            Property::node("what was seen has come", |view: &View<'_, Self>| {
                view.state.seen <= view.state.answers
            }),
            Property::pair(
                "one of two asks",
                |view: &View<'_, Self>| Some(view.state.answers),
                |(_, one), (_, other)| *one == 0 || *other == 0,
            ),
        ]
    }

    fn transport(message: &Message) -> Transport {
        match message {
            Message::Question(way, _) | Message::Answer(way, _) => match way {
                Way::Datagram => Transport::Datagram,
                Way::Stream => Transport::Stream,
            },
        }
    }
}
