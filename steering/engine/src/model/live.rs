//! One run of a handler, on the state itself and with dice fixed before it.
//!
//! The engine runs handlers on copies, once for each way the dice can fall ([`crate::model::handler`]); live there is
//! one state and one fall of the dice.

use scry_protocol::NodeId;

use crate::context::{Context, Dice, Effect};
use crate::model::event::{Input, InputOf};
use crate::model::handler::Local;
use crate::panics::{Panicked, caught};
use crate::service::{Handling, Prediction, Service};

/// What a handler of a service asked for.
pub type Effects<S> = Vec<Effect<<S as Service>::Message, <S as Service>::Timer>>;

/// A node after a handler, and what the handler asked for.
pub type Performed<S> = (Local<S>, Effects<S>);

/// Starts a node, with what its last incarnation left on disk if there was one.
///
/// # Errors
///
/// When `start` panics.
pub fn boot<S: Service>(
    me: NodeId,
    setup: &S::Setup,
    disk: Option<S::Disk>,
    mut dice: Dice,
) -> Result<Performed<S>, Panicked> {
    let mut effects = Vec::new();
    let service = caught(|| S::start(&mut Context::new(me, setup, &mut dice, &mut effects), disk))?;
    let mut local = Local {
        service,
        timers: Vec::new(),
        ticks: dice.ticks,
        panic: None,
        down: false,
    };
    note_timers(&mut local.timers, &effects);
    Ok((local, effects))
}

/// Runs the handler for `input` on `local`, and returns what it asked for, timers too, in order.
///
/// A restart takes what `local` has on disk.
///
/// # Errors
///
/// When the handler panics. `local` may then be half changed.
pub fn run<S: Service>(
    me: NodeId,
    setup: &S::Setup,
    local: &mut Local<S>,
    input: InputOf<S>,
    dice: &mut Dice,
) -> Result<Effects<S>, Panicked> {
    let mut effects = Vec::new();
    if let Input::Timer(timer) = &input {
        local.timers.retain(|armed| armed != timer);
    }
    let service = &mut local.service;
    caught(|| {
        let cx = &mut Context::new(me, setup, dice, &mut effects);
        match input {
            Input::Message { from, message } => service.on_message(cx, from, message),
            Input::Timer(timer) => service.on_timer(cx, timer),
            Input::Call(call) => service.on_call(cx, call),
            Input::Disconnect(peer) => service.on_disconnect(cx, peer),
            Input::Restart => {
                local.timers.clear();
                *service = S::start(cx, Some(service.disk()));
            }
            // A process that is down handles nothing.
            Input::Stop => {}
        }
    })?;
    local.ticks = dice.ticks;
    note_timers(&mut local.timers, &effects);
    Ok(effects)
}

/// Tells the service of a predicted violation, and returns what it does about it and what it asked for.
///
/// # Errors
///
/// When the handler panics. `local` may then be half changed.
pub fn predict<S: Service>(
    me: NodeId,
    setup: &S::Setup,
    local: &mut Local<S>,
    prediction: &Prediction<S>,
    mut dice: Dice,
) -> Result<(Handling, Effects<S>), Panicked> {
    let mut effects = Vec::new();
    let service = &mut local.service;
    let handling = caught(|| {
        let cx = &mut Context::new(me, setup, &mut dice, &mut effects);
        service.on_prediction(cx, prediction)
    })?;
    local.ticks = dice.ticks;
    note_timers(&mut local.timers, &effects);
    Ok((handling, effects))
}

/// Keeps the list of armed timers in order while effects are noted in it.
fn note_timers<M, T: Clone + Ord>(timers: &mut Vec<T>, effects: &[Effect<M, T>]) {
    for effect in effects {
        match effect {
            Effect::Arm { timer, .. } => {
                if let Err(at) = timers.binary_search(timer) {
                    timers.insert(at, timer.clone());
                }
            }
            Effect::Cancel { timer } => timers.retain(|armed| armed != timer),
            Effect::Send { .. } | Effect::Disconnect { .. } => {}
        }
    }
}
