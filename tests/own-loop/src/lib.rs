//! A node with a loop of its own, which asks scry's hook what every such loop has to ask it: before each message is sent, when one
//! arrives, and before each handler.
//!
//! The service is the tutorial's token. Its messages travel as bytes, stamp first, and how they travel is up to the caller.

use scry::capture;
use scry::checkpoint::Time;
use scry::checkpoint::channel::Lane;
use scry::checkpoint::recorder::Capture;
use scry::context::{Dice, Effect, Stamp};
use scry::hook::{Hook, Occurrence, Options, Verdict, kind_of};
use scry::model::event::Input;
use scry::model::handler::Local;
use scry::model::live;
use scry::{NodeId, Service, Transport};
use scry_protocol::channel::Envelope;
use scry_protocol::messagepack;

/// The service of the tutorial.
#[path = "../../../examples/token/src/service.rs"]
pub mod service;

use service::{Call, Message, Setup, Token};

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// Who sent it.
    pub from: NodeId,
    /// Whom it is for.
    pub to: NodeId,
    /// Its stamp and the message itself.
    pub bytes: Vec<u8>,
}

/// A node of the service, with its hook.
#[derive(Debug)]
pub struct Node {
    me: NodeId,
    setup: Setup,
    local: Local<Token>,
    hook: Hook,
    now: Time,
    /// How many checkpoints the hook has asked for.
    checkpoints_count: u32,
}

impl Node {
    /// Starts a node, when the time of day is so many milliseconds since the epoch.
    pub fn start(me: NodeId, setup: Setup, clock_ms: u64) -> Self {
        let (local, _) = live::boot(me, &setup, None, dice()).expect("a token starts");
        let now = Time::from_millis(0);
        let options = Options {
            clock_ms,
            ..Options::new(me, "token", "1")
        };
        let hook = Hook::detached(options, now, || captured(me, &setup, &local));
        Self {
            me,
            setup,
            local,
            hook,
            now,
            checkpoints_count: 0,
        }
    }

    /// What the node knows.
    pub fn token(&self) -> &Token {
        &self.local.service
    }

    /// How many checkpoints were taken because a message demanded it.
    pub fn checkpoints_count(&self) -> u32 {
        self.checkpoints_count
    }

    /// The node's present checkpoint number.
    pub fn number(&self) -> u64 {
        self.hook.number().get()
    }

    /// The application calls, and the messages that come of it are returned.
    pub fn call(&mut self, call: Call) -> Vec<Parcel> {
        let occurrence = Occurrence::Call {
            kind: &kind_of(&call),
            content: &|| encode(&call),
        };
        match self.hook.admit(&occurrence) {
            Verdict::Run | Verdict::Check(_) => self.handle(Input::Call(call)),
            _ => Vec::new(),
        }
    }

    /// A message arrives, and those that come of it are returned.
    pub fn receive(&mut self, parcel: &Parcel) -> Vec<Parcel> {
        let Ok((envelope, content)) = Envelope::read(&parcel.bytes) else {
            return Vec::new();
        };
        let Ok(message) = messagepack::from_slice::<Message>(content) else {
            return Vec::new();
        };
        // Before the handler: what the stamp demands is a checkpoint of the state without this message.
        let (me, setup, local) = (self.me, &self.setup, &self.local);
        let taken = &mut self.checkpoints_count;
        self.hook.receive(
            self.now,
            parcel.from,
            Transport::Datagram,
            &envelope,
            || {
                *taken += 1;
                captured(me, setup, local)
            },
        );
        let occurrence = Occurrence::Message {
            kind: &kind_of(&message),
            from: parcel.from,
            content: &|| content.to_vec(),
        };
        match self.hook.admit(&occurrence) {
            Verdict::Run | Verdict::Check(_) => self.handle(Input::Message {
                from: parcel.from,
                message,
            }),
            _ => Vec::new(),
        }
    }

    fn handle(&mut self, input: scry::model::event::InputOf<Token>) -> Vec<Parcel> {
        let dice = &mut dice();
        let effects = live::run(self.me, &self.setup, &mut self.local, input, dice)
            .expect("a token's handlers do not panic");
        // This loop does not compare what properties read, so it says that it changed.
        self.hook.note_change();
        let sends = effects.into_iter().filter_map(|effect| match effect {
            Effect::Send { to, message, .. } => Some((to, encode(&message))),
            _ => None,
        });
        let sends: Vec<_> = sends.collect();
        let stamped = sends.into_iter().map(|(to, content)| {
            let mut bytes = Vec::new();
            self.hook
                .stamp(self.now, to, Lane::Datagram, &content)
                .write(&mut bytes);
            bytes.extend(content);
            Parcel {
                from: self.me,
                to,
                bytes,
            }
        });
        stamped.collect()
    }
}

/// The token knows neither chance nor time.
fn dice() -> Dice {
    Dice::new(0, Stamp::default(), 0)
}

fn captured(me: NodeId, setup: &Setup, local: &Local<Token>) -> Capture {
    let (state, timers) = capture::write(setup, local, &[]).expect("plain values can be written");
    Capture {
        state,
        timers,
        neighbors: local.service.neighbors(me, setup),
    }
}

fn encode<T: serde::Serialize>(value: &T) -> Vec<u8> {
    messagepack::to_vec(value).expect("plain values can be written")
}
