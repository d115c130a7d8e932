//! What scry does for a service that uses neither its command line nor its runtime: it searches it, and a loop of the service's own
//! stamps, takes checkpoints and asks before each handler.

use std::collections::VecDeque;

use own_loop::service::{Call, Setup, Token};
use own_loop::{Node, Parcel};
use scry::{Limits, NodeId, Options, Report, Search, Service, Strategy, System};
use scry_protocol::channel::Envelope;

const MEMBERS: [NodeId; 2] = [NodeId::new(1), NodeId::new(2)];

/// Some time in 2026.
const CLOCK_MS: u64 = 1_790_000_000_000;

fn setup(hasty: bool) -> Setup {
    Setup {
        members: MEMBERS.to_vec(),
        hasty,
    }
}

fn search(hasty: bool) -> Report<Token> {
    let system = System::new(MEMBERS.map(|node| (node, setup(hasty))));
    let (start, _) = system.start().expect("there is no script that could fail");
    let options = Options {
        strategy: Strategy::PORTFOLIO,
        limits: Limits {
            depth: Some(8),
            ..Limits::default()
        },
        ..Options::default()
    };
    Search::new(&start, Token::properties(), options)
        .expect("the options go together")
        .run()
}

#[test]
fn a_search_needs_neither_command_line_nor_runtime() {
    let report = search(true);
    let property = &report.violations[0].property;
    assert_eq!(property, "at most one node holds the token");
    assert!(search(false).violations.is_empty());
}

#[test]
fn a_loop_of_its_own_takes_a_checkpoint_before_what_comes_from_later() {
    let mut one = Node::start(MEMBERS[0], setup(false), CLOCK_MS);
    let mut two = Node::start(MEMBERS[1], setup(false), CLOCK_MS + 1_000);
    // A host begins at the number its clock says.
    let later = two.number();
    assert!(one.number() < later);
    for _ in 0..4 {
        let mut on_their_way: VecDeque<Parcel> = one.call(Call::Pass).into();
        on_their_way.extend(two.call(Call::Pass));
        assert!(!on_their_way.is_empty(), "somebody holds the token");
        while let Some(parcel) = on_their_way.pop_front() {
            let receiver = if parcel.to == MEMBERS[0] {
                &mut one
            } else {
                &mut two
            };
            let (envelope, _) = Envelope::read(&parcel.bytes).expect("it was stamped");
            let is_news = envelope.number.get() > receiver.number();
            let before = receiver.checkpoints_count();
            on_their_way.extend(receiver.receive(&parcel));
            assert_eq!(receiver.checkpoints_count() > before, is_news);
            assert!(receiver.number() >= envelope.number.get());
        }
        assert_ne!(one.token().holds, two.token().holds);
    }
    assert_eq!(one.token().round, 4);
    assert_eq!((one.number(), one.checkpoints_count()), (later, 1));
    assert_eq!((two.number(), two.checkpoints_count()), (later, 0));
}

#[test]
fn bytes_that_are_no_message_reach_no_handler() {
    let mut node = Node::start(MEMBERS[1], setup(false), CLOCK_MS);
    for bytes in [Vec::new(), vec![0xff; 64], vec![0; 3]] {
        let parcel = Parcel {
            from: MEMBERS[0],
            to: MEMBERS[1],
            bytes,
        };
        assert!(node.receive(&parcel).is_empty());
    }
    assert!(!node.token().holds);
}
