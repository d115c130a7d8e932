//! Paths as bytes, and the names of violations.

use scry_protocol::limit::PATH_BYTES_MAX;
use scry_protocol::messagepack::{self, Raw};
use scry_protocol::{Digest, NodeId, ViolationId};
use serde::Deserialize;

use scry_engine::model::event::{Event, Step};
use scry_engine::model::handler::Tosses;
use scry_engine::service::Service;

/// How many events a path from outside may have.
pub const STEPS_MAX: usize = 4096;

/// Why a path cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// It is longer than paths may be.
    #[error("a path of {length} {unit} where at most {max} are allowed")]
    TooLong {
        /// How long it is.
        length: usize,
        /// How long it may be.
        max: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// An event cannot be encoded.
    #[error("the path cannot be encoded: {0}")]
    Encode(#[from] rmp_serde::encode::Error),
    /// The bytes are no path of this service.
    #[error("not a path of this service: {0}")]
    Decode(#[from] rmp_serde::decode::Error),
}

/// Writes a path.
///
/// # Errors
///
/// When it is too long.
pub fn write<S: Service>(path: &[Step<S>]) -> Result<Vec<u8>, PathError> {
    within(path.len(), STEPS_MAX, "events")?;
    let mut bytes = Vec::new();
    // One by one: rmp-serde has code for lists of bytes and of unknown lengths, and for all that is in them.
    messagepack::write_list(&mut bytes, path.len() as u32);
    for step in path {
        messagepack::write(&mut bytes, step)?;
    }
    within(bytes.len(), PATH_BYTES_MAX, "bytes")?;
    Ok(bytes)
}

/// Reads a path.
///
/// # Errors
///
/// When the bytes are no path of this service, or too many.
pub fn read<S: Service>(bytes: &[u8]) -> Result<Vec<Step<S>>, PathError> {
    within(bytes.len(), PATH_BYTES_MAX, "bytes")?;
    let path = read_steps(bytes)?.into_iter().map(|step| {
        let event = step.event.try_map(Raw::read, Raw::read, Raw::read)?;
        Ok(Step {
            node: step.node,
            event,
            tosses: step.tosses,
        })
    });
    let path: Vec<Step<S>> = path.collect::<Result<_, PathError>>()?;
    within(path.len(), STEPS_MAX, "events")?;
    Ok(path)
}

/// A step as it stands in the bytes, whatever the service.
#[derive(Deserialize)]
struct RawStep<'a> {
    node: NodeId,
    #[serde(borrow)]
    event: Event<Raw<'a>, Raw<'a>, Raw<'a>>,
    tosses: Tosses,
}

fn read_steps(bytes: &[u8]) -> Result<Vec<RawStep<'_>>, PathError> {
    Ok(messagepack::from_slice(bytes)?)
}

fn within(length: usize, max: usize, unit: &'static str) -> Result<(), PathError> {
    match length > max {
        true => Err(PathError::TooLong { length, max, unit }),
        false => Ok(()),
    }
}

/// Names a violation by the property, the nodes it is about, and what happens on the path by itself: timers, calls and
/// faults. The messages between are their consequence, and come in many orders.
pub fn name<S: Service>(property: &str, nodes: &[NodeId], path: &[Step<S>]) -> ViolationId {
    let mut bytes = format!("{property}\0{nodes:?}").into_bytes();
    for step in path {
        if step.event.is_internal() || step.event.fault().is_some() {
            bytes.extend(format!("\0{} {}", step.node, step.event).into_bytes());
        }
    }
    let digest = Digest::of(&bytes).to_string();
    let number = u64::from_str_radix(&digest[..16], 16);
    ViolationId::new(number.expect("a digest is shown as hexadecimal digits"))
}
