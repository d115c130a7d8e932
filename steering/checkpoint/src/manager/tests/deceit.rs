//! Numbers that cannot be true, and who goes where then.

use scry_protocol::frame;
use scry_protocol::link::peer::{PeerMessage, Refused, Request, RequestId};
use scry_protocol::snapshot::{Reason, Refusal};

use super::*;
use crate::leeway::{BELIEVED_MAX, START};

fn far(number: u64) -> CheckpointNumber {
    CheckpointNumber::new(number).expect("in range")
}

/// Brings a node to a number, as its own disk or a lie might have.
fn bring(world: &mut World, id: u32, number: CheckpointNumber) {
    let now = world.now;
    let take = TakeCheckpoint { number };
    world.node(id).obey(now, take.into());
    world.settle();
}

#[test]
fn an_absurd_request_is_refused_and_told_once() {
    let mut world = World::new(3, &quiet());
    for count in 1..=2 {
        let request = Request {
            id: RequestId::new(count),
            number: CheckpointNumber::MAX,
            known: None,
        };
        let request = frame::encode(&PeerMessage::from(request)).expect("small");
        let now = world.now;
        let taken = world.manager(0).handle_frame(now, node(1), &request);
        assert_eq!(taken, Ok(None));
        world.settle();
        let (_, _, answer) = world.frames.pop().expect("an answer");
        let refused = Refused {
            id: RequestId::new(count),
            reason: Refusal::Implausible,
            number: number(1),
        };
        assert_eq!(frame::decode_one(&answer), Ok(PeerMessage::from(refused)));
    }
    assert_eq!(world.node(0).recorder.number(), number(1));
    assert_eq!(world.implausible, [node(1)]);
    assert_eq!(world.manager(0).counts().implausible, 2);
}

#[test]
fn an_absurd_refusal_leaves_its_sender_out_and_moves_nobody() {
    let mut world = World::new(3, &quiet());
    world.gather(0);
    let asked = world.deliver_where(|_, to| to != node(1));
    let (_, _, request) = asked.first().expect("it was asked");
    let Ok(PeerMessage::Request(request)) = frame::decode_one(request) else {
        panic!("no request");
    };
    let refused = Refused {
        id: request.id,
        reason: Refusal::OutOfRange,
        number: CheckpointNumber::MAX,
    };
    let refused = frame::encode(&PeerMessage::from(refused)).expect("small");
    let now = world.now;
    let taken = world.manager(0).handle_frame(now, node(1), &refused);
    assert_eq!(taken, Ok(None));
    world.deliver();
    let snapshot = world.snapshot();
    assert_eq!(numbers(&snapshot), [2, 2]);
    let missing: Vec<_> = snapshot.missing.iter().map(|it| it.reason).collect();
    assert_eq!(missing, [Reason::Implausible]);
    world.gather(2);
    world.deliver();
    assert!(world.snapshot().is_complete(), "the others go on");
}

#[test]
fn whom_most_take_for_a_mistake_goes_back_to_them() {
    let mut world = World::new(3, &quiet());
    bring(&mut world, 0, far(1 << 61));
    world.gather(0);
    world.deliver();
    assert_eq!(world.snapshot().missing.len(), 2);
    let recorder = &world.node(0).recorder;
    assert!(recorder.number() < far(START), "{:?}", recorder.number());
    assert!(recorder.incarnation().is_after(Incarnation::new(1)));
    for id in 0..3 {
        world.gather(id);
        world.deliver();
        assert!(world.snapshot().is_complete());
    }
}

#[test]
fn a_newcomer_follows_when_most_are_far_ahead() {
    let mut world = World::new(4, &quiet());
    let number = far(BELIEVED_MAX + 2 * START);
    for id in 1..4 {
        bring(&mut world, id, number);
    }
    world.gather(0);
    world.deliver();
    assert_eq!(world.snapshot().missing.len(), 3);
    assert_eq!(world.node(0).recorder.number(), number);
    world.gather(0);
    world.deliver();
    assert!(world.snapshot().is_complete());
}

#[test]
fn one_that_is_far_ahead_is_not_followed() {
    let mut world = World::new(4, &quiet());
    bring(&mut world, 3, far(BELIEVED_MAX + 2 * START));
    world.gather(0);
    world.deliver();
    let snapshot = world.snapshot();
    assert_eq!(numbers(&snapshot), [2, 2, 2]);
    assert_eq!(world.node(0).recorder.number(), number(2));
}
