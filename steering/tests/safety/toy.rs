//! A counter whose handlers can be asked to misbehave in every way a handler can.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use scry::model::handler::Local;
use scry::{Context, NodeId, Property, Service, Transport, View};
use serde::{Deserialize, Serialize};

/// A node with a number.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counter {
    pub(crate) count: u64,
}

/// What a node can be told.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Message {
    /// To have this number, and to tell node 9.
    Set(u64),
    /// To add what a die with six faces shows.
    Roll,
    /// To panic.
    Panic,
    /// To end the process.
    Abort,
    /// To go on for ever.
    Loop,
    /// To end the process as if all were well.
    Exit,
    /// To damage what every later handler of this process sees.
    Stain,
    /// To add this much. It comes on a connection.
    Add(u64),
}

/// A node that bears the loss of this one badly, and begins anew with the loss of that one.
pub(crate) const MISSED: NodeId = NodeId::new(2);
pub(crate) const BURDEN: NodeId = NodeId::new(3);
/// The number at which it misses somebody.
pub(crate) const ATTACHED: u64 = 5;
/// Who has the first number and loses that peer takes the second.
pub(crate) const ELDER: u64 = 4;
pub(crate) const HEIR: u64 = 7;

/// What no handler should touch: memory of the process that is not the node's.
static IS_STAINED: AtomicBool = AtomicBool::new(false);
/// A number that a property panics at.
pub(crate) const UNJUDGED: u64 = 7_777;
/// A number on which a property never ends.
pub(crate) const ENDLESS: u64 = 8_888;

impl Service for Counter {
    type Message = Message;
    type Timer = ();
    type Call = u64;
    type Setup = ();
    type Disk = ();

    fn start(_: &mut Context<'_, Self>, _: Option<()>) -> Self {
        Self { count: 0 }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, message: Message) {
        match message {
            Message::Set(count) => {
                let is_stained = IS_STAINED.load(Ordering::Relaxed);
                self.count = if is_stained { 10 } else { count };
                cx.send(NodeId::new(9), Message::Set(count));
            }
            Message::Roll => self.count += u64::from(cx.choose(6)),
            Message::Panic => panic!("as it was told"),
            Message::Abort => std::process::abort(),
            Message::Loop => loop {
                std::thread::park();
            },
            Message::Exit => std::process::exit(0),
            Message::Stain => IS_STAINED.store(true, Ordering::Relaxed),
            Message::Add(more) => self.count += more,
        }
    }

    fn on_disconnect(&mut self, _: &mut Context<'_, Self>, peer: NodeId) {
        match (peer, self.count) {
            (MISSED, ATTACHED) => self.count = 50,
            (MISSED, ELDER) => self.count = HEIR,
            (BURDEN, _) => self.count = 0,
            _ => {}
        }
    }

    fn transport(message: &Message) -> Transport {
        match message {
            Message::Add(_) => Transport::Stream,
            _ => Transport::Datagram,
        }
    }

    fn on_timer(&mut self, _: &mut Context<'_, Self>, (): ()) {}

    fn on_call(&mut self, _: &mut Context<'_, Self>, count: u64) {
        self.count = count;
    }

    fn disk(&self) {}

    fn properties() -> Vec<Property<Self>> {
        vec![
            Property::node("judged", |view: &View<'_, Self>| {
                assert_ne!(view.state.count, UNJUDGED, "a property that fails");
                true
            }),
            Property::node("small", |view: &View<'_, Self>| view.state.count < 10).telling_apart(
                |views| {
                    let ways = [(10, "too large"), (100, "far too large")];
                    let ways = ways.into_iter();
                    ways.filter(|(limit, _)| views.iter().any(|view| view.state.count >= *limit))
                        .map(|(_, way)| way.to_owned())
                        .collect()
                },
            ),
            Property::pair(
                "all different",
                |view: &View<'_, Self>| {
                    if view.state.count == ENDLESS {
                        loop {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                    (view.state.count > 0).then_some(view.state.count)
                },
                |(_, a), (_, b)| a != b,
            ),
        ]
    }
}

/// A node with a number and nothing else going on.
pub(crate) fn counter(count: u64) -> Local<Counter> {
    Local {
        service: Counter { count },
        timers: Vec::new(),
        ticks: 0,
        panic: None,
        down: false,
    }
}
