//! Whatever breaks, the service runs on: each failure costs little, is counted and is said.

use super::*;

fn failures(bench: &Bench, name: &str) -> u64 {
    let counts = bench.controller.counts();
    counts.failed_open.get(name).copied().unwrap_or(0)
}

fn last_end(bench: &Bench) -> String {
    match &bench.records("run").last().expect("a run ended").what {
        What::Run { ended, .. } => ended.clone(),
        _ => panic!("it is a run"),
    }
}

#[test]
fn a_crash_of_the_checker_costs_one_run() {
    let mut bench = Bench::steering();
    bench.begin();
    let now = bench.now;
    bench.controller.handle_checker_gone(now, "signal 11");
    bench.drain();
    assert_eq!(last_end(&bench), "crashed");
    assert_eq!(failures(&bench, "checker-crashed"), 1);
    bench.snapshot();
    assert_eq!(bench.jobs.len(), 1, "there is no checker");
    bench.ready();
    assert_eq!(bench.jobs.len(), 2, "what waited is searched");
    bench.find(7);
    assert_eq!(bench.in_force(), 1);
}

#[test]
fn judgements_that_are_cut_off_are_told_now_and_then() {
    let mut bench = Bench::steering();
    for _ in 0..3 {
        let run = bench.begin();
        bench.checker(Report {
            cut_off: vec!["one root".to_owned()],
            ..report(run, Ended::Budget)
        });
    }
    assert_eq!(failures(&bench, "judgement-cut-off"), 1);
    bench.pass(60_000);
    let run = bench.begin();
    bench.checker(Report {
        cut_off: vec!["one root".to_owned()],
        ..report(run, Ended::Budget)
    });
    assert_eq!(failures(&bench, "judgement-cut-off"), 2);
}

#[test]
fn a_checker_of_another_program_is_told() {
    let mut bench = Bench::steering();
    bench.controller.handle_checker_differs();
    bench.drain();
    assert_eq!(failures(&bench, "checker-differs"), 1);
    bench.begin();
    assert_eq!(bench.jobs.len(), 1, "it is asked all the same");
}

#[test]
fn a_job_that_was_not_sent_costs_its_run_alone() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    let now = bench.now;
    let other = RunId::new(run.get() + 1);
    bench.controller.handle_job_unsent(now, other, "too large");
    assert_eq!(failures(&bench, "job-unsent"), 0, "it is not this run");
    bench.controller.handle_job_unsent(now, run, "too large");
    bench.drain();
    assert_eq!(last_end(&bench), "unsent");
    assert_eq!(failures(&bench, "job-unsent"), 1);
    assert!(bench.restarts.is_empty());
    bench.snapshot();
    assert_eq!(
        bench.jobs.len(),
        2,
        "the same checker gets the next snapshot"
    );
}

#[test]
fn a_checker_that_hangs_is_told_to_stop_and_then_given_up() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    let (budget, grace) = {
        let options = bench.controller.options();
        (options.budget.time_ms, options.grace_ms)
    };
    bench.pass(budget);
    assert!(bench.cancels.is_empty());
    bench.pass(grace);
    assert_eq!(bench.cancels, [run]);
    assert!(bench.restarts.is_empty());
    bench.pass(grace);
    assert_eq!(bench.restarts.len(), 1);
    assert_eq!(last_end(&bench), "hung");
    assert_eq!(failures(&bench, "checker-hung"), 1);
    bench.find(7);
    assert!(
        bench.installed().is_empty(),
        "what a given-up run still says does not count"
    );
}

#[test]
fn a_search_beyond_what_its_strategy_promises_makes_way_for_a_newer_snapshot() {
    let progress = |run, covered| Progress {
        run,
        states: 10,
        depth: 3,
        elapsed_ms: 1,
        covered,
    };
    // Whichever comes first, the snapshot or the news.
    for snapshot_first in [true, false] {
        let mut bench = Bench::steering();
        let run = bench.begin();
        bench.checker(progress(run, false));
        if snapshot_first {
            bench.snapshot();
            assert!(bench.cancels.is_empty(), "what is promised is searched");
            bench.checker(progress(run, true));
        } else {
            bench.checker(progress(run, true));
            assert!(bench.cancels.is_empty(), "nobody waits");
            bench.snapshot();
        }
        assert_eq!(bench.cancels, [run]);
        bench.checker(report(run, Ended::Covered));
        assert_eq!(last_end(&bench), "covered");
        assert_ne!(bench.running(), run, "the newer one is searched");
    }
}

#[test]
fn what_was_covered_is_not_searched_again() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    bench.checker(report(run, Ended::Covered));
    let jobs = bench.jobs.len();
    bench.pass(60_000);
    bench.same_snapshot(0);
    assert_eq!(bench.jobs.len(), jobs);
}

#[test]
fn a_checker_that_waits_for_a_processor_is_not_given_up() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    let options = bench.controller.options();
    let (limit, grace) = (options.budget.time_ms + options.grace_ms, options.grace_ms);
    bench.pass(limit);
    assert_eq!(bench.cancels, [run]);
    let seen = |bench: &mut Bench, run| {
        let seen = CheckerSeen {
            run: Some(run),
            used_ms: 0,
            is_runnable: true,
        };
        bench.controller.handle_checker_seen(bench.now, seen)
    };
    for round in 0..10 {
        bench.pass(grace - 1);
        let other = RunId::new(run.get() + 1);
        assert!(!seen(&mut bench, other));
        assert_eq!(seen(&mut bench, run), round == 0, "it is told once");
    }
    assert!(bench.restarts.is_empty());
    assert_eq!(failures(&bench, "checker-hung"), 0);
    bench.pass(grace);
    assert_eq!(bench.restarts.len(), 1);
    assert_eq!(last_end(&bench), "hung");
}

#[test]
fn a_checker_that_is_not_ready_in_time_is_given_up_and_one_that_is_may_stay() {
    for is_ready in [false, true] {
        let mut bench = Bench::bare(Options::default(), Paths::default());
        bench.controller.handle_checker_started(bench.now);
        let due = bench.controller.poll_timeout().expect("it is watched");
        if is_ready {
            bench.ready();
            assert_eq!(bench.controller.poll_timeout(), None);
        }
        bench.now = due;
        bench.pass(0);
        assert_eq!(bench.restarts.is_empty(), is_ready);
        assert_eq!(bench.controller.poll_timeout(), None, "it is told once");
    }
}

#[test]
fn the_deadline_of_a_run_is_what_the_caller_waits_for() {
    let mut bench = Bench::steering();
    assert_eq!(bench.controller.poll_timeout(), None);
    bench.begin();
    let due = bench
        .controller
        .poll_timeout()
        .expect("a run has a deadline");
    let options = bench.controller.options();
    let limit = options.budget.time_ms + options.grace_ms;
    assert_eq!(due, bench.now.after_millis(limit));
}

#[test]
fn filters_of_a_run_before_fall_when_a_run_crashes() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    bench.begin();
    let now = bench.now;
    bench.controller.handle_checker_gone(now, "signal 9");
    bench.drain();
    assert_eq!(bench.withdrawn().len(), 1);
}

#[test]
fn a_run_on_a_snapshot_that_is_too_old_reports_and_installs_nothing() {
    let mut bench = Bench::steering();
    let age_max = bench.controller.options().snapshot_age_ms_max;
    bench.snapshot_of_age(age_max - 10);
    bench.pass(11);
    bench.find(7);
    assert!(bench.installed().is_empty());
    assert_eq!(
        bench.kinds_of(7),
        ["violation", "filter-proposed", "filter-rejected"]
    );
    assert_eq!(failures(&bench, "snapshot-stale"), 1);
    assert_eq!(
        bench.controller.counts().unhelpful,
        0,
        "the filter was fine"
    );
}

#[test]
fn a_snapshot_that_waited_too_long_is_not_searched() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.snapshot();
    let age_max = bench.controller.options().snapshot_age_ms_max;
    bench.now = bench.now.after_millis(age_max + 1);
    bench.end();
    assert_eq!(bench.jobs.len(), 1);
    assert_eq!(failures(&bench, "snapshot-stale"), 1);
}

#[test]
fn while_a_search_goes_on_only_the_newest_snapshot_waits() {
    let mut bench = Bench::steering();
    let first = bench.begin();
    bench.snapshot();
    bench.snapshot();
    assert_eq!(bench.jobs.len(), 1);
    assert_eq!(bench.controller.counts().snapshots_skipped, 1);
    bench.end();
    assert_eq!(bench.jobs.len(), 2);
    assert_eq!(bench.running().get(), first.get() + 2);
    bench.checker(report(first, Ended::Exhausted));
    assert_eq!(
        bench.records("run").len(),
        1,
        "a run that is over ends nothing else"
    );
}

#[test]
fn a_host_that_went_takes_its_filters_along_and_gets_none_from_an_old_snapshot() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    let now = bench.now;
    bench.controller.handle_host_gone(now, "its socket closed");
    bench.drain();
    assert_eq!(bench.in_force(), 0);
    bench.attach("1");
    bench.clear();
    bench.find(8);
    assert!(bench.installed().is_empty());
    assert_eq!(bench.records("filter-rejected").len(), 1);
}

#[test]
fn a_host_is_greeted_with_mode_and_rules() {
    let options = Options {
        switches: vec!["/run/scry/off".to_owned()],
        ..Options::default()
    };
    let mut bench = Bench::bare(options, Paths::default());
    bench.attach("1");
    let greeting: Vec<bool> = bench
        .host
        .iter()
        .map(|message| match message {
            AgentToHost::Welcome(welcome) => welcome.mode == Mode::Audit,
            AgentToHost::Switches(switches) => switches.files == ["/run/scry/off"],
            AgentToHost::CheckSettings(rules) => rules.deadline_ms > 0,
            _ => false,
        })
        .collect();
    assert_eq!(greeting, [true; 3]);
    // Another file is told at once.
    bench.clear();
    let options = Options {
        switches: vec!["/run/scry/other".to_owned()],
        ..bench.controller.options().clone()
    };
    let now = bench.now;
    bench.controller.handle_options(now, options);
    bench.drain();
    let told = |message: &AgentToHost| matches!(message, AgentToHost::Switches(switches) if switches.files == ["/run/scry/other"]);
    assert!(bench.host.iter().any(told));
}

#[test]
fn a_85_the_checker_is_switched_on_per_node() {
    for checks in [true, false] {
        let mut bench = Bench::with(Options {
            mode: Mode::Steer,
            checks,
            ..Options::default()
        });
        bench.snapshot();
        assert_eq!(bench.jobs.len(), usize::from(checks));
        let fate = if checks { "searched" } else { "skipped" };
        let snapshot = &bench.records("snapshot")[0].what;
        assert!(matches!(snapshot, What::Snapshot { fate: it, .. } if it == fate));
        // The immediate check goes on by itself, with the neighbors' states.
        let surroundings = |message: &AgentToHost| matches!(message, AgentToHost::Surroundings(_));
        assert!(bench.host.iter().any(surroundings));
    }
}

#[test]
fn the_surroundings_follow_every_snapshot_without_the_host_itself() {
    let mut bench = Bench::with(Options {
        checks: false,
        ..Options::default()
    });
    bench.clear();
    bench.snapshot();
    assert!(bench.jobs.is_empty(), "this node does not search (A-85)");
    let AgentToHost::Surroundings(surroundings) = &bench.host[0] else {
        panic!("the host is told");
    };
    let nodes: Vec<NodeId> = surroundings
        .neighbors
        .iter()
        .map(|neighbor| neighbor.node)
        .collect();
    assert_eq!(nodes, [OTHER]);
}

#[test]
fn a_silent_neighbor_is_judged_by_what_was_last_known_of_it() {
    let mut bench = Bench::steering();
    let told = |bench: &mut Bench, missing: Option<Reason>| {
        bench.clear();
        let member = |node| Member {
            node,
            number: CheckpointNumber::from(3),
            age_ms: 0,
            body: body(1),
        };
        let mut members = vec![member(ME)];
        members.extend(missing.is_none().then(|| member(OTHER)));
        let snapshot = Snapshot {
            by: ME,
            number: CheckpointNumber::from(3),
            rounds: 1,
            elapsed_ms: 5,
            members,
            missing: missing
                .map(|reason| Missing {
                    node: OTHER,
                    reason,
                })
                .into_iter()
                .collect(),
        };
        bench.controller.handle_snapshot(bench.now, false, snapshot);
        bench.drain();
        let found = bench.host.iter().find_map(|message| match message {
            AgentToHost::Surroundings(surroundings) => Some(surroundings.neighbors.len()),
            _ => None,
        });
        found.expect("the host is told")
    };
    assert_eq!(told(&mut bench, None), 1);
    assert_eq!(told(&mut bench, Some(Reason::Silent)), 1);
    assert_eq!(told(&mut bench, Some(Reason::Dead)), 1, "it may be alive");
    assert_eq!(
        told(&mut bench, Some(Reason::Unreadable)),
        0,
        "it says nonsense"
    );
    assert_eq!(told(&mut bench, Some(Reason::Silent)), 0, "and forgotten");
    assert_eq!(told(&mut bench, None), 1);
    let long = Options::default().surroundings_age_ms_max + 1;
    bench.now = bench.now.after_millis(long);
    assert_eq!(told(&mut bench, Some(Reason::Silent)), 0, "too long ago");
}

#[test]
fn what_failed_at_the_host_is_counted_by_its_own_count() {
    let mut bench = Bench::steering();
    for count in [1, 5] {
        bench.host(FailedOpen {
            failure: Failure::CheckLate,
            count,
            detail: "60 ms".to_owned(),
        });
    }
    assert_eq!(failures(&bench, "check-late"), 5);
    assert_eq!(bench.records("failed-open").len(), 2);
}

#[test]
fn a_trace_that_cannot_be_read_costs_the_trace_alone() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    let mut damaged = found(run, 7, vec![join_filter()]);
    damaged.violation.trace = vec![0xff; 40];
    bench.checker(damaged);
    assert!(bench.traces.is_empty());
    assert_eq!(bench.installed().len(), 1);
    assert_eq!(failures(&bench, "trace-unreadable"), 1);
}

#[test]
fn findings_that_do_not_replay_are_counted_and_told_now_and_then() {
    let mut bench = Bench::steering();
    for (after, told) in [(0, 1), (0, 1), (60_000, 2)] {
        bench.pass(after);
        let run = bench.begin();
        bench.checker(Report {
            unconfirmed: 3,
            ..report(run, Ended::Budget)
        });
        assert_eq!(bench.records("failed-open").len(), told);
    }
    assert_eq!(bench.controller.counts().findings_unconfirmed, 9);
    assert_eq!(failures(&bench, "finding-unconfirmed"), 6);
}

#[test]
fn a_compressed_trace_is_handed_out_as_json() {
    use scry_protocol::compress::Packed;
    let mut bench = Bench::steering();
    let run = bench.begin();
    let json = format!("{{\"version\":1,\"property\":\"{}\"}}", "x".repeat(500));
    let mut packed = found(run, 7, vec![join_filter()]);
    packed.violation.trace = rmp_serde::to_vec(&Packed::pack(json.clone().into_bytes())).unwrap();
    assert!(packed.violation.trace.len() < 200);
    bench.checker(packed);
    assert_eq!(bench.traces, [(violation(7), json.into_bytes())]);
}

#[test]
fn records_that_nobody_takes_are_bounded() {
    let mut bench = Bench::with(Options {
        records_waiting_max: 10,
        ..Options::default()
    });
    for _ in 0..100 {
        let now = bench.now;
        bench.controller.handle_snapshot_failed(now, false, "alone");
    }
    bench.log.clear();
    bench.drain();
    assert_eq!(bench.log.len(), 10);
    assert_eq!(bench.controller.counts().records_dropped, 190);
}

#[test]
fn a_108_ten_thousand_violations_leave_bounded_paths_and_a_bounded_job() {
    let mut bench = Bench::with(Options {
        mode: Mode::Steer,
        replay_paths_max: 16,
        ..Options::default()
    });
    let run = bench.begin();
    for id in 0..10_000 {
        bench.checker(found(run, id, Vec::new()));
        bench.log.clear();
        bench.traces.clear();
    }
    bench.end();
    assert_eq!(
        bench.controller.paths().len(),
        paths::Limits::default().paths_max
    );
    bench.begin();
    assert_eq!(bench.jobs.last().unwrap().past_paths.len(), 16);
}

#[test]
fn paths_survive_a_restart_and_so_does_the_count_of_runs() {
    let mut bench = Bench::steering();
    let before = bench.begin();
    bench.find(7);
    bench.end();
    let saved = bench
        .saved
        .take()
        .expect("the paths are kept at the end of a run");
    let paths = Paths::read(&saved, paths::Limits::default()).unwrap();
    let mut again = Bench::bare(bench.controller.options().clone(), paths);
    again.attach("1");
    again.ready();
    assert!(again.begin() > before);
    assert_eq!(again.jobs[0].past_paths[0].violation, violation(7));
    again.attach("2");
    assert_eq!(
        again.controller.paths().len(),
        0,
        "another version's events mean nothing"
    );
    assert_eq!(again.records("paths").len(), 1);
}

#[test]
fn a_damaged_store_is_complained_about_once_and_starts_empty() {
    let scratch = crate::log::scratch::Scratch::new();
    let file = scratch.path().join("paths");
    let limits = paths::Limits::default();
    assert_eq!(
        disk::load(&file, limits).1,
        None,
        "none is no reason to complain"
    );
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    disk::save(&file, &bench.saved.take().unwrap()).unwrap();
    let (paths, complaint) = disk::load(&file, limits);
    assert_eq!((paths.len(), complaint), (1, None));
    std::fs::write(
        &file,
        b"no paths at all, but something else that is long enough",
    )
    .unwrap();
    let (paths, complaint) = disk::load(&file, limits);
    assert!(paths.is_empty());
    assert!(complaint.unwrap().contains("starting without past paths"));
    assert!(
        disk::load(scratch.path(), limits).1.is_some(),
        "a directory is no file"
    );
}

#[test]
fn a_member_whose_state_takes_the_checker_down_is_left_out_for_a_while_longer_each_time() {
    let mut bench = Bench::steering();
    bench.begin();
    let members = |bench: &Bench| bench.jobs.last().expect("a job").snapshot.members.len();
    let whole = members(&bench);
    let crash = |bench: &mut Bench| {
        let now = bench.now;
        bench
            .controller
            .handle_blame(now, &[Some(OTHER)], "signal 6");
        bench.controller.handle_checker_gone(now, "signal 6");
        bench.drain();
        bench.ready();
    };
    crash(&mut bench);
    assert_eq!(failures(&bench, "member-left-out"), 1);
    let shown = bench.controller.status(bench.now).left_out;
    assert_eq!(shown.len(), 1);
    let pause_ms = shown[0].again_ms.expect("it is tried again");
    bench.snapshot();
    assert_eq!(members(&bench), whole - 1, "it is left out");
    let job = bench.jobs.last().expect("a job");
    assert!(job.snapshot.missing.iter().any(|it| it.node == OTHER));
    assert!(!job.whole, "what it could mend is unknown");
    let run = job.run;
    let now = bench.now;
    bench
        .controller
        .handle_checker(now, report(run, Ended::Exhausted).into());
    bench.drain();
    bench.now = bench.now.after_millis(pause_ms);
    assert!(bench.controller.status(bench.now).left_out.is_empty());
    bench.snapshot();
    assert_eq!(members(&bench), whole, "it is tried again");
    crash(&mut bench);
    let shown = bench.controller.status(bench.now).left_out;
    assert_eq!(shown[0].again_ms, Some(2 * pause_ms));
}

#[test]
fn a_checker_that_dies_of_the_own_nodes_state_leaves_nobody_out() {
    let mut bench = Bench::steering();
    bench.begin();
    let now = bench.now;
    bench.controller.handle_blame(now, &[Some(ME)], "signal 6");
    assert_eq!(failures(&bench, "member-left-out"), 0);
}

#[test]
fn whom_a_run_went_on_without_and_what_panicked_in_it_is_told_once() {
    use scry_protocol::link::checker::{LeftOut, Unjudged};
    let mut bench = Bench::steering();
    for _ in 0..2 {
        bench.snapshot();
        bench.ready();
        let run = bench.jobs.last().expect("a job").run;
        let mut report = report(run, Ended::Budget);
        report.left_out = vec![LeftOut {
            node: OTHER,
            why: "the service panics on it".to_owned(),
        }];
        report.panicked = vec![Unjudged {
            property: "one leader".to_owned(),
            why: "index out of bounds".to_owned(),
        }];
        let now = bench.now;
        bench.controller.handle_checker(now, report.into());
        bench.drain();
        bench.now = bench.now.after_millis(60_000);
    }
    assert_eq!(failures(&bench, "member-left-out"), 1);
    assert_eq!(failures(&bench, "property-panicked"), 1);
    let shown = bench.controller.status(bench.now).left_out;
    assert_eq!(shown[0].again_ms, None, "the checker does it by itself");
}
