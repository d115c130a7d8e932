//! Agent and checker: a snapshot to search, and what was found.
//!
//! What only the service can read (states, paths, settings) travels as bytes: the checker is the service's own
//! executable and knows them.

use serde::{Deserialize, Serialize};

use crate::filter::{Filter, Mode};
use crate::id::{NodeId, RunId, ViolationId};
use crate::limit::{
    self, CHECKPOINT_FRAME_BYTES_MAX, FILTERS_MAX, MEMBERS_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX,
    PATHS_MAX, PROPERTIES_MAX, PROPERTY_FILE_BYTES_MAX, SMALL_FRAME_BYTES_MAX,
    SNAPSHOT_FRAME_BYTES_MAX, TEXT_BYTES_MAX, TRACE_BYTES_MAX,
};
use crate::link::host::PropertyMode;
use crate::link::messages;
use crate::snapshot::{Snapshot, coded};

messages! {
    /// What an agent tells its checker.
    pub enum AgentToChecker {
        /// Search this.
        0x31 Job(Box<Job>) up to SNAPSHOT_FRAME_BYTES_MAX,
        /// Stop searching and report.
        0x32 Cancel(Cancel) up to SMALL_FRAME_BYTES_MAX,
    }
}

messages! {
    /// What a checker tells its agent.
    pub enum CheckerToAgent {
        /// It is up; the first frame.
        0x41 Ready(Ready) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// A past path was replayed on the new snapshot; comes before any search.
        0x42 Replayed(Replayed) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// It is still searching.
        0x43 Progress(Progress) up to SMALL_FRAME_BYTES_MAX,
        /// It is done.
        0x44 Report(Report) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// It found a violation; comes as soon as its remedies are proved, while the search goes on.
        0x45 Found(Box<Found>) up to CHECKPOINT_FRAME_BYTES_MAX,
    }
}

/// One search.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Its name.
    pub run: RunId,
    /// Where to start.
    pub snapshot: Snapshot,
    /// The text of the property file; empty if the service's own properties are meant.
    #[serde(with = "limit::Text::<PROPERTY_FILE_BYTES_MAX>")]
    pub properties: String,
    /// Faults a path may contain beside what the snapshot shows.
    pub faults: Faults,
    /// How well clocks and timers are kept.
    pub clock: Clock,
    /// When to stop.
    pub budget: Budget,
    /// Which of several filters is taken.
    pub order: Order,
    /// Whether nodes can look before they handle an event: then that may be all it takes.
    pub checks: bool,
    /// Paths that led to violations before, to be replayed first.
    #[serde(with = "limit::List::<PATHS_MAX>")]
    pub past_paths: Vec<PastPath>,
    /// Whether the snapshot shows every node the service has. If not, properties that further nodes could mend are
    /// unknown.
    pub whole: bool,
    /// Properties in another mode than most, by name. What is off is not looked at.
    #[serde(with = "limit::List::<PROPERTIES_MAX>")]
    pub modes: Vec<PropertyMode>,
    /// How to search: the name of a strategy.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub strategy: String,
    /// How much may be done about what must come true again and again and never would. With `off` it is not looked for.
    pub liveness: Mode,
}

/// How many faults of each kind a path may contain.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Faults {
    /// Resets the peers are told of.
    pub resets: u8,
    /// Resets nobody is told of.
    pub silent_resets: u8,
    /// Connections that break.
    pub breaks: u8,
    /// Datagrams that are lost.
    pub losses: u8,
    /// Datagrams that are delivered twice.
    pub duplicates: u8,
    /// Nodes that are down for a while.
    pub late_starts: u8,
}

/// How well clocks and timers are kept: a path counts only if there are times for its events.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    /// Whether every order of timers and every answer about time is possible instead.
    pub free: bool,
    /// How much later than it was set to a timer may fire.
    pub late_ms: u64,
    /// How far the clock of a node may be from the true time.
    pub skew_ms: u64,
    /// How many millionths too fast or too slow a clock may run.
    pub drift_ppm: u32,
}

impl Default for Clock {
    fn default() -> Self {
        Self {
            free: false,
            late_ms: 100,
            skew_ms: 0,
            drift_ppm: 0,
        }
    }
}

/// When a search stops, whichever comes first.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Milliseconds.
    pub time_ms: u64,
    /// States.
    pub states_max: u64,
    /// Events on a path.
    pub depth_max: u32,
    /// Bytes of memory.
    pub memory_bytes_max: u64,
    /// Violations to report.
    pub violations_max: u32,
}

/// A path that led to a violation before.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct PastPath {
    /// The violation.
    pub violation: ViolationId,
    /// The events, encoded by the service.
    #[serde(with = "limit::Bytes::<PATH_BYTES_MAX>")]
    pub path: Vec<u8>,
}

/// The end of a search, before its budget is used up.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Cancel {
    /// Which.
    pub run: RunId,
}

/// A checker is up.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The names of the properties the service brings along.
    #[serde(with = "limit::List::<PROPERTIES_MAX>")]
    pub properties: Vec<String>,
}

/// What came of replaying a past path.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Replayed {
    /// The run.
    pub run: RunId,
    /// The path's violation.
    pub violation: ViolationId,
    /// Whether it still leads there.
    pub confirmed: bool,
    /// In which way the property is violated there.
    pub how: How,
    /// Filters proved anew, if it does; none if nothing safe was found.
    #[serde(with = "limit::List::<FILTERS_MAX>")]
    pub remedies: Vec<Filter>,
    /// A node with a filter that takes less from the service than those.
    pub elsewhere: Option<NodeId>,
}

/// How far a search is.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The run.
    pub run: RunId,
    /// States visited.
    pub states: u64,
    /// The deepest.
    pub depth: u32,
    /// Milliseconds spent.
    pub elapsed_ms: u64,
    /// Whether it has looked where its strategy promises to, and goes on only because there is time left.
    pub covered: bool,
}

/// What a search found.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The run.
    pub run: RunId,
    /// Why it ended.
    pub ended: Ended,
    /// How far it came.
    pub progress: Progress,
    /// How many violations it found, each told before.
    pub violations: u32,
    /// How many findings did not replay and were not told: the service has chance or a clock of its own.
    pub unconfirmed: u64,
    /// What could not be read, or what else there is to say, for people; empty if nothing.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub detail: String,
    /// For each member, the properties that read something of it which nothing changed in the whole search.
    #[serde(with = "limit::List::<MEMBERS_MAX>")]
    pub lasting: Vec<Lasting>,
    /// Properties that had no answer in any state, so that nothing follows from their not being violated.
    #[serde(with = "limit::List::<PROPERTIES_MAX>")]
    pub unjudged: Vec<Unjudged>,
    /// Properties of which judgements took more steps than they may, and are unknown.
    #[serde(with = "limit::List::<PROPERTIES_MAX>")]
    pub cut_off: Vec<String>,
    /// Members that it went on without, because of what their states do to whoever reads them.
    #[serde(with = "limit::List::<MEMBERS_MAX>")]
    pub left_out: Vec<LeftOut>,
    /// Properties that panicked on a state, which then counts as unknown, with what they said.
    #[serde(with = "limit::List::<PROPERTIES_MAX>")]
    pub panicked: Vec<Unjudged>,
}

/// A member that a search went on without.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The node.
    pub node: NodeId,
    /// Why, for people.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub why: String,
}

/// What is lasting about a node: whatever happens to it, a reset included, these properties read the same of it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Lasting {
    /// The node.
    pub node: NodeId,
    /// The properties, by name.
    #[serde(with = "limit::List::<PROPERTIES_MAX>")]
    pub properties: Vec<String>,
}

/// A property that had no answer in any state of a search.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Unjudged {
    /// Its name.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub property: String,
    /// Why, for people.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub why: String,
}

/// A violation that a search found.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The run.
    pub run: RunId,
    /// The violation.
    pub violation: Violation,
}

coded! {
    /// Which filter is taken if several prevent a violation.
    pub enum Order {
        /// The one that takes the least from the service.
        LeastHarm = 0 "least-harm",
        /// The one that acts on the earliest event.
        Earliest = 1 "earliest",
    }
}

coded! {
    /// In which way a property is violated.
    pub enum How {
        /// It must hold in every state, and does not in one.
        Broken = 0 "broken",
        /// It must come true again and again, and from a state on never does. That is proved.
        Dead = 1 "dead",
    }
}

coded! {
    /// Why a search ended.
    pub enum Ended {
        /// There was nothing more to visit.
        Exhausted = 0 "everything was visited",
        /// A part of the budget was used up.
        Budget = 1 "the budget was used up",
        /// It was told to.
        Cancelled = 2 "it was told to",
        /// The snapshot, a property or the settings could not be read.
        Unreadable = 3 "the job could not be read",
        /// All that its strategy promises was visited, and something beyond, as long as there was time.
        Covered = 4 "all that was promised was visited",
    }
}

/// A predicted violation. Two runs that find the same property broken by the same local events give it the same name.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Violation {
    /// Its name.
    pub id: ViolationId,
    /// The property it breaks.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub property: String,
    /// In which way.
    pub how: How,
    /// The event after which it is too late, and its node, for people; empty if nothing is dead.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub critical: String,
    /// What is wrong in the bad state, for people.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub explanation: String,
    /// How many events lead there.
    pub depth: u32,
    /// The events, encoded by the service.
    #[serde(with = "limit::Bytes::<PATH_BYTES_MAX>")]
    pub path: Vec<u8>,
    /// Filters proved to prevent it without harm, each by itself, the best first; none if nothing safe was found
    /// . Their ids, leases and modes are the agent's to set.
    #[serde(with = "limit::List::<FILTERS_MAX>")]
    pub remedies: Vec<Filter>,
    /// Why there is no remedy, for people; empty if there is one.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub unhelpful: String,
    /// The node of the first event that could be steered, if that is not the node of the snapshot.
    pub neighbor: Option<NodeId>,
    /// A node with a filter that is proved too, and takes less from the service than the remedies.
    pub elsewhere: Option<NodeId>,
    /// The strategy that found it first, if several work together; else empty.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub found_by: String,
    /// The path spelled out with every state along it, as JSON (`scry::trace::Trace`), compressed.
    #[serde(with = "limit::Bytes::<TRACE_BYTES_MAX>")]
    pub trace: Vec<u8>,
}
