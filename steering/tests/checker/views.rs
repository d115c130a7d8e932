//! Jobs that do not show every node, and jobs that are not about every property.

use scry::properties::from_text;
use scry::{NodeId, Options, Scope, Search, Strategy};
use scry_protocol::checkpoint::Body;
use scry_protocol::filter::Mode;
use scry_protocol::link::checker::Job;
use scry_protocol::link::host::PropertyMode;

use crate::pupil::{Pupil, Story, tell};
use crate::support::{job, run};

const SOMEBODY: &str =
    "[[property]]\nname = 'somebody is at 0'\nalways = 'nodes.exists(n, n.value == 0)'\n";
const TWO: &str = "[[property]]\nname = 'there are two'\nalways = 'size(nodes) == 2'\n";

/// Node 1, whose timer gives it another value, without node 0.
fn alone(properties: &str) -> Job {
    let mut job = job(&tell(Story::Timer), 1);
    job.snapshot
        .members
        .retain(|member| member.node == NodeId::new(1));
    job.properties = properties.to_owned();
    job
}

#[test]
fn a_79_what_a_missing_node_could_mend_is_not_violated() {
    let check = |properties: &str, whole: bool, expect: &[&str]| {
        let job = Job {
            whole,
            ..alone(properties)
        };
        assert_eq!(run::<Pupil>(&job).broken(), expect, "{properties}");
    };
    check(SOMEBODY, true, &["somebody is at 0"]);
    check(SOMEBODY, false, &[]);
    check(TWO, true, &["there are two"]);
    check(TWO, false, &[]);
    let no_nine = "[[property]]\nname = 'no 9'\nalways = 'nodes.all(n, n.value != 9)'\n";
    check(no_nine, false, &["no 9"]);
}

#[test]
fn a_member_that_cannot_be_read_makes_the_view_a_part() {
    let mut job = job(&tell(Story::Timer), 1);
    job.properties = [SOMEBODY, TWO].concat();
    assert_eq!(run::<Pupil>(&job).broken(), [""; 0]);
    job.snapshot.members[0].body = Body::from_bytes(vec![0xc1]).expect("few bytes");
    let heard = run::<Pupil>(&job);
    assert_eq!(heard.broken(), [""; 0]);
    assert!(heard.report().detail.contains("n0 is left out"));
}

#[test]
fn a_property_without_an_answer_in_any_state_is_reported() {
    let job = Job {
        whole: false,
        ..alone(&[SOMEBODY, TWO].concat())
    };
    let heard = run::<Pupil>(&job);
    let unjudged = &heard.report().unjudged;
    assert_eq!(unjudged.len(), 1, "the other one held in the start state");
    assert_eq!(unjudged[0].property, "there are two");
    assert_eq!(unjudged[0].why, "it depends on nodes that are not in view");
    let whole = Job { whole: true, ..job };
    assert!(run::<Pupil>(&whole).report().unjudged.is_empty());
}

#[test]
fn a_check_says_which_properties_it_never_judged() {
    let start = tell(Story::Timer);
    let file = "[[property]]\nname = 'about nobody'\nalways = 'node(7).value == 0'\n\
                [[property]]\nname = 'in two parts'\nalways = 'nodes.all(n, n.value < 99) && node(7).value == 0'\n\
                [[property]]\nname = 'violated'\nalways = 'nodes.all(n, n.value < 9) && node(7).value == 0'\n\
                [[property]]\nname = 'judged'\nalways = 'nodes.exists(n, n.value == 0)'\n";
    let properties = from_text::<Pupil>(file).expect("they fit");
    for strategy in [
        Strategy::EXHAUSTIVE,
        Strategy::CONSEQUENCE,
        Strategy::DEPTH_FIRST,
    ] {
        let options = Options {
            strategy,
            ..Options::default()
        };
        let report = Search::new(&start, properties.clone(), options)
            .expect("a small search")
            .run();
        let names: Vec<&str> = report
            .unjudged
            .iter()
            .map(|unjudged| unjudged.property.as_str())
            .collect();
        assert_eq!(names, ["about nobody", "in two parts"], "{strategy}");
        assert!(report.unjudged[0].why.contains("no answer in any state"));
    }
}

#[test]
fn a_search_judges_by_the_scope_of_its_start() {
    let properties = from_text::<Pupil>(TWO).expect("it fits");
    let found = |scope| {
        let three = "size(nodes) == 3";
        let properties = [
            properties.clone(),
            from_text::<Pupil>(&TWO.replace("size(nodes) == 2", three)).expect("it fits"),
        ];
        let start = tell(Story::Timer).in_scope(scope);
        let search = Search::new(&start, properties.concat(), Options::default());
        let report = search.expect("a small search").run();
        for violation in &report.violations {
            assert_eq!(violation.state.scope(), scope);
        }
        report.violations.len()
    };
    assert!(found(Scope::Whole) > 0);
    assert_eq!(found(Scope::Partial), 0);
}

#[test]
fn what_is_off_uses_up_no_violations_and_is_not_replayed() {
    let mut job = job(&tell(Story::Timer), 1);
    job.properties = "[[property]]\nname = 'a'\nalways = 'nodes.all(n, n.value != 9)'\n\
                      [[property]]\nname = 'b'\nalways = 'nodes.all(n, n.value < 9)'\n"
        .to_owned();
    job.budget.violations_max = 1;
    let both = run::<Pupil>(&job);
    assert_eq!(both.broken(), ["a"]);
    job.modes = vec![PropertyMode {
        property: "a".to_owned(),
        mode: Mode::Off,
    }];
    assert_eq!(run::<Pupil>(&job).broken(), ["b"]);
    job.past_paths = vec![crate::support::past(both.found()[0])];
    job.modes.push(PropertyMode {
        property: "b".to_owned(),
        mode: Mode::Off,
    });
    let heard = run::<Pupil>(&job);
    assert!(!heard.replayed()[0].confirmed);
    assert_eq!(heard.broken(), [""; 0]);
}
