//! What judgements cost is shown, and one that costs too much is unknown and counted.

use scry_engine::Judgement;
use scry_properties::{PropertySet, STEPS_MAX};

use crate::zoo::{Animal, Zoo, by_parts, load, views};

const THREE: &str =
    "nodes.all(a, nodes.all(b, nodes.all(c, a.term + b.term + c.term < 100 || a.leader)))";

fn property(expression: &str, more: &str) -> PropertySet<Zoo> {
    load(&format!(
        "[[property]]\nname = \"it\"\nalways = \"{expression}\"\n{more}"
    ))
}

/// That many nodes, all alike.
fn herd(count: u32) -> Vec<Animal> {
    let animal = |id| Animal::new(id, Zoo::default());
    (1..=count).map(animal).collect()
}

/// Judges by parts, and returns how many judgements were cut off.
fn judged(set: &PropertySet<Zoo>, animals: &[Animal]) -> (Judgement, u64) {
    let parts = &set.always[0].parts;
    let judgement = by_parts(parts, &views(animals));
    (judgement, parts[0].cut_off())
}

#[test]
fn the_listing_says_what_nested_quantifiers_cost() {
    let costs = |expression: &str, more: &str| {
        let listing = property(expression, more).listing();
        let line = listing.lines().find(|line| line.contains("costs about"));
        line.map(|line| line.trim().to_owned()).unwrap_or_default()
    };
    assert_eq!(
        costs(THREE, ""),
        "costs about n³ steps for n nodes (512 with 8, 32768 with 32, cut off with 128)"
    );
    assert_eq!(
        costs(THREE, "steps = 0"),
        "costs about n³ steps for n nodes (512 with 8, 32768 with 32, 2097152 with 128)"
    );
    assert_eq!(
        costs("nodes.exists(a, a.log.entries.all(e, e < 9))", ""),
        "costs about n steps for n nodes (8 with 8, 32 with 32, 128 with 128)"
    );
    assert_eq!(
        costs("nodes.all(n, !(n.id in reach(n, 'parent')))", ""),
        "costs about n³ steps for n nodes (512 with 8, 32768 with 32, cut off with 128)"
    );
    // What is remembered by node or by two nodes costs what its shape says.
    assert_eq!(costs("nodes.all(n, n.term < 9)", ""), "");
    assert_eq!(
        costs("nodes.all(a, nodes.all(b, a.term == b.term))", ""),
        ""
    );
}

#[test]
fn a_judgement_that_takes_too_long_is_unknown_and_counted() {
    let bounded = property(THREE, "");
    assert_eq!(judged(&bounded, &herd(8)), (Judgement::Holds, 0));
    let many = herd(110);
    assert!(110_u64.pow(3) > STEPS_MAX);
    assert_eq!(judged(&bounded, &many), (Judgement::Unknown, 1));
    assert_eq!(judged(&bounded, &many), (Judgement::Unknown, 2));
    assert_eq!(
        judged(&property(THREE, "steps = 0"), &many),
        (Judgement::Holds, 0)
    );
    assert_eq!(
        judged(&property(THREE, "steps = 100"), &herd(8)),
        (Judgement::Unknown, 1)
    );
    // What was decided before the steps ran out is decided.
    let mut wrong = herd(110);
    wrong[0].state.term = 1_000;
    assert_eq!(judged(&bounded, &wrong).0, Judgement::Violated);
}

#[test]
fn lists_of_one_node_are_bounded_too() {
    let nested = "nodes.all(n, n.log.entries.all(a, n.log.entries.all(b, n.log.entries.all(c, a + b + c < 9))))";
    let set = property(nested, "");
    let mut animals = herd(1);
    animals[0].state.log.entries = vec![1; 10];
    assert_eq!(judged(&set, &animals), (Judgement::Holds, 0));
    animals[0].state.log.entries = vec![1; 200];
    assert_eq!(judged(&set, &animals), (Judgement::Unknown, 1));
    let distinct = property("nodes.all(n, distinct(n.log.entries))", "");
    animals[0].state.log.entries = (0..2_000).collect();
    assert_eq!(judged(&distinct, &animals), (Judgement::Unknown, 1));
}
