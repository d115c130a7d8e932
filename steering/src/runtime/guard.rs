//! The seam for a check that comes before every handler, such as the immediate safety check.

use scry_protocol::filter::Mode;
use scry_protocol::link::host::{Failure, Veto};

use crate::context::Dice;
use crate::hook::Request;
use crate::model::event::InputOf;
use crate::model::handler::Local;
use crate::runtime::run::Performed;
use crate::service::Service;

/// What a check says about an event.
#[derive(Debug)]
pub enum Examined<S: Service> {
    /// The event may be handled. A check that has run the handler on a copy, with the same dice, can hand over the copy
    /// and what it asked for instead of having it run again.
    Pass(Option<Performed<S>>),
    /// The event must not be handled.
    Veto {
        /// The property it would break.
        property: String,
        /// What would be wrong, in words.
        explanation: String,
    },
}

/// Looks at each message, timer and call before its handler runs.
///
/// Whatever goes wrong inside a guard, it answers [`Examined::Pass`]: a service is never worse off for being guarded.
pub trait Guard<S: Service>: Send {
    /// Examines an event, and does no more about it than `mode` allows. The handler has not run, and runs with these
    /// dice if it may.
    fn examine(
        &mut self,
        mode: Mode,
        setup: &S::Setup,
        local: &Local<S>,
        input: &InputOf<S>,
        dice: Dice,
    ) -> Examined<S>;

    /// Learns what the agent asks it to judge by: rules, and the neighbors' states.
    fn inform(&mut self, request: Request) {
        let _ = request;
    }

    /// Returns what the agent should know, until there is nothing more. Asked after every examination.
    fn poll_notice(&mut self) -> Option<Notice> {
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
