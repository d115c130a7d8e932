//! The only door between a handler and the world.
//!
//! A handler never performs an effect: it leaves it here, in order, for the caller. It never draws chance or reads a
//! clock by itself either: [`Chance`] answers, with real dice in the live runtime, with every outcome in turn in the
//! checker, and with a record in a replay.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use scry_protocol::NodeId;
use serde::{Deserialize, Serialize};

use crate::model::handler::{MIX_STEP, mix};
use crate::service::Service;
pub use crate::stamp::Stamp;

/// Something a handler asked the world to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Effect<M, T> {
    /// Send a message.
    Send {
        /// Who shall get it.
        to: NodeId,
        /// What it says.
        message: M,
    },
    /// Arm a timer, or move it if it is armed.
    Arm {
        /// Which.
        timer: T,
        /// How long until it fires. A search knows only that it is armed; a path must fit in time.
        after: Duration,
    },
    /// Disarm a timer.
    Cancel {
        /// Which.
        timer: T,
    },
    /// Close the connection to a peer after what has been sent on it.
    Disconnect {
        /// The peer.
        peer: NodeId,
    },
}

/// Answers a handler's questions about chance and time.
pub trait Chance {
    /// Picks one of `0..of`. The checker tries each.
    fn choose(&mut self, of: u32) -> u32;
    /// Draws a number. The checker draws one, from a generator it controls.
    fn random(&mut self) -> u64;
    /// Returns the present moment.
    fn now(&mut self) -> Stamp;
    /// Tells whether `after` has gone by since `since`. The checker tries both.
    fn expired(&mut self, since: Stamp, after: Duration) -> bool;
    /// Returns a number greater than all it returned before at this node, over resets too (MaceMC's MonotoneTime).
    fn tick(&mut self) -> u64;
}

/// Dice and clock of one run of a handler, fixed before it: the same run with the same dice does the same.
///
/// The live runtime draws a fresh seed for each event, so that the immediate safety check can run the handler on a copy
/// and the copy does what the original will do.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Dice {
    /// What the dice show, in advance.
    pub seed: u64,
    /// The present moment.
    pub now: Stamp,
    /// The last number [`Context::tick`] gave.
    pub ticks: u64,
    /// How often a die was thrown or the clock was read: a run that asked nothing does the same with any dice.
    pub asked: u32,
}

impl Dice {
    /// Takes dice for one run.
    pub const fn new(seed: u64, now: Stamp, ticks: u64) -> Self {
        Self {
            seed,
            now,
            ticks,
            asked: 0,
        }
    }

    /// The generator is `SplitMix64`: its state is its seed, so that dice are three plain numbers.
    fn draw(&mut self) -> u64 {
        self.asked = self.asked.saturating_add(1);
        let word = mix(self.seed);
        self.seed = self.seed.wrapping_add(MIX_STEP);
        word
    }
}

impl Chance for Dice {
    fn choose(&mut self, of: u32) -> u32 {
        // The high half of a product: without the bias of a remainder, as good as even for any count.
        ((u128::from(self.draw()) * u128::from(of)) >> 64) as u32
    }

    fn random(&mut self) -> u64 {
        self.draw()
    }

    fn now(&mut self) -> Stamp {
        self.asked += 1;
        self.now
    }

    fn expired(&mut self, since: Stamp, after: Duration) -> bool {
        self.asked += 1;
        let elapsed = self.now.as_millis().saturating_sub(since.as_millis());
        u128::from(elapsed) >= after.as_millis()
    }

    fn tick(&mut self) -> u64 {
        self.asked += 1;
        self.ticks += 1;
        self.ticks
    }
}

/// What a handler sees of the world while it runs.
pub struct Context<'a, S: Service> {
    me: NodeId,
    me_asked: Cell<bool>,
    setup: &'a S::Setup,
    chance: &'a mut dyn Chance,
    effects: &'a mut Vec<Effect<S::Message, S::Timer>>,
}

impl<'a, S: Service> Context<'a, S> {
    /// Makes a context that appends to `effects`.
    pub fn new(
        me: NodeId,
        setup: &'a S::Setup,
        chance: &'a mut dyn Chance,
        effects: &'a mut Vec<Effect<S::Message, S::Timer>>,
    ) -> Self {
        Self {
            me,
            me_asked: Cell::new(false),
            setup,
            chance,
            effects,
        }
    }

    /// Returns the id of the node the handler runs on.
    pub fn me(&self) -> NodeId {
        self.me_asked.set(true);
        self.me
    }

    /// Tells whether the handler asked which node it runs on. One that did not does the same at any other node with
    /// the same state and settings, and need not be run there again.
    pub fn is_anonymous(&self) -> bool {
        !self.me_asked.get()
    }

    /// Returns the node's static settings.
    pub fn setup(&self) -> &'a S::Setup {
        self.setup
    }

    /// Sends a message, to another node or to this one.
    pub fn send(&mut self, to: NodeId, message: S::Message) {
        self.effects.push(Effect::Send { to, message });
    }

    /// Arms a timer to fire once, or moves it if it is armed already.
    pub fn set_timer(&mut self, timer: S::Timer, after: Duration) {
        self.effects.push(Effect::Arm { timer, after });
    }

    /// Disarms a timer. Nothing happens if it is not armed.
    pub fn cancel_timer(&mut self, timer: S::Timer) {
        self.effects.push(Effect::Cancel { timer });
    }

    /// Closes the connection to a peer, which learns of it by [`Service::on_disconnect`].
    pub fn disconnect(&mut self, peer: NodeId) {
        self.effects.push(Effect::Disconnect { peer });
    }

    /// Picks one of `0..of`: at random when live, each in turn in the checker.
    ///
    /// # Panics
    ///
    /// When `of` is zero, since there is nothing to pick from.
    pub fn choose(&mut self, of: u32) -> u32 {
        assert!(of > 0, "choose(0): there is nothing to choose from");
        if of == 1 {
            return 0;
        }
        self.chance.choose(of)
    }

    /// Draws a number; the checker explores one draw, not all.
    pub fn random(&mut self) -> u64 {
        self.chance.random()
    }

    /// Returns the present moment, for a later [`expired`](Self::expired): on disk and in messages too.
    ///
    /// Live, the clock starts at the time of day and never goes back, whatever becomes of the time of day; after a
    /// restart it goes on from what was written to disk. During one handler it stands still.
    pub fn now(&mut self) -> Stamp {
        self.chance.now()
    }

    /// Tells whether `after` has gone by since `since`: by the clock when live, both ways in a search.
    ///
    /// A path that a search finds is reported only if there are times for its events at which every such question has
    /// the answer that the path gives it, and every timer fires when it may (see [`Clock`](crate::timing::Clock)).
    /// Whole milliseconds count. A stamp from another node's clock is compared as if both clocks were one, give or take
    /// the skew that is allowed for.
    pub fn expired(&mut self, since: Stamp, after: Duration) -> bool {
        self.chance.expired(since, after)
    }

    /// Returns a number greater than any this node got before.
    pub fn tick(&mut self) -> u64 {
        self.chance.tick()
    }

    /// Runs a service that lives inside this one, translating what it sends and arms into this service's own terms.
    ///
    /// ```text
    /// let lower = &mut self.transport;
    /// cx.within(&cx.setup().transport, Message::Transport, Timer::Transport, |cx| lower.on_timer(cx, timer));
    /// ```
    pub fn within<L: Service, R>(
        &mut self,
        setup: &L::Setup,
        message: impl Fn(L::Message) -> S::Message,
        timer: impl Fn(L::Timer) -> S::Timer,
        run: impl FnOnce(&mut Context<'_, L>) -> R,
    ) -> R {
        let mut inner = Vec::new();
        let mut context = Context::new(self.me, setup, &mut *self.chance, &mut inner);
        let result = run(&mut context);
        self.me_asked
            .set(self.me_asked.get() || !context.is_anonymous());
        self.effects
            .extend(inner.into_iter().map(|effect| match effect {
                Effect::Send { to, message: body } => Effect::Send {
                    to,
                    message: message(body),
                },
                Effect::Arm {
                    timer: which,
                    after,
                } => Effect::Arm {
                    timer: timer(which),
                    after,
                },
                Effect::Cancel { timer: which } => Effect::Cancel {
                    timer: timer(which),
                },
                Effect::Disconnect { peer } => Effect::Disconnect { peer },
            }));
        result
    }
}

impl<S: Service> fmt::Debug for Context<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("me", &self.me)
            .field("effects", &self.effects)
            .finish_non_exhaustive()
    }
}
