//! From prediction to filter and back: what is installed when, and for how long.

use super::*;

#[test]
fn a_84_each_prediction_leaves_its_four_phases_with_its_names() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.find(7);
    assert_eq!(
        bench.kinds_of(7),
        [
            "violation",
            "filter-proposed",
            "filter-proved",
            "filter-installed"
        ]
    );
    for entry in bench.records("violation") {
        assert_eq!(entry.run.unwrap().0, run);
    }
    let id = bench.installed()[0].id;
    for kind in ["filter-proposed", "filter-proved", "filter-installed"] {
        let entry = bench.records(kind)[0];
        assert_eq!(entry.run.unwrap().0, run);
        assert_eq!(entry.filter.unwrap().0, id);
    }
    assert_eq!(bench.traces.len(), 1);
    assert_eq!(bench.traces[0].0, violation(7));
}

#[test]
fn a_filter_is_a_lease_with_all_that_explains_it() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    let options = bench.controller.options();
    let filter = bench.installed()[0];
    assert_eq!(filter.ttl_ms, options.filter_ttl_ms);
    assert_eq!(filter.hits_max, options.filter_hits_max);
    assert_eq!(filter.mode, Mode::Steer);
    assert_eq!(filter.violation, violation(7));
    assert_eq!(filter.property, "one root");
    assert_eq!(filter.reason, "v7: n1 and n2 both lead");
}

#[test]
fn a_88_each_run_says_how_old_and_complete_its_snapshot_was_and_how_far_it_came() {
    let mut bench = Bench::steering();
    bench.snapshot_of_age(40);
    let run = bench.running();
    bench.find(7);
    bench.pass(10);
    bench.end();
    let expected = What::Run {
        strategy: Some("portfolio".to_owned()),
        ended: "exhausted".to_owned(),
        states: 100,
        depth: 7,
        elapsed_ms: 10,
        snapshot_age_ms: 50,
        missing: 1,
        replayed: 0,
        violations: 1,
        installed: 1,
        withdrawn: 0,
        detail: None,
    };
    let entry = bench.records("run")[0];
    assert_eq!((&entry.what, entry.run.unwrap().0), (&expected, run));
    let What::Snapshot { missing, fate, .. } = &bench.records("snapshot")[0].what else {
        panic!("it is a snapshot");
    };
    assert_eq!(fate, "searched");
    assert_eq!(missing[0].reason.0, Reason::Silent);
}

#[test]
fn a_103_what_the_next_run_does_not_prove_again_falls_when_it_ends() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    assert!(bench.withdrawn().is_empty(), "its own run proved it");
    let id = bench.installed()[0].id;
    bench.begin();
    assert_eq!(bench.in_force(), 1, "while the next run searches it stays");
    let run = bench.running();
    bench.checker(replayed(run, 7, false, Vec::new()));
    bench.end();
    assert_eq!(bench.withdrawn(), [id]);
    assert_eq!(bench.in_force(), 0);
    let What::FilterLapsed { why, .. } = &bench.records("filter-lapsed")[0].what else {
        panic!("it is a lapse");
    };
    assert_eq!(why, "not-proved-again");
}

/// A snapshot that shows something new, in which the other node is missing.
fn snapshot_without_other(bench: &mut Bench, reason: Option<Reason>) {
    bench.state += 1;
    let snapshot = Snapshot {
        by: ME,
        number: CheckpointNumber::from(4),
        rounds: 1,
        elapsed_ms: 5,
        members: vec![Member {
            node: ME,
            number: CheckpointNumber::from(4),
            age_ms: 0,
            body: body(bench.state),
        }],
        missing: reason
            .map(|reason| Missing {
                node: OTHER,
                reason,
            })
            .into_iter()
            .collect(),
    };
    bench.controller.handle_snapshot(bench.now, false, snapshot);
    bench.drain();
}

#[test]
fn a_103_a_run_that_does_not_see_a_node_says_nothing_about_dangers_that_involve_it() {
    for refuse in [false, true] {
        let mut bench = Bench::steering();
        let run = bench.begin();
        let mut filter = join_filter();
        if refuse {
            filter.matcher = Matcher::Call {
                kind: "Join".to_owned(),
                content: None,
            };
            filter.action = Action::Refuse;
        }
        bench.checker(found(run, 7, vec![filter]));
        bench.end();
        let id = bench.installed()[0].id;
        snapshot_without_other(&mut bench, Some(Reason::Silent));
        let run = bench.running();
        bench.checker(replayed(run, 7, false, Vec::new()));
        bench.end();
        assert_eq!(bench.withdrawn(), [], "the other may be as it was");
        bench.begin();
        bench.end();
        assert_eq!(bench.withdrawn(), [id], "this run has seen both");
    }
}

#[test]
fn a_103_a_search_that_was_cut_short_takes_back_only_what_its_replay_shows_to_be_over() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    let id = bench.installed()[0].id;
    let run = bench.begin();
    bench.checker(report(run, Ended::Budget));
    assert_eq!(bench.withdrawn(), [], "it may not have come so far");
    let run = bench.begin();
    bench.checker(replayed(run, 7, false, Vec::new()));
    bench.checker(report(run, Ended::Budget));
    assert_eq!(bench.withdrawn(), [id]);
}

#[test]
fn a_103_a_node_that_is_no_neighbor_any_more_keeps_no_filter_in_force() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    let id = bench.installed()[0].id;
    snapshot_without_other(&mut bench, None);
    bench.end();
    assert_eq!(bench.withdrawn(), [id]);
}

#[test]
fn a_103_while_a_node_is_silent_a_filter_lasts_no_longer_than_its_lease() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    let ttl_ms = bench.controller.options().filter_ttl_ms;
    for _ in 0..4 {
        bench.pass(ttl_ms / 2);
        snapshot_without_other(&mut bench, Some(Reason::Dead));
        bench.end();
    }
    assert_eq!(bench.in_force(), 0);
    assert_eq!(bench.installed().len(), 1, "it was not renewed");
}

#[test]
fn a_103_what_the_next_run_proves_again_stays_under_its_name_with_a_new_lease() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    let first = bench.controller.status(bench.now).filters[0].clone();
    bench.pass(20_000);
    bench.begin();
    bench.find(7);
    bench.end();
    assert!(bench.withdrawn().is_empty());
    let second = bench.controller.status(bench.now).filters[0].clone();
    assert_eq!(first.filter, second.filter);
    assert_eq!(first.left_ms, second.left_ms);
    assert_eq!(bench.controller.counts().filters_installed, 1);
    assert_eq!(bench.controller.counts().filters_renewed, 1);
}

#[test]
fn a_104_a_path_that_still_errs_has_its_filter_before_the_search_ends() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    bench.attach("1");
    assert_eq!(bench.in_force(), 0, "a host that comes back has no filters");
    bench.clear();
    let run = bench.begin();
    let expected = PastPath {
        violation: violation(7),
        path: 7_u64.to_be_bytes().to_vec(),
    };
    assert_eq!(bench.jobs.last().unwrap().past_paths, [expected]);
    bench.checker(replayed(run, 7, true, vec![join_filter()]));
    assert_eq!(bench.installed().len(), 1, "no report has come yet");
    assert_eq!(
        bench.kinds_of(7),
        [
            "replay",
            "filter-proposed",
            "filter-proved",
            "filter-installed"
        ]
    );
    bench.find(7);
    assert_eq!(bench.installed().len(), 1, "the search only confirms it");
    assert_eq!(bench.controller.counts().predictions, 2, "one a run");
    bench.end();
    assert_eq!(bench.in_force(), 1);
}

#[test]
fn a_98_without_a_safe_remedy_nothing_is_done_and_it_is_counted() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    let mut hopeless = found(run, 7, Vec::new());
    hopeless.violation.unhelpful = "dropping Join breaks another property".to_owned();
    bench.checker(hopeless);
    assert!(bench.installed().is_empty());
    assert_eq!(bench.controller.counts().unhelpful, 1);
    let What::FilterRejected { why, .. } = &bench.records("filter-rejected")[0].what else {
        panic!("it is a rejection");
    };
    assert_eq!(why, "dropping Join breaks another property");
}

#[test]
fn the_best_remedy_that_fits_this_node_is_taken() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    let mut elsewhere = join_filter();
    elsewhere.matcher = Matcher::Message {
        kind: "Join".to_owned(),
        source: ME,
        destination: OTHER,
        content: None,
    };
    let mut odd = join_filter();
    odd.action = Action::Postpone;
    bench.checker(found(
        run,
        7,
        vec![elsewhere, odd, join_filter(), filter("Leave")],
    ));
    let names: Vec<_> = bench
        .installed()
        .iter()
        .map(|filter| &filter.matcher)
        .collect();
    assert_eq!(names, [&join_filter().matcher]);
    assert_eq!(bench.records("filter-rejected").len(), 2);
    assert_eq!(bench.controller.counts().unhelpful, 0);
}

#[test]
fn two_violations_prevented_by_one_filter_share_it() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.find(8);
    assert_eq!(bench.installed().len(), 1);
    assert_eq!(bench.in_force(), 1);
    assert_eq!(
        bench.kinds_of(8),
        ["violation", "filter-proposed", "filter-proved"]
    );
}

#[test]
fn a_83_audit_installs_what_only_watches_and_counts_what_it_would_have_done() {
    let mut bench = Bench::with(Options {
        tell_service: true,
        ..Options::default()
    });
    bench.begin();
    bench.find(7);
    let filter = bench.installed()[0];
    assert_eq!(filter.mode, Mode::Audit);
    let id = filter.id;
    bench.host(FilterHit {
        filter: id,
        hits: 3,
        acted: false,
        event: "n1 receives Join from n2".to_owned(),
    });
    assert_eq!(bench.controller.counts().audit_hits, 3);
    assert_eq!(bench.controller.counts().behaviour_changes, 0);
    let hit = bench.records("filter-hit")[0];
    assert_eq!(hit.violation.unwrap().0, violation(7));
    let touching = |message: &AgentToHost| matches!(message, AgentToHost::Predicted(_));
    assert!(
        !bench.host.iter().any(touching),
        "audit does not even tell the service"
    );
}

#[test]
fn the_lower_of_the_global_and_the_propertys_mode_counts() {
    let check = |global, own, expected: Option<Mode>| {
        let mut bench = Bench::with(Options {
            mode: global,
            property_modes: BTreeMap::from([("one root".to_owned(), own)]),
            ..Options::default()
        });
        bench.snapshot();
        if !bench.jobs.is_empty() {
            bench.find(7);
        }
        let mode = bench.installed().first().map(|filter| filter.mode);
        assert_eq!(mode, expected, "{global} and {own}");
    };
    check(Mode::Steer, Mode::Steer, Some(Mode::Steer));
    check(Mode::Steer, Mode::Audit, Some(Mode::Audit));
    check(Mode::Audit, Mode::Steer, Some(Mode::Audit));
    check(Mode::Steer, Mode::Off, None);
    check(Mode::Off, Mode::Steer, None);
}

#[test]
fn lowering_a_mode_withdraws_what_is_above_it_at_once() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.find(7);
    bench.clear();
    let now = bench.now;
    let lowered = bench
        .controller
        .handle_operator(now, Some("one root"), Mode::Audit)
        .unwrap();
    bench.drain();
    assert_eq!(bench.withdrawn().len(), 1);
    assert_eq!(lowered.filters_fell, 1);
    assert_eq!(bench.kinds(), ["mode", "filter-lapsed"]);
    let rules = |message: &AgentToHost| matches!(message, AgentToHost::CheckSettings(_));
    assert!(
        bench.host.iter().any(rules),
        "the immediate check obeys it too"
    );
    let off = bench.controller.handle_operator(now, None, Mode::Off);
    let off = off.unwrap();
    assert_eq!((off.allowed.mode, off.filters_fell), (Mode::Off, 0));
    bench.drain();
    assert_eq!(bench.cancels, [run]);
    let off =
        |message: &AgentToHost| matches!(message, AgentToHost::Mode(set) if set.mode == Mode::Off);
    assert!(bench.host.iter().any(off));
}

#[test]
fn a_86_a_service_that_wants_to_know_is_told_instead() {
    let mut bench = telling();
    let told: Vec<_> = bench
        .host
        .iter()
        .filter_map(|message| match message {
            AgentToHost::Predicted(predicted) => Some(predicted),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].filters.len(), 1);
    assert_eq!(told[0].path, 7_u64.to_be_bytes());
    assert!(
        bench.installed().is_empty(),
        "the host installs them if the service does not care"
    );
    assert_eq!(bench.in_force(), 0, "nobody knows yet");
    assert_eq!(
        bench.kinds_of(7),
        [
            "violation",
            "filter-proposed",
            "filter-proved",
            "prediction-told"
        ]
    );
    bench.find(7);
    assert_eq!(bench.controller.counts().predictions_told, 1, "once a run");
}

/// A controller that has told the service of a violation.
fn telling() -> Bench {
    let mut bench = Bench::with(Options {
        mode: Mode::Steer,
        tell_service: true,
        ..Options::default()
    });
    bench.begin();
    bench.find(7);
    bench
}

/// The same, before anything else happens, and the filter that waits.
fn told() -> (Bench, FilterId) {
    let mut bench = telling();
    let id = bench.records("prediction-told")[0].filter.unwrap().0;
    bench.clear();
    (bench, id)
}

fn answer(id: FilterId, of: u64, handled: bool) -> PredictionAnswer {
    PredictionAnswer {
        violation: violation(of),
        filters: vec![id],
        handled,
    }
}

#[test]
fn a_86_what_the_service_leaves_to_the_filter_is_in_force() {
    let (mut bench, id) = told();
    bench.host(answer(id, 7, false));
    assert_eq!(bench.kinds(), ["prediction-answer", "filter-installed"]);
    assert_eq!(bench.in_force(), 1);
    assert_eq!(bench.controller.counts().filters_installed, 1);
    assert_eq!(bench.controller.counts().predictions_handled, 0);
    bench.host(answer(id, 7, true));
    assert_eq!(bench.in_force(), 1, "it has answered already");
}

#[test]
fn a_86_what_the_service_handles_needs_no_filter() {
    let (mut bench, id) = told();
    bench.host(answer(FilterId::new(id.get() + 1), 7, true));
    bench.host(answer(id, 8, true));
    assert!(bench.kinds().is_empty(), "neither was asked");
    bench.host(answer(id, 7, true));
    assert_eq!(bench.kinds(), ["prediction-answer"]);
    assert_eq!(bench.in_force(), 0);
    let counts = bench.controller.counts();
    assert_eq!(
        (counts.predictions_handled, counts.filters_installed),
        (1, 0)
    );
    bench.end();
    assert!(bench.withdrawn().is_empty());
    assert_eq!(bench.controller.counts().filters_lapsed, 0);
}

#[test]
fn a_86_a_filter_stays_while_one_of_its_violations_is_left_to_it() {
    let (mut bench, id) = told();
    bench.find(8);
    bench.host(answer(id, 7, true));
    bench.host(answer(id, 8, false));
    assert_eq!(bench.in_force(), 1);
    let (mut bench, id) = told();
    bench.find(8);
    bench.host(answer(id, 7, false));
    bench.host(answer(id, 8, true));
    assert_eq!(bench.in_force(), 1);
    assert!(bench.withdrawn().is_empty());
}

#[test]
fn a_86_a_service_that_changes_its_mind_gets_rid_of_the_filter() {
    let (mut bench, id) = told();
    bench.host(answer(id, 7, false));
    bench.end();
    bench.begin();
    bench.find(7);
    assert_eq!(bench.in_force(), 1, "until it answers");
    bench.clear();
    bench.host(answer(id, 7, true));
    assert_eq!(bench.kinds(), ["prediction-answer", "filter-lapsed"]);
    assert_eq!(bench.withdrawn(), [id]);
    assert_eq!(bench.in_force(), 0);
}

#[test]
fn leases_end_by_the_clock_that_never_goes_back_and_hooks_words_are_waited_for() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    let ttl_ms = bench.controller.options().filter_ttl_ms;
    bench.pass(ttl_ms);
    assert_eq!(bench.in_force(), 1, "the hook's word may be on its way");
    // A caller whose clock jumped hands in an earlier moment: nothing comes to incarnation or ends by it.
    let late = bench.now;
    bench.now = Time::from_millis(0);
    bench.pass(0);
    assert_eq!(bench.in_force(), 1);
    bench.now = late;
    bench.pass(2_000);
    assert_eq!(bench.in_force(), 0);
    let id = bench.installed()[0].id;
    bench.host(FilterEnded {
        filter: id,
        end: FilterEnd::Lapsed,
        hits: 0,
    });
    assert_eq!(
        bench.records("filter-lapsed").len(),
        1,
        "its end is told once"
    );
}

#[test]
fn a_disarmed_filter_may_only_watch_when_it_is_proved_again() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    let id = bench.installed()[0].id;
    bench.host(FilterEnded {
        filter: id,
        end: FilterEnd::Disarmed,
        hits: 60,
    });
    assert_eq!(
        bench.controller.counts().behaviour_changes,
        60,
        "hits untold so far"
    );
    bench.begin();
    bench.find(7);
    bench.end();
    assert_eq!(bench.installed()[1].mode, Mode::Audit);
    let pause = bench.controller.options().disarmed_ms;
    bench.pass(pause + 1);
    bench.begin();
    bench.find(7);
    assert_eq!(bench.installed()[2].mode, Mode::Steer);
}

#[test]
fn there_are_never_more_filters_than_allowed() {
    let mut bench = Bench::with(Options {
        mode: Mode::Steer,
        filters_max: 3,
        ..Options::default()
    });
    let run = bench.begin();
    for id in 0..10 {
        bench.checker(found(run, id, vec![filter(&format!("Kind{id}"))]));
    }
    assert_eq!(bench.in_force(), 3);
    assert_eq!(bench.controller.counts().filters_rejected, 7);
}

#[test]
fn a_102_the_six_numbers() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.find(7);
    bench.checker(found(run, 8, Vec::new()));
    let mut happened = found(run, 9, Vec::new());
    happened.violation.depth = 0;
    bench.checker(happened.clone());
    bench.end();
    let id = bench.installed()[0].id;
    for hits in [1, 4] {
        bench.host(FilterHit {
            filter: id,
            hits,
            acted: true,
            event: String::new(),
        });
    }
    bench.host(Veto {
        property: "one root".to_owned(),
        event: String::new(),
        explanation: String::new(),
        acted: true,
        elapsed_us: 80,
    });
    for events in [50, 120] {
        bench.host(Stats {
            events,
            ..Stats::default()
        });
    }
    bench.begin();
    happened.run = bench.running();
    bench.checker(happened);
    let counts = bench.controller.counts();
    assert_eq!(counts.predictions, 2);
    assert_eq!(counts.unhelpful, 1);
    assert_eq!(
        counts.behaviour_changes, 5,
        "four by the filter's own count, two frames or not, and one veto"
    );
    assert_eq!(counts.check_engagements, 1);
    assert_eq!(
        counts.uncaught_violations, 1,
        "still the same one in the next snapshot"
    );
    assert_eq!(counts.actions, 120);
}

fn check_filter() -> Filter {
    Filter {
        action: Action::Check,
        ..join_filter()
    }
}

#[test]
fn what_is_only_looked_at_stays_so_without_another_proof_and_over_a_restart() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.checker(found(run, 7, vec![check_filter(), join_filter()]));
    bench.end();
    assert_eq!(bench.in_force(), 1);
    // A run that finds nothing withdraws what acts, and not what only looks.
    let run = bench.begin();
    bench.checker(replayed(run, 7, false, Vec::new()));
    bench.end();
    assert_eq!(bench.in_force(), 1);
    // The service is restarted, twice, and looks on.
    for _ in 0..2 {
        bench.pass(1_000);
        let before = bench.installed().len();
        bench.attach("1");
        assert_eq!(bench.in_force(), 1);
        assert_eq!(bench.installed().len(), before + 1);
    }
    // Another version may have another bug.
    bench.attach("2");
    assert_eq!(bench.in_force(), 0);
}

#[test]
fn what_is_looked_at_is_forgotten_in_the_end() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.checker(found(run, 7, vec![check_filter()]));
    bench.end();
    bench.pass(700_000);
    bench.attach("1");
    assert_eq!(bench.in_force(), 0);
}

#[test]
fn jobs_say_whether_the_host_can_look() {
    let check = |isolate, expected: bool| {
        let mut bench = Bench::with(Options {
            mode: Mode::Steer,
            isolate,
            ..Options::default()
        });
        bench.begin();
        assert_eq!(bench.jobs[0].checks, expected);
    };
    check(Isolate::Speculator, true);
    check(Isolate::Clone, true);
    check(Isolate::Off, false);
}
