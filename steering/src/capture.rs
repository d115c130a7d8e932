//! A running node as bytes and back: what a checkpoint carries of it, and how the checker gets it to run again.
//!
//! A checkpoint is read by the same service in other processes only: the checkers and speculators of this node and of its
//! neighbors. Everything a handler can see is in it, the static settings too, so that a checkpoint needs nothing beside
//! it; between two checkpoints of a node the settings do not differ, and so cost nothing on the wire.

use scry_protocol::messagepack::{self, Reader};
use scry_protocol::{Content, Incarnation, NodeId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use scry_engine::model::handler::Local;
use scry_engine::model::network::Connection;
use scry_engine::panics::in_silence;
use scry_engine::panics::{Panicked, caught};
use scry_engine::service::Service;

/// A running node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Captured<S: Service> {
    /// What its handlers see.
    pub local: Local<S>,
    /// Its ends of the connections that are open, by peer and then by age.
    pub streams: Vec<StreamEnd>,
    /// What arrived and is kept from its handler, in order for each connection.
    pub kept: Vec<Kept>,
    /// What its clock said, if that is known.
    pub readings: Option<Readings>,
}

/// How many events that are kept back a checkpoint shows. The others will be a surprise.
pub const KEPT_MAX: usize = 1024;

/// Something that arrived and is kept from its handler for a while. The channels count it as received, so without this
/// nobody who looks at a checkpoint would know of it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// Who sent it; for the news of a lost connection, the peer.
    pub from: NodeId,
    /// The connection it came on; none for a datagram or a word of the node to itself.
    pub connection: Option<Connection>,
    /// The message as it came over the wire; none for the news that the connection is lost.
    pub message: Option<Vec<u8>>,
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
    /// The incarnation and serial of the channel that leads here, once something came on it.
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

/// How many values a state is on the wire: settings, state, ticks, streams, and what is kept.
const STATE_PARTS: u32 = 5;
/// How many values timers are on the wire: themselves, and readings.
const TIMER_PARTS: u32 = 2;

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
    write_with(setup, local, streams, &[], None)
}

/// As [`write()`], with what arrived and is kept from its handler, and with what the node's clock said.
///
/// # Errors
///
/// As [`write()`].
pub fn write_with<S: Service>(
    setup: &S::Setup,
    local: &Local<S>,
    streams: &[StreamEnd],
    kept: &[Kept],
    readings: Option<&Readings>,
) -> Result<(Vec<u8>, Vec<u8>), rmp_serde::encode::Error> {
    let mut state = Vec::new();
    messagepack::write_list(&mut state, STATE_PARTS);
    messagepack::write(&mut state, setup)?;
    messagepack::write(&mut state, &local.service)?;
    write_surroundings(&mut state, local.ticks, streams, kept)?;
    let mut timers = Vec::new();
    messagepack::write_list(&mut timers, TIMER_PARTS);
    messagepack::write_list(&mut timers, local.timers.len() as u32);
    for timer in &local.timers {
        messagepack::write(&mut timers, timer)?;
    }
    write_readings(&mut timers, readings)?;
    Ok((state, timers))
}

// What does not depend on the service is compiled here, once.

fn write_surroundings(
    out: &mut Vec<u8>,
    ticks: u64,
    streams: &[StreamEnd],
    kept: &[Kept],
) -> Result<(), rmp_serde::encode::Error> {
    messagepack::write(out, &ticks)?;
    messagepack::write(out, streams)?;
    messagepack::write(out, kept)
}

fn write_readings(
    out: &mut Vec<u8>,
    readings: Option<&Readings>,
) -> Result<(), rmp_serde::encode::Error> {
    messagepack::write(out, &readings)
}

type Surroundings = (u64, Vec<StreamEnd>, Vec<Kept>);

fn read_surroundings(reader: &mut Reader<'_>) -> Result<Surroundings, rmp_serde::decode::Error> {
    let ticks = u64::deserialize(&mut *reader)?;
    let streams = Vec::deserialize(&mut *reader)?;
    Ok((ticks, streams, Vec::deserialize(reader)?))
}

fn read_readings(reader: &mut Reader<'_>) -> Result<Option<Readings>, rmp_serde::decode::Error> {
    Option::deserialize(reader)
}

/// Reads a node back from a checkpoint of another node, and does with it once all that will be done with it later: whatever
/// the service's own code does about it, it does here, and a panic is an error.
///
/// What cannot be caught (an abort, a stack that is used up, a loop without end) still happens. Where that must not be, this
/// runs in a process that is there for it.
///
/// # Errors
///
/// What is wrong with it.
pub fn vet<S: Service>(content: &Content) -> Result<(S::Setup, Captured<S>), String> {
    in_silence(|| {
        let read = match caught(|| read::<S>(content)) {
            Ok(read) => read.map_err(|error| error.to_string())?,
            Err(Panicked(said)) => return Err(format!("the service panics on it: {said}")),
        };
        let used = caught(|| {
            use std::fmt::Write;
            let (setup, captured) = &read;
            let copy = (setup.clone(), captured.clone());
            // That it differs from its copy is odd and no harm; that comparing panics would be.
            let _ = copy.1 == *captured;
            let _ = write!(Nowhere, "{copy:?}");
            let _ = write_with(setup, &captured.local, &[], &[], None);
        });
        match used {
            Ok(()) => Ok(read),
            Err(Panicked(said)) => {
                // It may panic once more when it is dropped, so it never is.
                std::mem::forget(read);
                Err(format!("the service panics on it: {said}"))
            }
        }
    })
}

/// Takes a text and keeps nothing.
struct Nowhere;

impl std::fmt::Write for Nowhere {
    fn write_str(&mut self, _: &str) -> std::fmt::Result {
        Ok(())
    }
}

/// Reads a node back from its checkpoint, with the settings it runs with.
///
/// # Errors
///
/// When the checkpoint is of another service.
pub fn read<S: Service>(content: &Content) -> Result<(S::Setup, Captured<S>), RestoreError> {
    let (setup, service, (ticks, streams, kept)) =
        read_state::<S>(&content.state).map_err(RestoreError::State)?;
    let (timers, readings) =
        read_timers::<S::Timer>(&content.timers).map_err(RestoreError::Timers)?;
    // Checkpoints come from other nodes: readings that do not belong to the timers say nothing.
    let readings = readings.filter(|readings| readings.due_ms.len() == timers.len());
    let local = Local {
        service,
        timers,
        ticks,
        panic: None,
        down: false,
    };
    let captured = Captured {
        local,
        streams,
        kept,
        readings,
    };
    Ok((setup, captured))
}

fn read_state<S: Service>(
    bytes: &[u8],
) -> Result<(S::Setup, S, Surroundings), rmp_serde::decode::Error> {
    let mut reader = Reader::new(bytes);
    reader.read_list(STATE_PARTS)?;
    let setup = S::Setup::deserialize(&mut reader)?;
    let service = S::deserialize(&mut reader)?;
    Ok((setup, service, read_surroundings(&mut reader)?))
}

fn read_timers<T: DeserializeOwned>(
    bytes: &[u8],
) -> Result<(Vec<T>, Option<Readings>), rmp_serde::decode::Error> {
    let mut reader = Reader::new(bytes);
    reader.read_list(TIMER_PARTS)?;
    let timers = Vec::deserialize(&mut reader)?;
    Ok((timers, read_readings(&mut reader)?))
}
