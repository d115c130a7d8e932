//! Paths to and from neighbors: what another node could prevent is told there, and what a neighbor tells is believed only
//! once it was replayed on a snapshot of this node by its own checker.

use scry_protocol::RunId;
use scry_protocol::filter::Filter;
use scry_protocol::link::checker::PastPath;
use scry_protocol::link::peer::{PathAnswer, PathOutcome, SharePath};
use scry_protocol::record::Shown;

use super::*;

/// In how many runs a shared path may be left unanswered by a checker that crashes.
const TRIES_MAX: u32 = 2;
/// How many paths are remembered as shared.
const TOLD_MAX: usize = 1024;
/// How long a neighbor may take to answer before this node does what it can itself: a snapshot and a search.
const ANSWER_MS_MAX: u64 = 10_000;

/// What waits from neighbors, and what they were told.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    waiting: BTreeMap<ViolationId, Shared>,
    told: BTreeMap<(NodeId, ViolationId), Told>,
    /// Before when no further snapshot is asked for because of a neighbor.
    gather_after: Time,
}

/// A path that a neighbor was told.
#[derive(Debug)]
struct Told {
    /// Until when it is not told again.
    until: Time,
    /// Until when it may be answered.
    answer_by: Time,
    answer: Option<PathOutcome>,
    /// What is to be said of it if the neighbor does not prevent it, as nothing here does either.
    unhelpful: Option<Unhelpful>,
}

/// A path that a neighbor could do something about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shareable<'a> {
    pub(super) run: RunId,
    pub(super) violation: ViolationId,
    pub(super) property: &'a str,
    pub(super) path: &'a [u8],
    /// Why this node can do nothing about it, if so.
    pub(super) unhelpful: Option<&'a str>,
}

impl Told {
    /// Tells whether the neighbor prevents it, or may still do so.
    fn is_prevented(&self, now: Time) -> bool {
        match self.answer {
            Some(answer) => !declines(answer),
            None => now < self.answer_by,
        }
    }
}

fn declines(outcome: PathOutcome) -> bool {
    matches!(outcome, PathOutcome::NoRemedy | PathOutcome::NotConsidered)
}

/// A prediction without a filter of this node.
#[derive(Debug)]
struct Unhelpful {
    run: RunId,
    property: String,
    why: String,
}

#[derive(Debug)]
struct Shared {
    property: String,
    path: Vec<u8>,
    from: BTreeSet<NodeId>,
    tries: u32,
}

impl Sharing {
    pub(super) fn waiting_paths(&self) -> Vec<PastPath> {
        let waiting = self.waiting.iter();
        waiting
            .map(|(&violation, shared)| PastPath {
                violation,
                path: shared.path.clone(),
            })
            .collect()
    }

    pub(super) fn path(&self, violation: ViolationId) -> Option<(String, String, Vec<u8>)> {
        let shared = self.waiting.get(&violation)?;
        let by = shared
            .from
            .first()
            .map(NodeId::to_string)
            .unwrap_or_default();
        Some((
            shared.property.clone(),
            format!("predicted by {by}"),
            shared.path.clone(),
        ))
    }

    pub(super) fn first_of(&self, violation: ViolationId) -> Option<NodeId> {
        self.waiting.get(&violation)?.from.first().copied()
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    fn waiting_of(&self, node: NodeId) -> usize {
        let of_node = |shared: &&Shared| shared.from.contains(&node);
        self.waiting.values().filter(of_node).count()
    }
}

impl Controller {
    /// Takes in what a neighbor's agent says about paths. The rest concerns the checkpoint manager.
    pub fn handle_peer(&mut self, now: Time, from: NodeId, message: PeerMessage) {
        match message {
            PeerMessage::SharePath(shared) => self.handle_shared(now, from, shared),
            PeerMessage::PathAnswer(answer) => self.handle_answer(from, answer),
            _ => {}
        }
    }

    /// Shares a path with the neighbor that could prevent its violation, and tells whether that neighbor may still do
    /// something about it.
    pub(super) fn share(&mut self, now: Time, to: NodeId, shareable: Shareable<'_>) -> bool {
        let Shareable {
            run,
            violation,
            property,
            path,
            unhelpful,
        } = shareable;
        let Some(host) = &self.host else {
            return false;
        };
        // A path that is shared may be steered by there: it takes the mode in which this node would do so itself.
        if !self.options.share_paths || self.mode_of(property) != Mode::Steer {
            return false;
        }
        let key = (to, violation);
        let (service, version) = (host.service.clone(), host.version.clone());
        self.expire_told(now);
        if let Some(told) = self.shared.told.get(&key) {
            return told.is_prevented(now);
        }
        if self.shared.told.len() >= TOLD_MAX {
            return false;
        }
        let unhelpful = unhelpful.map(|why| Unhelpful {
            run,
            property: property.to_owned(),
            why: why.to_owned(),
        });
        let told = Told {
            until: now.after_millis(self.options.share_pause_ms),
            answer_by: now.after_millis(ANSWER_MS_MAX),
            answer: None,
            unhelpful,
        };
        self.shared.told.insert(key, told);
        self.counts.paths_shared += 1;
        let message = SharePath {
            by: self.me,
            violation,
            service,
            version,
            property: property.to_owned(),
            path: path.to_vec(),
        };
        self.outputs.push_back(Output::Peer {
            to,
            message: message.into(),
        });
        let what = What::PathShared {
            property: property.to_owned(),
            to: Shown(to),
        };
        self.log(Entry::new(what).of_run(run).of_violation(violation));
        true
    }

    fn handle_shared(&mut self, now: Time, from: NodeId, message: SharePath) {
        self.counts.paths_received += 1;
        let objection = self.objection_to(from, &message);
        let what = What::PathReceived {
            property: message.property.clone(),
            from: Shown(from),
            accepted: objection.is_none(),
            why: objection.map(str::to_owned),
        };
        self.log(Entry::new(what).of_violation(message.violation));
        if objection.is_some() {
            self.send_answer(from, message.violation, PathOutcome::NotConsidered);
            return;
        }
        let (property, path) = match self.paths.path(message.violation) {
            // By this name it knows a path of its own, and a neighbor cannot replace that.
            Some(own) => (own.property.clone(), own.path.clone()),
            None => (message.property, message.path),
        };
        let first = Shared {
            property,
            path,
            from: BTreeSet::new(),
            tries: 0,
        };
        let shared = self
            .shared
            .waiting
            .entry(message.violation)
            .or_insert(first);
        shared.from.insert(from);
        if now >= self.shared.gather_after {
            self.shared.gather_after = now.after_millis(self.options.share_pause_ms);
            self.outputs.push_back(Output::Gather);
        }
    }

    fn objection_to(&self, from: NodeId, message: &SharePath) -> Option<&'static str> {
        let Some(host) = &self.host else {
            return Some("there is no host to protect");
        };
        let known = self.shared.waiting.get(&message.violation);
        let own = self.paths.path(message.violation).is_some();
        if !self.options.share_paths || !self.options.checks {
            Some("this node does not look at shared paths")
        } else if message.by != from {
            Some("it names another node as its finder")
        } else if message.service != host.service || message.version != host.version {
            Some("it is of another version of the service")
        } else if self.mode_of(&message.property) == Mode::Off {
            Some("its property is switched off")
        } else if known.is_some_and(|known| !own && known.path != message.path) {
            Some("another path by this name waits")
        } else if known.is_none()
            && (self.shared.waiting.len() >= self.options.shared_waiting_max
                || self.shared.waiting_of(from) >= self.options.shared_waiting_max.div_ceil(4))
        {
            Some("too many wait")
        } else {
            None
        }
    }

    fn handle_answer(&mut self, from: NodeId, answer: PathAnswer) {
        // An answer to what was never told, or was told long ago, means nothing.
        let Some(told) = self.shared.told.get_mut(&(from, answer.violation)) else {
            return;
        };
        told.answer = Some(answer.outcome);
        // One answer is enough: a second one is not counted again.
        let unhelpful = told.unhelpful.take();
        let unhelpful = unhelpful.filter(|_| declines(answer.outcome));
        self.counts.paths_prevented += u64::from(answer.outcome == PathOutcome::Prevented);
        let what = What::PathAnswer {
            outcome: Word(answer.outcome),
            by: Some(Shown(from)),
            answered: None,
        };
        self.log(Entry::new(what).of_violation(answer.violation));
        if let Some(unhelpful) = unhelpful {
            let why = format!("{from} answers {}", Word(answer.outcome));
            self.note_unhelpful(answer.violation, &unhelpful, &why);
        }
    }

    /// Forgets what neighbors were told long ago. One that never answered prevented nothing.
    pub(super) fn expire_told(&mut self, now: Time) {
        let over = self.shared.told.extract_if(.., |_, told| told.until <= now);
        let over: Vec<_> = over.collect();
        for ((to, violation), told) in over {
            if let Some(unhelpful) = told.unhelpful {
                self.note_unhelpful(violation, &unhelpful, &format!("{to} does not answer"));
            }
        }
    }

    /// The search has tried every event of this node on the path, also those after the neighbor's; so there is nothing
    /// left to try once the neighbor declines.
    fn note_unhelpful(&mut self, violation: ViolationId, unhelpful: &Unhelpful, neighbor: &str) {
        self.counts.unhelpful += 1;
        let own = match unhelpful.why.as_str() {
            "" => "nothing safe was found",
            why => why,
        };
        let what = What::FilterRejected {
            property: unhelpful.property.clone(),
            why: format!("{neighbor}; here: {own}"),
        };
        self.log(
            Entry::new(what)
                .of_run(unhelpful.run)
                .of_violation(violation),
        );
    }

    /// Answers all who shared a path that was replayed now.
    pub(super) fn answer(
        &mut self,
        violation: ViolationId,
        confirmed: bool,
        remedies: &[Filter],
        installed: Option<Mode>,
    ) {
        let outcome = match installed {
            Some(Mode::Steer) => PathOutcome::Prevented,
            // A filter that only watches prevents nothing, nor does one that was not installed.
            _ if confirmed && !remedies.is_empty() => PathOutcome::NotConsidered,
            _ if confirmed => PathOutcome::NoRemedy,
            _ => PathOutcome::NotConfirmed,
        };
        if let Some(shared) = self.shared.waiting.remove(&violation) {
            for to in shared.from {
                self.send_answer(to, violation, outcome);
            }
        }
    }

    /// The run is over and these were not replayed in it. They may wait for one more.
    pub(super) fn give_up_shared(&mut self, unanswered: &BTreeSet<ViolationId>) {
        for violation in unanswered {
            let Some(shared) = self.shared.waiting.get_mut(violation) else {
                continue;
            };
            shared.tries += 1;
            if shared.tries >= TRIES_MAX {
                let from = std::mem::take(&mut shared.from);
                self.shared.waiting.remove(violation);
                for to in from {
                    self.send_answer(to, *violation, PathOutcome::NotConsidered);
                }
            }
        }
    }

    fn send_answer(&mut self, to: NodeId, violation: ViolationId, outcome: PathOutcome) {
        let answer = PathAnswer { violation, outcome };
        self.outputs.push_back(Output::Peer {
            to,
            message: answer.into(),
        });
        let what = What::PathAnswer {
            outcome: Word(outcome),
            by: None,
            answered: Some(Shown(to)),
        };
        self.log(Entry::new(what).of_violation(violation));
    }
}
