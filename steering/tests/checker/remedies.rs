//! Which filters are taken and which are not (A-96…A-101), on services made for the question.

use crate::pupil::{Pupil, Story, tell};
use crate::support::{job, run, shown};

/// Runs a story at node 1, and returns the filter against the bad value, or why there is none.
fn remedy(story: Story) -> Result<String, String> {
    let heard = run::<Pupil>(&job(&tell(story), 1));
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
