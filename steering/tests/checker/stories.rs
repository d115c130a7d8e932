//! The papers' stories, from live start states to remedies (F-4, F-13, F-14).

use paxos::Paxos;
use paxos::scenarios::Options as PaxosOptions;
use randtree::{RandTree, properties, scenarios};
use scry::trace;
use scry::trace::Kind;
use scry_protocol::link::checker::Ended;

use crate::support::{Listener, earliest, job, run, scenario, shown};

const AGREEMENT: &str = "at most one value is chosen";

fn tree(bugs: &[&'static str]) -> scry::Simulation<RandTree> {
    scenario("r1", bugs, &scenarios::Options::default())
}

fn paxos(name: &str, bugs: &[&'static str]) -> scry::Simulation<Paxos> {
    let options = PaxosOptions {
        proposers: None,
        acceptors: 3,
        rounds: 1,
        indices: 1,
    };
    scenario(name, bugs, &options)
}

fn steered_at(listener: &Listener, property: &str) -> String {
    let found = listener.found();
    let violation = found
        .iter()
        .find(|violation| violation.property == property)
        .unwrap_or_else(|| panic!("{property} is not among {found:?}"));
    assert_eq!(violation.unhelpful, "");
    shown(violation.remedies.first().expect("a remedy"))
}

#[test]
fn f_4_n1_ignores_the_join_of_the_reset_n13() {
    let start = tree(&["update-sibling"]);
    let heard = run::<RandTree>(&earliest(job(&start, 1)));
    let filter = steered_at(&heard, properties::DISJOINT);
    assert_eq!(filter, "drop this Join n13->n1");
    let heard = run::<RandTree>(&job(&start, 1));
    let filter = steered_at(&heard, properties::DISJOINT);
    assert_eq!(filter, "hold this Join n13->n1");
    let violation = heard.found()[0];
    let spelled = trace::read(&violation.trace).expect("a trace");
    let kinds: Vec<Kind> = spelled.steps.iter().map(|step| step.kind).collect();
    assert_eq!(
        kinds,
        [Kind::Reset, Kind::Call, Kind::Message, Kind::Message]
    );
    assert_eq!(spelled.steps[2].sent_by, Some(1));
    assert_eq!(spelled.steps[3].sent_by, Some(2));
    assert_eq!(spelled.start.len(), 3);
    assert_eq!(violation.neighbor, Some(scry::NodeId::new(13)));
}

#[test]
fn f_4_without_the_bug_nothing_is_found() {
    let heard = run::<RandTree>(&job(&tree(&[]), 1));
    assert_eq!(heard.found(), Vec::<&_>::new());
    assert_eq!(heard.report().violations, 0);
}

#[test]
fn f_13_c_rejects_the_prepare_of_b() {
    let start = paxos("bug1", &["last-promise"]);
    let heard = run::<Paxos>(&earliest(job(&start, 2)));
    assert_eq!(steered_at(&heard, AGREEMENT), "drop this Prepare n1->n2");
    let heard = run::<Paxos>(&job(&start, 2));
    assert_eq!(steered_at(&heard, AGREEMENT), "drop this Prepare n1->n2");
}

#[test]
fn f_14_c_rejects_the_prepare_of_b_that_has_forgotten() {
    let start = paxos("bug2", &["volatile-promise"]);
    let heard = run::<Paxos>(&earliest(job(&start, 2)));
    assert_eq!(steered_at(&heard, AGREEMENT), "drop Prepare n1->n2");
    let heard = run::<Paxos>(&job(&start, 2));
    assert_eq!(steered_at(&heard, AGREEMENT), "drop Prepare n1->n2");
}

#[test]
fn f_13_and_f_14_without_the_bugs_nothing_is_found() {
    for name in ["bug1", "bug2"] {
        let heard = run::<Paxos>(&job(&paxos(name, &[]), 2));
        assert_eq!(heard.found(), Vec::<&_>::new());
        assert_ne!(heard.report().ended, Ended::Unreadable);
    }
}
