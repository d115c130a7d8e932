//! A path with its times: when each event happens at the earliest, and what that takes.

use scry_protocol::NodeId;

use crate::kind::kind_of;
use crate::model::event::{Event, EventOf, Step};
use crate::model::simulation::Simulation;
use crate::service::Service;
use crate::timing::Clock;
use crate::timing::moments::Moments;
use crate::timing::path::{Constraints, trace};
use crate::timing::solve::{self, Need};

/// Up to this many events it is said what a path takes: to find out takes the cube of that.
const EVENTS_MAX: usize = 256;

/// When the events of a path happen, and what was decided about time.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Layout {
    /// For each step, how many milliseconds after the start it happens at the earliest; nothing for what happens at no
    /// particular time, such as the loss of a datagram. Empty if the path was not laid out in time.
    pub times_ms: Vec<Option<u64>>,
    /// For each step, the choices that were answers about time, by their number, in words.
    pub decided: Vec<Vec<(usize, String)>>,
    /// What it takes, in words: how long messages are on their way at least, and how late timers are.
    pub needs: Vec<String>,
    /// What else happens meanwhile, in order.
    pub meanwhile: Vec<Meanwhile>,
    /// Why the path was not laid out in time, if it should have been.
    pub unchecked: Option<String>,
}

/// Something that happens beside the steps of a path, because its time has come.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Meanwhile {
    /// How many milliseconds after the start, at the earliest.
    pub time_ms: u64,
    /// Where.
    pub node: NodeId,
    /// What.
    pub event: String,
}

impl Layout {
    /// Tells whether any time passes.
    pub fn takes_time(&self) -> bool {
        self.times_ms.iter().flatten().any(|&ms| ms > 0)
    }

    /// Returns the words for a choice of a step, if it was an answer about time.
    pub fn decision(&self, step: usize, pick: usize) -> Option<&str> {
        let decided = self.decided.get(step)?;
        let (_, words) = decided.iter().find(|(number, _)| *number == pick)?;
        Some(words)
    }
}

/// Says what a path that does not fit would take.
impl std::fmt::Display for Need {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Late(ms) => write!(f, "possible only if timers are {ms} ms late"),
            Self::Skew(ms) => write!(f, "possible only if clocks are {ms} ms off"),
            Self::Drift(ppm) => write!(
                f,
                "possible only if clocks run {ppm} millionths too fast or too slow"
            ),
        }
    }
}

/// Names the answers about time on a path that is not laid out in time.
pub(crate) fn without_times<S: Service>(start: &Simulation<S>, path: &[Step<S>]) -> Layout {
    let constraints = trace(start, None, path);
    let decided = constraints.map(|constraints| decisions(&constraints, Some));
    Layout {
        decided: decided.unwrap_or_default(),
        ..Layout::default()
    }
}

/// Lays a path out in time, if there are times for it. `is_step` tells which events are steps of the path that is
/// reported; the others happen meanwhile.
pub(crate) fn lay_out<S: Service>(
    start: &Simulation<S>,
    moments: Option<&Moments<S::Timer>>,
    events: &[Step<S>],
    is_step: &[bool],
    clock: &Clock,
) -> Option<Layout> {
    let constraints = trace(start, moments, events)?;
    let times = solve::times(&constraints, clock)?;
    Some(spell(&constraints, &times, events, is_step, clock))
}

/// Spells out constraints that are met at some times.
pub(crate) fn spell<S: Service>(
    constraints: &Constraints,
    times: &[i64],
    events: &[Step<S>],
    is_step: &[bool],
    clock: &Clock,
) -> Layout {
    let time = |moment: usize| times[moment].max(0) as u64;
    let mut layout = Layout::default();
    // The number of each event among the steps.
    let mut numbers = Vec::new();
    let mut count = 0;
    for ((placed, event), &is_step) in constraints.placed.iter().zip(events).zip(is_step) {
        let at = placed.moment.map(time);
        numbers.push(is_step.then_some(count));
        if is_step {
            layout.times_ms.push(at);
            count += 1;
        } else {
            layout.meanwhile.push(Meanwhile {
                time_ms: at.unwrap_or(0),
                node: event.node,
                event: event.event.to_string(),
            });
        }
    }
    layout.meanwhile.sort_by_key(|other| other.time_ms);
    let decided = decisions(constraints, |at| numbers[at]);
    let steps = decided.into_iter().zip(is_step);
    layout.decided = steps
        .filter(|(_, is_step)| **is_step)
        .map(|(decided, _)| decided)
        .collect();
    layout.needs = needs(constraints, events, clock);
    layout
}

fn decisions(
    constraints: &Constraints,
    number: impl Fn(usize) -> Option<usize>,
) -> Vec<Vec<(usize, String)>> {
    let spelled = constraints.placed.iter().map(|placed| {
        let words = placed.asked.iter().map(|(asked, event)| {
            let since = match event.map(&number) {
                Some(Some(step)) => format!("since step {}", step + 1),
                Some(None) => "since what happened meanwhile".to_owned(),
                None => "since what it remembers".to_owned(),
            };
            let passed = match asked.answer {
                true => "have passed",
                false => "have not passed",
            };
            let ms = asked.after.as_millis();
            (asked.pick, format!("{ms} ms {passed} {since}"))
        });
        words.collect()
    });
    spelled.collect()
}

/// Says how long messages must be on their way, and how late timers must be, whatever the times.
fn needs<S: Service>(constraints: &Constraints, events: &[Step<S>], clock: &Clock) -> Vec<String> {
    let mut needs = Vec::new();
    if events.len() > EVENTS_MAX {
        return needs;
    }
    let least = |from: usize, to: usize| {
        let distances = solve::distances(constraints, clock, from)?;
        distances[to]
    };
    for (placed, step) in constraints.placed.iter().zip(events) {
        let Some(moment) = placed.moment else {
            continue;
        };
        let sent = placed.sent_by.and_then(|by| constraints.placed[by].moment);
        if let Some(ms @ 1..) = sent.and_then(|sent| least(sent, moment)) {
            let what = parcel::<S>(&step.event);
            needs.push(format!("{what} to {} takes at least {ms} ms", step.node));
        }
        if let Some((armed, after)) = placed.due
            && let Some(ms) = least(armed, moment)
            && ms > clock.most(after)
        {
            let late = ms - clock.most(after);
            needs.push(format!(
                "{} at {} is at least {late} ms late",
                step.event, step.node
            ));
        }
    }
    needs
}

fn parcel<S: Service>(event: &EventOf<S>) -> String {
    match event {
        Event::Deliver { from, message } | Event::Receive { from, message, .. } => {
            format!("{from}'s {}", kind_of(message))
        }
        Event::Hangup { from, .. } | Event::Disconnect { from, .. } => {
            format!("the news that {from}'s connection is gone")
        }
        Event::Refuse { from, .. } => format!("what {from} sent on a stale connection"),
        other => other.to_string(),
    }
}
