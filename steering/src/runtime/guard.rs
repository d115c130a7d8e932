//! The seam for a check that comes before every handler, such as the immediate safety check.

use std::time::Instant;

use scry_protocol::filter::Mode;
use scry_protocol::link::host::{Failure, Outcome, Veto};
use scry_protocol::{NodeId, Past, Times};

use crate::hook::Request;
use scry_checkpoint::Time;
use scry_engine::context::Dice;
use scry_engine::model::event::InputOf;
use scry_engine::model::handler::Local;
use scry_engine::model::live::Performed;
use scry_engine::property::Projection;
use scry_engine::service::Service;

/// An event that is about to be handled, and what it would be handled with.
#[derive(Debug)]
pub struct Scene<'a, S: Service> {
    /// How much may be done about it.
    pub mode: Mode,
    /// When it is, for the hook.
    pub now: Time,
    /// When it is, to measure by: a clock that was looked at for another reason, a moment ago.
    pub at: Instant,
    /// The node's settings.
    pub setup: &'a S::Setup,
    /// The node before the event.
    pub local: &'a Local<S>,
    /// What the handler is given.
    pub input: &'a InputOf<S>,
    /// What the handler runs with, if it runs.
    pub dice: Dice,
    /// What lies in the node's past, the event included.
    pub past: &'a Past,
    /// Whether it was refused before and is offered again, as what is kept on a connection is: it is one event, however often
    /// it is looked at.
    pub again: bool,
}

/// What a check says about an event.
#[derive(Debug)]
pub enum Examined<S: Service> {
    /// The event may be handled. A check that has run the handler on a copy, with the same dice, can hand over the copy
    /// and what it asked for instead of having it run again.
    Pass(Option<Performed<S>>),
    /// The event seems to break a property together with the neighbors' last known states. It should be held, if the caller
    /// can hold it, until their present states are known, and then be [reviewed](Guard::review).
    Suspect {
        /// The property.
        property: String,
    },
    /// The event must not be handled.
    Veto(Refusal),
}

/// Why an event must not be handled.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// The property it would break.
    pub property: String,
    /// What would be wrong, in words.
    pub explanation: String,
    /// Whether to take the event from the service would break something too: it should be kept where it is, if it can be, and
    /// be examined again, until it breaks nothing.
    pub hold: bool,
}

impl Refusal {
    /// Keeps what is kept already, and was told when it was found guilty.
    pub(crate) fn kept_on() -> Self {
        Self {
            property: String::new(),
            explanation: String::new(),
            hold: true,
        }
    }
}

/// The moment at which a node asked its neighbors about an event that it holds.
#[derive(Debug)]
pub struct Asked<'a, S: Service> {
    /// When it was.
    pub at: Instant,
    /// What lay in the node's past then, the event included. What has come since and is held as well does not count.
    pub past: &'a Past,
    /// What the node has done since.
    pub meanwhile: Meanwhile<'a, S>,
}

/// What a node did while it held an event and its neighbors were asked.
#[derive(Debug)]
pub enum Meanwhile<'a, S: Service> {
    /// It handled nothing.
    Idle,
    /// It handled other events: its present state and theirs were not there at one moment. This is the node as it was when
    /// they were asked, if a copy could be made.
    Busy(Option<&'a Local<S>>),
}

/// What a check says about an event that was held, now that the neighbors' present states are known.
#[derive(Debug)]
pub enum Reviewed<S: Service> {
    /// It may be handled, for this reason.
    Run(Outcome, Option<Performed<S>>),
    /// It must not be handled.
    Refuse(Refusal),
    /// It breaks a property with what neighbors answered, though perhaps not at one moment: they are to be asked again while
    /// there is time.
    AskAgain {
        /// Whether each answer by itself could be relied on. Then it is worth more time.
        guilty: bool,
    },
}

/// Looks at each event before its handler runs.
///
/// Whatever goes wrong inside a guard, it answers [`Examined::Pass`]: a service is never worse off for being guarded.
pub trait Guard<S: Service>: Send {
    /// Examines an event, and does no more about it than the mode allows. The handler has not run, and runs with these
    /// dice if it may.
    fn examine(&mut self, scene: &Scene<'_, S>) -> Examined<S>;

    /// Looks again at an event that was suspected, after [`inform`](Self::inform) has brought the states its neighbors have
    /// now.
    fn review(
        &mut self,
        scene: &Scene<'_, S>,
        property: &str,
        asked: &Asked<'_, S>,
    ) -> Reviewed<S> {
        let _ = (scene, property, asked);
        Reviewed::Run(Outcome::Cleared, None)
    }

    /// Tells whether to reset the connection of this message, instead of handling it, would break something.
    fn reset_breaks(&mut self, scene: &Scene<'_, S>) -> bool {
        let _ = scene;
        false
    }

    /// Returns one of these peers if the event would break nothing after the connections with it have broken, and their end
    /// would break nothing either.
    fn way_out(&mut self, scene: &Scene<'_, S>, peers: &[NodeId]) -> Option<NodeId> {
        let _ = (scene, peers);
        None
    }

    /// Returns what properties read of the node for others to be judged with, or nothing if that is not known or would
    /// take too long: it is then taken to have changed.
    fn projections(&mut self, now: Time, local: &Local<S>) -> Option<Vec<Option<Projection>>> {
        let _ = (now, local);
        None
    }

    /// Tells whether [`projections`](Self::projections) would be what they were before, as far as that is known.
    fn is_unchanged(&mut self, now: Time, local: &Local<S>, before: &[Option<Projection>]) -> bool {
        self.projections(now, local)
            .is_some_and(|after| after == before)
    }

    /// Tells whether a property is about several nodes, so that neighbors have a say in it.
    fn is_shared(&self, property: &str) -> bool {
        let _ = property;
        true
    }

    /// Returns how long an event may be held at most, in milliseconds.
    fn hold_ms_max(&self) -> u64 {
        0
    }

    /// Learns what the agent asks it to judge by: rules, and the neighbors' states.
    fn inform(&mut self, request: Request) {
        let _ = request;
    }

    /// Tells whether there may be something for the agent that should not wait. Asked after every examination, so it has to be
    /// cheap; what it leaves out is asked for once a second.
    fn has_notice(&self) -> bool {
        true
    }

    /// Returns what the agent should know, until there is nothing more.
    fn poll_notice(&mut self) -> Option<Notice> {
        None
    }

    /// Returns how many events ran untried because the check had used up its share of time.
    fn unchecked_count(&self) -> u64 {
        0
    }

    /// Returns how long events waited for their trials so far, if that is measured.
    fn check_times(&self) -> Option<&Times> {
        None
    }
}

/// What a guard has the agent told.
#[derive(Debug)]
pub enum Notice {
    /// Something failed, and the event was let through.
    Failed(Failure, String),
    /// The event was let through although it breaks a property, since nothing may be stopped now (audit).
    WouldVeto(Veto),
}
