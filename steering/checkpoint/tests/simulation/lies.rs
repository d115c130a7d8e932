//! What is said that is not true: stamps and frames with absurd numbers, pasts and incarnations.

use scry_protocol::NodeId;
use scry_protocol::channel::{Envelope, Place};
use scry_protocol::link::peer::{PeerMessage, Refused};
use scry_protocol::snapshot::Refusal;
use scry_protocol::{CheckpointNumber, Incarnation, Moment, Past, frame};

use crate::chance::Chance;

/// A number that no honest node has: far ahead, or close to the end.
pub(crate) fn absurd_number(chance: &mut Chance) -> CheckpointNumber {
    let number = match chance.below(4) {
        0 => CheckpointNumber::MAX.get(),
        1 => CheckpointNumber::MAX.get() - chance.below(1 << 20),
        2 => (1 << 61) + chance.below(1 << 60),
        _ => (1 << 48) + chance.below(1 << 50),
    };
    CheckpointNumber::new(number).expect("in range")
}

/// A past full of moments that never were, of all nodes.
fn absurd_past(chance: &mut Chance, nodes: u32, number: CheckpointNumber) -> Past {
    let mut past = Past::up_to(number.previous());
    for node in 0..nodes {
        let incarnation = Incarnation::new(chance.draw());
        past.note(
            NodeId::new(node),
            Moment {
                incarnation,
                number,
            },
        );
    }
    past
}

/// A stamp that may say anything, as somebody makes it who knows a plausible number.
pub(crate) fn absurd_stamp(chance: &mut Chance, nodes: u32, near: CheckpointNumber) -> Envelope {
    let number = match chance.below(3) {
        0 => near,
        1 => near.ahead(chance.below(1 << 41)).expect("in range"),
        _ => absurd_number(chance),
    };
    let place = Place {
        incarnation: Incarnation::new(chance.draw()),
        serial: 0,
        sequence: 1 + chance.below(1 << 60),
    };
    let past = absurd_past(chance, nodes, number);
    Envelope {
        number,
        place: chance.per_mille(500).then_some(place),
        acknowledged: None,
        past: chance.per_mille(500).then_some(Box::new(past)),
    }
}

/// Makes a lie of a stamp, now and then.
pub(crate) fn tamper_stamp(chance: &mut Chance, stamp: &mut Envelope, nodes: u32) {
    match chance.below(20) {
        0 => stamp.number = absurd_number(chance),
        1 => stamp.past = Some(Box::new(absurd_past(chance, nodes, stamp.number))),
        2 => {
            let number = absurd_number(chance);
            stamp.past = Some(Box::new(absurd_past(chance, nodes, number)));
        }
        3 => {
            if let Some(place) = &mut stamp.place {
                place.incarnation = Incarnation::new(chance.draw());
            }
        }
        _ => {}
    }
}

/// Makes a lie of what an agent says, now and then.
pub(crate) fn tamper_frame(chance: &mut Chance, bytes: &mut Vec<u8>) {
    let Ok(mut message) = frame::decode_one::<PeerMessage>(bytes) else {
        return;
    };
    if !chance.per_mille(200) {
        return;
    }
    match &mut message {
        PeerMessage::Request(request) => {
            request.number = absurd_number(chance);
            request.known = None;
        }
        PeerMessage::Refused(refused) => refused.number = absurd_number(chance),
        PeerMessage::Full(full) if chance.per_mille(500) => full.ahead = 1 << 61,
        PeerMessage::Full(full) => {
            let (id, reason) = (full.id, Refusal::OutOfRange);
            let number = absurd_number(chance);
            message = Refused { id, reason, number }.into();
        }
        PeerMessage::Changed(changed) => changed.ahead = chance.draw() >> 3,
        PeerMessage::Same(same) => {
            let (id, reason) = (same.id, Refusal::Implausible);
            let number = CheckpointNumber::from(3);
            message = Refused { id, reason, number }.into();
        }
        _ => {}
    }
    *bytes = frame::encode(&message).expect("as long as before");
}
