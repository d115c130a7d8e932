//! Which filters are taken and which are not (A-96…A-101), on services made for the question.

use randtree::{RandTree, scenarios};
use scry::checker::remedy::{Bound, judge_veto};
use scry::model::Event;
use scry::{Faults, NodeId, Service, Simulation, Step};
use scry_protocol::link::checker::{Ended, Job, Report};

use crate::pupil::{Pupil, Story, tell, tell_to, tell_with};
use crate::support::{earliest, job, run, scenario, shown};

/// Runs a story at node 1 with the paper's policy, and returns the filter against the bad value, or why there is none.
fn remedy(story: Story) -> Result<String, String> {
    remedy_of(earliest(job(&tell(story), 1)))
}

/// The same with the policy that is the default.
fn least_harm(story: Story) -> Result<String, String> {
    remedy_of(job(&tell(story), 1))
}

fn remedy_of(job: Job) -> Result<String, String> {
    let heard = run::<Pupil>(&job);
    let found = heard.found();
    let bad = found
        .iter()
        .find(|violation| violation.property == "no node has 9")
        .expect("the bad value is found");
    match bad.remedies.first() {
        Some(filter) => {
            assert_eq!(bad.unhelpful, "");
            assert_eq!(filter.violation, bad.id);
            Ok(shown(filter))
        }
        None => Err(bad.unhelpful.clone()),
    }
}

#[test]
fn a_job_names_the_strategy_that_searches() {
    let asked = |strategy: &str| Job {
        strategy: strategy.to_owned(),
        ..earliest(job(&tell(Story::Behind), 1))
    };
    for strategy in ["consequence", "portfolio", "exhaustive", "depth-first"] {
        let filter = remedy_of(asked(strategy));
        assert_eq!(filter.as_deref(), Ok("reset First n0->n1"), "{strategy}");
    }
    let heard = run::<Pupil>(&asked("consequense"));
    let Report { ended, detail, .. } = heard.report();
    assert_eq!(*ended, Ended::Unreadable);
    assert!(
        detail.contains("there is no strategy `consequense`"),
        "{detail}"
    );
}

#[test]
fn a_98_a_filter_that_breaks_another_property_is_not_taken() {
    let reason = remedy(Story::Harm).expect_err("no filter is safe");
    assert!(
        reason.contains(
            "drop First from n0 at n1: another property may be broken then: no node has 8"
        ),
        "{reason}"
    );
    assert!(
        reason.contains(
            "connection First from n0 at n1: another property may be broken then: no node has 7"
        ),
        "{reason}"
    );
}

#[test]
fn a_100_where_only_the_reset_of_the_connection_is_safe_it_is_taken() {
    assert_eq!(remedy(Story::Behind).as_deref(), Ok("reset First n0->n1"));
}

#[test]
fn a_101_a_retry_in_other_words_needs_a_wider_filter() {
    assert_eq!(remedy(Story::Reworded).as_deref(), Ok("drop Again n0->n1"));
}

#[test]
fn a_101_a_filter_that_only_puts_it_off_is_not_taken() {
    let reason = remedy(Story::Insists).expect_err("the sender finds another way");
    assert!(
        reason.contains("drop Again from n0 at n1: it only puts it off"),
        "{reason}"
    );
}

#[test]
fn a_87_properties_of_one_node_and_of_several_are_judged_together() {
    let mut job = job(&tell(Story::Timer), 1);
    job.properties = "\
        [[property]]\nname = \"alone\"\nalways = \"nodes.all(n, n.value == 0)\"\n\
        [[property]]\nname = \"together\"\n\
        always = \"nodes.all(a, nodes.all(b, a.value == b.value))\"\n"
        .into();
    let heard = run::<Pupil>(&job);
    assert_eq!(heard.broken(), ["alone", "together"]);
}

#[test]
fn a_92_a_timer_is_postponed() {
    assert_eq!(remedy(Story::Timer).as_deref(), Ok("postpone timer Tick"));
}

#[test]
fn a_93_a_call_is_refused() {
    assert_eq!(remedy(Story::Call).as_deref(), Ok("refuse call Go"));
}

#[test]
fn what_happens_elsewhere_is_for_the_neighbor() {
    let heard = run::<Pupil>(&job(&tell(Story::Timer), 0));
    let found = heard.found();
    assert_eq!(found[0].remedies, []);
    assert_eq!(found[0].neighbor, Some(scry::NodeId::new(1)));
    assert!(found[0].unhelpful.contains("nothing that n0 could filter"));
}

#[test]
fn what_takes_less_elsewhere_is_left_to_that_node() {
    // Node 1 can only refuse the call; node 0 can do without the datagram that comes of it.
    let at_caller = run::<Pupil>(&job(&tell(Story::Far), 1));
    let found = at_caller.found();
    assert_eq!(found[0].elsewhere, Some(NodeId::new(0)));
    assert_eq!(shown(&found[0].remedies[0]), "refuse call Go", "if not");
    let at_receiver = run::<Pupil>(&job(&tell(Story::Far), 0));
    let found = at_receiver.found();
    assert_eq!(found[0].elsewhere, None);
    assert_eq!(shown(&found[0].remedies[0]), "drop this Again n1->n0");
    // The paper's policy knows only the node itself.
    let papers = run::<Pupil>(&earliest(job(&tell(Story::Far), 1)));
    assert_eq!(papers.found()[0].elsewhere, None);
}

/// The same where nodes can look before they handle an event.
fn with_checks(story: Story, by: u32) -> Job {
    Job {
        checks: true,
        ..job(&tell(story), by)
    }
}

#[test]
fn what_the_immediate_check_can_stop_needs_only_be_looked_at() {
    let check = |story| remedy_of(with_checks(story, 1));
    assert_eq!(check(Story::Timer).as_deref(), Ok("check timer Tick"));
    assert_eq!(check(Story::Call).as_deref(), Ok("check call Go"));
    // Every try is looked at, in whatever words.
    assert_eq!(check(Story::Reworded).as_deref(), Ok("check Again n0->n1"));
    // It is the last event that is looked at, wherever that is.
    let far = run::<Pupil>(&with_checks(Story::Far, 1));
    assert_eq!(far.found()[0].elsewhere, Some(NodeId::new(0)));
}

#[test]
fn what_is_broken_all_the_same_if_an_event_is_refused_is_not_left_to_the_check() {
    // The plea that comes instead is not looked at.
    let reason = remedy_of(with_checks(Story::Insists, 1)).expect_err("there is another way");
    assert!(
        reason.contains("check Again at n1: it only puts it off"),
        "{reason}"
    );
    // To refuse it resets the connection, which breaks something else.
    let reason = remedy_of(with_checks(Story::Harm, 1));
    assert_eq!(reason.as_deref(), Ok("hold First n0->n1"));
}

#[test]
fn what_can_wait_is_held_before_anything_is_lost() {
    // Behind First on its connection waits what else would do harm; the paper's policy finds nothing.
    assert_eq!(least_harm(Story::Harm).as_deref(), Ok("hold First n0->n1"));
    // Nothing makes the danger pass, and the service knows what to do about a lost connection.
    assert_eq!(
        least_harm(Story::Behind).as_deref(),
        Ok("reset First n0->n1")
    );
}

/// Lets every message arrive.
fn heard(mut state: Simulation<Pupil>) -> Simulation<Pupil> {
    let receives = |(step, after): (Step<Pupil>, Simulation<Pupil>)| {
        matches!(step.event, Event::Receive { .. }).then_some(after)
    };
    while let Some(after) = state.successors().into_iter().find_map(receives) {
        state = after;
    }
    state
}

#[test]
fn others_who_break_the_same_are_not_held_against_a_filter() {
    let faults = Faults {
        resets: 1,
        ..Faults::NONE
    };
    let start = heard(tell_to(3, Story::Lost, faults));
    for node in [1, 2] {
        let heard = run::<Pupil>(&job(&start, node));
        let found = heard.found();
        assert_eq!(found.len(), 2, "one at each node that hears of the reset");
        let remedies: Vec<String> = found
            .iter()
            .flat_map(|violation| &violation.remedies)
            .map(shown)
            .collect();
        assert_eq!(remedies, ["postpone loss of n0"]);
    }
}

#[test]
fn a_5_the_news_of_a_lost_connection_is_postponed() {
    let faults = Faults {
        resets: 1,
        ..Faults::NONE
    };
    let start = heard(tell_with(Story::Lost, faults));
    for job in [job(&start, 1), earliest(job(&start, 1))] {
        assert_eq!(remedy_of(job).as_deref(), Ok("postpone loss of n0"));
    }
}

#[test]
fn r3_the_child_of_a_lost_root_hears_of_it_later() {
    let start = scenario::<RandTree>("r3", &["promote"], &scenarios::Options::default());
    let heard = run::<RandTree>(&job(&start, 3));
    let found = heard.found();
    let remedies: Vec<String> = found
        .iter()
        .map(|violation| match violation.remedies.first() {
            Some(filter) => shown(filter),
            None => violation.unhelpful.clone(),
        })
        .collect();
    assert_eq!(remedies, ["postpone loss of n2"]);
}

#[test]
fn a_filter_that_stops_everything_is_not_taken() {
    assert_eq!(remedy(Story::Only).as_deref(), Ok("refuse call Go"));
    assert_eq!(
        least_harm(Story::Only).as_deref(),
        Ok("postpone timer Tick")
    );
    // At node 0 there is a timer left, at node 1 nothing: the call may be refused.
    assert_eq!(least_harm(Story::Far).as_deref(), Ok("refuse call Go"));
}

#[test]
fn a_filter_that_takes_what_must_come_true_out_of_reach_is_not_taken() {
    let good = "[[property]]\nname = \"no node has 9\"\nalways = \"nodes.all(n, n.value != 9)\"\n";
    let goal = "[[property]]\nname = \"some node has 1\"\neventually = \"nodes.exists(n, n.value == 1)\"\n";
    let mut job = job(&tell(Story::Far), 1);
    job.properties = good.to_owned();
    assert_eq!(remedy_of(job.clone()).as_deref(), Ok("refuse call Go"));
    job.properties.push_str(goal);
    let reason = remedy_of(job).expect_err("it must be able to come true");
    assert!(
        reason.contains("refuse call Go at n1: then this cannot come true: some node has 1"),
        "{reason}"
    );
}

#[test]
fn what_keeping_an_event_back_leads_to_is_judged() {
    let bound = Bound {
        depth: 6,
        states: 10_000,
        bytes: 1 << 28,
    };
    let judge = |story: Story| {
        let state = tell(story);
        let one = NodeId::new(1);
        let event = state.enabled(one).swap_remove(0);
        let properties = Pupil::properties();
        judge_veto(
            &state,
            &properties,
            one,
            &event,
            bound,
            scry::timing::Clock::default(),
            &mut || false,
        )
    };
    // Its connection would be reset, and that sets 7.
    assert_eq!(
        judge(Story::Harm),
        Err("another property may be broken then: no node has 7".to_owned())
    );
    assert_eq!(judge(Story::Timer), Ok(()));
    assert_eq!(judge(Story::Call), Ok(()));
    // The next word breaks it all the same, as it does if this one runs.
    assert_eq!(judge(Story::Reworded), Ok(()));
}
