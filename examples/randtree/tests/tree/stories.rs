//! The stories the papers tell, step by step: with the bug they end in the violation, without it they do not.

use std::collections::BTreeSet;

use randtree::scenarios::Options;
use randtree::{Message, Mode, properties};
use scry::Event;

use crate::support::{Story, broken, id, system, unfinished};

fn is_join(message: &Message) -> bool {
    matches!(message, Message::Join { .. })
}

fn is_reply(message: &Message) -> bool {
    matches!(message, Message::JoinReply { .. })
}

fn set(numbers: &[u32]) -> BTreeSet<scry::NodeId> {
    numbers.iter().copied().map(id).collect()
}

/// Tells a story with its bug and without; `bug` alone breaks `expected` in the last step of `steps`.
fn both_ways(
    scenario: &str,
    bug: &'static str,
    expected: &[&str],
    steps: usize,
    tell: fn(&mut Story),
) {
    let mut story = Story::of(scenario, &[bug]);
    assert_eq!(broken(&story.simulation), [""; 0], "{scenario} starts well");
    tell(&mut story);
    assert_eq!(broken(&story.simulation), expected);
    assert_eq!(story.steps, steps);
    let mut story = Story::of(scenario, &[]);
    tell(&mut story);
    assert_eq!(
        broken(&story.simulation),
        [""; 0],
        "{scenario} without its bug"
    );
}

#[test]
fn every_script_leads_where_the_paper_starts() {
    let story = Story::of("r1", &[]);
    assert_eq!(story.state(1).children, set(&[9]));
    assert_eq!(story.state(9).children, set(&[13]));
    for (node, parent) in [(1, None), (9, Some(1)), (13, Some(9))] {
        assert_eq!(story.state(node).root, Some(id(1)));
        assert_eq!(story.state(node).parent, parent.map(id));
    }
    let (_, steps) = system("r1", &[], None, &Options::default())
        .start()
        .expect("the script runs");
    assert_eq!(steps.len(), 9, "CrystalBall's implementation took 13");

    let story = Story::of("r2", &[]);
    assert_eq!(story.state(61).children, set(&[5, 65, 69]));
    assert_eq!(story.state(69).children, set(&[9]));
    for node in [5, 9, 61, 65, 69] {
        assert_eq!(story.state(node).root, Some(id(61)));
        assert_eq!(story.state(node).peers, set(&[]), "n{node}");
    }
    assert_eq!(story.state(1).mode, Mode::Init);

    let story = Story::of("r3", &[]);
    assert_eq!(story.state(2).children, set(&[3, 4]));
    assert_eq!(story.state(2).root, Some(id(1)));
    assert_eq!(story.state(3).siblings, set(&[4]));
    assert_eq!(story.state(3).root, Some(id(2)));

    let story = Story::of("r5", &[]);
    assert_eq!(story.state(1).children, set(&[2, 5]));
    assert_eq!(story.state(2).children, set(&[3, 4]));
    assert_eq!(story.state(4).mode, Mode::Joining);

    let story = Story::of("r6", &[]);
    assert_eq!(story.state(1).children, set(&[2, 3]));
    assert_eq!(story.state(2).siblings, set(&[]));

    for name in ["fresh", "r1", "r2", "r3", "r4", "r5", "r6"] {
        assert_eq!(broken(&Story::of(name, &[]).simulation), [""; 0], "{name}");
    }
}

#[test]
fn r1_a_reset_grandchild_becomes_a_sibling() {
    both_ways(
        "r1",
        "update-sibling",
        &[properties::DISJOINT],
        4,
        |story| {
            story
                .silent_reset(13)
                .join(13, &[0])
                .receives(1, 13, is_join, &[])
                .receives(
                    9,
                    1,
                    |message| matches!(message, Message::UpdateSibling { .. }),
                    &[],
                );
            assert_eq!(story.state(1).children, set(&[9, 13]));
        },
    );
}

#[test]
fn r2_a_reset_child_becomes_root() {
    let expected = [properties::ROOT_APART, properties::ROOT_UNLISTED];
    both_ways("r2", "new-root", &expected, 6, |story| {
        story
            .silent_reset(9)
            .join(9, &[0])
            .receives(61, 9, is_join, &[])
            .receives(9, 61, is_join, &[])
            .receives(61, 9, is_reply, &[])
            .receives(
                69,
                61,
                |message| matches!(message, Message::NewRoot { .. }),
                &[],
            );
        assert_eq!(story.state(9).root, Some(id(9)));
        assert_eq!(story.state(69).root, Some(id(9)));
    });
}

#[test]
fn r3_a_child_takes_the_place_of_its_root() {
    both_ways("r3", "promote", &[properties::ROOT_ALONE], 2, |story| {
        story.reset(2).learns_of_loss(3, 2);
        assert!(story.state(3).is_root(id(3)));
    });
}

#[test]
fn r4_a_founder_gives_up_the_root() {
    both_ways("r4", "timer", &[properties::TIMER_RUNS], 2, |story| {
        story.join(1, &[]).receives(2, 1, is_join, &[]);
        assert_eq!(story.state(2).peers, set(&[1]));
    });
}

fn tell_r5(bugs: &[&'static str]) -> Story {
    let mut story = Story::of("r5", bugs);
    story
        .silent_reset(4)
        .receives(4, 2, is_reply, &[])
        .join(4, &[])
        .receives(3, 4, is_join, &[])
        .receives(1, 3, is_join, &[1])
        .receives(5, 1, is_join, &[])
        .settle();
    assert_eq!(story.state(4).parent, Some(id(5)));
    assert_eq!(story.state(5).children, set(&[4]));
    story
}

#[test]
fn r5_an_ignored_reply_leaves_a_child_with_two_parents_for_good() {
    let mut story = tell_r5(&["ignored-reply"]);
    // Nothing is on its way, and no timer has anything to do: no fault-free future differs from this state.
    for node in 1..=5 {
        story.timer(node);
    }
    story.simulation.set_faults(scry::Faults::NONE);
    assert!(story.simulation.successors().is_empty());
    assert_eq!(
        unfinished(&story.simulation),
        Some("n2 has a child n4 that does not know it".to_owned())
    );
    assert_eq!(unfinished(&tell_r5(&[]).simulation), None);
}

fn tell_r6(bugs: &[&'static str]) -> Story {
    let mut story = Story::of("r6", bugs);
    story
        .take(2, Event::Break { peer: id(1) }, &[])
        .learns_of_loss(1, 2);
    story
}

#[test]
fn r6_a_stopped_timer_leaves_two_trees_for_good() {
    let mut story = tell_r6(&["two-trees"]);
    assert_eq!(broken(&story.simulation), [properties::TIMER_RUNS]);
    assert_eq!(story.state(2).peers, set(&[1]));
    story.timer(1).timer(3).settle();
    // Nothing is on its way, 2 has no timer, and the others' timers have nothing to do: it stays like this.
    assert!(story.simulation.successors().is_empty());
    assert_eq!(
        unfinished(&story.simulation),
        Some("n1 and n2 take themselves for the root".to_owned())
    );

    let mut story = tell_r6(&[]);
    assert!(unfinished(&story.simulation).is_some());
    story.timer(2).settle();
    assert_eq!(unfinished(&story.simulation), None);
}

#[test]
fn the_file_has_every_property_of_the_code() {
    let file = include_str!("../../properties.toml");
    let mut names: Vec<&str> = file
        .lines()
        .filter_map(|line| line.strip_prefix("name")?.split('"').nth(1))
        .collect();
    names.truncate(properties::all().len());
    let in_code = properties::all();
    assert_eq!(
        names,
        in_code
            .iter()
            .map(|property| property.name())
            .collect::<Vec<_>>()
    );
}
