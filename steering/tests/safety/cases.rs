//! What the check refuses, what it lets through, and what it does when its own parts fail.

mod processes;
mod unusable;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use scry::checkpoint::Time;
use scry::model::event::{Input, InputOf};
use scry::model::handler::Local;
use scry::model::live::run;
use scry::runtime::guard::{Asked, Examined, Guard, Meanwhile, Notice, Reviewed, Scene};
use scry::safety::{SafetyCheck, VetoLimits};
use scry::{Dice, NodeId, Stamp};
use scry_protocol::filter::Mode;
use scry_protocol::link::host::{
    CheckSettings, Failure, Isolate, Neighbor, Outcome, PropertyMode, Surroundings, Veto,
};
use scry_protocol::{CheckpointNumber, Content, Incarnation, Past};

use crate::cuts;
use crate::toy::{ATTACHED, BURDEN, Counter, ENDLESS, Message, UNJUDGED, counter};

/// A case with its name.
type Case = (&'static str, fn());

/// Every case.
pub(crate) const ALL: &[Case] = &[
    (
        "a_neighbor_that_has_moved_on_refuses_nothing",
        cuts::leaves_out_moved_on,
    ),
    (
        "states_that_were_never_there_at_once_refuse_nothing",
        cuts::wants_one_moment,
    ),
    (
        "a_silent_neighbor_counts_for_what_lasts",
        cuts::counts_what_lasts,
    ),
    (
        "the_news_of_a_lost_connection_is_not_cleared_while_its_peer_is_silent",
        cuts::waits_for_whom_the_news_is_about,
    ),
    (
        "suspicions_that_are_refuted_are_followed_up_less_often",
        cuts::loses_patience,
    ),
    ("a_109_what_breaks_a_property_is_refused", refuses),
    ("a_110_the_node_is_left_as_it_is", leaves_the_node),
    ("a_113_neighbors_states_count", judges_with_neighbors),
    (
        "a_114_refusing_again_and_again_is_no_trouble",
        refuses_often,
    ),
    (
        "what_is_broken_already_does_not_stop_a_node",
        goes_on_when_broken,
    ),
    (
        "what_is_broken_already_does_not_excuse_what_is_new",
        refuses_what_is_worse,
    ),
    ("a_panic_is_refused", refuses_panics),
    ("an_abort_in_a_child_is_refused", refuses_aborts),
    ("an_exit_in_a_child_is_refused", refuses_exits),
    (
        "a_property_that_panics_is_unknown_and_told",
        contains_property_panics,
    ),
    ("nothing_of_one_check_reaches_the_next", stays_clean),
    ("an_endless_handler_is_late_and_runs", late_runs),
    (
        "endless_handlers_do_not_cost_the_next_check",
        late_costs_nothing_else,
    ),
    ("every_change_reaches_every_child", follows_changes),
    ("a_failing_fork_lets_through", fork_fails),
    ("audit_reports_and_lets_through", audits),
    ("off_does_nothing", off),
    ("a_property_has_a_mode_of_its_own", property_modes),
    ("the_copy_throws_the_same_dice", same_dice),
    ("verdicts_are_remembered", remembers),
    (
        "a_killed_speculator_is_replaced",
        processes::replaces_killed,
    ),
    (
        "a_stopped_speculator_is_replaced",
        processes::replaces_stopped,
    ),
    (
        "children_die_with_the_speculator_and_are_replaced_when_killed",
        processes::replaces_children,
    ),
    ("rules_that_do_not_fit_check_nothing", unusable::unfit_rules),
    (
        "all_broken_properties_count_and_the_strictest_mode_decides",
        counts_all_broken,
    ),
    (
        "a_judgement_that_is_cut_off_is_unknown_and_told_once",
        unusable::cuts_off_judgements,
    ),
    ("too_many_vetoes_are_the_last_for_a_while", limits_vetoes),
    (
        "what_a_reset_would_break_too_is_kept_until_there_is_a_way_out",
        keeps_what_a_reset_breaks,
    ),
    (
        "what_other_nodes_could_mend_is_not_refused",
        knows_it_sees_a_part,
    ),
    ("old_neighbors_are_forgotten", unusable::forgets_stale),
    (
        "what_never_ends_on_a_neighbors_state_is_told_by_the_speculator",
        processes::tells_what_never_ends,
    ),
    (
        "what_never_ends_is_left_alone_in_this_process_also_when_its_rest_is_over",
        processes::leaves_alone_what_never_ends,
    ),
    (
        "an_unreadable_neighbor_is_left_out",
        unusable::leaves_out_unreadable,
    ),
];

const ME: NodeId = NodeId::new(1);
pub(crate) const OTHER: NodeId = NodeId::new(2);
pub(crate) const FORMS: [Isolate; 3] = [Isolate::Clone, Isolate::Speculator, Isolate::Fork];
/// Machines are busy: a verdict that comes is never late in these tests.
const PATIENT_MS: u64 = 60_000;

pub(crate) fn rules(isolate: Isolate) -> CheckSettings {
    CheckSettings {
        properties: String::new(),
        modes: Vec::new(),
        isolate,
        deadline_ms: PATIENT_MS,
        surroundings_age_ms_max: PATIENT_MS,
        hold_ms_max: PATIENT_MS,
        time_share_per_mille: 1000,
    }
}

pub(crate) fn check(rules: CheckSettings) -> SafetyCheck<Counter> {
    let mut check = SafetyCheck::new(ME, None);
    check.set_rules(rules);
    check
}

pub(crate) fn examine(
    check: &mut SafetyCheck<Counter>,
    count: u64,
    message: Message,
) -> Examined<Counter> {
    examine_in(Mode::Steer, check, count, message)
}

fn examine_in(
    mode: Mode,
    check: &mut SafetyCheck<Counter>,
    count: u64,
    message: Message,
) -> Examined<Counter> {
    with_scene(mode, count, message, &Past::default(), |scene| {
        check.examine(scene)
    })
}

/// Sets the scene of an event, each a minute after the one before.
pub(crate) fn with_scene<T>(
    mode: Mode,
    count: u64,
    message: Message,
    past: &Past,
    act: impl FnOnce(&Scene<'_, Counter>) -> T,
) -> T {
    static MINUTES: AtomicU64 = AtomicU64::new(1);
    let now = Time::from_millis(60_000 * MINUTES.fetch_add(1, Ordering::Relaxed));
    act(&Scene {
        mode,
        now,
        at: Instant::now(),
        setup: &(),
        local: &counter(count),
        input: &Input::Message {
            from: OTHER,
            message,
        },
        dice: Dice::new(7, Stamp::from_millis(0), 0),
        past,
        again: false,
    })
}

/// What the check says of an event of this node, the first there is.
fn examine_once(
    check: &mut SafetyCheck<Counter>,
    local: &Local<Counter>,
    input: &InputOf<Counter>,
    dice: Dice,
) -> Examined<Counter> {
    check.examine(&Scene {
        mode: Mode::Steer,
        now: Time::from_millis(1),
        at: Instant::now(),
        setup: &(),
        local,
        input,
        dice,
        past: &Past::default(),
        again: false,
    })
}

/// What is suspected, and what comes of it when the neighbors turn out to be as they were known.
pub(crate) fn look_again(
    check: &mut SafetyCheck<Counter>,
    count: u64,
    message: Message,
    meanwhile: Meanwhile<'_, Counter>,
) -> Reviewed<Counter> {
    let examined = examine(check, count, message.clone());
    let Examined::Suspect { property } = examined else {
        panic!("{examined:?}");
    };
    with_scene(Mode::Steer, count, message, &Past::default(), |scene| {
        let at = Instant::now();
        let past = &Past::default();
        check.review(
            scene,
            &property,
            &Asked {
                at,
                past,
                meanwhile,
            },
        )
    })
}

#[track_caller]
pub(crate) fn refuses_after_a_look(check: &mut SafetyCheck<Counter>, count: u64, message: Message) {
    match look_again(check, count, message, Meanwhile::Idle) {
        Reviewed::Refuse(refusal) => assert_eq!(refusal.property, "all different"),
        run => panic!("{run:?}"),
    }
}

#[track_caller]
fn passes(check: &mut SafetyCheck<Counter>, count: u64, message: Message) {
    let examined = examine(check, count, message);
    assert!(matches!(examined, Examined::Pass(_)), "{examined:?}");
}

/// One of the same kind was refused: it is looked at, and runs.
#[track_caller]
fn passes_after_a_look(check: &mut SafetyCheck<Counter>, count: u64, message: Message) {
    let reviewed = look_again(check, count, message, Meanwhile::Idle);
    let cleared = matches!(reviewed, Reviewed::Run(Outcome::Cleared, _));
    assert!(cleared, "{reviewed:?}");
}

#[track_caller]
fn vetoes(check: &mut SafetyCheck<Counter>, count: u64, message: Message, broken: &str) -> String {
    match examine(check, count, message) {
        Examined::Veto(refusal) => {
            assert_eq!(refusal.property, broken);
            refusal.explanation
        }
        passed => panic!("{passed:?}"),
    }
}

pub(crate) fn notices(check: &mut SafetyCheck<Counter>) -> Vec<Notice> {
    std::iter::from_fn(|| check.poll_notice()).collect()
}

fn failures(check: &mut SafetyCheck<Counter>) -> Vec<Failure> {
    let failures = notices(check)
        .into_iter()
        .filter_map(|notice| match notice {
            Notice::Failed(failure, _) => Some(failure),
            Notice::WouldVeto(_) => None,
        });
    failures.collect()
}

pub(crate) fn neighbor(count: u64) -> Surroundings {
    let (state, timers) = scry::capture::write(&(), &counter(count), &[]).expect("plain values");
    let content = Content {
        incarnation: Incarnation::new(1),
        born: CheckpointNumber::from(1),
        past: Past::default(),
        state,
        timers,
        channels: None,
    };
    Surroundings {
        number: CheckpointNumber::from(1),
        answers: None,
        neighbors: vec![Neighbor {
            node: OTHER,
            number: CheckpointNumber::from(1),
            present: true,
            lasting: Vec::new(),
            body: content.write().expect("a small state"),
        }],
    }
}

/// Asks until the answer is as wished: a process that was lost is started again after a pause.
#[track_caller]
fn until(what: &str, mut wished: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !wished() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never {what}");
        std::thread::yield_now();
    }
}

fn keeps_what_a_reset_breaks() {
    for form in FORMS {
        let mut check = check(rules(form));
        let holds = |check: &mut SafetyCheck<Counter>, count| match examine(
            check,
            count,
            Message::Add(10 - count),
        ) {
            Examined::Veto(refusal) => refusal.hold,
            passed => panic!("{passed:?}"),
        };
        assert!(holds(&mut check, ATTACHED));
        assert!(
            !holds(&mut check, ATTACHED + 1),
            "its connection can be reset"
        );
        let stranger = NodeId::new(4);
        let mut way_out = |message, peers: &[NodeId]| {
            with_scene(Mode::Steer, ATTACHED, message, &Past::default(), |scene| {
                check.way_out(scene, peers)
            })
        };
        assert_eq!(way_out(Message::Add(6), &[stranger]), None);
        assert_eq!(way_out(Message::Add(6), &[stranger, BURDEN]), Some(BURDEN));
        assert_eq!(way_out(Message::Add(16), &[stranger, BURDEN]), None);
        let breaks = |count, check: &mut SafetyCheck<Counter>| {
            with_scene(
                Mode::Steer,
                count,
                Message::Add(1),
                &Past::default(),
                |scene| check.reset_breaks(scene),
            )
        };
        assert!(breaks(ATTACHED, &mut check) && !breaks(0, &mut check));
    }
}

fn refuses() {
    for form in FORMS {
        let mut check = check(rules(form));
        passes(&mut check, 0, Message::Set(9));
        vetoes(&mut check, 0, Message::Set(10), "small");
    }
}

fn leaves_the_node() {
    for form in FORMS {
        let mut check = check(rules(form));
        let local = counter(3);
        let before = rmp_serde::to_vec(&local.service).expect("plain values");
        let input = Input::Message {
            from: OTHER,
            message: Message::Set(4),
        };
        let examined = examine_once(
            &mut check,
            &local,
            &input,
            Dice::new(7, Stamp::from_millis(0), 0),
        );
        assert_eq!(
            rmp_serde::to_vec(&local.service).expect("plain values"),
            before
        );
        // Only the form that runs in this process has anything to hand over, and the sends are in it, not out.
        match (form, examined) {
            (Isolate::Clone, Examined::Pass(Some((local, effects)))) => {
                assert_eq!(local.service.count, 4);
                assert_eq!(effects.len(), 1);
            }
            (_, Examined::Pass(None)) => {}
            (_, other) => panic!("{other:?}"),
        }
    }
}

fn judges_with_neighbors() {
    for form in FORMS {
        let mut check = check(rules(form));
        passes(&mut check, 0, Message::Set(5));
        check.set_surroundings(neighbor(5));
        refuses_after_a_look(&mut check, 0, Message::Set(5));
        passes_after_a_look(&mut check, 0, Message::Set(6));
        check.set_surroundings(neighbor(6));
        passes_after_a_look(&mut check, 0, Message::Set(5));
        passes(&mut check, 0, Message::Add(5));
    }
}

fn refuses_often() {
    for form in FORMS {
        let mut check = check(rules(form));
        for count in 10..60 {
            vetoes(&mut check, 0, Message::Set(count), "small");
            passes(&mut check, 0, Message::Set(1));
        }
    }
}

/// What the event breaks beside what it is stopped for, by name.
fn would_veto(check: &mut SafetyCheck<Counter>) -> Vec<String> {
    let told = notices(check)
        .into_iter()
        .filter_map(|notice| match notice {
            Notice::WouldVeto(veto) => Some(veto.property),
            Notice::Failed(..) => None,
        });
    told.collect()
}

fn counts_all_broken() {
    // Of this node alone: that the neighbor breaks a property already would excuse it.
    let file = "[[property]]\nname = 'small'\nalways = 'nodes.all(n, n.id != 1 || n.count < 10)'\n\
                [[property]]\nname = 'all different'\nalways = 'distinct(nodes.map(n, n.count))'\n";
    for form in FORMS {
        let with = |modes: &[(&str, Mode)]| {
            let mut check = check(CheckSettings {
                properties: file.to_owned(),
                modes: modes
                    .iter()
                    .map(|&(property, mode)| PropertyMode {
                        property: property.to_owned(),
                        mode,
                    })
                    .collect(),
                ..rules(form)
            });
            check.set_surroundings(neighbor(12));
            check
        };
        // Twelve is too large, and the neighbor's number.
        let mut check = with(&[("small", Mode::Audit)]);
        refuses_after_a_look(&mut check, 0, Message::Set(12));
        assert_eq!(would_veto(&mut check), ["small"], "{form}");
        let mut check = with(&[("small", Mode::Off)]);
        refuses_after_a_look(&mut check, 0, Message::Set(12));
        assert!(would_veto(&mut check).is_empty());
        let mut check = with(&[]);
        vetoes(&mut check, 0, Message::Set(12), "small");
        assert_eq!(would_veto(&mut check), ["all different"]);
        let mut check = with(&[("small", Mode::Audit), ("all different", Mode::Audit)]);
        passes(&mut check, 0, Message::Set(12));
        let mut told = Vec::new();
        until("told", || {
            told.extend(would_veto(&mut check));
            told.len() == 2
        });
        assert_eq!(told, ["small", "all different"]);
    }
}

fn limits_vetoes() {
    let limits = VetoLimits {
        vetoes_per_minute_max: 3,
        pause: Duration::from_secs(600),
    };
    let mut check = check(rules(Isolate::Clone)).limited(limits);
    check.set_surroundings(neighbor(5));
    for _ in 0..3 {
        vetoes(&mut check, 0, Message::Set(10), "small");
    }
    passes(&mut check, 0, Message::Set(10));
    let told = notices(&mut check);
    let disarmed = |notice: &Notice| matches!(notice, Notice::Failed(Failure::VetoesDisarmed, _));
    assert_eq!(told.iter().filter(|told| disarmed(told)).count(), 1);
    passes(&mut check, 0, Message::Set(10));
    assert!(failures(&mut check).is_empty(), "it is told once");
    refuses_after_a_look(&mut check, 0, Message::Set(5));
}

fn knows_it_sees_a_part() {
    for form in FORMS {
        let file = "[[property]]\nname = 'a'\nalways = 'nodes.exists(n, n.count == 0)'\n\
                    [[property]]\nname = 'b'\nalways = 'size(nodes) == 3'\n\
                    [[property]]\nname = 'c'\nalways = 'nodes.exists_one(n, n.count == 4)'\n";
        let mut check = check(CheckSettings {
            properties: file.to_owned(),
            ..rules(form)
        });
        check.set_surroundings(neighbor(4));
        passes(&mut check, 0, Message::Set(5));
        let reviewed = look_again(&mut check, 0, Message::Set(4), Meanwhile::Idle);
        assert!(
            matches!(&reviewed, Reviewed::Refuse(refusal) if refusal.property == "c"),
            "{reviewed:?}"
        );
    }
}

fn goes_on_when_broken() {
    for form in FORMS {
        let mut check = check(rules(form));
        passes(&mut check, 11, Message::Set(12));
        passes(&mut check, 11, Message::Set(2));
    }
}

fn refuses_what_is_worse() {
    for form in FORMS {
        let mut check = check(rules(form));
        passes(&mut check, 11, Message::Set(99));
        vetoes(&mut check, 11, Message::Set(100), "small");
        passes(&mut check, 100, Message::Set(101));
    }
}

fn refuses_panics() {
    for form in FORMS {
        let said = vetoes(
            &mut check(rules(form)),
            0,
            Message::Panic,
            "no handler panics",
        );
        assert!(said.contains("as it was told"), "{said}");
    }
}

fn refuses_aborts() {
    for form in [Isolate::Speculator, Isolate::Fork] {
        let mut check = check(rules(form));
        let said = vetoes(&mut check, 0, Message::Abort, "no handler panics");
        assert!(said.contains("SIGABRT"), "{said}");
        passes(&mut check, 0, Message::Set(1));
    }
}

fn refuses_exits() {
    for form in [Isolate::Speculator, Isolate::Fork] {
        let mut check = check(rules(form));
        let said = vetoes(&mut check, 0, Message::Exit, "no handler panics");
        assert!(said.contains("ends the process"), "{said}");
        passes(&mut check, 0, Message::Set(1));
        assert_eq!(failures(&mut check), []);
    }
}

fn contains_property_panics() {
    for form in FORMS {
        let mut check = check(rules(form));
        // The other properties are judged all the same.
        vetoes(&mut check, 0, Message::Set(UNJUDGED), "small");
        assert_eq!(failures(&mut check), [Failure::PropertyPanicked]);
        passes(&mut check, 0, Message::Set(1));
        assert_eq!(failures(&mut check), []);
    }
}

fn stays_clean() {
    for form in [Isolate::Speculator, Isolate::Fork] {
        let mut check = check(rules(form));
        for count in 1..10 {
            passes(&mut check, count, Message::Stain);
            passes(&mut check, count, Message::Set(count));
        }
        assert_eq!(failures(&mut check), []);
    }
}

/// A late trial is ended before the host stops listening, so that the speculator is not taken for hung.
fn late_costs_nothing_else() {
    let mut hasty = rules(Isolate::Speculator);
    hasty.deadline_ms = 2_000;
    let mut check = check(hasty);
    passes(&mut check, 0, Message::Set(1));
    let first = check.speculator_id();
    failures(&mut check);
    for count in 10..15 {
        passes(&mut check, count, Message::Loop);
        assert_eq!(failures(&mut check), [Failure::CheckLate]);
        vetoes(&mut check, 0, Message::Set(count), "small");
    }
    assert_eq!(check.speculator_id(), first);
}

/// Children are forked ahead, so many of them know the old neighbors when new ones come.
fn follows_changes() {
    let mut check = check(rules(Isolate::Speculator));
    for round in 0..20 {
        let (old, new) = (1 + round % 9, 1 + (round + 1) % 9);
        check.set_surroundings(neighbor(old));
        refuses_after_a_look(&mut check, 0, Message::Set(old));
        passes_after_a_look(&mut check, 0, Message::Set(new));
        check.set_surroundings(neighbor(new));
        check.set_surroundings(neighbor(old));
        check.set_surroundings(neighbor(new));
        refuses_after_a_look(&mut check, 0, Message::Set(new));
        passes_after_a_look(&mut check, 0, Message::Set(old));
    }
    assert_eq!(failures(&mut check), []);
}

fn late_runs() {
    for form in [Isolate::Speculator, Isolate::Fork] {
        let mut rules = rules(form);
        rules.deadline_ms = 200;
        let mut check = check(rules);
        passes(&mut check, 0, Message::Loop);
        // On a machine so busy that the speculator is not up yet, it is late for that reason: late all the same.
        assert_eq!(failures(&mut check), [Failure::CheckLate]);
    }
}

/// A limit on processes binds nobody who is root, so another process gives up being root first.
fn fork_fails() {
    let status = std::process::Command::new(std::env::current_exe().expect("our own path"))
        .env(LONELY, "1")
        .status()
        .expect("our own executable");
    assert!(status.success(), "{status}");
}

/// Says to a process of this executable that it shall have no children.
pub(crate) const LONELY: &str = "SCRY_TEST_LONELY";

/// Asks for a check in a process that cannot fork.
pub(crate) fn lonely() {
    if nix::unistd::geteuid().is_root() {
        nix::unistd::setuid(nix::unistd::Uid::from_raw(65534)).expect("root may become anybody");
    }
    setrlimit(Resource::RLIMIT_NPROC, 0, 0).expect("less is always allowed");
    let mut check = check(rules(Isolate::Fork));
    passes(&mut check, 0, Message::Set(10));
    assert_eq!(failures(&mut check), [Failure::ForkFailed]);
}

fn audits() {
    for form in FORMS {
        let mut check = check(rules(form));
        let examined = examine_in(Mode::Audit, &mut check, 0, Message::Set(10));
        assert!(matches!(examined, Examined::Pass(None)), "{examined:?}");
        // It is looked at beside the event path, and told when that is done.
        let mut notices = Vec::new();
        until("told", || {
            notices.extend(self::notices(&mut check));
            !notices.is_empty()
        });
        let [
            Notice::WouldVeto(Veto {
                acted: false,
                property,
                event,
                ..
            }),
        ] = &notices[..]
        else {
            panic!("{notices:?}");
        };
        assert_eq!(property, "small");
        assert!(event.contains("Set(10)"), "{event}");
    }
}

fn off() {
    let mut check = check(rules(Isolate::Clone));
    let examined = examine_in(Mode::Off, &mut check, 0, Message::Set(10));
    assert!(matches!(examined, Examined::Pass(None)), "{examined:?}");
    check.set_rules(rules(Isolate::Off));
    passes(&mut check, 0, Message::Set(10));
    assert!(notices(&mut check).is_empty());
}

fn property_modes() {
    let mut rules = rules(Isolate::Clone);
    rules.modes = vec![PropertyMode {
        property: "small".into(),
        mode: Mode::Audit,
    }];
    let mut check = check(rules);
    check.set_surroundings(neighbor(5));
    passes(&mut check, 0, Message::Set(10));
    let notices = notices(&mut check);
    assert!(
        matches!(&notices[..], [Notice::WouldVeto(veto)] if veto.property == "small"),
        "{notices:?}"
    );
    refuses_after_a_look(&mut check, 0, Message::Set(5));
    // One in audit does not hide one in steer.
    check.set_surroundings(neighbor(12));
    refuses_after_a_look(&mut check, 0, Message::Set(12));
}

fn same_dice() {
    let input = Input::Message {
        from: OTHER,
        message: Message::Roll,
    };
    let mut rolled = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let dice = Dice::new(seed, Stamp::from_millis(0), 0);
        let mut alone = counter(7);
        run(ME, &(), &mut alone, input.clone(), &mut dice.clone()).expect("no panic");
        rolled.insert(alone.service.count);
        for form in FORMS {
            let mut check = check(rules(form));
            let examined = examine_once(&mut check, &counter(7), &input, dice);
            let refused = matches!(examined, Examined::Veto(_));
            assert_eq!(
                refused,
                alone.service.count >= 10,
                "{form} with seed {seed}"
            );
        }
        if rolled.len() == 6 {
            return;
        }
    }
    panic!("the dice show {rolled:?} only");
}

fn remembers() {
    let mut check = check(rules(Isolate::Speculator));
    vetoes(&mut check, 0, Message::Set(10), "small");
    processes::stop(&check, Signal::SIGKILL);
    vetoes(&mut check, 0, Message::Set(10), "small");
    assert_eq!(failures(&mut check), []);
    // Dice decide this one anew each time.
    passes(&mut check, 0, Message::Roll);
    assert_eq!(failures(&mut check), [Failure::SpeculatorGone]);
}
