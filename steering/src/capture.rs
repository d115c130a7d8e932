//! A running node as bytes and back: what a checkpoint carries of it, and how the checker gets it to run again.
//!
//! A checkpoint is read by the same service in other processes only: the checkers and speculators of this node and of its
//! neighbors. Everything a handler can see is in it, the static settings too, so that a checkpoint needs nothing beside
//! it; between two checkpoints of a node the settings do not differ, and so cost nothing on the wire.

use scry_protocol::{Content, Incarnation, NodeId};
use serde::{Deserialize, Serialize};

use crate::model::handler::Local;
use crate::model::network::Connection;
use crate::service::Service;

/// A running node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Captured<S: Service> {
    /// What its handlers see.
    pub local: Local<S>,
    /// Its ends of the connections that are open, by peer and then by age.
    pub streams: Vec<StreamEnd>,
    /// What its clock said, if that is known.
    pub readings: Option<Readings>,
}

/// What a node's clock said when something last happened to it, and when its timers are due.
///
/// Not what it said when the checkpoint was taken: as long as nothing happens, one checkpoint is like the other.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Readings {
    /// In milliseconds, as stamps are.
    pub event_ms: u64,
    /// How much later each timer is due, in the order of the timers. One that is overdue is due at once.
    pub due_ms: Vec<u64>,
}

/// One end of an open connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct StreamEnd {
    /// The other end.
    pub peer: NodeId,
    /// The connection, by the same name at both ends.
    pub connection: Connection,
    /// The serial of the channel that leads to the peer.
    pub sending: u32,
    /// The life and serial of the channel that leads here, once something came on it.
    pub receiving: Option<(Incarnation, u32)>,
}

/// Why a checkpoint does not show a node of this service.
#[derive(Debug, thiserror::Error)]
pub enum RestoreError {
    /// The state is not one of this service, or of another version of it.
    #[error("the state cannot be read: {0}")]
    State(rmp_serde::decode::Error),
    /// The timers are not of this service.
    #[error("the timers cannot be read: {0}")]
    Timers(rmp_serde::decode::Error),
}

/// The order of fields on the wire, written from borrowed parts.
#[derive(Serialize)]
struct Written<'a, S: Service>(&'a S::Setup, &'a S, u64, &'a [StreamEnd]);

#[derive(Deserialize)]
#[serde(bound = "")]
struct Read<S: Service>(S::Setup, S, u64, Vec<StreamEnd>);

/// Writes a node: its state with its settings and connections, and its timers.
///
/// # Errors
///
/// When the service's own types cannot be encoded: a map with a sequence as key is fine, a length that is not known in
/// advance is not.
pub fn write<S: Service>(
    setup: &S::Setup,
    local: &Local<S>,
    streams: &[StreamEnd],
) -> Result<(Vec<u8>, Vec<u8>), rmp_serde::encode::Error> {
    write_with_readings(setup, local, streams, None)
}

/// As [`write()`], with what the node's clock said.
///
/// # Errors
///
/// As [`write()`].
pub fn write_with_readings<S: Service>(
    setup: &S::Setup,
    local: &Local<S>,
    streams: &[StreamEnd],
    readings: Option<&Readings>,
) -> Result<(Vec<u8>, Vec<u8>), rmp_serde::encode::Error> {
    let state = rmp_serde::to_vec(&Written(setup, &local.service, local.ticks, streams))?;
    Ok((state, rmp_serde::to_vec(&(&local.timers, readings))?))
}

/// Reads a node back from its checkpoint, with the settings it runs with.
///
/// # Errors
///
/// When the checkpoint is of another service.
pub fn read<S: Service>(content: &Content) -> Result<(S::Setup, Captured<S>), RestoreError> {
    let Read(setup, service, ticks, streams) =
        rmp_serde::from_slice(&content.state).map_err(RestoreError::State)?;
    let (timers, readings): (Vec<S::Timer>, Option<Readings>) =
        rmp_serde::from_slice(&content.timers).map_err(RestoreError::Timers)?;
    // Checkpoints come from other nodes: readings that do not belong to the timers say nothing.
    let readings = readings.filter(|readings| readings.due_ms.len() == timers.len());
    let local = Local {
        service,
        timers,
        ticks,
        panic: None,
    };
    let captured = Captured {
        local,
        streams,
        readings,
    };
    Ok((setup, captured))
}
