//! What filters match, what becomes of it, and how filters end (A-89…A-95).

use std::thread;

use scry_protocol::filter::{Action, Filter, Matcher, Mode};
use scry_protocol::link::host::{
    FilterEnd, FilterHit, HostToAgent, InstallFilters, Predicted, SetMode, WithdrawFilters,
};
use scry_protocol::{Digest, FilterId, NodeId, RunId, Transport, ViolationId};

use crate::hook::tests::rig::{NOW, PEER, Rig, capture, filter, join, message, until};
use crate::hook::{Disarm, INSTALLED_MAX, Kept, Occurrence, Request, Verdict};

fn id(filter: u64) -> FilterId {
    FilterId::new(filter)
}

fn hit(rig: &mut Rig) -> FilterHit {
    rig.agent.expect(|message| match message {
        HostToAgent::FilterHit(hit) => Some(hit),
        _ => None,
    })
}

fn stamped(number: u32) -> scry_protocol::channel::Envelope {
    scry_protocol::channel::Envelope {
        number: number.into(),
        place: None,
        acknowledged: None,
        past: None,
    }
}

#[test]
fn a_89_a_message_filter_matches_its_kind_source_and_destination_only() {
    let mut rig = Rig::new();
    let elsewhere = Matcher::Message {
        kind: "Leave".to_owned(),
        source: PEER,
        destination: NodeId::new(9),
        content: None,
    };
    rig.install([join(1, Action::Drop), filter(2, elsewhere, Action::Drop)]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Drop(id(1)));
    assert_eq!(rig.message("Join", NodeId::new(3), b""), Verdict::Run);
    assert_eq!(rig.message("Joined", PEER, b""), Verdict::Run);
    assert_eq!(rig.message("Leave", PEER, b""), Verdict::Run);
    assert_eq!(rig.timer("Join", b""), Verdict::Run);
    assert_eq!(rig.call("Join"), Verdict::Run);
    let hit = hit(&mut rig);
    assert_eq!((hit.filter, hit.hits, hit.acted), (id(1), 1, true));
    assert_eq!(hit.event, "Join from n2");
    assert_eq!(rig.hook.stats().filtered_events, 1);
    assert_eq!(rig.hook.stats().events, 6);
}

#[test]
fn a_89_a_filter_with_a_content_matches_that_content_only() {
    let mut rig = Rig::new();
    let matcher = Matcher::Message {
        kind: "Join".to_owned(),
        source: PEER,
        destination: super::rig::ME,
        content: Some(Digest::of(b"this one")),
    };
    rig.install([filter(1, matcher, Action::Drop)]);
    assert_eq!(rig.message("Join", PEER, b"another"), Verdict::Run);
    assert_eq!(rig.message("Join", PEER, b"this one"), Verdict::Drop(id(1)));
}

#[test]
fn what_filters_take_from_the_service_is_counted_by_property() {
    let mut rig = Rig::new();
    let call = Matcher::Call {
        kind: "Put".to_owned(),
        content: None,
    };
    let mut refuse = filter(2, call.clone(), Action::Refuse);
    refuse.property = "no double".to_owned();
    let mut watch = filter(3, call, Action::Refuse);
    watch.property = "only watched".to_owned();
    watch.mode = Mode::Audit;
    let mut reset = join(1, Action::Reset);
    reset.property = "one root".to_owned();
    rig.install([reset, refuse, watch]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Reset(id(1)));
    assert_eq!(rig.call("Put"), Verdict::Refuse(id(2)));
    assert_eq!(rig.call("Put"), Verdict::Refuse(id(2)));
    assert_eq!(rig.call("Get"), Verdict::Run);
    rig.hook.count_answered();
    rig.hook.count_harm("by the check", Kept::Delayed);
    let stats = rig.hook.stats();
    assert_eq!(stats.answered_calls, 1);
    let counted: Vec<_> = stats
        .harm
        .iter()
        .map(|harm| {
            let counts = [harm.dropped, harm.reset, harm.refused, harm.delayed];
            (harm.property.as_str(), counts)
        })
        .collect();
    let expect = [
        ("by the check", [0, 0, 0, 1]),
        ("no double", [0, 0, 2, 0]),
        ("one root", [1, 1, 0, 0]),
    ];
    assert_eq!(counted, expect);
}

#[test]
fn what_is_to_be_checked_is_not_counted_and_comes_after_what_acts() {
    let mut rig = Rig::new();
    rig.install([join(1, Action::Check), join(2, Action::Drop)]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Drop(id(2)));
    rig.install([Filter {
        mode: Mode::Audit,
        ..join(2, Action::Drop)
    }]);
    for _ in 0..2_000 {
        assert_eq!(rig.message("Join", PEER, b""), Verdict::Check(id(1)));
    }
    assert_eq!(rig.message("Leave", PEER, b""), Verdict::Run);
    assert_eq!(rig.hook.property_of(id(1)).as_deref(), Some("a property"));
    // It takes nothing from the service, whatever is checked.
    let harm = rig.hook.stats().harm;
    assert_eq!(harm.iter().map(|harm| harm.dropped).sum::<u64>(), 1);
    rig.install([Filter {
        mode: Mode::Audit,
        ..join(1, Action::Check)
    }]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
}

#[test]
fn a_90_a_timer_filter_does_not_stop_another_timer() {
    let mut rig = Rig::new();
    let timer = |kind: &str, content| Matcher::Timer {
        kind: kind.to_owned(),
        content,
    };
    rig.install([
        filter(1, timer("Retry", None), Action::Postpone),
        filter(
            2,
            timer("Probe", Some(Digest::of(b"\x03"))),
            Action::Postpone,
        ),
    ]);
    assert_eq!(rig.timer("Retry", b""), Verdict::Postpone(id(1)));
    assert_eq!(rig.timer("Other", b""), Verdict::Run);
    assert_eq!(rig.timer("Probe", b"\x02"), Verdict::Run);
    assert_eq!(rig.timer("Probe", b"\x03"), Verdict::Postpone(id(2)));
    assert_eq!(rig.message("Retry", PEER, b""), Verdict::Run);
}

#[test]
fn a_91_a_held_message_is_offered_again_when_the_filter_ends() {
    let mut rig = Rig::new();
    rig.install([join(1, Action::Hold)]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Hold(id(1)));
    rig.agent.send(WithdrawFilters {
        filters: Some(vec![id(1)]),
    });
    assert_eq!(rig.wait_ended(1), FilterEnd::Withdrawn);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
}

#[test]
fn a_5_the_news_of_a_lost_connection_with_one_peer_waits_until_the_filter_ends() {
    let mut rig = Rig::new();
    let lost = Matcher::Disconnect { peer: PEER };
    rig.install([filter(1, lost, Action::Postpone)]);
    assert_eq!(rig.lost(PEER), Verdict::Postpone(id(1)));
    assert_eq!(rig.lost(super::rig::ME), Verdict::Run);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
    rig.agent.send(WithdrawFilters {
        filters: Some(vec![id(1)]),
    });
    assert_eq!(rig.wait_ended(1), FilterEnd::Withdrawn);
    assert_eq!(rig.lost(PEER), Verdict::Run);
}

#[test]
fn a_92_to_94_each_action_has_its_verdict() {
    let mut rig = Rig::new();
    let call = Matcher::Call {
        kind: "propose".to_owned(),
        content: None,
    };
    rig.install([
        join(1, Action::Reset),
        filter(2, call, Action::Refuse),
        filter(3, message("Leave", PEER), Action::Drop),
    ]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Reset(id(1)));
    assert_eq!(rig.call("propose"), Verdict::Refuse(id(2)));
    assert_eq!(rig.call("read"), Verdict::Run);
    assert_eq!(rig.message("Leave", PEER, b""), Verdict::Drop(id(3)));
}

#[test]
fn a_95_a_lease_lapses_though_the_agent_says_nothing() {
    let mut rig = Rig::new();
    let short = Filter {
        ttl_ms: 30,
        ..join(1, Action::Drop)
    };
    rig.install([short, join(2, Action::Hold)]);
    // The loop does not turn: the hook's own thread notices.
    let ended = rig.agent.expect_ended();
    assert_eq!((ended.filter, ended.end), (id(1), FilterEnd::Lapsed));
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Hold(id(2)));
}

#[test]
fn a_95_a_renewed_lease_lasts_and_no_lease_is_endless() {
    let mut rig = Rig::new();
    let endless = Filter {
        ttl_ms: u64::MAX,
        ..join(1, Action::Drop)
    };
    rig.install([endless.clone()]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Drop(id(1)));
    let now_ms = rig.hook.shared.now_ms();
    let ends_ms = rig.hook.shared.with_leases(|leases| leases.next_end_ms());
    assert!(ends_ms.expect("one is installed") <= now_ms + crate::hook::LEASE_MS_MAX);
    rig.install([endless]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Drop(id(1)));
    let hits = (hit(&mut rig).hits, hit(&mut rig).hits);
    assert_eq!(hits, (1, 2), "hits are counted over renewals");
}

#[test]
fn a_filter_acts_as_often_as_it_may() {
    let mut rig = Rig::new();
    rig.install([Filter {
        hits_max: 3,
        ..join(1, Action::Drop)
    }]);
    let verdicts: Vec<Verdict> = (0..5).map(|_| rig.message("Join", PEER, b"")).collect();
    assert_eq!(verdicts[..3], [Verdict::Drop(id(1)); 3]);
    assert_eq!(verdicts[3..], [Verdict::Run; 2]);
    let ended = rig.agent.expect_ended();
    assert_eq!((ended.end, ended.hits), (FilterEnd::HitsUsed, 3));
}

#[test]
fn a_83_audit_reports_and_never_acts() {
    for (global, own) in [(Mode::Audit, Mode::Steer), (Mode::Steer, Mode::Audit)] {
        let mut rig = Rig::with(global, |_| {});
        rig.install([Filter {
            mode: own,
            hits_max: 2,
            ..join(1, Action::Drop)
        }]);
        for hits in 1..=5 {
            assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
            let hit = hit(&mut rig);
            assert_eq!((hit.hits, hit.acted), (hits, false));
        }
        assert_eq!(rig.hook.stats().filtered_events, 0);
    }
}

#[test]
fn the_mode_can_change_while_filters_are_installed() {
    let mut rig = Rig::with(Mode::Audit, |_| {});
    rig.install([join(1, Action::Drop)]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
    rig.agent.send(SetMode { mode: Mode::Steer });
    rig.settle();
    assert_eq!(rig.hook.mode(), Mode::Steer);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Drop(id(1)));
}

#[test]
fn of_two_filters_the_one_that_acts_decides() {
    let mut rig = Rig::new();
    let watching = Filter {
        mode: Mode::Audit,
        ..join(1, Action::Drop)
    };
    rig.install([join(3, Action::Drop), join(2, Action::Reset), watching]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Reset(id(2)));
    assert_eq!((hit(&mut rig).filter, hit(&mut rig).filter), (id(1), id(2)));
}

#[test]
fn a_filter_that_blocks_too_often_is_disarmed() {
    let mut rig = Rig::with(Mode::Steer, |options| {
        options.disarm = Disarm {
            acts_per_minute_max: 5,
            ..Disarm::default()
        };
    });
    rig.install([join(1, Action::Hold)]);
    let acted = (0..9)
        .filter(|_| rig.message("Join", PEER, b"") != Verdict::Run)
        .count();
    assert_eq!(acted, 5);
    assert_eq!(rig.wait_ended(1), FilterEnd::Disarmed);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
    // It watches on, also after it is renewed.
    rig.install([join(1, Action::Hold)]);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
    assert_eq!(rig.hook.stats().filtered_events, 5);
}

#[test]
fn a_filter_that_blocks_most_of_a_peer_is_disarmed() {
    let mut rig = Rig::with(Mode::Steer, |options| {
        options.disarm = Disarm {
            peer_percent_max: 50,
            peer_messages_min: 20,
            ..Disarm::default()
        };
    });
    rig.install([join(1, Action::Drop)]);
    let mut acted = 0;
    for _ in 0..40 {
        rig.hook
            .receive(NOW, PEER, Transport::Datagram, &stamped(1), capture);
        acted += usize::from(rig.message("Join", PEER, b"") != Verdict::Run);
    }
    assert_eq!(acted, 19, "nineteen are too few to judge by");
    assert_eq!(rig.wait_ended(1), FilterEnd::Disarmed);
}

#[test]
fn filters_no_network_could_be_end_the_connection() {
    let unfit = [
        filter(1, message("Join", PEER), Action::Postpone),
        filter(
            1,
            Matcher::Timer {
                kind: "Retry".to_owned(),
                content: None,
            },
            Action::Drop,
        ),
    ];
    for unfit in unfit {
        let mut rig = Rig::new();
        rig.agent.send(InstallFilters {
            run: RunId::new(1),
            filters: vec![unfit],
        });
        rig.agent.expect_closed();
        assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
        assert_eq!(rig.timer("Retry", b""), Verdict::Run);
    }
}

#[test]
fn more_filters_than_there_may_be_end_the_connection() {
    let mut rig = Rig::new();
    for frame in 0..=INSTALLED_MAX as u64 / 256 {
        let filters = (0..256).map(|at| join(frame * 256 + at, Action::Drop));
        rig.agent.send(InstallFilters {
            run: RunId::new(1),
            filters: filters.collect(),
        });
    }
    rig.agent.expect_closed();
    until("the filters fall", || {
        rig.message("Join", PEER, b"") == Verdict::Run
    });
}

#[test]
fn a_86_predictions_go_to_the_loop_and_their_filters_only_if_it_leaves_them() {
    let mut rig = Rig::new();
    rig.agent.send(Box::new(Predicted {
        violation: ViolationId::new(7),
        property: "a property".to_owned(),
        explanation: String::new(),
        path: vec![1, 2],
        filters: vec![join(1, Action::Drop)],
    }));
    rig.settle();
    let Some(Request::Predicted(predicted)) = rig.requests.pop() else {
        panic!("no prediction in {:?}", rig.requests);
    };
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
    rig.hook.install(predicted.filters);
    assert_eq!(rig.message("Join", PEER, b""), Verdict::Drop(id(1)));
}

#[test]
fn every_thread_has_a_gate_and_their_counts_add_up() {
    let mut rig = Rig::new();
    rig.install([Filter {
        hits_max: 100,
        ..join(1, Action::Drop)
    }]);
    let acted: usize = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let mut gate = rig.hook.gate();
                scope.spawn(move || {
                    let join = Occurrence::Message {
                        kind: "Join",
                        from: PEER,
                        content: &Vec::new,
                    };
                    (0..1000)
                        .filter(|_| gate.admit(&join) != Verdict::Run)
                        .count()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .sum()
    });
    assert_eq!(acted, 100);
    assert_eq!(rig.hook.stats().events, 4000);
    assert_eq!(rig.hook.stats().filtered_events, 100);
}

#[test]
fn many_hits_are_reported_together() {
    let mut rig = Rig::with(Mode::Audit, |_| {});
    rig.install([join(1, Action::Drop)]);
    for _ in 0..500 {
        assert_eq!(rig.message("Join", PEER, b""), Verdict::Run);
    }
    let mut reports = 0;
    while hit(&mut rig).hits < 500 {
        reports += 1;
    }
    assert!(reports < 20, "{reports} reports");
}
