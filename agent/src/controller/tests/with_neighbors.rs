//! Paths shared with neighbors, and theirs: believed only after this node's own checker agrees.

use super::*;

fn shared(id: u64) -> SharePath {
    SharePath {
        by: OTHER,
        violation: violation(id),
        service: "randtree".to_owned(),
        version: "1".to_owned(),
        property: "one root".to_owned(),
        path: id.to_be_bytes().to_vec(),
    }
}

fn answers(bench: &Bench) -> Vec<(NodeId, PathOutcome)> {
    let answer = |(to, message): &(NodeId, PeerMessage)| match message {
        PeerMessage::PathAnswer(answer) => Some((*to, answer.outcome)),
        _ => None,
    };
    bench.peers.iter().filter_map(answer).collect()
}

#[test]
fn what_a_neighbor_could_prevent_is_told_to_it_once() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    let mut theirs = found(run, 7, Vec::new());
    theirs.violation.neighbor = Some(OTHER);
    bench.checker(theirs.clone());
    bench.checker(theirs);
    assert_eq!(
        bench.peers,
        [(
            OTHER,
            SharePath {
                by: ME,
                ..shared(7)
            }
            .into()
        )]
    );
    assert_eq!(bench.controller.counts().unhelpful, 0);
    bench.peer(
        OTHER,
        PathAnswer {
            violation: violation(7),
            outcome: PathOutcome::Prevented,
        },
    );
    assert_eq!(bench.controller.counts().paths_prevented, 1);
    bench.peer(
        NodeId::new(3),
        PathAnswer {
            violation: violation(7),
            outcome: PathOutcome::Prevented,
        },
    );
    assert_eq!(
        bench.controller.counts().paths_prevented,
        1,
        "nobody asked n3"
    );
}

#[test]
fn a_neighbors_path_acts_only_after_its_replay_here() {
    let mut bench = Bench::steering();
    bench.peer(OTHER, shared(7));
    assert_eq!(bench.gathers, 1, "a snapshot is wanted soon");
    assert!(bench.installed().is_empty());
    let run = bench.begin();
    assert_eq!(bench.jobs[0].past_paths[0].violation, violation(7));
    bench.checker(replayed(run, 7, true, vec![join_filter()]));
    assert_eq!(bench.installed().len(), 1);
    assert_eq!(answers(&bench), [(OTHER, PathOutcome::Prevented)]);
    let replay = bench.records("replay")[0];
    assert!(matches!(&replay.what, What::Replay { shared_by: Some(by), .. } if by.0 == OTHER));
    assert_eq!(
        bench.controller.paths().len(),
        1,
        "it is now one of its own"
    );
}

#[test]
fn each_outcome_of_a_replay_has_its_answer() {
    let check = |mode, confirmed, remedies: Vec<Filter>, expected| {
        let mut bench = Bench::with(Options {
            mode,
            ..Options::default()
        });
        bench.peer(OTHER, shared(7));
        let run = bench.begin();
        bench.checker(replayed(run, 7, confirmed, remedies));
        assert_eq!(answers(&bench), [(OTHER, expected)]);
        bench.end();
        assert_eq!(answers(&bench).len(), 1, "once");
    };
    check(
        Mode::Steer,
        true,
        vec![join_filter()],
        PathOutcome::Prevented,
    );
    check(
        Mode::Audit,
        true,
        vec![join_filter()],
        PathOutcome::NotConsidered,
    );
    check(Mode::Steer, true, Vec::new(), PathOutcome::NoRemedy);
    check(Mode::Steer, false, Vec::new(), PathOutcome::NotConfirmed);
}

#[test]
fn what_cannot_be_meant_for_this_node_is_not_considered() {
    let check = |message: SharePath, options: Options| {
        let mut bench = Bench::with(options);
        bench.peer(OTHER, message);
        assert_eq!(answers(&bench), [(OTHER, PathOutcome::NotConsidered)]);
        bench.snapshot();
        assert!(bench.jobs.iter().all(|job| job.past_paths.is_empty()));
    };
    let steer = || Options {
        mode: Mode::Steer,
        ..Options::default()
    };
    check(
        SharePath {
            version: "2".to_owned(),
            ..shared(7)
        },
        steer(),
    );
    check(
        SharePath {
            by: NodeId::new(9),
            ..shared(7)
        },
        steer(),
    );
    check(
        shared(7),
        Options {
            share_paths: false,
            ..steer()
        },
    );
    check(
        shared(7),
        Options {
            mode: Mode::Off,
            ..Options::default()
        },
    );
}

#[test]
fn one_neighbor_cannot_fill_what_waits_nor_have_snapshots_gathered_without_end() {
    let mut bench = Bench::steering();
    let max = bench.controller.options().shared_waiting_max as u64;
    for id in 0..1_000 {
        bench.peer(OTHER, shared(id));
    }
    let waiting = bench.controller.status(bench.now).shared_paths_waiting as u64;
    assert_eq!(waiting, max / 4);
    assert_eq!(bench.gathers, 1);
    let mut another = shared(5_000);
    another.by = NodeId::new(3);
    bench.peer(NodeId::new(3), another);
    let waiting = bench.controller.status(bench.now).shared_paths_waiting as u64;
    assert_eq!(waiting, max / 4 + 1, "others still have room");
}

#[test]
fn a_neighbor_cannot_replace_a_path_by_using_its_name() {
    let mut bench = Bench::steering();
    bench.begin();
    bench.find(7);
    bench.end();
    let mut forged = shared(7);
    forged.path = b"forged".to_vec();
    bench.peer(OTHER, forged);
    bench.begin();
    let paths = &bench.jobs.last().unwrap().past_paths;
    assert_eq!(paths.len(), 1);
    assert_eq!(paths[0].path, 7_u64.to_be_bytes());
}

#[test]
fn a_shared_path_survives_one_crash_of_the_checker_and_is_answered_after_two() {
    let mut bench = Bench::steering();
    bench.peer(OTHER, shared(7));
    for expected in [0, 1] {
        bench.begin();
        let now = bench.now;
        bench.controller.handle_checker_gone(now, "signal 11");
        bench.ready();
        assert_eq!(answers(&bench).len(), expected);
    }
    assert_eq!(answers(&bench), [(OTHER, PathOutcome::NotConsidered)]);
}

#[test]
fn what_neither_the_neighbor_nor_this_node_prevents_is_unhelpful() {
    let check = |outcome, expected: u64| {
        let mut bench = Bench::steering();
        let run = bench.begin();
        let mut theirs = found(run, 7, Vec::new());
        theirs.violation.neighbor = Some(OTHER);
        theirs.violation.unhelpful = "drop Join from n2 at n1: it only puts it off".to_owned();
        bench.checker(theirs.clone());
        assert_eq!(bench.controller.counts().unhelpful, 0, "it is asked first");
        for _ in 0..2 {
            bench.peer(
                OTHER,
                PathAnswer {
                    violation: violation(7),
                    outcome,
                },
            );
        }
        assert_eq!(
            bench.controller.counts().unhelpful,
            expected,
            "{outcome}, said twice"
        );
        let rejected = bench.records("filter-rejected");
        assert_eq!(rejected.len() as u64, expected);
        for entry in rejected {
            assert_eq!(entry.run.unwrap().0, run);
            assert_eq!(entry.violation.unwrap().0, violation(7));
            let What::FilterRejected { why, .. } = &entry.what else {
                panic!("{entry:?}");
            };
            assert!(why.contains("n2 answers"), "{why}");
            assert!(why.contains("only puts it off"), "{why}");
        }
        // A later run that finds it again does not leave it to a neighbor that has declined.
        bench.end();
        let run = bench.begin();
        theirs.run = run;
        bench.checker(theirs);
        assert_eq!(bench.controller.counts().unhelpful, 2 * expected);
        assert_eq!(bench.controller.counts().paths_shared, 1);
    };
    check(PathOutcome::NoRemedy, 1);
    check(PathOutcome::NotConsidered, 1);
    check(PathOutcome::Prevented, 0);
    check(PathOutcome::NotConfirmed, 0);
}

#[test]
fn this_nodes_own_event_on_a_shared_path_is_steered_whatever_the_neighbor_answers() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    let mut theirs = found(run, 7, vec![join_filter()]);
    theirs.violation.neighbor = Some(OTHER);
    bench.checker(theirs);
    assert_eq!(bench.controller.counts().paths_shared, 1);
    assert_eq!(bench.installed().len(), 1, "nobody waits for the answer");
    bench.peer(
        OTHER,
        PathAnswer {
            violation: violation(7),
            outcome: PathOutcome::NoRemedy,
        },
    );
    assert_eq!(bench.controller.counts().unhelpful, 0);
    assert_eq!(bench.in_force(), 1);
}

#[test]
fn what_costs_a_neighbor_less_is_left_to_it_unless_it_declines() {
    let check = |outcome: Option<PathOutcome>, installed: usize| {
        let mut bench = Bench::steering();
        let run = bench.begin();
        let mut theirs = found(run, 7, vec![join_filter()]);
        theirs.violation.elsewhere = Some(OTHER);
        bench.checker(theirs.clone());
        assert_eq!(bench.controller.counts().paths_shared, 1);
        assert_eq!(bench.installed().len(), 0, "it is left to the neighbor");
        bench.end();
        if let Some(outcome) = outcome {
            let violation = violation(7);
            bench.peer(OTHER, PathAnswer { violation, outcome });
        } else {
            bench.pass(10_000);
        }
        // The next run finds it again, by replay and by search.
        let run = bench.begin();
        let mut again = replayed(run, 7, true, vec![join_filter()]);
        again.elsewhere = Some(OTHER);
        bench.checker(again);
        theirs.run = run;
        bench.checker(theirs);
        assert_eq!(bench.in_force(), installed, "{outcome:?}");
        assert_eq!(bench.controller.counts().paths_shared, 1);
    };
    check(Some(PathOutcome::Prevented), 0);
    check(Some(PathOutcome::NoRemedy), 1);
    check(Some(PathOutcome::NotConsidered), 1);
    check(None, 1);
}

#[test]
fn a_neighbor_that_never_answers_prevents_nothing() {
    let mut bench = Bench::steering();
    let run = bench.begin();
    let mut theirs = found(run, 7, Vec::new());
    theirs.violation.neighbor = Some(OTHER);
    bench.checker(theirs);
    bench.end();
    let pause_ms = bench.controller.options().share_pause_ms;
    bench.pass(pause_ms - 1);
    assert_eq!(bench.controller.counts().unhelpful, 0);
    bench.pass(1);
    assert_eq!(bench.controller.counts().unhelpful, 1);
    let What::FilterRejected { why, .. } = &bench.records("filter-rejected")[0].what else {
        panic!("{:?}", bench.log);
    };
    assert!(why.starts_with("n2 does not answer"), "{why}");
}
