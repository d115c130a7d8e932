//! A service under a property that stops too much, and filters that are no longer needed.

use scry_protocol::link::host::Harm;

use super::*;

fn stats(events: u64, refused: u64) -> Stats {
    Stats {
        events,
        harm: vec![Harm {
            property: "one root".to_owned(),
            refused,
            ..Harm::default()
        }],
        ..Stats::default()
    }
}

fn call_filter() -> Filter {
    Filter {
        matcher: Matcher::Call {
            kind: "Put".to_owned(),
            content: None,
        },
        action: Action::Refuse,
        ..filter("Put")
    }
}

fn harmed(bench: &mut Bench) {
    for second in 0..8 {
        bench.pass(1_000);
        bench.host(stats(second * 10, second * 4));
    }
}

#[test]
fn too_much_harm_puts_the_property_in_audit_loudly() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.checker(found(run, 7, vec![call_filter()]));
    bench.end();
    bench.clear();
    harmed(&mut bench);
    assert_eq!(bench.controller.mode_of("one root"), Mode::Audit);
    assert_eq!(bench.controller.mode_of("no cycle"), Mode::Steer);
    assert_eq!(bench.controller.counts().harm_fallbacks, 1);
    assert_eq!(bench.withdrawn().len(), 1, "its filters fall at once");
    let What::Harm {
        property,
        why,
        pause_ms,
        ..
    } = &bench.records("harm")[0].what
    else {
        panic!("a record of harm");
    };
    assert_eq!((property.as_str(), *pause_ms), ("one root", Some(600_000)));
    assert!(why.contains("calls refused"), "{why}");
    let vetoes = bench.host.iter().any(|message| {
        matches!(message, AgentToHost::CheckSettings(rules) if rules.modes == [PropertyMode {
            property: "one root".to_owned(),
            mode: Mode::Audit,
        }])
    });
    assert!(vetoes, "the immediate check only watches too");
    let status = bench.controller.status(bench.now);
    let shown = status
        .properties
        .iter()
        .find(|of| of.property == "one root");
    let shown = shown.unwrap();
    assert!(shown.why.as_ref().unwrap().contains("too much harm"));
    assert!(shown.refused >= 16);
    // What is found anew only watches.
    let run = bench.begin();
    bench.clear();
    bench.checker(found(run, 7, vec![call_filter()]));
    assert_eq!(bench.installed()[0].mode, Mode::Audit);
}

#[test]
fn it_is_back_after_the_pause_or_when_an_operator_says_so() {
    let mut bench = Bench::steering();
    harmed(&mut bench);
    let due = bench.controller.poll_timeout().unwrap();
    bench.now = due;
    bench.pass(0);
    assert_eq!(bench.controller.mode_of("one root"), Mode::Steer);
    assert_eq!(bench.records("harm").len(), 2);

    let mut bench = Bench::steering();
    harmed(&mut bench);
    let now = bench.now;
    for by in [Some("the kill file".to_owned()), None] {
        assert!(bench.controller.handle_held_off(now, by).is_some());
    }
    assert_eq!(bench.controller.mode_of("one root"), Mode::Audit);
    let set = bench
        .controller
        .handle_operator(now, Some("one root"), Mode::Steer);
    assert_eq!(set.unwrap().allowed.mode, Mode::Steer);
}

#[test]
fn few_acts_are_no_harm() {
    let mut bench = Bench::steering();
    for second in 0..100 {
        bench.pass(1_000);
        bench.host(stats(second, (second / 30).min(3)));
    }
    assert_eq!(bench.controller.mode_of("one root"), Mode::Steer);
}

#[test]
fn a_filter_that_acts_has_a_snapshot_gathered_at_once() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.checker(found(run, 7, vec![call_filter()]));
    bench.end();
    let filter = bench.installed()[0].id;
    let hit = |bench: &mut Bench, hits, acted| {
        bench.host(FilterHit {
            filter,
            hits,
            acted,
            event: "call Put".to_owned(),
        });
    };
    hit(&mut bench, 1, false);
    assert_eq!(bench.gathers, 0, "a filter that only watches takes nothing");
    hit(&mut bench, 2, true);
    hit(&mut bench, 3, true);
    assert_eq!(bench.gathers, 1, "one snapshot a second is enough");
    bench.pass(1_000);
    hit(&mut bench, 4, true);
    assert_eq!(bench.gathers, 2);
}

#[test]
fn an_event_that_the_immediate_check_refuses_has_a_snapshot_gathered_too() {
    let mut bench = Bench::steering();
    let veto = |bench: &mut Bench, acted| {
        bench.host(Veto {
            property: "one root".to_owned(),
            event: "Join from n2".to_owned(),
            explanation: String::new(),
            acted,
            elapsed_us: 80,
        });
    };
    veto(&mut bench, false);
    assert_eq!(bench.gathers, 0, "it ran");
    veto(&mut bench, true);
    veto(&mut bench, true);
    assert_eq!(bench.gathers, 1, "one snapshot a second is enough");
}

#[test]
fn a_refusal_ends_when_the_replay_shows_that_the_danger_has_passed() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.checker(found(run, 7, vec![call_filter()]));
    bench.checker(found(run, 8, vec![call_filter()]));
    bench.end();
    assert_eq!(bench.in_force(), 1, "one filter for both");
    let run = bench.begin();
    bench.checker(replayed(run, 7, false, Vec::new()));
    assert_eq!(bench.in_force(), 1, "the other path may still err");
    bench.clear();
    bench.checker(replayed(run, 8, false, Vec::new()));
    assert_eq!(bench.in_force(), 0, "before the search, not after it");
    assert_eq!(bench.withdrawn().len(), 1);
    let What::FilterLapsed { why, .. } = &bench.records("filter-lapsed")[0].what else {
        panic!("a record of its end");
    };
    assert_eq!(why, "danger-passed");
}

#[test]
fn a_refusal_that_is_still_needed_stays() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.checker(found(run, 7, vec![call_filter()]));
    bench.checker(found(run, 8, vec![call_filter()]));
    bench.end();
    let run = bench.begin();
    bench.checker(replayed(run, 7, true, vec![call_filter()]));
    bench.checker(replayed(run, 8, false, Vec::new()));
    assert_eq!(bench.in_force(), 1);
    bench.end();
    assert_eq!(bench.in_force(), 1);
}

#[test]
fn a_filter_on_a_message_stays_until_the_run_ends_without_it() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    let run = bench.begin();
    bench.checker(replayed(run, 7, false, Vec::new()));
    assert_eq!(bench.in_force(), 1, "what it dropped may be sent again");
    bench.end();
    assert_eq!(bench.in_force(), 0);
}
