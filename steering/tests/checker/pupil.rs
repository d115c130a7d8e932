//! A service made of one story each: node 0 says something, node 1 gets it wrong.

use std::time::Duration;

use scry::{Context, Faults, NodeId, Property, Service, Simulation, Transport};
use serde::{Deserialize, Serialize};

pub(crate) const BAD: u64 = 9;

#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pupil {
    pub(crate) value: u64,
    pub(crate) tries: u8,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Message {
    First,
    Second,
    Again(u8),
    Plea,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Timer {
    Tick,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Call {
    Go,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) enum Story {
    /// `First` breaks a property; without it `Second` breaks another, and so does a lost connection.
    Harm,
    /// `First` breaks a property; without it `Second`, behind it on the connection, breaks the same.
    Behind,
    /// `Again` breaks a property, and is said again in other words.
    Reworded,
    /// `Again` breaks a property, and if it does not, a plea does.
    Insists,
    /// A timer of node 1 breaks a property.
    Timer,
    /// A call at node 1 breaks a property.
    Call,
    /// A call at node 1 breaks a property if the dice fall badly.
    Dice,
    /// Nothing is said.
    Silence,
    /// Node 0 speaks on a connection, and when it is lost node 1 breaks a property.
    Lost,
    /// A call at node 1 breaks a property of node 0. Node 0 has something else to do.
    Far,
    /// A call at node 1 is harmless, and the timer it arms breaks a property. Nobody has anything else to do.
    Only,
}

impl Service for Pupil {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Story;
    type Disk = ();

    fn start(cx: &mut Context<'_, Self>, _: Option<()>) -> Self {
        let other = NodeId::new(1);
        let speaks = cx.me() == NodeId::new(0);
        match cx.setup() {
            Story::Harm | Story::Behind if speaks => {
                cx.send(other, Message::First);
                cx.send(other, Message::Second);
            }
            Story::Reworded | Story::Insists if speaks => {
                cx.send(other, Message::Again(0));
                cx.set_timer(Timer::Tick, Duration::from_secs(1));
            }
            Story::Lost if speaks => {
                // A third node is there in one story only.
                cx.send(other, Message::First);
                cx.send(NodeId::new(2), Message::First);
            }
            Story::Far if speaks => cx.set_timer(Timer::Tick, Duration::from_secs(1)),
            Story::Timer if !speaks => cx.set_timer(Timer::Tick, Duration::from_secs(1)),
            _ => {}
        }
        Self { value: 0, tries: 0 }
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, message: Message) {
        self.value = match (cx.setup(), message) {
            (Story::Harm, Message::Second) if self.value == 0 => 8,
            (Story::Harm, Message::Second) => self.value,
            (Story::Lost, _) => 1,
            _ => BAD,
        };
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, _: Timer) {
        self.tries += 1;
        match cx.setup() {
            Story::Timer | Story::Only => self.value = BAD,
            Story::Far => {}
            Story::Reworded => cx.send(NodeId::new(1), Message::Again(self.tries)),
            _ => cx.send(NodeId::new(1), Message::Plea),
        }
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, _: Call) {
        self.tries += 1;
        match cx.setup() {
            Story::Dice => {
                let bad = cx.choose(3) == 2;
                let draw = cx.random() >> 8;
                self.value = if bad { BAD } else { draw.max(100) };
                self.tries = cx.random() as u8;
            }
            Story::Far => {
                self.value = 1;
                cx.send(NodeId::new(0), Message::Again(0));
            }
            Story::Only => {
                self.value = 1;
                cx.set_timer(Timer::Tick, Duration::from_secs(1));
            }
            _ => self.value = BAD,
        }
    }

    fn on_disconnect(&mut self, cx: &mut Context<'_, Self>, _: NodeId) {
        if *cx.setup() == Story::Lost && cx.me() != NodeId::new(0) {
            self.value = BAD;
        }
        if *cx.setup() == Story::Harm && cx.me() == NodeId::new(1) && self.value == 0 {
            self.value = 7;
        }
    }

    fn disk(&self) {}

    fn calls(&self, me: NodeId, story: &Story) -> Vec<Call> {
        let asked = matches!(story, Story::Call | Story::Dice | Story::Far | Story::Only);
        match asked && me == NodeId::new(1) && self.value == 0 {
            true => vec![Call::Go],
            false => Vec::new(),
        }
    }

    fn properties() -> Vec<Property<Self>> {
        let never = |value: u64| {
            Property::node(
                format!("no node has {value}"),
                move |view: &scry::View<'_, Self>| view.state.value != value,
            )
        };
        vec![never(BAD), never(8), never(7)]
    }

    fn transport(message: &Message) -> Transport {
        match message {
            Message::First | Message::Second => Transport::Stream,
            Message::Again(_) | Message::Plea => Transport::Datagram,
        }
    }
}

pub(crate) fn tell(story: Story) -> Simulation<Pupil> {
    tell_with(story, Faults::NONE)
}

pub(crate) fn tell_with(story: Story, faults: Faults) -> Simulation<Pupil> {
    tell_to(2, story, faults)
}

pub(crate) fn tell_to(nodes: u32, story: Story, faults: Faults) -> Simulation<Pupil> {
    let setups = (0..nodes).map(|id| (NodeId::new(id), story)).collect();
    Simulation::boot(setups, faults)
}
