//! Modes from four sides: the lowest counts, everywhere, and names are names of properties.

use scry_protocol::link::host::Held;

use super::*;

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn one_root(mode: Mode) -> BTreeMap<String, Mode> {
    BTreeMap::from([("one root".to_owned(), mode)])
}

/// The mode that the host's immediate check was last told for a property.
fn told(bench: &Bench, property: &str) -> Option<Mode> {
    let mut rules = bench.host.iter().rev().filter_map(|message| match message {
        AgentToHost::CheckSettings(rules) => Some(rules),
        _ => None,
    });
    let modes = &rules.next()?.modes;
    let own = modes.iter().find(|own| own.property == property)?;
    Some(own.mode)
}

#[test]
fn the_lowest_of_all_sides_counts_for_filters_vetoes_and_jobs() {
    let modes = [Mode::Off, Mode::Audit, Mode::Steer];
    for file in modes {
        for configured in modes {
            for set in modes {
                let mut bench = Bench::with(Options {
                    mode: Mode::Steer,
                    file_modes: one_root(file),
                    property_modes: one_root(configured),
                    ..Options::default()
                });
                let now = bench.now;
                let set_to = bench
                    .controller
                    .handle_operator(now, Some("one root"), set)
                    .unwrap();
                let lowest = file.min(configured).min(set);
                assert_eq!(set_to.allowed.mode, lowest);
                assert_eq!(set_to.allowed.why.is_none(), lowest == Mode::Steer);
                bench.drain();
                assert_eq!(told(&bench, "one root"), Some(lowest));
                bench.snapshot();
                let job = bench.jobs.last().unwrap();
                assert_eq!(job.modes[0].mode, lowest);
                bench.find(7);
                let installed = bench.installed().first().map(|filter| filter.mode);
                assert_eq!(installed, (lowest != Mode::Off).then_some(lowest));
            }
        }
    }
}

#[test]
fn a_path_is_shared_only_if_it_may_be_steered_by() {
    for (mode, shared) in [(Mode::Steer, 1), (Mode::Audit, 0), (Mode::Off, 0)] {
        let mut bench = Bench::with(Options {
            mode: Mode::Steer,
            file_modes: one_root(mode),
            ..Options::default()
        });
        let run = bench.begin();
        let mut theirs = found(run, 7, Vec::new());
        theirs.violation.neighbor = Some(OTHER);
        bench.checker(theirs);
        assert_eq!(bench.peers.len(), shared, "{mode}");
    }
}

#[test]
fn an_unknown_name_is_an_error_with_what_there_is() {
    let mut bench = Bench::steering();
    let now = bench.now;
    let mut set = |name: &str| bench.controller.handle_operator(now, Some(name), Mode::Off);
    let said = set("one rot").unwrap_err().to_string();
    assert_eq!(
        said,
        "there is no property \"one rot\"; did you mean \"one root\"? (there are: \"no cycle\", \"no handler panics\", \
         \"one root\")"
    );
    assert!(set("nope").is_err());
    assert!(set("no cycle").is_ok());
    assert!(set("no handler panics").is_ok());
    bench.drain();
    assert_eq!(bench.records("mode").len(), 2, "what is refused is not set");
}

#[test]
fn with_a_property_file_its_names_are_the_ones_there_are() {
    let mut bench = Bench::with(Options {
        mode: Mode::Steer,
        file_names: Some(names(&["of the file"])),
        ..Options::default()
    });
    let now = bench.now;
    let mut set = |name: &str| {
        bench
            .controller
            .handle_operator(now, Some(name), Mode::Audit)
    };
    assert!(set("of the file").is_ok());
    assert!(set("one root").is_err());
}

#[test]
fn before_the_service_is_known_a_name_is_taken_and_told_later_if_it_is_wrong() {
    let options = Options {
        mode: Mode::Steer,
        property_modes: BTreeMap::from([("one rot".to_owned(), Mode::Audit)]),
        ..Options::default()
    };
    let mut bench = Bench::bare(options, Paths::default());
    bench.attach("1");
    let now = bench.now;
    let set = bench
        .controller
        .handle_operator(now, Some("nope"), Mode::Off);
    assert!(set.is_ok());
    bench.drain();
    assert!(bench.records("failed-open").is_empty());
    bench.ready();
    let said: Vec<String> = bench
        .records("failed-open")
        .iter()
        .map(|entry| format!("{:?}", entry.what))
        .collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("did you mean"), "{said:?}");
    assert_eq!(bench.controller.counts().failed_open["property-unknown"], 2);
}

#[test]
fn what_an_operator_set_stays_unless_the_file_says_something_new_about_it() {
    let options = |configured| Options {
        mode: Mode::Steer,
        property_modes: BTreeMap::from([("no cycle".to_owned(), configured)]),
        ..Options::default()
    };
    let mut bench = Bench::with(options(Mode::Steer));
    let now = bench.now;
    for name in ["one root", "no cycle"] {
        let set = bench.controller.handle_operator(now, Some(name), Mode::Off);
        assert_eq!(set.unwrap().allowed.mode, Mode::Off);
    }
    bench.controller.handle_options(now, options(Mode::Steer));
    assert_eq!(bench.controller.mode_of("no cycle"), Mode::Off);
    bench.controller.handle_options(now, options(Mode::Audit));
    assert_eq!(bench.controller.mode_of("no cycle"), Mode::Audit);
    assert_eq!(bench.controller.mode_of("one root"), Mode::Off);
}

#[test]
fn a_snapshot_is_whole_if_it_shows_everyone_there_is() {
    let job = |everyone: Option<&[u32]>| {
        let mut bench = Bench::with(Options {
            everyone: everyone.map(|ids| ids.iter().map(|&id| NodeId::new(id)).collect()),
            ..Options::default()
        });
        bench.begin();
        bench.end();
        let mut snapshot = bench.jobs[0].snapshot.clone();
        // Node 3 is silent in every snapshot of the bench; here it is no neighbor.
        snapshot.missing.clear();
        bench.state += 1;
        snapshot.members[0].body = body(bench.state);
        bench.controller.handle_snapshot(bench.now, false, snapshot);
        bench.drain();
        (bench.jobs[0].whole, bench.jobs[1].whole)
    };
    assert_eq!(
        job(Some(&[1, 2])),
        (false, true),
        "a silent node is missing"
    );
    assert_eq!(job(Some(&[1, 2, 3])), (false, false));
    assert_eq!(
        job(Some(&[1])),
        (false, false),
        "there are nodes nobody knew"
    );
    assert_eq!(job(None), (false, false));
}

#[test]
fn a_property_that_no_run_could_judge_is_told_once() {
    let mut bench = Bench::steering();
    let unjudged = |run| Report {
        unjudged: vec![scry_protocol::link::checker::Unjudged {
            property: "one root".to_owned(),
            why: "it depends on nodes that are not in view".to_owned(),
        }],
        ..report(run, Ended::Exhausted)
    };
    for _ in 0..3 {
        let run = bench.begin();
        bench.checker(unjudged(run));
    }
    assert_eq!(bench.records("never-judged").len(), 1);
    let shown = |bench: &Bench| {
        let properties = bench.controller.status(bench.now).properties;
        let mut of = properties.into_iter();
        of.find(|of| of.property == "one root").unwrap()
    };
    assert_eq!(shown(&bench).unjudged_runs, 3);
    assert!(shown(&bench).unjudged.is_some());
    bench.begin();
    bench.end();
    assert_eq!(shown(&bench).unjudged, None);
    let run = bench.begin();
    bench.checker(unjudged(run));
    assert_eq!(
        bench.records("never-judged").len(),
        2,
        "it was judged between"
    );
}

/// What may be said about the global mode, from all sides.
#[derive(Clone, Copy, Debug)]
enum Said {
    Operator(Mode),
    Signal,
    Configured(Mode),
    Held(bool),
}

#[test]
fn a_kill_switch_is_above_whatever_is_said_and_then_the_last_word_counts() {
    let modes = [Mode::Off, Mode::Audit, Mode::Steer];
    let said = modes.map(Said::Operator).into_iter();
    let said = said.chain(modes.map(Said::Configured));
    let said = said.chain([Said::Signal, Said::Held(true), Said::Held(false)]);
    let said: Vec<Said> = said.collect();
    let count = said.len();
    // All stories of four sentences.
    for story in 0..count.pow(4) {
        let mut bench = Bench::steering();
        let now = bench.now;
        let (mut set, mut configured, mut held) = (Mode::Steer, Mode::Steer, false);
        let mut by = ModeBy::Configuration;
        for place in 0..4 {
            let sentence = said[story / count.pow(place) % count];
            match sentence {
                Said::Operator(mode) => {
                    (set, by) = (mode, ModeBy::Operator);
                    let change = bench.controller.handle_operator(now, None, mode).unwrap();
                    let counts = if held { Mode::Off } else { mode };
                    assert_eq!(change.allowed.mode, counts);
                    assert_eq!(change.why.is_some(), held, "{change:?}");
                }
                Said::Signal => {
                    (set, by) = (Mode::Off, ModeBy::Signal);
                    bench.controller.handle_signal(now);
                }
                Said::Configured(mode) => {
                    // Only what is new about it counts.
                    if mode != configured {
                        (set, configured, by) = (mode, mode, ModeBy::Configuration);
                    }
                    let options = Options {
                        mode,
                        ..bench.controller.options().clone()
                    };
                    bench.controller.handle_options(now, options);
                }
                Said::Held(is_held) => {
                    let change = bench
                        .controller
                        .handle_held_off(now, is_held.then(|| "a file".to_owned()));
                    assert_eq!(change.is_some(), held != is_held);
                    held = is_held;
                }
            }
            bench.drain();
            let counts = if held { Mode::Off } else { set };
            assert_eq!(bench.controller.options().mode, counts, "{sentence:?}");
            assert_eq!(bench.controller.mode_of("one root"), counts);
            assert_eq!(bench.controller.mode_by(), by);
            assert_eq!(bench.controller.held_off_by(), held.then_some("a file"));
            let mut told = bench.host.iter().rev().filter_map(|message| match message {
                AgentToHost::Mode(set) => Some(set.mode),
                AgentToHost::Welcome(welcome) => Some(welcome.mode),
                _ => None,
            });
            assert_eq!(told.next(), Some(counts), "the host knows it");
        }
    }
}

#[test]
fn whoever_sets_a_mode_is_told_why_it_does_not_count() {
    let mut bench = Bench::steering();
    let now = bench.now;
    let mut why = |held: Option<&str>, property, mode| {
        let controller = &mut bench.controller;
        let _ = controller.handle_held_off(now, held.map(str::to_owned));
        controller.handle_operator(now, property, mode).unwrap().why
    };
    let file = Some("the kill file is there");
    assert_eq!(why(None, None, Mode::Steer), None);
    assert_eq!(
        why(file, None, Mode::Steer).as_deref(),
        Some("the kill file is there; steer counts when that is over")
    );
    assert_eq!(why(file, None, Mode::Off).as_deref(), file);
    assert_eq!(why(file, Some("one root"), Mode::Audit).as_deref(), file);
    assert_eq!(
        why(None, Some("one root"), Mode::Audit).as_deref(),
        Some("the global mode is lower"),
        "an operator had set it to off meanwhile"
    );
    bench.host(Stats {
        held: Held::Environment,
        ..Stats::default()
    });
    let set = bench.controller.handle_operator(now, None, Mode::Steer);
    let why = set.unwrap().why.expect("it does nothing there");
    assert!(why.starts_with("but the service acts on nothing"), "{why}");
}

/// A prediction that something never comes true again, with a filter on its critical transition.
fn dead(run: RunId, id: u64) -> Box<Found> {
    let mut dead = found(run, id, vec![join_filter()]);
    dead.violation.how = How::Dead;
    dead.violation.critical = "Join from n2 at n1".to_owned();
    dead
}

fn with_liveness(mode: Mode, liveness: Mode) -> Bench {
    Bench::with(Options {
        mode,
        liveness,
        ..Options::default()
    })
}

#[test]
fn what_never_comes_true_again_is_prevented_if_both_the_mode_and_that_of_liveness_allow_it() {
    for mode in [Mode::Audit, Mode::Steer] {
        for liveness in [Mode::Audit, Mode::Steer] {
            let mut bench = with_liveness(mode, liveness);
            let run = bench.begin();
            assert_eq!(bench.jobs[0].liveness, liveness);
            bench.checker(dead(run, 7));
            assert_eq!(bench.installed()[0].mode, mode.min(liveness));
            let counts = bench.controller.counts();
            assert_eq!((counts.predictions, counts.predictions_dead), (1, 1));
            let What::Violation {
                how,
                critical,
                mode: told,
                ..
            } = &bench.records("violation")[0].what
            else {
                panic!("it is a violation");
            };
            assert_eq!(how.as_deref(), Some("dead"));
            assert_eq!(critical.as_deref(), Some("Join from n2 at n1"));
            assert_eq!(told.0, mode.min(liveness));
        }
    }
    assert_eq!(Options::default().liveness, Mode::Audit);
}

#[test]
fn the_mode_of_liveness_is_not_for_what_must_always_hold() {
    let mut bench = with_liveness(Mode::Steer, Mode::Off);
    bench.begin();
    bench.find(7);
    assert_eq!(bench.installed()[0].mode, Mode::Steer);
    assert_eq!(bench.controller.counts().predictions_dead, 0);
    let What::Violation { how, critical, .. } = &bench.records("violation")[0].what else {
        panic!("it is a violation");
    };
    assert_eq!((how, critical), (&None, &None));
}

/// After a restart nothing is known but the path, and the first word of it is that it was replayed.
#[test]
fn a_replay_does_not_steer_more_than_liveness_may() {
    let mut bench = with_liveness(Mode::Steer, Mode::Audit);
    let run = bench.begin();
    let mut again = replayed(run, 7, true, vec![join_filter()]);
    again.how = How::Dead;
    bench.checker(again);
    assert_eq!(bench.installed()[0].mode, Mode::Audit);
    assert_eq!(bench.controller.counts().predictions_dead, 1);
}

#[test]
fn filters_fall_when_liveness_may_do_less() {
    let mut bench = with_liveness(Mode::Steer, Mode::Steer);
    let run = bench.begin();
    bench.checker(dead(run, 7));
    let id = bench.installed()[0].id;
    let now = bench.now;
    let less = Options {
        mode: Mode::Steer,
        liveness: Mode::Audit,
        ..Options::default()
    };
    bench.controller.handle_options(now, less);
    bench.drain();
    assert_eq!(bench.withdrawn(), [id]);
    let allowed = bench.controller.allowed("one root");
    assert_eq!(allowed.why.as_deref(), Some("`checker.liveness` says so"));
}
