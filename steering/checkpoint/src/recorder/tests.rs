//! What a recorder keeps, refuses and goes beyond.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::flight::{Traffic, contradiction, in_flight};

const NOW: Time = Time::from_millis(0);
const PEER: NodeId = NodeId::new(2);

fn number(number: u32) -> CheckpointNumber {
    CheckpointNumber::from(number)
}

fn capture(x: u8) -> impl FnOnce() -> Capture {
    move || Capture {
        state: vec![x],
        ..Capture::default()
    }
}

fn past() -> PastOptions {
    PastOptions {
        me: NodeId::new(1),
        entries_max: 8,
        former: None,
    }
}

fn recorder(channels: Option<Options>) -> Recorder {
    let (recorder, first) = Recorder::begin(
        NOW,
        Incarnation::new(1),
        number(1),
        channels,
        past(),
        capture(0),
    );
    let first = first.expect("a small state");
    assert_eq!((first.number, first.after), (number(1), number(0)));
    recorder
}

fn stamped(stamp: u32) -> Envelope {
    Envelope {
        number: number(stamp),
        place: None,
        acknowledged: None,
        past: None,
    }
}

fn state_of(checkpoint: &Checkpoint) -> Vec<u8> {
    checkpoint.body.read().expect("our own").state
}

#[test]
fn a_15_each_period_takes_one_checkpoint_and_stamps_rise() {
    let mut recorder = recorder(None);
    for period in 2..=10 {
        let taken = recorder.handle_period(NOW, capture(0)).expect("small");
        assert_eq!(taken.map(|taken| taken.number), Some(number(period)));
    }
    assert_eq!(recorder.counts(), (10, 0));
}

#[test]
fn a_17_a_message_from_later_forces_a_checkpoint_before_its_handler() {
    let mut recorder = recorder(None);
    let mut x = 41;
    let forced = recorder
        .handle_message(NOW, PEER, Transport::Datagram, &stamped(7), capture(x))
        .expect("small")
        .expect("forced");
    x += 1;
    assert_eq!(state_of(&forced), [41], "the handler made it {x}");
    assert_eq!((forced.after, forced.number), (number(1), number(7)));
    assert_eq!(recorder.number(), number(7));
    assert_eq!(
        recorder.stamp(NOW, PEER, Lane::Datagram, b"").number,
        number(7)
    );
}

#[test]
fn a_number_that_cannot_be_true_is_not_followed_and_told() {
    let mut recorder = recorder(None);
    let absurd = Envelope {
        number: CheckpointNumber::MAX,
        ..stamped(1)
    };
    // What its sender had heard is not known: this node goes above it, and not again at once.
    let above = number(1).ahead(leeway::LEAP).expect("in range");
    for first in [true, false] {
        let taken = recorder
            .handle_message(NOW, PEER, Transport::Datagram, &absurd, capture(0))
            .expect("small");
        assert_eq!(taken.is_some(), first);
        assert_eq!(recorder.number(), above);
        assert_eq!(recorder.past().floor(), above);
    }
    recorder.handle_stranger(NodeId::new(77), CheckpointNumber::MAX);
    let refused = recorder.refused();
    assert_eq!((refused.implausible, refused.strangers), (2, 1));
    assert_eq!(recorder.number(), above);
}

#[test]
fn what_came_with_a_number_that_is_not_believed_has_come_all_the_same() {
    let mut recorder = recorder(Some(Options::default()));
    for (sequence, number) in [(1, number(1)), (2, CheckpointNumber::MAX), (3, number(1))] {
        let place = Place {
            incarnation: Incarnation::new(9),
            serial: 1,
            sequence,
        };
        let envelope = Envelope {
            number,
            place: Some(place),
            ..stamped(1)
        };
        recorder
            .handle_message(NOW, PEER, Transport::Stream, &envelope, capture(0))
            .expect("small");
    }
    let next = recorder.number().next();
    let taken = recorder.handle_take(NOW, next, capture(0));
    let taken = taken.expect("small").expect("due");
    let channels = taken.body.read().expect("our own").channels;
    let receiving = channels.expect("they are kept").receiving;
    assert_eq!(receiving[0].received.up_to(), 3, "{receiving:?}");
}

#[test]
fn a_past_beyond_its_own_stamp_is_not_believed() {
    let mut recorder = recorder(None);
    let mut past = Past::default();
    let incarnation = Incarnation::new(9);
    let absurd = Moment {
        incarnation,
        number: number(1000),
    };
    past.note(NodeId::new(3), absurd);
    let envelope = Envelope {
        past: Some(Box::new(past)),
        ..stamped(5)
    };
    recorder
        .handle_message(NOW, PEER, Transport::Datagram, &envelope, capture(0))
        .expect("small");
    assert_eq!(recorder.refused().pasts, 1);
    assert_eq!(recorder.number(), number(5));
    assert_eq!(recorder.past(), &Past::up_to(number(5)));
}

#[test]
fn whoever_hears_of_another_incarnation_of_its_own_begins_one_that_can_be_told_from_it() {
    let mut recorder = recorder(Some(Options::default()));
    let me = NodeId::new(1);
    let incarnation = Incarnation::new(u64::MAX);
    let mut past = Past::default();
    let number = number(7);
    past.note(
        me,
        Moment {
            incarnation,
            number,
        },
    );
    let envelope = Envelope {
        past: Some(Box::new(past)),
        ..stamped(7)
    };
    recorder
        .handle_message(NOW, PEER, Transport::Datagram, &envelope, capture(0))
        .expect("small");
    assert_eq!(recorder.outlived(), Some(incarnation));
    let first = recorder
        .renew(NOW, incarnation, None, capture(0))
        .expect("small");
    assert_eq!((first.after.get(), first.number.get()), (7, 8));
    let checkpoint = Moment {
        incarnation: recorder.incarnation(),
        number: first.number,
    };
    let mut there = Past::default();
    there.note(
        me,
        Moment {
            incarnation,
            number,
        },
    );
    assert!(there.permits(me, checkpoint, recorder.born()));
    assert_eq!(recorder.outlived(), None);
}

#[test]
fn a_18_a_message_from_now_or_before_forces_none() {
    let mut recorder = recorder(None);
    recorder
        .handle_take(NOW, number(7), capture(0))
        .expect("small");
    for stamp in [1, 6, 7] {
        let none = recorder
            .handle_message(NOW, PEER, Transport::Datagram, &stamped(stamp), || {
                unreachable!("no checkpoint is due")
            })
            .expect("small");
        assert_eq!(none, None);
    }
    assert_eq!(recorder.counts(), (2, 0));
}

#[test]
fn a_26_without_channel_state_a_stamp_is_a_number_only() {
    let envelope = recorder(None).stamp(NOW, PEER, Lane::Datagram, b"x");
    assert_eq!((envelope.place, envelope.acknowledged), (None, None));
}

#[test]
fn a_46_a_checkpoint_does_not_change_when_the_state_does() {
    let mut recorder = recorder(Some(Options::default()));
    let taken = recorder
        .handle_period(NOW, capture(5))
        .expect("small")
        .expect("taken");
    let digest = taken.body.digest();
    recorder.stamp(NOW, PEER, Lane::Datagram, b"later");
    recorder.handle_period(NOW, capture(6)).expect("small");
    assert_eq!(taken.body.digest(), digest);
}

#[test]
fn too_large_a_state_leaves_a_gap_that_the_next_checkpoint_tells() {
    let mut recorder = recorder(None);
    let huge = || Capture {
        state: vec![0; scry_protocol::limit::STATE_BYTES_MAX + 1],
        ..Capture::default()
    };
    assert!(recorder.handle_take(NOW, number(5), huge).is_err());
    assert_eq!(recorder.number(), number(5));
    let next = recorder.handle_period(NOW, capture(0)).expect("small");
    assert_eq!(next.map(|next| next.after), Some(number(5)));
}

#[test]
fn the_forced_checkpoint_does_not_show_the_receipt_that_forced_it() {
    let mut there = recorder(Some(Options::default()));
    there
        .handle_take(NOW, number(9), capture(0))
        .expect("small");
    let envelope = there.stamp(NOW, NodeId::new(1), Lane::Datagram, b"x");
    let mut here = recorder(Some(Options::default()));
    let forced = here
        .handle_message(NOW, PEER, Transport::Datagram, &envelope, capture(0))
        .expect("small")
        .expect("forced");
    let channels = |checkpoint: &Checkpoint| {
        let content = checkpoint.body.read().expect("our own");
        content.channels.expect("kept")
    };
    assert_eq!(channels(&forced).receiving, []);
    let next = here.handle_period(NOW, capture(0)).expect("small");
    assert_eq!(channels(&next.expect("taken")).receiving.len(), 1);
}

#[test]
fn an_acknowledgement_from_later_waits_for_its_time() {
    let mut here = recorder(Some(Options::default()));
    here.stamp(NOW, PEER, Lane::Datagram, b"x");
    let mut received = scry_protocol::channel::Received::default();
    received.note(1);
    here.handle_arrived(&Arrived {
        peer: PEER,
        number: number(5),
        channels: vec![(
            Transport::Datagram,
            Acknowledged {
                incarnation: Incarnation::new(1),
                serial: 0,
                received,
            },
        )],
    });
    let mut kept = |due| {
        let taken = here
            .handle_take(NOW, number(due), capture(0))
            .expect("small");
        let content = taken.expect("taken").body.read().expect("our own");
        content.channels.expect("kept").sending[0]
            .unacknowledged
            .len()
    };
    // The checkpoint numbered 5 answers for 5 and for numbers before it, when the message had not arrived.
    assert_eq!([kept(4), kept(5), kept(6)], [1, 1, 0]);
}

/// Two nodes with a connection from the first to the second, and what is on it.
struct Pair {
    ends: [Recorder; 2],
    lanes: [Lane; 2],
    /// Each with its place, and with its stamp unless that only follows from the one before.
    flying: VecDeque<(Option<Envelope>, Place)>,
    in_runs: bool,
}

impl Pair {
    const NODES: [NodeId; 2] = [NodeId::new(1), PEER];

    fn new(in_runs: bool) -> Self {
        let mut ends = [(); 2].map(|()| recorder(Some(Options::default())));
        let lanes = [0, 1].map(|at| Lane::Stream(ends[at].open(Self::NODES[1 - at])));
        let flying = VecDeque::new();
        Self {
            ends,
            lanes,
            flying,
            in_runs,
        }
    }

    fn send(&mut self, words: &[u8]) {
        let [first, rest @ ..] = words else {
            return;
        };
        let [one, _] = &mut self.ends;
        let mut stamp = |word: u8| one.stamp(NOW, PEER, self.lanes[0], &[word]);
        let envelope = stamp(*first);
        let mut place = envelope.place.expect("it is kept");
        self.flying.push_back((Some(envelope), place));
        if !self.in_runs {
            let envelopes = rest.iter().map(|word| stamp(*word));
            self.flying.extend(envelopes.map(|envelope| {
                let place = envelope.place.expect("it is kept");
                (Some(envelope), place)
            }));
            return;
        }
        let mut run = Messages::default();
        for word in rest {
            run.push_with(|out| {
                out.push(*word);
                Ok::<_, std::convert::Infallible>(())
            })
            .expect("it cannot fail");
            place.sequence += 1;
            self.flying.push_back((None, place));
        }
        one.handle_sent(NOW, PEER, self.lanes[0], &run);
    }

    fn deliver(&mut self, count: usize) {
        let [from, _] = Self::NODES;
        let two = &mut self.ends[1];
        let mut run = (None, 0);
        for (envelope, place) in self.flying.drain(..count.min(self.flying.len())) {
            let Some(envelope) = envelope else {
                run = (Some(place), run.1 + 1);
                continue;
            };
            two.handle_run(from, Transport::Stream, run.0.take(), run.1);
            run.1 = 0;
            two.handle_message(NOW, from, Transport::Stream, &envelope, capture(0))
                .expect("small");
        }
        two.handle_run(from, Transport::Stream, run.0, run.1);
    }

    fn answer(&mut self) {
        let [to, from] = Self::NODES;
        let [one, two] = &mut self.ends;
        let envelope = two.stamp(NOW, to, self.lanes[1], b"answer");
        one.handle_message(NOW, from, Transport::Stream, &envelope, capture(0))
            .expect("small");
    }

    /// Returns what a snapshot of both shows.
    fn traffic(&mut self, at: CheckpointNumber) -> Traffic {
        let contents = self.ends.each_mut().map(|end| {
            let taken = end.handle_take(NOW, at, capture(0)).expect("small");
            taken.expect("taken").body.read().expect("our own")
        });
        let members = [0, 1].map(|at| (Self::NODES[at], &contents[at]));
        assert_eq!(contradiction(&members), None);
        in_flight(&members)
    }
}

proptest! {
    #[test]
    fn a_25_a_run_is_its_messages(steps in prop::collection::vec(
        (prop::collection::vec(any::<u8>(), 0..100), 0usize..100, any::<bool>()),
        0..20,
    )) {
        let (mut singly, mut in_runs) = (Pair::new(false), Pair::new(true));
        for (at, (words, count, answer)) in (2..).zip(steps) {
            let [singly, in_runs] = [&mut singly, &mut in_runs].map(|pair| {
                pair.send(&words);
                pair.deliver(count);
                if answer {
                    pair.answer();
                }
                let traffic = pair.traffic(number(at));
                let shown = traffic.messages.len() as u64 + traffic.unlisted;
                assert_eq!(shown, pair.flying.len() as u64);
                traffic
            });
            prop_assert_eq!(singly, in_runs);
        }
    }
}
