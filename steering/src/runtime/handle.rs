//! What the application holds of a running node.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use scry_protocol::{CheckpointNumber, FilterId, NodeId};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot, watch};

use crate::runtime::emulation::Emulation;
use crate::runtime::node::End;
use crate::runtime::report::Report;
use scry_engine::service::Service;

/// Why a call was not handled.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CallError {
    /// A filter refuses it for now.
    #[error("the call is refused by filter {0}")]
    Refused(FilterId),
    /// It would break a property.
    #[error("the call is refused: it would break \"{property}\": {explanation}")]
    Vetoed {
        /// The property.
        property: String,
        /// What would be wrong.
        explanation: String,
    },
    /// There is no node any more.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// The node has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the node has ended")]
pub struct Gone;

/// A node at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(bound = "")]
pub struct Snapshot<S: Service> {
    /// The service's state.
    pub state: S,
    /// Its armed timers.
    pub timers: Vec<S::Timer>,
    /// The peers it has connections with.
    pub connected: Vec<NodeId>,
    /// Its checkpoint number, if it has a hook.
    pub number: Option<CheckpointNumber>,
    /// What it has counted.
    pub counts: Counts,
}

/// What a node has counted since it started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// Messages handed to connections.
    pub segments_sent: u64,
    /// Messages that came on connections.
    pub segments_received: u64,
    /// Datagrams handed over, lost ones too.
    pub datagrams_sent: u64,
    /// Datagrams that never left: emulated loss, a cut, no room, no address.
    pub datagrams_lost: u64,
    /// Datagrams that came from peers that are cut off, and were dropped.
    pub datagrams_cut: u64,
    /// Datagrams that came.
    pub datagrams_received: u64,
    /// What came and was not of this service.
    pub malformed: u64,
    /// Connections that were one too many.
    pub connections_refused: u64,
    /// Connections that did not say in time who they are, or nothing after that.
    pub connections_silent: u64,
    /// Connections that were broken because too much waited on them.
    pub over_limit: u64,
}

/// What a node is asked.
pub(super) enum Command<S: Service> {
    Call(S::Call, oneshot::Sender<Result<(), CallError>>),
    State(oneshot::Sender<Snapshot<S>>),
    Reset {
        notice: bool,
        done: oneshot::Sender<()>,
    },
    Watch(mpsc::Sender<Report<S>>, oneshot::Sender<()>),
    Cut(Vec<NodeId>, oneshot::Sender<()>),
    Heal(oneshot::Sender<()>),
    Emulate(Emulation, Vec<NodeId>, oneshot::Sender<()>),
    Peers(BTreeMap<NodeId, SocketAddr>, oneshot::Sender<()>),
    Shutdown,
}

/// A running node. It ends when it is told to, when a handler panics, or when the last handle is dropped.
#[derive(Debug)]
pub struct Handle<S: Service> {
    me: NodeId,
    address: SocketAddr,
    commands: mpsc::Sender<Command<S>>,
    ended: watch::Receiver<Option<End>>,
    reports_max: usize,
}

impl<S: Service> Clone for Handle<S> {
    fn clone(&self) -> Self {
        Self {
            commands: self.commands.clone(),
            ended: self.ended.clone(),
            ..*self
        }
    }
}

impl<S: Service> Handle<S> {
    pub(super) fn new(
        me: NodeId,
        address: SocketAddr,
        commands: mpsc::Sender<Command<S>>,
        ended: watch::Receiver<Option<End>>,
        reports_max: usize,
    ) -> Self {
        Self {
            me,
            address,
            commands,
            ended,
            reports_max,
        }
    }

    /// Returns which node it is.
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Calls the service, and returns when the call has been handled.
    ///
    /// # Errors
    ///
    /// When it is refused, or the node has ended.
    pub async fn call(&self, call: S::Call) -> Result<(), CallError> {
        self.ask(|done| Command::Call(call, done)).await?
    }

    /// Returns the node as it is now.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub async fn state(&self) -> Result<Snapshot<S>, Gone> {
        self.ask(Command::State).await
    }

    /// Resets the node: what is not on disk is lost. Its peers are told by RST, or find out at their next send.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub async fn reset(&self, notice: bool) -> Result<(), Gone> {
        self.ask(|done| Command::Reset { notice, done }).await
    }

    /// Returns a report of every event from now on.
    ///
    /// # Errors
    ///
    /// When the node has ended.
    pub async fn watch(&self) -> Result<mpsc::Receiver<Report<S>>, Gone> {
        let (reports, receiver) = mpsc::channel(self.reports_max);
        self.ask(|done| Command::Watch(reports, done)).await?;
        Ok(receiver)
    }

    /// Lets nothing pass to or from these peers, until the node is [healed](Self::heal).
    ///
    /// # Errors
    ///
    /// When the node has ended.
    pub async fn cut(&self, peers: Vec<NodeId>) -> Result<(), Gone> {
        self.ask(|done| Command::Cut(peers, done)).await
    }

    /// Lets everything pass again.
    ///
    /// # Errors
    ///
    /// When the node has ended.
    pub async fn heal(&self) -> Result<(), Gone> {
        self.ask(Command::Heal).await
    }

    /// Changes what is done to the links to these peers, or to all links if none are named.
    ///
    /// # Errors
    ///
    /// When the node has ended.
    pub async fn emulate(&self, emulation: Emulation, peers: Vec<NodeId>) -> Result<(), Gone> {
        self.ask(|done| Command::Emulate(emulation, peers, done))
            .await
    }

    /// Says where peers are.
    ///
    /// # Errors
    ///
    /// When the node has ended.
    pub async fn add_peers(&self, peers: BTreeMap<NodeId, SocketAddr>) -> Result<(), Gone> {
        self.ask(|done| Command::Peers(peers, done)).await
    }

    /// Ends the node in good order, and returns how it ended.
    pub async fn shutdown(&self) -> End {
        // A node that has ended already has said how.
        let _ = self.commands.send(Command::Shutdown).await;
        self.ended().await
    }

    /// Waits until the node has ended, and returns how.
    pub async fn ended(&self) -> End {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(End::Cancelled),
            Err(_) => End::Cancelled,
        }
    }

    async fn ask<R>(
        &self,
        command: impl FnOnce(oneshot::Sender<R>) -> Command<S>,
    ) -> Result<R, Gone> {
        let (done, answer) = oneshot::channel();
        self.commands.send(command(done)).await.map_err(|_| Gone)?;
        answer.await.map_err(|_| Gone)
    }
}
