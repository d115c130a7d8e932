//! Host and agent: the hook streams checkpoints and counts, the agent asks for checkpoints and installs filters.

use serde::{Deserialize, Serialize};

use crate::channel::{Acknowledged, Transport};
use crate::checkpoint::Body;
use crate::filter::{Filter, Mode};
use crate::id::{CheckpointNumber, FilterId, Incarnation, NodeId, RunId, ViolationId};
use crate::limit::{
    self, CHANNELS_MAX, CHECKPOINT_FRAME_BYTES_MAX, CONTACTS_MAX, FILTERS_MAX, HARM_MAX,
    MEMBERS_MAX, NAME_BYTES_MAX, NEIGHBORS_NAMED_MAX, PATH_BYTES_MAX, PROPERTIES_MAX,
    PROPERTY_FILE_BYTES_MAX, SMALL_FRAME_BYTES_MAX, SNAPSHOT_FRAME_BYTES_MAX, SWITCHES_MAX,
    TEXT_BYTES_MAX,
};
use crate::link::messages;
use crate::snapshot::coded;
use crate::times::Times;

messages! {
    /// What a host tells its agent.
    pub enum HostToAgent {
        /// Who it is; the first frame of every connection.
        0x01 Hello(Hello) up to SMALL_FRAME_BYTES_MAX,
        /// A checkpoint it took.
        0x02 Checkpoint(Checkpoint) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// Whom the service counts as its neighbors.
        0x03 Neighbors(Neighbors) up to SMALL_FRAME_BYTES_MAX,
        /// With whom it spoke lately.
        0x04 Contacts(Contacts) up to SMALL_FRAME_BYTES_MAX,
        /// What it has counted.
        0x05 Stats(Stats) up to SMALL_FRAME_BYTES_MAX,
        /// A filter acted.
        0x06 FilterHit(FilterHit) up to SMALL_FRAME_BYTES_MAX,
        /// It ends in good order.
        0x07 Goodbye(Goodbye) up to SMALL_FRAME_BYTES_MAX,
        /// A filter acts no longer.
        0x08 FilterEnded(FilterEnded) up to SMALL_FRAME_BYTES_MAX,
        /// The immediate safety check refused an event.
        0x09 Veto(Veto) up to SMALL_FRAME_BYTES_MAX,
        /// Something failed, and the service went on unprotected.
        0x0a FailedOpen(FailedOpen) up to SMALL_FRAME_BYTES_MAX,
        /// What the service does about a violation it was told of.
        0x0b PredictionAnswer(PredictionAnswer) up to SMALL_FRAME_BYTES_MAX,
        /// An event is held: what are the neighbors' states now?
        0x0c LookAgain(LookAgain) up to SMALL_FRAME_BYTES_MAX,
        /// What came of an event that was held.
        0x0d Suspicion(Suspicion) up to SMALL_FRAME_BYTES_MAX,
        /// It goes on under another incarnation.
        0x0f Renewed(Renewed) up to SMALL_FRAME_BYTES_MAX,
    }
}

messages! {
    /// What an agent tells its host.
    pub enum AgentToHost {
        /// The answer to the first frame.
        0x11 Welcome(Welcome) up to SMALL_FRAME_BYTES_MAX,
        /// Reach a checkpoint number.
        0x12 TakeCheckpoint(TakeCheckpoint) up to SMALL_FRAME_BYTES_MAX,
        /// Say whom the service counts as its neighbors.
        0x13 AskNeighbors(AskNeighbors) up to SMALL_FRAME_BYTES_MAX,
        /// Messages of yours have arrived.
        0x14 Arrived(Arrived) up to SMALL_FRAME_BYTES_MAX,
        /// Act on these from now on.
        0x15 InstallFilters(InstallFilters) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// Act on these no longer.
        0x16 WithdrawFilters(WithdrawFilters) up to SMALL_FRAME_BYTES_MAX,
        /// How much filters may do.
        0x17 Mode(SetMode) up to SMALL_FRAME_BYTES_MAX,
        /// What the neighbors' states were last: what the immediate safety check judges with.
        0x18 Surroundings(Surroundings) up to SNAPSHOT_FRAME_BYTES_MAX,
        /// What the immediate safety check judges by, and how.
        0x19 CheckSettings(Box<CheckSettings>) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// What will go wrong, for a service that wants to handle it itself.
        0x1a Predicted(Box<Predicted>) up to CHECKPOINT_FRAME_BYTES_MAX,
        /// Which files forbid steering, so that the hook looks for them itself.
        0x1b Switches(Switches) up to SMALL_FRAME_BYTES_MAX,
        /// Go on under another incarnation.
        0x1e Renew(Renew) up to SMALL_FRAME_BYTES_MAX,
    }
}

/// Who a host is.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// The node.
    pub node: NodeId,
    /// Which incarnation of it.
    pub incarnation: Incarnation,
    /// The number this incarnation began with.
    pub born: CheckpointNumber,
    /// The number it has now.
    pub number: CheckpointNumber,
    /// The service's name.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub service: String,
    /// The service's version: agents share paths only between equal ones.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub version: String,
    /// Whether it can try events before it handles them: filters that have it look first are of use.
    pub checks: bool,
}

/// A checkpoint on its way from the host that took it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its number.
    pub number: CheckpointNumber,
    /// The number of the checkpoint before it. This one shows the node at every logical time above that, up to its own
    /// number; so an agent that missed checkpoints knows which times it cannot answer for.
    pub after: CheckpointNumber,
    /// Its content.
    pub body: Body,
    /// The service's neighbors at the same moment, the most important first, if it knows them.
    #[serde(with = "limit::OptionalList::<NEIGHBORS_NAMED_MAX>")]
    pub neighbors: Option<Vec<NodeId>>,
}

/// The service's neighbors, if it knows them.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Neighbors {
    /// The nodes.
    #[serde(with = "limit::OptionalList::<NEIGHBORS_NAMED_MAX>")]
    pub neighbors: Option<Vec<NodeId>>,
}

/// Endpoints the host spoke with since its last report.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Contacts {
    /// Which.
    #[serde(with = "limit::List::<CONTACTS_MAX>")]
    pub contacts: Vec<Contact>,
}

/// One endpoint the host spoke with.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Contact {
    /// Whose endpoint.
    pub peer: NodeId,
    /// How.
    pub transport: Transport,
    /// Tells several endpoints of one peer apart: its port, say.
    pub port: u32,
    /// How long before this report, in milliseconds.
    pub ago_ms: u64,
    /// Whether this is a connection that was closed.
    pub closed: bool,
}

/// Counts of a host since it started.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// Bytes of service messages sent, without what is added to them.
    pub sent_bytes: u64,
    /// Service messages sent.
    pub sent_messages: u64,
    /// Service messages received.
    pub received_messages: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Checkpoints taken because a message came from a later logical time.
    pub forced_checkpoints: u64,
    /// Frames to the agent that were dropped rather than waited for.
    pub dropped_frames: u64,
    /// Events that came to a handler, or would have but for a filter or a veto: the actions of A-102.
    pub events: u64,
    /// Events that a filter kept from their handlers.
    pub filtered_events: u64,
    /// Events that the immediate safety check kept from their handlers.
    pub vetoed_events: u64,
    /// Events that the immediate safety check held until the neighbors had been asked again.
    pub held_events: u64,
    /// Events that ran, or were looked at beside the event path, without the immediate safety check: it had used up its
    /// share of time.
    pub unchecked_events: u64,
    /// How long events waited for the immediate safety check, each trial by itself.
    pub check_times: Times,
    /// Calls of the application whose handlers ran.
    pub answered_calls: u64,
    /// What forbids steering at the host itself, whatever the agent says.
    pub held: Held,
    /// What filters and vetoes did to the service, by property. Beyond [`HARM_MAX`] properties the rest has an empty name.
    #[serde(with = "limit::List::<HARM_MAX>")]
    pub harm: Vec<Harm>,
}

coded! {
    /// What forbids steering at a host.
    #[derive(Default)]
    pub enum Held {
        /// Nothing: the agent's mode counts.
        #[default]
        No = 0 "nothing holds it off",
        /// The environment of its process.
        Environment = 1 "its environment says SCRY_STEER=off",
        /// A file it looks for.
        File = 2 "a kill file is there",
    }
}

/// What was done to the service for the sake of one property, since the host started.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Harm {
    /// The property's name.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub property: String,
    /// Messages that never reached their handlers.
    pub dropped: u64,
    /// Connections that were reset, in most cases together with a message that counts as dropped.
    pub reset: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Timers and messages that were put off: they happen later.
    pub delayed: u64,
}

/// A filter matched an event.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct FilterHit {
    /// Which filter.
    pub filter: FilterId,
    /// How often it matched so far.
    pub hits: u64,
    /// Whether it acted, or only would have (audit).
    pub acted: bool,
    /// The event, for people.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub event: String,
}

coded! {
    /// Why a filter acts no longer.
    pub enum FilterEnd {
        /// Its lease is over.
        Lapsed = 0 "its lease is over",
        /// It has acted as often as it may.
        HitsUsed = 1 "it has acted as often as it may",
        /// The agent withdrew it.
        Withdrawn = 2 "the agent withdrew it",
        /// It blocked too much and only watches from now on.
        Disarmed = 3 "it blocked too much and only watches from now on",
        /// The agent is gone.
        AgentGone = 4 "the agent is gone",
        /// A kill switch is on.
        Killed = 5 "a kill switch is on",
    }
}

/// A filter acts no longer.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct FilterEnded {
    /// Which filter.
    pub filter: FilterId,
    /// Why.
    pub end: FilterEnd,
    /// How often it matched.
    pub hits: u64,
}

/// The immediate safety check refused an event, or would have (audit).
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Veto {
    /// The property the event would have broken.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub property: String,
    /// The event, for people.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub event: String,
    /// What would be wrong afterwards, for people.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub explanation: String,
    /// Whether the event was kept from its handler.
    pub acted: bool,
    /// How long the check took, in microseconds.
    pub elapsed_us: u64,
}

/// The host holds an event that would break a property, and asks for its neighbors' states.
///
/// It has taken a checkpoint with this number just now, greater than any number in the event's past: the neighbors' states
/// at that number may all stand beside its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct LookAgain {
    /// Names the question in its answer.
    pub question: u64,
    /// The number to gather at.
    pub number: CheckpointNumber,
    /// How long the host will hold the event, in milliseconds.
    pub wait_ms: u64,
    /// A node that the event is about, such as the one with which a connection is lost: it is asked even if it did not answer
    /// just now.
    pub about: Option<NodeId>,
}

coded! {
    /// What became of an event that was held.
    pub enum Outcome {
        /// It ran: with the neighbors' present states it breaks nothing.
        Cleared = 0 "cleared",
        /// It was kept from its handler.
        Refused = 1 "refused",
        /// It ran: the neighbors did not answer in time.
        Late = 2 "late",
        /// It ran: the states that would be broken may never have been there at one moment.
        NotTogether = 3 "not-together",
        /// It ran: to keep it from its handler would break something too.
        RefusalBreaks = 4 "refusal-breaks",
        /// It ran: as much was refused as may be.
        Limited = 5 "limited",
    }
}

/// An event was held because it seemed to break a property, and this came of it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Suspicion {
    /// The property it seemed to break.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub property: String,
    /// The event, for people.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub event: String,
    /// What became of it.
    pub outcome: Outcome,
    /// How long it was held, in microseconds.
    pub held_us: u64,
}

coded! {
    /// What failed at a host while its service went on.
    pub enum Failure {
        /// The immediate check did not come to a verdict in time.
        CheckLate = 0 "the immediate check was late",
        /// The speculator is gone; another is started.
        SpeculatorGone = 1 "the speculator is gone",
        /// No process could be forked.
        ForkFailed = 2 "fork failed",
        /// The rules do not fit the service: it has no such fields, say.
        RulesUnfit = 3 "the rules do not fit the service",
        /// A neighbor's state could not be read.
        SurroundingsUnreadable = 4 "a neighbor's state could not be read",
        /// What is known of the neighbors is too old to judge by.
        SurroundingsStale = 5 "what is known of the neighbors is too old",
        /// A state is too large to be a checkpoint.
        CheckpointTooLarge = 6 "the state is too large to be a checkpoint",
        /// The immediate check used up its share of time: events are tried on a clone, or run unchecked.
        CheckOverShare = 7 "the immediate check used up its share of time",
        /// A property panicked on a state: what it says is unknown.
        PropertyPanicked = 8 "a property panicked",
        /// The immediate check refused too much for the sake of one property, and only watches that one for a while.
        VetoesDisarmed = 9 "the immediate check refused too much and only watches",
        /// A judgement took more steps than it may: what it says is unknown.
        JudgementCutOff = 10 "a judgement took more steps than it may",
        /// A property did not end in time on a state: what it says is unknown.
        PropertyLate = 11 "a property took too long",
        /// A message was handled without regard to its stamp: its sender is not a member, or the stamp cannot be true.
        StampRefused = 20 "a message's stamp was refused",
        /// The file of numbers was damaged or held an absurd number, and was begun anew.
        NumbersUnfit = 21 "the stored checkpoint number was not believed",
        /// The host goes on under another incarnation.
        Renewed = 22 "the node goes on under another incarnation",
        /// Something at the node's own ports was beyond its limits.
        PortLimit = 23 "a limit at the node's ports was reached",
    }
}

/// Something failed, and the service went on unprotected.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct FailedOpen {
    /// What.
    pub failure: Failure,
    /// How often since the host started.
    pub count: u64,
    /// More about the last time, for people.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub detail: String,
}

/// The host ends in good order.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Goodbye {
    /// The number it ended with.
    pub number: CheckpointNumber,
}

/// The agent accepts a host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Welcome {
    /// The agent's version.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub version: String,
    /// How much filters may do.
    pub mode: Mode,
}

/// A request to reach a checkpoint number.
///
/// A host below it takes a checkpoint and has that number then; a host at or above it does nothing, since the checkpoint
/// that answers is in its stream already.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct TakeCheckpoint {
    /// Which.
    pub number: CheckpointNumber,
}

/// A request to go on under another incarnation: others know of a later one, or take the host's number for a mistake.
///
/// The service notices nothing of it. What was known of messages in flight is forgotten, as with a restart.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Renew {
    /// The new incarnation comes after this one, and after the present one.
    pub after: Incarnation,
    /// The number it begins with, lower than the present one maybe; if absent, the next.
    pub number: Option<CheckpointNumber>,
}

/// The host goes on under another incarnation: from here on its checkpoints are of that one.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Renewed {
    /// Which.
    pub incarnation: Incarnation,
    /// The number it began with.
    pub born: CheckpointNumber,
}

/// A request for the service's neighbors.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct AskNeighbors {}

/// What a peer's checkpoint says it has received from this host.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Arrived {
    /// The peer.
    pub peer: NodeId,
    /// A number at which its checkpoint shows it: the host may act on this only from that logical time on.
    pub number: CheckpointNumber,
    /// Which messages of which channels.
    #[serde(with = "limit::List::<CHANNELS_MAX>")]
    pub channels: Vec<(Transport, Acknowledged)>,
}

/// Filters to act on.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct InstallFilters {
    /// The run that found them.
    pub run: RunId,
    /// The filters.
    #[serde(with = "limit::List::<FILTERS_MAX>")]
    pub filters: Vec<Filter>,
}

/// Filters to act on no longer.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct WithdrawFilters {
    /// Which; all if absent.
    #[serde(with = "limit::OptionalList::<FILTERS_MAX>")]
    pub filters: Option<Vec<FilterId>>,
}

/// How much filters may do from now on.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct SetMode {
    /// The mode.
    pub mode: Mode,
}

/// Files that forbid steering while they are there and do not say `on`.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Switches {
    /// Absolute paths.
    #[serde(with = "limit::List::<SWITCHES_MAX>")]
    pub files: Vec<String>,
}

/// The neighbors' last known states.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The logical time they show.
    pub number: CheckpointNumber,
    /// The question they answer; none if they come because it was time.
    pub answers: Option<u64>,
    /// The neighbors, by rising id, without the host itself.
    #[serde(with = "limit::List::<MEMBERS_MAX>")]
    pub neighbors: Vec<Neighbor>,
}

/// One neighbor's last known state.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Neighbor {
    /// The node.
    pub node: NodeId,
    /// The number of its checkpoint.
    pub number: CheckpointNumber,
    /// Whether it belongs to the snapshot of this number, or is an older one of a neighbor that is silent.
    pub present: bool,
    /// Properties that read something of it which no event changes any more, as far as the checker has searched.
    #[serde(with = "limit::List::<PROPERTIES_MAX>")]
    pub lasting: Vec<String>,
    /// Its checkpoint.
    pub body: Body,
}

/// What the immediate safety check judges by, and how.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct CheckSettings {
    /// The text of the property file; empty if the service's own properties are meant.
    #[serde(with = "limit::Text::<PROPERTY_FILE_BYTES_MAX>")]
    pub properties: String,
    /// Properties with a mode of their own. The lower of it and the global one counts.
    #[serde(with = "limit::List::<PROPERTIES_MAX>")]
    pub modes: Vec<PropertyMode>,
    /// How a copy of the host is made to run a handler on.
    pub isolate: Isolate,
    /// How long a verdict may take before the event runs without, in milliseconds.
    pub deadline_ms: u64,
    /// How old the neighbors' states may be to judge by, in milliseconds.
    pub surroundings_age_ms_max: u64,
    /// How long an event may be held until the neighbors have answered, in milliseconds; 0 holds and refuses nothing.
    pub hold_ms_max: u64,
    /// How much of its time the host may wait for the check, in thousandths.
    pub time_share_per_mille: u32,
}

/// A property's own mode.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct PropertyMode {
    /// The property's name.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub property: String,
    /// Its mode.
    pub mode: Mode,
}

coded! {
    /// How the immediate safety check runs a handler without consequences.
    pub enum Isolate {
        /// It does not: there is no immediate check.
        Off = 0 "off",
        /// A small process forks for each check.
        Speculator = 1 "speculator",
        /// The state is cloned in the host.
        Clone = 2 "clone",
        /// The host itself forks (the paper's way).
        Fork = 3 "fork",
    }
}

/// A predicted violation, told to the service.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Its name.
    pub violation: ViolationId,
    /// The property it breaks.
    #[serde(with = "limit::Text::<NAME_BYTES_MAX>")]
    pub property: String,
    /// What will be wrong, for people.
    #[serde(with = "limit::Text::<TEXT_BYTES_MAX>")]
    pub explanation: String,
    /// The events that lead there, encoded by the service.
    #[serde(with = "limit::Bytes::<PATH_BYTES_MAX>")]
    pub path: Vec<u8>,
    /// The filters that would prevent it, installed only if the service leaves it to them.
    #[serde(with = "limit::List::<FILTERS_MAX>")]
    pub filters: Vec<Filter>,
}

/// What the service does about a violation it was told of.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct PredictionAnswer {
    /// The violation.
    pub violation: ViolationId,
    /// The filters it was told with.
    #[serde(with = "limit::List::<FILTERS_MAX>")]
    pub filters: Vec<FilterId>,
    /// Whether the service took care of it, so that none of them was installed.
    pub handled: bool,
}
