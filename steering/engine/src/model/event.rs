//! Everything that can happen at a node, in one type (I-1).
//!
//! The same enum serves plain values (`M` is the service's message) and interned ones (`M` is an id).

use std::convert::Infallible;
use std::fmt;

use scry_protocol::NodeId;
use serde::{Deserialize, Serialize};

use crate::model::fault::Fault;
use crate::model::handler::Tosses;
use crate::model::network::Connection;
use crate::service::Service;

/// What happens at one node.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Event<M, T, C> {
    /// A datagram arrives.
    Deliver {
        /// The sender.
        from: NodeId,
        /// What it says.
        message: M,
    },
    /// The next message of a connection arrives.
    Receive {
        /// The sender.
        from: NodeId,
        /// Which connection.
        connection: Connection,
        /// What it says.
        message: M,
    },
    /// A message arrives on a connection this node has no memory of; the sender is told that it is dead.
    Refuse {
        /// The sender.
        from: NodeId,
        /// Which connection.
        connection: Connection,
    },
    /// The peer has closed the connection, and all that was sent on it has been read.
    Hangup {
        /// The peer.
        from: NodeId,
        /// Which connection.
        connection: Connection,
    },
    /// The notice arrives that a connection is dead.
    Disconnect {
        /// The peer.
        from: NodeId,
        /// Which connection.
        connection: Connection,
    },
    /// A timer fires.
    Timer(T),
    /// The application calls.
    Call(C),
    /// The node is reset: what is not on disk is lost.
    Reset {
        /// Whether the peers it is connected to are told.
        notice: bool,
    },
    /// The node goes down, and starts again later: what is not on disk is lost, and the peers it is connected to are told.
    /// Until it starts, connections to it are refused and nothing else happens there.
    Stop,
    /// A node that is down starts.
    Start,
    /// The connections to a peer break, and this end sees it first.
    Break {
        /// The peer.
        peer: NodeId,
    },
    /// A datagram on its way to this node is lost.
    Lose {
        /// The sender.
        from: NodeId,
        /// What it says.
        message: M,
    },
    /// A datagram on its way to this node is doubled.
    Duplicate {
        /// The sender.
        from: NodeId,
        /// What it says.
        message: M,
    },
}

/// An event of a service, in plain values.
pub type EventOf<S> = Event<<S as Service>::Message, <S as Service>::Timer, <S as Service>::Call>;

/// What a handler is given.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub enum Input<M, T, C> {
    /// For [`Service::on_message`].
    Message {
        /// The sender.
        from: NodeId,
        /// What it says.
        message: M,
    },
    /// For [`Service::on_timer`].
    Timer(T),
    /// For [`Service::on_call`].
    Call(C),
    /// For [`Service::on_disconnect`].
    Disconnect(NodeId),
    /// For [`Service::start`], with what the last incarnation left on disk.
    Restart,
    /// For no handler: the node is down from now on.
    Stop,
}

/// An input of a service's handlers, in plain values.
pub type InputOf<S> = Input<<S as Service>::Message, <S as Service>::Timer, <S as Service>::Call>;

/// One step of a path: what happened where, and how the dice fell.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Step<S: Service> {
    /// The node whose handler ran.
    pub node: NodeId,
    /// What happened.
    pub event: EventOf<S>,
    /// The choices the handler made, so that a replay makes the same.
    pub tosses: Tosses,
}

impl<M, T, C> Event<M, T, C> {
    /// Makes an event of other types, or says which part cannot be.
    ///
    /// # Errors
    ///
    /// Those of the parts.
    pub fn try_map<N, U, D, E>(
        self,
        message: impl FnOnce(M) -> Result<N, E>,
        timer: impl FnOnce(T) -> Result<U, E>,
        call: impl FnOnce(C) -> Result<D, E>,
    ) -> Result<Event<N, U, D>, E> {
        Ok(match self {
            Self::Deliver { from, message: it } => Event::Deliver {
                from,
                message: message(it)?,
            },
            Self::Receive {
                from,
                connection,
                message: it,
            } => Event::Receive {
                from,
                connection,
                message: message(it)?,
            },
            Self::Refuse { from, connection } => Event::Refuse { from, connection },
            Self::Hangup { from, connection } => Event::Hangup { from, connection },
            Self::Disconnect { from, connection } => Event::Disconnect { from, connection },
            Self::Timer(it) => Event::Timer(timer(it)?),
            Self::Call(it) => Event::Call(call(it)?),
            Self::Reset { notice } => Event::Reset { notice },
            Self::Stop => Event::Stop,
            Self::Start => Event::Start,
            Self::Break { peer } => Event::Break { peer },
            Self::Lose { from, message: it } => Event::Lose {
                from,
                message: message(it)?,
            },
            Self::Duplicate { from, message: it } => Event::Duplicate {
                from,
                message: message(it)?,
            },
        })
    }

    /// Returns the fault this event is, if it is one.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::Reset { notice: true } => Some(Fault::Reset),
            Self::Reset { notice: false } => Some(Fault::SilentReset),
            Self::Break { .. } => Some(Fault::Break),
            Self::Lose { .. } => Some(Fault::Loss),
            Self::Duplicate { .. } => Some(Fault::Duplicate),
            Self::Stop => Some(Fault::LateStart),
            _ => None,
        }
    }

    /// Tells whether the node does this by itself rather than in answer to the network: the internal actions of
    /// CrystalBall §2.1, to which resets and breaking connections count.
    pub fn is_internal(&self) -> bool {
        matches!(
            self,
            Self::Timer(_)
                | Self::Call(_)
                | Self::Reset { .. }
                | Self::Stop
                | Self::Start
                | Self::Break { .. }
        )
    }

    /// Returns what the handler is given, or `None` if no handler runs.
    pub fn input(&self) -> Option<Input<M, T, C>>
    where
        M: Clone,
        T: Clone,
        C: Clone,
    {
        Some(match self {
            Self::Deliver { from, message } | Self::Receive { from, message, .. } => {
                Input::Message {
                    from: *from,
                    message: message.clone(),
                }
            }
            Self::Hangup { from: peer, .. }
            | Self::Disconnect { from: peer, .. }
            | Self::Break { peer } => Input::Disconnect(*peer),
            Self::Timer(timer) => Input::Timer(timer.clone()),
            Self::Call(call) => Input::Call(call.clone()),
            Self::Reset { .. } | Self::Start => Input::Restart,
            Self::Stop => Input::Stop,
            Self::Refuse { .. } | Self::Lose { .. } | Self::Duplicate { .. } => return None,
        })
    }

    /// Tells whether what the node had in memory, its timers among it, is gone afterwards.
    pub fn ends_incarnation(&self) -> bool {
        matches!(self, Self::Reset { .. } | Self::Stop | Self::Start)
    }

    /// Translates the parts, from ids to values or back.
    pub fn map<M2, T2, C2>(
        self,
        message: impl FnOnce(M) -> M2,
        timer: impl FnOnce(T) -> T2,
        call: impl FnOnce(C) -> C2,
    ) -> Event<M2, T2, C2> {
        let mapped: Result<_, Infallible> =
            self.try_map(|it| Ok(message(it)), |it| Ok(timer(it)), |it| Ok(call(it)));
        let Ok(event) = mapped;
        event
    }
}

impl<M: fmt::Debug, T: fmt::Debug, C: fmt::Debug> fmt::Display for Event<M, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deliver { from, message } | Self::Receive { from, message, .. } => {
                write!(f, "{message:?} from {from}")
            }
            Self::Refuse { from, .. } => write!(f, "refuses a stale connection of {from}"),
            Self::Hangup { from, .. } => write!(f, "{from} hung up"),
            Self::Disconnect { from, .. } => {
                write!(f, "learns that its connection to {from} is dead")
            }
            Self::Timer(timer) => write!(f, "timer {timer:?}"),
            Self::Call(call) => write!(f, "call {call:?}"),
            Self::Reset { notice: true } => f.write_str("reset"),
            Self::Reset { notice: false } => f.write_str("silent reset"),
            Self::Stop => f.write_str("goes down"),
            Self::Start => f.write_str("starts late"),
            Self::Break { peer } => write!(f, "connection to {peer} breaks"),
            Self::Lose { from, message } => write!(f, "{message:?} from {from} is lost"),
            Self::Duplicate { from, message } => write!(f, "{message:?} from {from} is doubled"),
        }
    }
}
