//! A system's moments that still matter: when its timers were armed, and when the stamps it holds were read.
//!
//! Events happen one after the other here, each no earlier than the one before. For a whole system nothing is lost by
//! that: what happens at different nodes can be told in the order of time.

use std::collections::BTreeMap;

use scry_protocol::NodeId;

use crate::model::handler::{Asked, Timed};
use crate::stamp::Origin;
use crate::timing::zone::Zone;
use crate::timing::{Clock, MS_MAX, over, whole};

/// A stamp that is a constant of the program, such as "never", lies before any time at which a service runs, unless it
/// is greater than this: the year 2001.
pub(crate) const LITERAL_MS_MAX: u64 = 1_000_000_000_000;

/// The moment at which the last event happened.
const NOW: usize = 0;

/// What happens at a node, as far as time is concerned.
#[derive(Debug)]
pub(crate) struct Happened<'a, T> {
    pub(crate) node: NodeId,
    /// The timer that fires.
    pub(crate) fired: Option<&'a T>,
    /// Whether all timers of the node are lost.
    pub(crate) reset: bool,
    /// What the handler did.
    pub(crate) timed: Option<&'a Timed<T>>,
    /// The timers that are armed afterwards.
    pub(crate) left: &'a [T],
}

/// When a timer was armed, and for how long by its node's clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Armed {
    pub(crate) at: usize,
    /// It fires no sooner than this.
    pub(crate) least: i64,
    /// It is late from then on.
    pub(crate) most: i64,
}

/// When a stamp was read, and by whose clock if that is known.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Mark {
    pub(crate) at: usize,
    pub(crate) node: Option<NodeId>,
}

/// What an answer about the time that has passed says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    /// Nothing: it could not be otherwise, or nothing is known of the stamp.
    Nothing,
    /// It cannot be.
    Never,
    /// So much has passed, at least.
    AtLeast(Mark, i64),
    /// So much has passed, at most.
    AtMost(Mark, i64),
}

/// What is known of the moments that matter.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moments<T> {
    zone: Zone,
    /// When the state of a node was taken or something last happened there, until something happens on the path.
    floors: BTreeMap<NodeId, usize>,
    armed: BTreeMap<(NodeId, T), Armed>,
    stamps: BTreeMap<Origin, Mark>,
    /// How many events there were, which is how many readings of clocks there may be.
    events: u32,
    /// The longest time that was ever counted, lateness aside.
    longest: i64,
}

impl<T: Clone + Ord> Default for Moments<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone + Ord> Moments<T> {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self {
            zone: Zone::new(1),
            floors: BTreeMap::new(),
            armed: BTreeMap::new(),
            stamps: BTreeMap::new(),
            events: 0,
            longest: 0,
        }
    }

    /// Returns the origin of stamps that are read at the next event.
    pub(crate) fn next_origin(&self) -> Origin {
        Origin::on_path(self.events)
    }

    /// Tells whether there are such moments.
    pub fn is_possible(&self) -> bool {
        !self.zone.is_empty()
    }

    pub(crate) fn zone(&self) -> &Zone {
        &self.zone
    }

    pub(crate) fn floors(&self) -> &BTreeMap<NodeId, usize> {
        &self.floors
    }

    pub(crate) fn armed(&self) -> &BTreeMap<(NodeId, T), Armed> {
        &self.armed
    }

    pub(crate) fn stamps(&self) -> &BTreeMap<Origin, Mark> {
        &self.stamps
    }

    pub(crate) fn events(&self) -> u32 {
        self.events
    }

    /// Adds a node to which something last happened at a time of its own, with how much later its timers are due.
    pub fn restore(&mut self, node: NodeId, due: impl IntoIterator<Item = (T, u64)>) {
        let taken = self.zone.add();
        self.floors.insert(node, taken);
        for (timer, due) in due {
            let due = due.min(MS_MAX) as i64;
            let armed = Armed {
                at: taken,
                least: due,
                most: due,
            };
            self.longest = self.longest.max(due);
            self.armed.insert((node, timer), armed);
        }
    }

    /// Adds a stamp that is older by so much than what last happened to a node, by the node's clock if it is its own.
    pub fn restore_stamp(
        &mut self,
        origin: Origin,
        node: NodeId,
        is_own: bool,
        older_ms: i64,
        apart: i64,
    ) {
        let Some(&floor) = self.floors.get(&node) else {
            return;
        };
        if self.stamps.contains_key(&origin) {
            return;
        }
        let read = self.zone.add();
        let apart = if is_own { 0 } else { apart };
        self.zone.limit(floor, read, older_ms + apart);
        self.zone.require(floor, read, older_ms - apart);
        let mark = Mark {
            at: read,
            node: is_own.then_some(node),
        };
        self.stamps.insert(origin, mark);
    }

    /// Says how much later one node's state was taken than another's, by clocks that may be `apart` from each other.
    pub fn relate(&mut self, node: NodeId, other: NodeId, later_ms: i64, apart: i64) {
        if let (Some(&a), Some(&b)) = (self.floors.get(&node), self.floors.get(&other)) {
            self.zone.limit(a, b, later_ms + apart);
            self.zone.require(a, b, later_ms - apart);
        }
    }

    /// Begins: no state was taken before now.
    pub fn begin(&mut self) {
        let floors: Vec<usize> = self.floors.values().copied().collect();
        for floor in floors {
            self.zone.require(floor, NOW, 0);
        }
    }

    /// Says how old the states of nodes were when all had been gathered, in milliseconds; each may be older by `way`, for which
    /// the answer that carried it was under way. Nothing happened to a node between its last event and the taking of its
    /// state, so what happens to it on a path is after the taking: states of one age mean that it is after the last events of
    /// all nodes.
    pub fn gathered(&mut self, ages: impl IntoIterator<Item = (NodeId, u64)>, way: u64) {
        let way = way.min(MS_MAX) as i64;
        let gathered = self.zone.add();
        let mut taken = Vec::new();
        for (node, age) in ages {
            let age = age.min(MS_MAX) as i64;
            if let Some(&floor) = self.floors.get(&node) {
                self.zone.require(gathered, floor, age);
                taken.push((node, floor, age));
            }
        }
        for (node, floor, age) in taken {
            let at = self.zone.add();
            self.zone.require(at, floor, 0);
            self.zone.require(at, gathered, -(age + way));
            self.floors.insert(node, at);
        }
    }

    /// Says that a node was started some time before now: nobody knows in which order nodes were.
    pub(crate) fn started_before(&mut self, node: NodeId, timed: &Timed<T>) {
        let then = self.zone.add();
        self.zone.require(NOW, then, 0);
        self.handled(&Clock::default(), node, then, timed);
        self.events += 1;
        self.renumber(NOW);
    }

    /// Lets something happen now or later, with timers that may be as late as they like.
    pub(crate) fn happen_freely(&mut self, happened: &Happened<'_, T>) {
        let even = Clock::default();
        self.happen(&even, happened, |_, _| true);
    }

    /// Lets something happen now or later. Timers that `may_wait` may be as late as they like.
    pub(crate) fn happen(
        &mut self,
        clock: &Clock,
        happened: &Happened<'_, T>,
        may_wait: impl Fn(NodeId, &T) -> bool,
    ) {
        let node = happened.node;
        let now = self.zone.add();
        self.zone.require(now, NOW, 0);
        if let Some(floor) = self.floors.remove(&node) {
            self.zone.require(now, floor, 0);
        }
        for ((owner, timer), armed) in &self.armed {
            if !may_wait(*owner, timer) {
                let most = clock.most(armed.most) + clock.late();
                self.zone.limit(now, armed.at, most);
            }
        }
        if let Some(timer) = happened.fired
            && let Some(armed) = self.armed.get(&(node, timer.clone()))
        {
            self.zone.require(now, armed.at, clock.least(armed.least));
        }
        if happened.reset {
            self.armed.retain(|(owner, _), _| *owner != node);
        }
        if let Some(timed) = happened.timed {
            self.handled(clock, node, now, timed);
        }
        let left = happened.left;
        self.armed
            .retain(|(owner, timer), _| *owner != node || left.contains(timer));
        self.events += 1;
        self.renumber(now);
    }

    /// Notes what a handler read, asked and armed.
    fn handled(&mut self, clock: &Clock, node: NodeId, now: usize, timed: &Timed<T>) {
        if timed.read {
            let mark = Mark {
                at: now,
                node: Some(node),
            };
            self.stamps.insert(self.next_origin(), mark);
        }
        for asked in &timed.asked {
            self.answer(clock, node, now, asked);
        }
        for (timer, after) in &timed.armed {
            let key = (node, timer.clone());
            let Some(after) = *after else {
                self.armed.remove(&key);
                continue;
            };
            let armed = Armed {
                at: now,
                least: whole(after),
                most: over(after),
            };
            self.longest = self.longest.max(clock.most(armed.most));
            self.armed.insert(key, armed);
        }
    }

    fn answer(&mut self, clock: &Clock, node: NodeId, now: usize, asked: &Asked) {
        self.longest = self
            .longest
            .max(clock.most(whole(asked.after)) + clock.apart());
        match meaning(asked, |origin| self.stamps.get(&origin).copied()) {
            Answer::Nothing => {}
            Answer::Never => self.zone.limit(now, now, -1),
            Answer::AtLeast(mark, ms) => {
                let apart = mark.apart(clock, node);
                self.zone.require(now, mark.at, clock.least(ms) - apart);
            }
            Answer::AtMost(mark, ms) => {
                let apart = mark.apart(clock, node);
                self.zone.limit(now, mark.at, clock.most(ms) + apart);
            }
        }
    }

    /// Makes a moment the present one, and drops those that nothing refers to.
    fn renumber(&mut self, now: usize) {
        let mut kept = vec![now];
        let mut place = |at: &mut usize| match kept.iter().position(|known| known == at) {
            Some(known) => *at = known,
            None => {
                kept.push(*at);
                *at = kept.len() - 1;
            }
        };
        self.floors.values_mut().for_each(&mut place);
        self.armed
            .values_mut()
            .for_each(|armed| place(&mut armed.at));
        self.stamps
            .values_mut()
            .for_each(|mark| place(&mut mark.at));
        self.zone = self.zone.keep(&kept);
    }

    /// Forgets stamps that the system does not hold any more. Which it holds is said in an order of its own.
    pub(crate) fn forget_stamps(&mut self, held: &[Origin]) {
        self.stamps.retain(|origin, _| held.contains(origin));
        self.renumber(NOW);
    }

    /// Lets a search begin here. A timer that is overdue already has waited as long as it may from now on: whatever led
    /// here has happened.
    pub(crate) fn begin_search(&mut self, clock: &Clock) {
        let keys: Vec<(NodeId, T)> = self.armed.keys().cloned().collect();
        for key in keys {
            let armed = self.armed[&key];
            let mut punctual = self.zone.clone();
            punctual.limit(NOW, armed.at, clock.most(armed.most) + clock.late());
            if punctual.is_empty() {
                let overdue = Armed {
                    at: NOW,
                    least: 0,
                    most: 0,
                };
                self.armed.insert(key, overdue);
            } else {
                self.zone = punctual;
            }
        }
        self.renumber(NOW);
    }

    /// Forgets how long ago what is too long ago to matter was: longer than anything is counted.
    pub(crate) fn forget_ages(&mut self, clock: &Clock, longest: i64) {
        self.zone
            .forget_beyond(longest.max(self.longest) + clock.late());
    }

    pub(crate) fn longest(&self) -> i64 {
        self.longest
    }

    /// Returns the armed timer that must fire first, of those that may not wait: whose last moment is the nearest.
    pub(crate) fn most_urgent(
        &self,
        clock: &Clock,
        may_wait: impl Fn(NodeId, &T) -> bool,
    ) -> Option<&(NodeId, T)> {
        let slack = |armed: &Armed| {
            let passed = -self.zone.bound(armed.at, NOW);
            clock.most(armed.most) - passed
        };
        let armed = self
            .armed
            .iter()
            .filter(|((node, timer), _)| !may_wait(*node, timer));
        armed
            .min_by_key(|(_, armed)| slack(armed))
            .map(|(key, _)| key)
    }

    /// Spells out all that distinguishes these moments from others, given the stamps the system holds in the order in
    /// which it holds them.
    pub(crate) fn signature(&self, held: &[Origin]) -> (Vec<Signed<'_, T>>, Zone) {
        let mut order = vec![NOW];
        let mut signed = Vec::new();
        for (&node, &at) in &self.floors {
            signed.push(Signed::Floor(node));
            order.push(at);
        }
        for ((node, timer), armed) in &self.armed {
            signed.push(Signed::Armed(*node, timer, armed.least, armed.most));
            order.push(armed.at);
        }
        let mut met: Vec<Origin> = Vec::new();
        for origin in held {
            let number = met.iter().position(|known| known == origin);
            signed.push(Signed::Stamp(number));
            if number.is_none()
                && let Some(mark) = self.stamps.get(origin)
            {
                signed.push(Signed::Read(mark.node));
                order.push(mark.at);
                met.push(*origin);
            }
        }
        (signed, self.zone.keep(&order))
    }
}

/// A part of what distinguishes moments.
#[derive(Debug, Eq, Hash, PartialEq)]
pub(crate) enum Signed<'a, T> {
    Floor(NodeId),
    Armed(NodeId, &'a T, i64, i64),
    /// A stamp that was met before, by its number, or one that was not.
    Stamp(Option<usize>),
    Read(Option<NodeId>),
}

impl Mark {
    /// How far the clock that read the stamp may be from the one of `node`.
    pub(crate) fn apart(&self, clock: &Clock, node: NodeId) -> i64 {
        match self.node == Some(node) {
            true => 0,
            false => clock.apart(),
        }
    }
}

/// Tells what an answer says, given what is known of stamps.
pub(crate) fn meaning(asked: &Asked, mark: impl Fn(Origin) -> Option<Mark>) -> Answer {
    let after = whole(asked.after);
    if after == 0 {
        return match asked.answer {
            true => Answer::Nothing,
            false => Answer::Never,
        };
    }
    let origin = asked.since.origin();
    if origin == Origin::LITERAL {
        let over = asked.since.as_millis().saturating_add(after as u64) <= LITERAL_MS_MAX;
        return match over && !asked.answer {
            true => Answer::Never,
            false => Answer::Nothing,
        };
    }
    match (mark(origin), asked.answer) {
        (None, _) => Answer::Nothing,
        (Some(mark), true) => Answer::AtLeast(mark, after),
        (Some(mark), false) => Answer::AtMost(mark, after - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: NodeId = NodeId::new(1);
    const BUSY: NodeId = NodeId::new(2);

    /// How long after the last event of the busy node, at least, the idle one can act that last did something two seconds
    /// before it.
    fn acts_after(idle_age: u64, busy_age: u64, way: u64) -> i64 {
        let mut moments: Moments<u8> = Moments::new();
        moments.restore(IDLE, []);
        moments.restore(BUSY, [(0, 10_000)]);
        moments.relate(BUSY, IDLE, 2_000, 0);
        moments.begin();
        moments.gathered([(IDLE, idle_age), (BUSY, busy_age)], way);
        assert!(moments.is_possible());
        moments.happen_freely(&Happened {
            node: IDLE,
            fired: None,
            reset: false,
            timed: None,
            left: &[],
        });
        let busy = moments.armed()[&(BUSY, 0)].at;
        -moments.zone().bound(busy, NOW)
    }

    #[test]
    fn a_node_that_was_idle_when_its_state_was_taken_acts_after_that() {
        assert_eq!(acts_after(0, 0, 0), 0);
        // An answer that was under way for a while is as much older.
        assert_eq!(acts_after(0, 0, 30), -30);
        assert_eq!(acts_after(500, 0, 30), -530);
        assert_eq!(acts_after(0, 500, 30), 470);
        // It cannot act before it last did.
        assert_eq!(acts_after(10_000, 0, 0), -2_000);
    }
}
