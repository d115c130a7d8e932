//! The agent as it runs: one task that owns all decisions, and links around it that turn the world into facts.
//!
//! | module | what it does |
//! |---|---|
//! | `start` | from a configuration to running links, and their end in good order |
//! | `node` | the task that owns the checkpoint manager and the controller |
//! | `journal` | the controller's files |
//! | `options` | from the configuration to the options of both |
//! | `ready` | whether it can do its work |
//! | `reload` | another configuration for a running agent |
//! | `status` | what an operator may ask |
//! | `switches` | what holds everything off |

mod journal;
mod node;
mod options;
mod ready;
mod reload;
mod start;
mod status;
mod switches;

use scry_protocol::link::checker::CheckerToAgent;
use scry_protocol::link::host::{Hello, HostToAgent};
use scry_protocol::link::peer::PeerMessage;
use scry_protocol::record::Word;
use scry_protocol::{NodeId, RunId};
use tokio::sync::oneshot;

pub(crate) use start::{ANSWER_WAIT, run};
pub(crate) use status::{PeerStatus, SnapshotSummary, Status};

use crate::certificate::News;
use crate::configuration::Mode;
use crate::controller::CheckerSeen;
use crate::link::host::HostLink;
use crate::link::peers::{Limit, Place};

/// How many facts may wait; whoever brings one waits if there are more.
const FACTS_MAX: usize = 1024;

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Fact {
    /// A service is attached.
    HostUp {
        /// How to answer it.
        link: HostLink,
        /// Who it is.
        hello: Hello,
    },
    /// It said something.
    Host {
        /// On which link.
        serial: u64,
        /// What.
        message: HostToAgent,
    },
    /// It is gone.
    HostGone {
        /// Which link.
        serial: u64,
    },
    /// A peer said something.
    Peer {
        /// Who, as its certificate says.
        from: NodeId,
        /// What.
        message: Box<PeerMessage>,
        /// How long the frame was that said it.
        frame_bytes: usize,
        /// Its place among the peer's frames that wait.
        place: Place,
    },
    /// A peer was read from more slowly, as it was over a limit.
    PeerSlowed {
        /// Who.
        peer: NodeId,
        /// Which limit.
        limit: Limit,
        /// How often so far.
        count: u64,
    },
    /// Something happened to this node's certificate.
    Certificate(News),
    /// A peer is connected.
    PeerUp {
        /// Who.
        peer: NodeId,
        /// Where.
        address: String,
    },
    /// A peer cannot be reached, or no longer.
    PeerLost {
        /// Who.
        peer: NodeId,
        /// Why.
        why: String,
    },
    /// The checker said something.
    Checker(CheckerToAgent),
    /// The checker is gone; another will be started.
    CheckerGone {
        /// Why.
        why: String,
        /// On whose states it was at work; `None` is everybody's.
        blamed: Vec<Option<NodeId>>,
    },
    /// A checker was started.
    CheckerStarted,
    /// What was seen of the checker while it has something to do.
    CheckerSeen(CheckerSeen),
    /// The checker runs another program than the service.
    CheckerDiffers,
    /// A job could not be given to the checker, which goes on.
    JobUnsent {
        /// Whose job.
        run: RunId,
        /// Why.
        why: String,
    },
    /// Time to see whether anything holds everything off.
    LookForSwitches,
    /// A signal says that nothing is to be steered.
    SteerOff,
    /// An operator asks.
    Ask(Ask),
}

/// What an operator may ask. An answer that nobody waits for any more is dropped.
#[derive(Debug)]
pub(crate) enum Ask {
    /// How things stand.
    Status(oneshot::Sender<Box<Status>>),
    /// To do more or less from now on.
    Mode {
        /// What to do.
        mode: Mode,
        /// About which property; all if absent.
        property: Option<String>,
        /// What counts now, or why not.
        done: oneshot::Sender<Result<ModeSet, String>>,
    },
    /// To read the configuration again.
    Reload(oneshot::Sender<Result<Reloaded, String>>),
    /// To gather a snapshot now.
    Snapshot(oneshot::Sender<Result<SnapshotSummary, String>>),
}

/// What became of a mode that an operator set.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct ModeSet {
    /// The property; all if absent.
    pub(crate) property: Option<String>,
    /// The mode that counts now.
    pub(crate) mode: Word<scry_protocol::filter::Mode>,
    /// Why it is not the one that was set, if so.
    pub(crate) why: Option<String>,
    /// How many filters fell because of it.
    pub(crate) filters_fell: usize,
}

/// What a reload did.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Reloaded {
    /// Names the configuration that is loaded now.
    pub(crate) hash: String,
    /// Sections that changed but count only after a restart.
    pub(crate) needs_restart: Vec<&'static str>,
}
