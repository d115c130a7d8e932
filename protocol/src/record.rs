//! What an agent did and why: the records of the steering log, one JSON object a line.
//!
//! Names of kinds and fields are stable: a field is never renamed and never changes its meaning; new ones may come, and
//! readers pass over what they do not know. `docs/steering-log.md` is made from [`KINDS`].
//!
//! A core says *what* ([`Entry`]); whoever writes it adds when and at which node ([`Record`]), so that no core needs a
//! wall clock.

mod field;
mod timestamp;

use serde::{Deserialize, Serialize};

use crate::filter::{Action, Filter, Matcher, Mode};
use crate::id::{FilterId, NodeId, RunId, ViolationId};
use crate::link::host::Outcome;
use crate::link::peer::PathOutcome;
use crate::snapshot::{Missing, Reason};

use field::Field;
pub use field::{Shown, Word};
pub use timestamp::{ParseTimestampError, Timestamp};

/// One line of the steering log.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When it was written.
    pub time: Timestamp,
    /// The node beside which the agent runs.
    pub node: Shown<NodeId>,
    /// What happened.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What happened, and what it belongs to.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The run it happened in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Shown<RunId>>,
    /// The violation it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation: Option<Shown<ViolationId>>,
    /// The filter it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<Shown<FilterId>>,
    /// What happened.
    #[serde(flatten)]
    pub what: What,
}

/// A neighbor without a checkpoint, and why.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Absent {
    /// The node.
    pub node: Shown<NodeId>,
    /// Why.
    pub reason: Word<Reason>,
}

/// What the documentation says about a kind of record.
#[derive(Clone, Copy, Debug)]
pub struct KindInfo {
    /// Its name.
    pub kind: &'static str,
    /// When it is written.
    pub about: &'static [&'static str],
    /// Its own fields, beside those of every record.
    pub fields: &'static [FieldInfo],
}

/// What the documentation says about a field.
#[derive(Clone, Copy, Debug)]
pub struct FieldInfo {
    /// Its name.
    pub name: &'static str,
    /// What values it has.
    pub values: &'static str,
    /// What it means.
    pub about: &'static [&'static str],
}

/// Declares the kinds with their fields, and writes the table of them down for the documentation.
macro_rules! kinds {
    ($(
        $(#[doc = $about:literal])+
        $kind:literal $variant:ident {
            $($(#[doc = $field_about:literal])+ $field:ident: $type:ty,)*
        }
    )*) => {
        /// What happened.
        #[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub enum What {
            $(
                $(#[doc = $about])+
                #[serde(rename = $kind)]
                $variant {
                    $(
                        $(#[doc = $field_about])+
                        #[serde(skip_serializing_if = "Field::is_absent")]
                        $field: $type,
                    )*
                },
            )*
        }

        impl What {
            /// Returns the kind's name, as it stands in the log.
            pub fn kind(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $kind,)* }
            }
        }

        /// Every kind of record.
        pub const KINDS: &[KindInfo] = &[$(
            KindInfo {
                kind: $kind,
                about: &[$($about),+],
                fields: &[$(FieldInfo {
                    name: stringify!($field),
                    values: <$type as Field>::SHOWN,
                    about: &[$($field_about),+],
                },)*],
            },
        )*];
    };
}

kinds! {
    /// The agent started.
    "started" Started {
        /// The agent's version.
        version: String,
        /// How much it may do.
        mode: Word<Mode>,
        /// Names the configuration it runs with.
        configuration: String,
    }
    /// The agent ends in good order.
    "stopped" Stopped {
        /// Why.
        why: String,
    }
    /// The host attached to the agent.
    "host-up" HostUp {
        /// The service's name.
        service: String,
        /// The service's version.
        version: String,
    }
    /// The host is gone; its hook has dropped all filters.
    "host-down" HostDown {
        /// Why, if that is known.
        why: String,
    }
    /// A snapshot is complete, or could not be gathered.
    "snapshot" Snapshot {
        /// The logical time it shows.
        number: Option<u64>,
        /// Whose checkpoints are in it.
        members: Vec<Shown<NodeId>>,
        /// Which neighbors are missing, and why.
        missing: Vec<Absent>,
        /// How many rounds it took.
        rounds: u32,
        /// How long it took, in milliseconds.
        elapsed_ms: u64,
        /// The age of its oldest checkpoint, in milliseconds.
        age_ms: u64,
        /// Whether somebody asked for it, or it was time.
        on_demand: bool,
        /// What becomes of it: `searched`, `waits`, `skipped`, `unchanged` (just what was searched before; at most one such
        /// record a second) or `failed`.
        fate: String,
        /// Why it is not searched.
        why: Option<String>,
    }
    /// A run of the controller ended.
    "run" Run {
        /// How it searched: the name of a strategy.
        strategy: Option<String>,
        /// How it ended: `exhausted`, `covered`, `budget`, `cancelled`, `unreadable`, `crashed`, `hung` or `unsent`.
        ended: String,
        /// States visited.
        states: u64,
        /// The deepest.
        depth: u32,
        /// How long the checker took, in milliseconds.
        elapsed_ms: u64,
        /// The age of the snapshot's oldest checkpoint when the run ended, in milliseconds.
        snapshot_age_ms: u64,
        /// Neighbors whose checkpoints were missing.
        missing: u32,
        /// Past paths that were replayed.
        replayed: u32,
        /// Violations that were predicted, by replay or by search.
        violations: u32,
        /// Filters installed or renewed.
        installed: u32,
        /// Filters of earlier runs withdrawn because nothing proved them again.
        withdrawn: u32,
        /// More, for people.
        detail: Option<String>,
    }
    /// The checker predicts a violation: the report is examined (phase 1 of 4).
    "violation" Violation {
        /// The property that would be broken.
        property: String,
        /// `dead` if it must come true again and again and, as is proved, never would. Absent if a state would break it.
        how: Option<String>,
        /// If `dead`: the critical transition, the event after which it is too late.
        critical: Option<String>,
        /// What would be wrong.
        explanation: String,
        /// How many events lead there. With 0 the snapshot itself shows it: it was not prevented.
        depth: u32,
        /// The strategy that found it.
        strategy: Option<String>,
        /// How much may be done about it.
        mode: Word<Mode>,
        /// The node of the first event that could be steered, if that is another one.
        neighbor: Option<Shown<NodeId>>,
        /// The file of its trace, in the folder `traces` beside the log.
        trace: Option<String>,
    }
    /// A past path was replayed on the new snapshot.
    "replay" Replay {
        /// The property it led to a violation of.
        property: String,
        /// Whether it still does.
        confirmed: bool,
        /// How many filters were proved to prevent it.
        remedies: u32,
        /// The neighbor that shared it, if one did.
        shared_by: Option<Shown<NodeId>>,
    }
    /// A filter was built (phase 2 of 4).
    "filter-proposed" FilterProposed {
        /// The property it protects.
        property: String,
        /// What it would do, to what.
        filters: String,
        /// Its action.
        action: Word<Action>,
    }
    /// The checker searched again with the filter's action and saw no harm (phase 3 of 4).
    "filter-proved" FilterProved {
        /// The property it protects.
        property: String,
        /// Where from: `search` or `replay`.
        by: String,
    }
    /// A filter is not installed, or there is none to install (phase 3 of 4).
    "filter-rejected" FilterRejected {
        /// The property it would have protected.
        property: String,
        /// Why not.
        why: String,
    }
    /// The service is asked what it wants to do about a violation itself; a filter waits for its answer.
    "prediction-told" PredictionTold {
        /// The property that would be broken.
        property: String,
        /// What the filter would do, to what.
        filters: String,
    }
    /// The service has answered; what it does not handle is left to the filter.
    "prediction-answer" PredictionAnswer {
        /// The property that would be broken.
        property: String,
        /// Whether the service took care of it itself.
        handled: bool,
    }
    /// A filter went to the host (phase 4 of 4).
    "filter-installed" FilterInstalled {
        /// The property it protects.
        property: String,
        /// What it does, to what.
        filters: String,
        /// Its action.
        action: Word<Action>,
        /// How much it may do: with `audit` it only reports what it would have done.
        mode: Word<Mode>,
        /// How long it lasts, in milliseconds.
        ttl_ms: u64,
        /// How often it may act.
        hits_max: u64,
        /// Whether it was there before and its lease begins anew.
        renewed: bool,
        /// Whether the service was asked first, and left it to the filter.
        told_service: bool,
    }
    /// A filter matched an event.
    "filter-hit" FilterHit {
        /// The property it protects.
        property: String,
        /// The event.
        event: String,
        /// Whether it acted, or only would have.
        acted: bool,
        /// How often it matched so far.
        hits: u64,
    }
    /// A filter acts no longer.
    "filter-lapsed" FilterLapsed {
        /// The property it protected.
        property: String,
        /// Why: `lapsed`, `hits-used`, `withdrawn`, `disarmed`, `agent-gone`, `killed`, `host-gone`, `not-proved-again`, `danger-passed`, `handled-by-service` or `mode`.
        why: String,
        /// How often it matched.
        hits: u64,
    }
    /// The immediate safety check refused an event.
    "veto" Veto {
        /// The property the event would have broken.
        property: String,
        /// The event.
        event: String,
        /// What would have been wrong afterwards.
        explanation: String,
        /// Whether the event was kept from its handler, or only would have been.
        acted: bool,
        /// How long the check took, in microseconds.
        elapsed_us: u64,
    }
    /// An event was held because it seemed to break a property, until the neighbors had said what their states are.
    "suspicion" Suspicion {
        /// The property it seemed to break.
        property: String,
        /// The event.
        event: String,
        /// What came of it. It ran unless it was refused.
        outcome: Word<Outcome>,
        /// How long it was held, in microseconds.
        held_us: u64,
    }
    /// A path went to the neighbor that could prevent its violation.
    "path-shared" PathShared {
        /// The property that would be broken.
        property: String,
        /// Which neighbor.
        to: Shown<NodeId>,
    }
    /// A neighbor shared a path.
    "path-received" PathReceived {
        /// The property that would be broken, as the neighbor says.
        property: String,
        /// Which neighbor.
        from: Shown<NodeId>,
        /// Whether it will be replayed here.
        accepted: bool,
        /// Why not.
        why: Option<String>,
    }
    /// It is clear what became of a shared path: here if `answered` names who shared it, there if `by` names who answers.
    "path-answer" PathAnswer {
        /// What became of it.
        outcome: Word<PathOutcome>,
        /// The neighbor that answers.
        by: Option<Shown<NodeId>>,
        /// The neighbor that is answered.
        answered: Option<Shown<NodeId>>,
    }
    /// Past paths were given up.
    "paths" Paths {
        /// How many are kept.
        kept: u64,
        /// How many were given up.
        dropped: u64,
        /// Why.
        why: String,
    }
    /// A peer's agent can be reached.
    "peer-up" PeerUp {
        /// Whose.
        peer: Shown<NodeId>,
        /// Where.
        address: String,
    }
    /// A peer's agent cannot be reached any longer.
    "peer-down" PeerDown {
        /// Whose.
        peer: Shown<NodeId>,
        /// Why.
        why: String,
    }
    /// A limit kept something from being done.
    "quota" Quota {
        /// Which limit.
        limit: String,
        /// How often since the agent started.
        count: u64,
        /// The peer it concerns.
        peer: Option<Shown<NodeId>>,
    }
    /// Records of one kind about one subject came so often that only the first were written; these were left out.
    "repeated" Repeated {
        /// Their kind.
        of: String,
        /// What they are about: a node, a limit or a property.
        about: Option<String>,
        /// How many were left out.
        count: u64,
        /// In what time, in milliseconds.
        elapsed_ms: u64,
    }
    /// This node's certificate was loaded, could not be, or ends soon.
    "certificate" Certificate {
        /// What happened: `loaded`, `kept` (the new files are bad, what was loaded stays), `ends-soon` or `ended`.
        event: String,
        /// When it ends, RFC 3339 in UTC.
        until: Option<String>,
        /// More, for people.
        detail: String,
    }
    /// The checker is started again.
    "checker-restart" CheckerRestart {
        /// Why.
        why: String,
        /// How often since the agent started.
        count: u64,
        /// After what pause, in milliseconds.
        wait_ms: Option<u64>,
    }
    /// The configuration was read again.
    "config-reload" ConfigReload {
        /// Whether it is used now; if not, the former one stays.
        loaded: bool,
        /// Names the configuration that is used now.
        configuration: String,
        /// What is wrong with the new one.
        why: Option<String>,
    }
    /// A mode was changed.
    "mode" Mode {
        /// The new mode.
        mode: Word<Mode>,
        /// The property it is for; all if absent.
        property: Option<String>,
        /// Who changed it.
        by: String,
    }
    /// A property took too much from the service and is in audit for a while, or that is over.
    "harm" Harm {
        /// The property.
        property: String,
        /// How much may be done about it now.
        mode: Word<Mode>,
        /// What it took, or that its pause is over.
        why: String,
        /// How long it stays in audit, in milliseconds; until an operator sets a mode if absent.
        pause_ms: Option<u64>,
    }
    /// A property had no answer in any state of a run: that it is not violated means nothing. Written once, until a run has
    /// judged it.
    "never-judged" Unjudged {
        /// The property.
        property: String,
        /// Why.
        why: String,
    }
    /// Something failed and the service went on unprotected.
    "failed-open" FailedOpen {
        /// What.
        failure: String,
        /// How often so far.
        count: u64,
        /// More, for people.
        detail: String,
    }
}

impl Entry {
    /// Makes an entry that belongs to nothing.
    pub fn new(what: What) -> Self {
        Self {
            run: None,
            violation: None,
            filter: None,
            what,
        }
    }

    /// Says which run it belongs to.
    #[must_use]
    pub fn of_run(mut self, run: RunId) -> Self {
        self.run = Some(Shown(run));
        self
    }

    /// Says which violation it concerns.
    #[must_use]
    pub fn of_violation(mut self, violation: ViolationId) -> Self {
        self.violation = Some(Shown(violation));
        self
    }

    /// Says which filter it concerns.
    #[must_use]
    pub fn of_filter(mut self, filter: FilterId) -> Self {
        self.filter = Some(Shown(filter));
        self
    }

    /// Makes it a record.
    pub fn at(self, time: Timestamp, node: NodeId) -> Record {
        Record {
            time,
            node: Shown(node),
            entry: self,
        }
    }
}

impl From<What> for Entry {
    fn from(what: What) -> Self {
        Self::new(what)
    }
}

impl From<&Missing> for Absent {
    fn from(missing: &Missing) -> Self {
        Self {
            node: Shown(missing.node),
            reason: Word(missing.reason),
        }
    }
}

/// Says in words what a filter does, and to what: `drop Join from n13 to n1`.
pub fn describe(filter: &Filter) -> String {
    let only = |content: &Option<crate::Digest>| match content {
        Some(_) => " with this content",
        None => "",
    };
    let (what, content) = match &filter.matcher {
        Matcher::Message {
            kind,
            source,
            destination,
            content,
        } if filter.action != Action::Check => {
            (format!("{kind} from {source} to {destination}"), content)
        }
        // Whoever it comes from.
        Matcher::Message {
            kind,
            destination,
            content,
            ..
        } => (format!("{kind} to {destination}"), content),
        Matcher::Timer { kind, content } => (format!("timer {kind}"), content),
        Matcher::Call { kind, content } => (format!("call {kind}"), content),
        Matcher::Disconnect { .. } if filter.action == Action::Check => {
            ("the news of a lost connection".to_owned(), &None)
        }
        Matcher::Disconnect { peer } => {
            (format!("the news of a lost connection with {peer}"), &None)
        }
    };
    let action = match filter.action {
        Action::Reset => "drop, resetting its connection,".to_owned(),
        action => action.to_string(),
    };
    format!("{action} {what}{}", only(content))
}

#[cfg(test)]
mod tests;
