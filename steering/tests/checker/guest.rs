//! A service made of one story each: node 1 is a guest that is to be seated, and something keeps it from ever being.

use std::time::Duration;

use scry::{Context, Faults, NodeId, Property, Service, Simulation, Transport, View};
use serde::{Deserialize, Serialize};

/// What must come true again and again.
pub(crate) const SEATED: &str = "the guest is seated";
/// What must hold in every state.
pub(crate) const CALM: &str = "nobody is upset";

const HOST: NodeId = NodeId::new(0);
const GUEST: NodeId = NodeId::new(1);

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub(crate) struct Guest {
    pub(crate) asked: bool,
    pub(crate) seated: bool,
    pub(crate) gone: bool,
    pub(crate) upset: bool,
    pub(crate) steps: u32,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Message {
    /// On a connection.
    Welcome,
    /// By datagram.
    Letter(u8),
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Timer {
    Tick,
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(crate) enum Call {
    Ask,
    Leave,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub(crate) enum Story {
    /// The welcome is for guests who have asked; who has not misses it for good.
    Early,
    /// The same by letter, which is written once.
    Letter,
    /// The same, and the host writes once more in other words.
    Letters,
    /// A letter makes the guest go, and it need not come for the guest to be seated.
    BadNews,
    /// When the time is up the guest goes.
    Closing,
    /// The guest may ask to be seated, or leave.
    Leaving,
    /// The guest is seated or not as the dice fall.
    Dice,
    /// A guest that was reset is not let in again.
    Forgotten,
    /// As early; and the host counts for ever.
    Endless,
    /// The letter upsets the guest; without it nobody ever seats it, which takes a while.
    Upsetting,
    /// The welcome upsets the guest that has not asked; without it nobody ever seats it.
    Tactless,
}

type Cx<'a> = Context<'a, Guest>;

impl Service for Guest {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = Story;
    type Disk = bool;

    fn start(cx: &mut Cx<'_>, disk: Option<bool>) -> Self {
        let (story, me) = (*cx.setup(), cx.me());
        let again = disk.is_some();
        match story {
            Story::Early | Story::Endless | Story::Tactless if me == HOST && !again => {
                cx.send(GUEST, Message::Welcome);
            }
            Story::Letter | Story::Letters | Story::BadNews | Story::Upsetting
                if me == HOST && !again =>
            {
                cx.send(GUEST, Message::Letter(0));
            }
            _ => {}
        }
        let ticks = match story {
            Story::Endless | Story::Letters => me == HOST,
            Story::Closing => me == GUEST,
            _ => false,
        };
        if ticks {
            cx.set_timer(Timer::Tick, Duration::from_secs(1));
        }
        Self {
            gone: story == Story::Forgotten && me == GUEST && again,
            ..Self::default()
        }
    }

    fn on_message(&mut self, cx: &mut Cx<'_>, _: NodeId, _: Message) {
        match cx.setup() {
            Story::BadNews => self.gone |= !self.seated,
            Story::Upsetting => {
                self.upset = true;
                cx.set_timer(Timer::Tick, Duration::from_secs(1));
            }
            Story::Tactless => {
                self.upset |= !self.asked;
                cx.set_timer(Timer::Tick, Duration::from_secs(1));
            }
            _ if self.asked => self.seated = true,
            _ => self.gone = true,
        }
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>, _: Timer) {
        self.steps += 1;
        match cx.setup() {
            Story::Letters => cx.send(GUEST, Message::Letter(1)),
            Story::Endless => cx.set_timer(Timer::Tick, Duration::from_secs(1)),
            Story::Closing => self.gone |= !self.seated,
            // It takes longer than it took to break something.
            _ if self.steps < 3 => cx.set_timer(Timer::Tick, Duration::from_secs(1)),
            _ => self.seated = true,
        }
    }

    fn on_call(&mut self, cx: &mut Cx<'_>, call: Call) {
        match (call, cx.setup()) {
            (Call::Leave, _) => self.gone = true,
            (Call::Ask, Story::Dice) => {
                let falls_well = cx.choose(2) == 0;
                self.seated = falls_well;
                self.gone = !falls_well;
            }
            (Call::Ask, Story::BadNews | Story::Closing | Story::Leaving | Story::Forgotten) => {
                self.seated = true;
            }
            (Call::Ask, _) => self.asked = true,
        }
    }

    fn disk(&self) -> bool {
        true
    }

    fn calls(&self, me: NodeId, story: &Story) -> Vec<Call> {
        if me != GUEST || self.asked || self.seated || self.gone {
            return Vec::new();
        }
        match story {
            Story::Upsetting => Vec::new(),
            Story::Leaving => vec![Call::Ask, Call::Leave],
            _ => vec![Call::Ask],
        }
    }

    fn neighbors(&self, me: NodeId, _: &Story) -> Option<Vec<NodeId>> {
        Some(vec![if me == HOST { GUEST } else { HOST }])
    }

    fn properties() -> Vec<Property<Self>> {
        let seated = |all: &[(NodeId, &bool)]| all.iter().any(|(_, seated)| **seated);
        let project = |view: &View<'_, Self>| Some(view.state.seated);
        vec![
            Property::global(SEATED, project, seated).eventually(),
            Property::node(CALM, |view: &View<'_, Self>| !view.state.upset),
        ]
    }

    fn transport(message: &Message) -> Transport {
        match message {
            Message::Welcome => Transport::Stream,
            Message::Letter(_) => Transport::Datagram,
        }
    }
}

pub(crate) fn tell(story: Story) -> Simulation<Guest> {
    tell_with(story, Faults::NONE)
}

pub(crate) fn tell_with(story: Story, faults: Faults) -> Simulation<Guest> {
    let setups = [HOST, GUEST].map(|node| (node, story)).into();
    Simulation::boot(setups, faults)
}
