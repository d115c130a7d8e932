//! A search with time taken into account at every step: another way to a violation whose first path does not fit.
//!
//! Two states are one here if they are one to a search, and their moments allow the same future. Where a path is known
//! that leads to the violation but for the times, its steps are tried first, and between them the timers whose time has
//! come. All else is tried after that: what ends without finding anything has shown that there is no way, as long as
//! nothing had to be left out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use scry_protocol::NodeId;

use crate::model::event::{Event, EventOf, Step};
use crate::model::simulation::{Effectiveness, Simulation, Taken};
use crate::service::Service;
use crate::stamp::{Origin, origins_in};
use crate::timing::Clock;
use crate::timing::layout::{self, Layout};
use crate::timing::moments::Moments;
use crate::timing::path::trace;
use crate::timing::solve::{self, Need};

/// What a step costs that the known path has not: the timer that is due next, or anything else. A step of the path that
/// is still to come costs more than the first and less than a few of the second.
const COST_DUE: u32 = 1;
const COST_OTHER: u32 = 3;
const COST_AHEAD: u32 = 4;

/// What became of a finding when its path was laid out in time.
#[derive(Clone, Debug)]
pub enum Settled<S: Service> {
    /// There are times for a path to it.
    Fits(Vec<Step<S>>, Layout),
    /// There is no path to it that fits in time, but there would be with more lateness, skew or drift.
    Impossible(Option<Need>),
    /// No path that fits in time was found, and not all were tried.
    Undecided(Option<Need>),
}

/// Lays a path to a violation out in time, and looks for another one if that cannot be. Tells beside that how many states
/// were looked at.
pub fn settle<S: Service>(
    start: &Simulation<S>,
    path: &[Step<S>],
    violates: &dyn Fn(&Simulation<S>) -> bool,
    clock: &Clock,
) -> (Settled<S>, u32) {
    let moments = start.moments().cloned().map(|mut moments| {
        moments.begin_search(clock);
        moments
    });
    let Some(constraints) = trace(start, moments.as_ref(), path) else {
        return (Settled::Fits(path.to_vec(), unfollowed(start, path)), 0);
    };
    if constraints.looked {
        return (Settled::Fits(path.to_vec(), unfollowed(start, path)), 0);
    }
    if let Some(times) = solve::times(&constraints, clock) {
        let all = vec![true; path.len()];
        let layout = layout::spell(&constraints, &times, path, &all, clock);
        return (Settled::Fits(path.to_vec(), layout), 0);
    }
    let need = solve::need(&constraints, clock);
    let moments = moments.unwrap_or_else(Moments::new);
    let mut finder = Finder {
        start,
        moments: &moments,
        violates,
        clock,
        guide: guide_of(path),
        entries: Vec::new(),
        waiting: BinaryHeap::new(),
        seen: HashSet::new(),
        longest: moments.longest(),
        exact: true,
    };
    let settled = match finder.run(path) {
        Some((path, layout)) => Settled::Fits(path, layout),
        None if finder.exact && finder.waiting.is_empty() => Settled::Impossible(need),
        None => Settled::Undecided(need),
    };
    (settled, finder.entries.len() as u32)
}

/// A path that is reported although it could not be laid out in time.
fn unfollowed<S: Service>(start: &Simulation<S>, path: &[Step<S>]) -> Layout {
    let reason = "time not checked: a handler compares stamps by other means than `expired`";
    Layout {
        unchecked: Some(reason.to_owned()),
        ..layout::without_times(start, path)
    }
}

type Guide<S> = BTreeMap<NodeId, Vec<Step<S>>>;

fn guide_of<S: Service>(path: &[Step<S>]) -> Guide<S> {
    let mut guide: Guide<S> = BTreeMap::new();
    for step in path {
        guide.entry(step.node).or_default().push(step.clone());
    }
    guide
}

/// A datagram with stamps in it: to whom, from whom, and what it says.
type Stamped<S> = (NodeId, NodeId, <S as Service>::Message);

/// A state that was reached, and how.
struct Entry<S: Service> {
    /// Given up once it is expanded.
    here: Option<Here<S>>,
    parent: usize,
    step: Option<Step<S>>,
    /// Whether the step is the next one of the known path at its node.
    guided: bool,
    idle: bool,
    /// What the steps cost that the known path has not.
    extra: u32,
    /// How many steps of the known path are still to come.
    ahead: u32,
}

#[derive(Clone)]
struct Here<S: Service> {
    system: Simulation<S>,
    moments: Moments<S::Timer>,
    stamped: Vec<Stamped<S>>,
    /// How many steps of the known path were taken at each node.
    done: BTreeMap<NodeId, usize>,
}

struct Finder<'a, S: Service> {
    start: &'a Simulation<S>,
    moments: &'a Moments<S::Timer>,
    violates: &'a dyn Fn(&Simulation<S>) -> bool,
    clock: &'a Clock,
    guide: Guide<S>,
    entries: Vec<Entry<S>>,
    /// By cost, and then by age.
    waiting: BinaryHeap<Reverse<(u32, usize)>>,
    seen: HashSet<u128>,
    longest: i64,
    /// Whether nothing had to be left out so far.
    exact: bool,
}

impl<S: Service> Finder<'_, S> {
    fn run(&mut self, path: &[Step<S>]) -> Option<(Vec<Step<S>>, Layout)> {
        let stamped = self.start.nodes().iter().flat_map(|(&to, node)| {
            let datagrams = node.inbox.datagrams();
            datagrams
                .filter(|(_, message, _)| !origins_in(message).is_empty())
                .flat_map(move |(from, message, count)| {
                    (0..count).map(move |_| (to, from, message.clone()))
                })
        });
        let here = Here {
            system: self.start.clone().with_moments(None),
            moments: self.moments.clone(),
            stamped: stamped.collect(),
            done: BTreeMap::new(),
        };
        self.entries.push(Entry {
            here: Some(here),
            parent: 0,
            step: None,
            guided: false,
            idle: false,
            extra: 0,
            ahead: path.len() as u32,
        });
        self.waiting.push(Reverse((0, 0)));
        while let Some(&Reverse((_, at))) = self.waiting.peek() {
            if self.entries.len() >= self.clock.tries as usize {
                return None;
            }
            self.waiting.pop();
            let here = self.entries[at].here.take().expect("it waits once");
            for found in self.expand(at, &here) {
                if let Some(found) = self.confirm(found, path) {
                    return Some(found);
                }
                // The bounds on moments were too wide here.
                self.exact = false;
            }
        }
        None
    }

    /// Adds what can happen next, and returns the violations among it.
    fn expand(&mut self, at: usize, here: &Here<S>) -> Vec<usize> {
        let mut found = Vec::new();
        let due = self.most_urgent(here);
        let ids: Vec<NodeId> = here.system.nodes().keys().copied().collect();
        for id in ids {
            for event in here.events(id) {
                let origin = here.moments.next_origin();
                for tosses in here.system.ways(id, &event, origin) {
                    let step = Step {
                        node: id,
                        event: event.clone(),
                        tosses,
                    };
                    let is_due = due.as_ref().is_some_and(|(node, timer)| {
                        *node == id && matches!(&step.event, Event::Timer(fired) if fired == timer)
                    });
                    let cost = if is_due { COST_DUE } else { COST_OTHER };
                    found.extend(self.reach(at, here, step, cost));
                }
            }
        }
        found
    }

    fn most_urgent(&self, here: &Here<S>) -> Option<(NodeId, S::Timer)> {
        let system = &here.system;
        let urgent = here
            .moments
            .most_urgent(self.clock, |node, timer| may_wait(system, node, timer));
        urgent.cloned()
    }

    /// Takes a step, and returns the state it leads to if that is new and violates what must hold.
    fn reach(&mut self, at: usize, here: &Here<S>, step: Step<S>, cost: u32) -> Option<usize> {
        let taken = here.system.take(&step, here.moments.next_origin()).ok()?;
        if taken.timed.as_ref().is_some_and(|timed| timed.looked) {
            self.exact = false;
        }
        let idle = taken.effect == Effectiveness::Unchanged;
        if idle && !moves(&here.system, &step, &taken) {
            return None;
        }
        let mut moments = here.moments.clone();
        if let Some(happened) = taken.happened(&step) {
            let system = &here.system;
            moments.happen(self.clock, &happened, |node, timer| {
                may_wait(system, node, timer)
            });
        }
        if !moments.is_possible() {
            return None;
        }
        self.longest = self.longest.max(moments.longest());
        let mut done = here.done.clone();
        let reached = done.entry(step.node).or_default();
        let next = self
            .guide
            .get(&step.node)
            .and_then(|steps| steps.get(*reached));
        let guided = !idle && next == Some(&step);
        *reached += usize::from(guided);
        let mut next = Here {
            system: here.system.clone(),
            moments,
            stamped: here.stamped.clone(),
            done,
        };
        next.note_datagrams(&step, &taken);
        next.system.put(step.node, taken);
        let held = next.held();
        next.moments.forget_stamps(&held);
        next.moments.forget_ages(self.clock, self.longest);
        if !self.seen.insert(next.signature(&held)) {
            return None;
        }
        let parent = &self.entries[at];
        let entry = Entry {
            parent: at,
            guided,
            idle,
            extra: parent.extra + if guided { 0 } else { cost },
            ahead: parent.ahead - u32::from(guided),
            step: Some(step),
            here: None,
        };
        let number = self.entries.len();
        let violated = !idle && (self.violates)(&next.system);
        let cost = entry.extra + COST_AHEAD * entry.ahead;
        self.waiting.push(Reverse((cost, number)));
        self.entries.push(Entry {
            here: Some(next),
            ..entry
        });
        violated.then_some(number)
    }

    /// Lays out the way to a state, and replays what is to be reported of it.
    fn confirm(&self, found: usize, path: &[Step<S>]) -> Option<(Vec<Step<S>>, Layout)> {
        let mut way = Vec::new();
        let mut at = found;
        while let Some(step) = &self.entries[at].step {
            let entry = &self.entries[at];
            way.push((step.clone(), entry.guided, entry.idle));
            at = entry.parent;
        }
        way.reverse();
        // A path that is known to lead there is reported as it is; what happens beside it happens meanwhile.
        let whole = self.entries[found].ahead == 0;
        let events: Vec<Step<S>> = way.iter().map(|(step, ..)| step.clone()).collect();
        let is_step: Vec<bool> = way
            .iter()
            .map(|&(_, guided, idle)| if whole { guided } else { !idle })
            .collect();
        let moments = Some(self.moments);
        let layout = layout::lay_out(self.start, moments, &events, &is_step, self.clock)?;
        let steps = events.iter().zip(&is_step).filter(|(_, is_step)| **is_step);
        let steps: Vec<Step<S>> = steps.map(|(step, _)| step.clone()).collect();
        if whole {
            let layout = in_order_of(path, &steps, layout);
            return Some((path.to_vec(), layout));
        }
        let mut state = self.start.clone().with_moments(None);
        for step in &steps {
            if state.step(step) != Ok(Effectiveness::Changed) {
                return None;
            }
        }
        (self.violates)(&state).then_some((steps, layout))
    }
}

/// Puts the times of steps that were taken in another order where the path has them.
fn in_order_of<S: Service>(path: &[Step<S>], taken: &[Step<S>], layout: Layout) -> Layout {
    let mut used = vec![false; taken.len()];
    let mut places = Vec::new();
    for step in path {
        let at = (0..taken.len()).find(|&at| !used[at] && taken[at].node == step.node);
        let at = at.expect("a step of the path was taken at its node");
        used[at] = true;
        places.push(at);
    }
    Layout {
        times_ms: places.iter().map(|&at| layout.times_ms[at]).collect(),
        decided: places
            .iter()
            .map(|&at| layout.decided[at].clone())
            .collect(),
        ..layout
    }
}

/// Tells whether a timer may be as late as it likes: a filter keeps it from firing.
fn may_wait<S: Service>(system: &Simulation<S>, node: NodeId, timer: &S::Timer) -> bool {
    !system.steering().is_empty()
        && system
            .steering()
            .action::<S>(node, &Event::Timer(timer.clone()))
            .is_some()
}

/// Tells whether a step that changes nothing a search can see changes what a clock can.
fn moves<S: Service>(system: &Simulation<S>, step: &Step<S>, taken: &Taken<S>) -> bool {
    let Some(timed) = &taken.timed else {
        return false;
    };
    let before = &system.nodes()[&step.node].local.service;
    !timed.armed.is_empty() || origins_in(before) != origins_in(&taken.node.local.service)
}

impl<S: Service> Here<S> {
    /// Lists what can happen at a node. Datagrams that differ in their stamps alone are told apart.
    fn events(&self, id: NodeId) -> Vec<EventOf<S>> {
        let faults = self.system.faults();
        let mut events = Vec::new();
        for event in self.system.enabled(id) {
            if event.fault().is_some_and(|fault| faults.left(fault) == 0) {
                continue;
            }
            let copies = self.copies(id, &event);
            match copies.is_empty() {
                true => events.push(event),
                false => events.extend(copies),
            }
        }
        events
    }

    fn copies(&self, id: NodeId, event: &EventOf<S>) -> Vec<EventOf<S>> {
        let (Event::Deliver { from, message }
        | Event::Lose { from, message }
        | Event::Duplicate { from, message }) = event
        else {
            return Vec::new();
        };
        let mut met: Vec<Vec<Origin>> = Vec::new();
        let mut copies = Vec::new();
        for (to, sender, stamped) in &self.stamped {
            let origins = origins_in(stamped);
            if (*to, sender) == (id, from) && stamped == message && !met.contains(&origins) {
                met.push(origins);
                let mut copy = event.clone();
                if let Event::Deliver { message, .. }
                | Event::Lose { message, .. }
                | Event::Duplicate { message, .. } = &mut copy
                {
                    *message = stamped.clone();
                }
                copies.push(copy);
            }
        }
        copies
    }

    /// Keeps track of datagrams with stamps in them.
    fn note_datagrams(&mut self, step: &Step<S>, taken: &Taken<S>) {
        if let Event::Deliver { from, message } | Event::Lose { from, message } = &step.event {
            let origins = origins_in(message);
            let same = |(to, sender, stamped): &Stamped<S>| {
                (*to, sender) == (step.node, from)
                    && stamped == message
                    && origins_in(stamped) == origins
            };
            if let Some(at) = self.stamped.iter().position(same) {
                self.stamped.remove(at);
            }
        }
        if let Event::Duplicate { from, message } = &step.event
            && !origins_in(message).is_empty()
        {
            self.stamped.push((step.node, *from, message.clone()));
        }
        for (to, parcel) in &taken.parcels {
            if let crate::model::network::Parcel::Datagram(message) = parcel
                && self.system.nodes().contains_key(to)
                && !origins_in(message).is_empty()
            {
                self.stamped.push((*to, step.node, message.clone()));
            }
        }
        self.stamped.sort();
    }

    /// Lists the origins of the stamps that the system holds, in the order in which it holds them.
    fn held(&self) -> Vec<Origin> {
        let mut held = Vec::new();
        if self.moments.stamps().is_empty() {
            return held;
        }
        held.extend(self.system.origins());
        for (_, _, message) in &self.stamped {
            held.extend(origins_in(message));
        }
        held
    }

    fn signature(&self, held: &[Origin]) -> u128 {
        let (signed, zone) = self.moments.signature(held);
        let half = |seed: u64| {
            let mut hasher = DefaultHasher::new();
            (seed, &self.system, &signed, &zone).hash(&mut hasher);
            hasher.finish()
        };
        u128::from(half(1)) << 64 | u128::from(half(2))
    }
}
