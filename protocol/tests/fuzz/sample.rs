//! Valid messages of every kind, made from dice.

use scry_protocol::channel::{
    Acknowledged, ChannelState, Envelope, Place, Received, Receiving, Sending, Unacknowledged,
};
use scry_protocol::compress::Packed;
use scry_protocol::delta::Delta;
use scry_protocol::filter::{Action, Filter, Matcher, Mode};
use scry_protocol::link::checker::{
    AgentToChecker, Budget, Cancel, CheckerToAgent, Clock, Ended, Faults, Found, Job, Lasting,
    LeftOut, Order, PastPath, Progress, Ready, Replayed, Report, Unjudged, Violation,
};
use scry_protocol::link::host::{
    AgentToHost, Arrived, AskNeighbors, CheckSettings, Checkpoint, Contact, Contacts, FailedOpen,
    FilterEnded, FilterHit, Goodbye, Harm, Hello, HostToAgent, InstallFilters, LookAgain, Neighbor,
    Neighbors, Predicted, PredictionAnswer, PropertyMode, SetMode, Stats, Surroundings, Suspicion,
    Switches, TakeCheckpoint, Veto, Welcome, WithdrawFilters,
};
use scry_protocol::link::peer::{
    Base, Changed, Confirm, Full, PathAnswer, PathOutcome, PeerMessage, Refused, Request,
    RequestId, Same, SharePath,
};
use scry_protocol::snapshot::{Member, Missing, Reason, Refusal};
use scry_protocol::{
    Body, CheckpointNumber, Content, Digest, FilterId, Incarnation, Moment, NodeId, Past, RunId,
    Snapshot, Times, Transport, ViolationId,
};

use crate::mutate::Dice;

fn node(dice: &mut Dice) -> NodeId {
    NodeId::new(dice.number() as u32)
}

fn number(dice: &mut Dice) -> CheckpointNumber {
    CheckpointNumber::new(dice.number()).expect("numbers are below two to the 62nd")
}

fn text(dice: &mut Dice) -> String {
    let length = dice.below(30);
    (0..length)
        .map(|_| char::from_u32(dice.below(0x300) as u32).unwrap_or('x'))
        .collect()
}

fn list<T>(dice: &mut Dice, max: u64, make: impl Fn(&mut Dice) -> T) -> Vec<T> {
    let length = dice.below(max + 1);
    (0..length).map(|_| make(dice)).collect()
}

fn optional<T>(dice: &mut Dice, make: impl Fn(&mut Dice) -> T) -> Option<T> {
    dice.flag().then(|| make(dice))
}

/// Draws codes until one is known.
fn coded<T: TryFrom<u8>>(dice: &mut Dice) -> T {
    loop {
        if let Ok(value) = T::try_from(dice.below(16) as u8) {
            return value;
        }
    }
}

fn received(dice: &mut Dice) -> Received {
    let mut received = Received::default();
    for _ in 0..dice.below(6) {
        received.note(1 + dice.below(100));
    }
    received
}

fn acknowledged(dice: &mut Dice) -> Acknowledged {
    Acknowledged {
        incarnation: Incarnation::new(dice.draw()),
        serial: dice.draw() as u32,
        received: received(dice),
    }
}

pub(crate) fn envelope(dice: &mut Dice) -> Envelope {
    Envelope {
        number: number(dice),
        place: optional(dice, |dice| Place {
            incarnation: Incarnation::new(dice.number()),
            serial: dice.number() as u32,
            sequence: dice.number() + 1,
        }),
        acknowledged: optional(dice, acknowledged),
        past: optional(dice, |dice| Box::new(past(dice))),
    }
}

fn past(dice: &mut Dice) -> Past {
    let mut past = Past::up_to(number(dice));
    for _ in 0..dice.below(4) {
        let moment = Moment {
            incarnation: Incarnation::new(dice.number()),
            number: number(dice),
        };
        past.note(node(dice), moment);
    }
    past
}

fn channels(dice: &mut Dice) -> ChannelState {
    ChannelState {
        sending: list(dice, 4, |dice| Sending {
            peer: node(dice),
            transport: coded(dice),
            serial: dice.number() as u32,
            sent: dice.number(),
            forgotten: dice.number(),
            unacknowledged: list(dice, 3, |dice| Unacknowledged {
                sequence: dice.number(),
                number: number(dice),
                message: dice.bytes(40),
            }),
        }),
        receiving: list(dice, 4, |dice| Receiving {
            peer: node(dice),
            transport: coded(dice),
            incarnation: Incarnation::new(dice.number()),
            serial: dice.number() as u32,
            received: received(dice),
            ended: dice.flag(),
        }),
    }
}

pub(crate) fn content(dice: &mut Dice) -> Content {
    Content {
        incarnation: Incarnation::new(dice.number()),
        born: number(dice),
        past: past(dice),
        state: dice.text_like(200),
        timers: dice.bytes(20),
        channels: optional(dice, channels),
    }
}

fn body(dice: &mut Dice) -> Body {
    content(dice).write().expect("a sample is small")
}

fn filter(dice: &mut Dice) -> Filter {
    let content = optional(dice, |dice| Digest::of(&dice.bytes(4)));
    let kind = text(dice);
    Filter {
        id: FilterId::new(dice.number()),
        matcher: match dice.below(4) {
            0 => Matcher::Message {
                kind,
                source: node(dice),
                destination: node(dice),
                content,
            },
            1 => Matcher::Timer { kind, content },
            2 => Matcher::Call { kind, content },
            _ => Matcher::Disconnect { peer: node(dice) },
        },
        action: coded::<Action>(dice),
        ttl_ms: dice.number(),
        hits_max: dice.number(),
        mode: coded::<Mode>(dice),
        violation: ViolationId::new(dice.number()),
        property: text(dice),
        reason: text(dice),
    }
}

pub(crate) fn host_to_agent(dice: &mut Dice) -> HostToAgent {
    match dice.below(13) {
        0 => Hello {
            node: node(dice),
            incarnation: Incarnation::new(dice.draw()),
            born: number(dice),
            number: number(dice),
            service: text(dice),
            version: text(dice),
            checks: dice.flag(),
        }
        .into(),
        1 => Checkpoint {
            number: number(dice),
            after: number(dice),
            body: body(dice),
            neighbors: optional(dice, |dice| list(dice, 9, node)),
        }
        .into(),
        2 => Neighbors {
            neighbors: optional(dice, |dice| list(dice, 9, node)),
        }
        .into(),
        3 => Contacts {
            contacts: list(dice, 9, |dice| Contact {
                peer: node(dice),
                transport: coded::<Transport>(dice),
                port: dice.number() as u32,
                ago_ms: dice.number(),
                closed: dice.flag(),
            }),
        }
        .into(),
        4 => Stats {
            sent_bytes: dice.number(),
            sent_messages: dice.number(),
            received_messages: dice.number(),
            checkpoints: dice.number(),
            forced_checkpoints: dice.number(),
            dropped_frames: dice.number(),
            events: dice.number(),
            filtered_events: dice.number(),
            vetoed_events: dice.number(),
            held_events: dice.number(),
            unchecked_events: dice.number(),
            check_times: {
                let mut times = Times::default();
                times.note_us(dice.number());
                times
            },
            answered_calls: dice.number(),
            held: coded(dice),
            harm: list(dice, 3, |dice| Harm {
                property: text(dice),
                dropped: dice.number(),
                reset: dice.number(),
                refused: dice.number(),
                delayed: dice.number(),
            }),
        }
        .into(),
        5 => FilterHit {
            filter: FilterId::new(dice.number()),
            hits: dice.number(),
            acted: dice.flag(),
            event: text(dice),
        }
        .into(),
        6 => FilterEnded {
            filter: FilterId::new(dice.number()),
            end: coded(dice),
            hits: dice.number(),
        }
        .into(),
        7 => Veto {
            property: text(dice),
            event: text(dice),
            explanation: text(dice),
            acted: dice.flag(),
            elapsed_us: dice.number(),
        }
        .into(),
        8 => FailedOpen {
            failure: coded(dice),
            count: dice.number(),
            detail: text(dice),
        }
        .into(),
        9 => PredictionAnswer {
            violation: ViolationId::new(dice.number()),
            filters: list(dice, 9, |dice| FilterId::new(dice.number())),
            handled: dice.flag(),
        }
        .into(),
        10 => LookAgain {
            question: dice.number(),
            number: number(dice),
            wait_ms: dice.number(),
            about: dice.flag().then(|| node(dice)),
        }
        .into(),
        11 => Suspicion {
            property: text(dice),
            event: text(dice),
            outcome: coded(dice),
            held_us: dice.number(),
        }
        .into(),
        _ => Goodbye {
            number: number(dice),
        }
        .into(),
    }
}

pub(crate) fn agent_to_host(dice: &mut Dice) -> AgentToHost {
    match dice.below(11) {
        0 => Welcome {
            version: text(dice),
            mode: coded::<Mode>(dice),
        }
        .into(),
        1 => TakeCheckpoint {
            number: number(dice),
        }
        .into(),
        2 => AskNeighbors {}.into(),
        3 => Arrived {
            peer: node(dice),
            number: number(dice),
            channels: list(dice, 5, |dice| (coded(dice), acknowledged(dice))),
        }
        .into(),
        4 => InstallFilters {
            run: RunId::new(dice.number()),
            filters: list(dice, 4, filter),
        }
        .into(),
        5 => WithdrawFilters {
            filters: optional(dice, |dice| {
                list(dice, 9, |dice| FilterId::new(dice.number()))
            }),
        }
        .into(),
        6 => Surroundings {
            number: number(dice),
            answers: optional(dice, Dice::number),
            neighbors: list(dice, 3, |dice| Neighbor {
                node: node(dice),
                number: number(dice),
                present: dice.flag(),
                lasting: list(dice, 3, text),
                body: body(dice),
            }),
        }
        .into(),
        7 => Box::new(CheckSettings {
            properties: text(dice),
            modes: list(dice, 3, |dice| PropertyMode {
                property: text(dice),
                mode: coded(dice),
            }),
            isolate: coded(dice),
            deadline_ms: dice.number(),
            surroundings_age_ms_max: dice.number(),
            hold_ms_max: dice.number(),
            time_share_per_mille: dice.number() as u32,
        })
        .into(),
        8 => Box::new(Predicted {
            violation: ViolationId::new(dice.number()),
            property: text(dice),
            explanation: text(dice),
            path: dice.bytes(60),
            filters: list(dice, 2, filter),
        })
        .into(),
        9 => Switches {
            files: list(dice, 2, text),
        }
        .into(),
        _ => SetMode { mode: coded(dice) }.into(),
    }
}

pub(crate) fn peer(dice: &mut Dice) -> PeerMessage {
    let id = RequestId::new(dice.number() as u16);
    let base = |dice: &mut Dice| Base {
        number: number(dice),
        digest: Digest::of(&dice.bytes(4)).short(),
    };
    match dice.below(8) {
        0 => Request {
            id,
            number: number(dice),
            known: optional(dice, base),
        }
        .into(),
        1 => Full {
            id,
            ahead: dice.number(),
            age_ms: dice.number(),
            body: Packed::pack(dice.text_like(300)),
        }
        .into(),
        2 => Changed {
            id,
            ahead: dice.number(),
            age_ms: dice.number(),
            delta: Delta::between(&dice.text_like(300), &dice.clone().text_like(300)),
        }
        .into(),
        3 => Same {
            id,
            ahead: dice.number(),
            age_ms: dice.number(),
        }
        .into(),
        4 => Refused {
            id,
            reason: coded::<Refusal>(dice),
            number: number(dice),
        }
        .into(),
        5 => Confirm { base: base(dice) }.into(),
        6 => SharePath {
            by: node(dice),
            violation: ViolationId::new(dice.number()),
            service: text(dice),
            version: text(dice),
            property: text(dice),
            path: dice.bytes(100),
        }
        .into(),
        _ => PathAnswer {
            violation: ViolationId::new(dice.number()),
            outcome: coded::<PathOutcome>(dice),
        }
        .into(),
    }
}

fn snapshot(dice: &mut Dice) -> Snapshot {
    Snapshot {
        by: node(dice),
        number: number(dice),
        rounds: dice.below(5) as u32,
        elapsed_ms: dice.number(),
        members: list(dice, 3, |dice| Member {
            node: node(dice),
            number: number(dice),
            age_ms: dice.number(),
            body: body(dice),
        }),
        missing: list(dice, 3, |dice| Missing {
            node: node(dice),
            reason: coded::<Reason>(dice),
        }),
    }
}

pub(crate) fn agent_to_checker(dice: &mut Dice) -> AgentToChecker {
    let run = RunId::new(dice.number());
    if dice.one_in(5) == 0 {
        return Cancel { run }.into();
    }
    Box::new(Job {
        run,
        snapshot: snapshot(dice),
        properties: text(dice),
        faults: Faults {
            resets: dice.below(256) as u8,
            silent_resets: dice.below(256) as u8,
            breaks: dice.below(256) as u8,
            losses: dice.below(256) as u8,
            duplicates: dice.below(256) as u8,
            late_starts: dice.below(256) as u8,
        },
        clock: Clock {
            free: dice.below(2) == 1,
            late_ms: dice.number(),
            skew_ms: dice.number(),
            drift_ppm: dice.number() as u32,
        },
        budget: Budget {
            time_ms: dice.number(),
            states_max: dice.number(),
            depth_max: dice.number() as u32,
            memory_bytes_max: dice.number(),
            violations_max: dice.number() as u32,
        },
        order: coded::<Order>(dice),
        checks: dice.flag(),
        past_paths: list(dice, 3, |dice| PastPath {
            violation: ViolationId::new(dice.number()),
            path: dice.bytes(50),
        }),
        whole: dice.flag(),
        modes: list(dice, 3, |dice| PropertyMode {
            property: text(dice),
            mode: coded(dice),
        }),
        strategy: text(dice),
        liveness: coded(dice),
    })
    .into()
}

fn progress(dice: &mut Dice) -> Progress {
    Progress {
        run: RunId::new(dice.number()),
        states: dice.number(),
        depth: dice.number() as u32,
        elapsed_ms: dice.number(),
        covered: dice.below(2) == 0,
    }
}

pub(crate) fn checker_to_agent(dice: &mut Dice) -> CheckerToAgent {
    match dice.below(5) {
        0 => Ready {
            properties: list(dice, 3, text),
        }
        .into(),
        1 => Replayed {
            run: RunId::new(dice.number()),
            violation: ViolationId::new(dice.number()),
            confirmed: dice.flag(),
            how: coded(dice),
            remedies: list(dice, 2, filter),
            elsewhere: optional(dice, node),
        }
        .into(),
        2 => progress(dice).into(),
        3 => Box::new(Found {
            run: RunId::new(dice.number()),
            violation: Violation {
                id: ViolationId::new(dice.number()),
                property: text(dice),
                how: coded(dice),
                critical: text(dice),
                explanation: text(dice),
                depth: dice.number() as u32,
                path: dice.bytes(60),
                remedies: list(dice, 2, filter),
                unhelpful: text(dice),
                neighbor: optional(dice, node),
                elsewhere: optional(dice, node),
                found_by: text(dice),
                trace: dice.bytes(90),
            },
        })
        .into(),
        _ => Report {
            run: RunId::new(dice.number()),
            ended: coded::<Ended>(dice),
            progress: progress(dice),
            violations: dice.number() as u32,
            unconfirmed: dice.number(),
            detail: text(dice),
            lasting: list(dice, 3, |dice| Lasting {
                node: node(dice),
                properties: list(dice, 3, text),
            }),
            unjudged: list(dice, 3, unjudged),
            left_out: list(dice, 3, |dice| LeftOut {
                node: node(dice),
                why: text(dice),
            }),
            cut_off: list(dice, 3, text),
            panicked: list(dice, 3, unjudged),
        }
        .into(),
    }
}

fn unjudged(dice: &mut Dice) -> Unjudged {
    Unjudged {
        property: text(dice),
        why: text(dice),
    }
}
