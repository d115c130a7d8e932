//! Views that do not show every node: what is violated there is violated whatever other nodes there are.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use scry_engine::{Judgement, Property, Scope};

use crate::differential::Author;
use crate::zoo::{Animal, Zoo, always, animals, by_parts, closed_animals, views};

fn in_part(parts: &[Property<Zoo>], seen: &[Animal]) -> Judgement {
    let views = views(seen);
    let judgements = parts
        .iter()
        .map(|part| part.judge_in(Scope::Partial, &views));
    let mut worst = Judgement::Holds;
    for judgement in judgements {
        match judgement {
            Judgement::Violated => return Judgement::Violated,
            Judgement::Unknown => worst = Judgement::Unknown,
            Judgement::Holds => {}
        }
    }
    worst
}

/// Some nodes, and several sets of further nodes with other ids.
fn completions(seen: &[Animal], others: &[Vec<Animal>]) -> Vec<Vec<Animal>> {
    let mut all = vec![seen.to_vec()];
    for others in others {
        let further = others
            .iter()
            .filter(|other| seen.iter().all(|animal| animal.id != other.id));
        let mut completed: Vec<Animal> = seen.iter().chain(further).cloned().collect();
        completed.sort_by_key(|animal| animal.id);
        all.push(completed);
    }
    all
}

/// Keeps the nodes whose bit is set.
fn kept(all: &[Animal], mask: u8) -> Vec<Animal> {
    let bits = all.iter().enumerate();
    bits.filter(|(at, _)| mask & (1 << at) != 0)
        .map(|(_, animal)| animal.clone())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn what_is_violated_in_a_part_is_violated_in_every_whole(
        seed in any::<u64>(),
        shown in prop_oneof![animals(), closed_animals()],
        mask in any::<u8>(),
        others in prop::collection::vec(prop_oneof![animals(), closed_animals()], 4),
    ) {
        let expression = Author::new(seed, true).property();
        let set = always(&expression);
        let rule = &set.always[0];
        let seen = kept(&shown, mask);
        let parts = in_part(&rule.parts, &seen);
        let whole = rule.predicate.judge_in(Scope::Partial, &views(&seen));
        for completed in completions(&seen, &others).iter().chain([&shown]) {
            let truth = rule.predicate.judge(&views(completed));
            for (judged, how) in [(parts, "by parts"), (whole, "at once")] {
                prop_assert!(
                    judged != Judgement::Violated || truth == Judgement::Violated,
                    "{}: violated in {:?} {}, but {:?} in {:?}\n{}",
                    expression, seen, how, truth, completed, set.listing()
                );
            }
        }
    }

    /// What holds whatever nodes there are holds in the whole too, seen from the other side: its opposite is violated.
    #[test]
    fn the_opposite_of_what_is_violated_in_a_part_holds_in_every_whole(
        seed in any::<u64>(),
        shown in prop_oneof![animals(), closed_animals()],
        mask in any::<u8>(),
    ) {
        let expression = Author::new(seed, true).property();
        let opposite = always(&format!("!({expression})"));
        let seen = kept(&shown, mask);
        if in_part(&opposite.always[0].parts, &seen) == Judgement::Violated {
            let truth = by_parts(&always(&expression).always[0].parts, &views(&shown));
            prop_assert_eq!(truth, Judgement::Holds, "{}", expression);
        }
    }

    #[test]
    fn a_property_of_one_or_two_nodes_is_judged_in_a_part_as_in_a_whole(
        seed in any::<u64>(),
        seen in prop_oneof![animals(), closed_animals()],
    ) {
        let set = always(&Author::new(seed, true).property());
        let views = views(&seen);
        for part in &set.always[0].parts {
            if !matches!(part.shape(), scry_engine::property::Shape::Global(..)) {
                prop_assert_eq!(part.judge_in(Scope::Partial, &views), part.judge(&views));
            }
        }
    }
}

#[test]
fn random_expressions_have_every_answer_in_a_part_too() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut answers = std::collections::BTreeMap::new();
    for seed in 0..2000 {
        let set = always(&Author::new(seed, true).property());
        let all = animals().new_tree(&mut runner).unwrap().current();
        let looks_around = set.always[0]
            .parts
            .iter()
            .any(|part| matches!(part.shape(), scry_engine::property::Shape::Global(..)));
        let answer = in_part(&set.always[0].parts, &all);
        *answers
            .entry((looks_around, format!("{answer:?}")))
            .or_insert(0) += 1;
    }
    println!("{answers:?}");
    assert_eq!(answers.len(), 6, "{answers:?}");
    assert!(answers.values().all(|&count| count > 20), "{answers:?}");
}

/// Judges two nodes, of which the first leads term 1, where there may be others.
fn check(expression: &str, expect: Judgement) {
    let leader = Zoo {
        leader: true,
        term: 1,
        ..Zoo::default()
    };
    let seen = [Animal::new(1, leader), Animal::new(2, Zoo::default())];
    let set = always(expression);
    let rule = &set.always[0];
    assert_eq!(in_part(&rule.parts, &seen), expect, "{expression}");
    let whole = rule.predicate.judge_in(Scope::Partial, &views(&seen));
    assert_eq!(whole, expect, "{expression}, at once");
}

#[test]
fn what_was_found_counts_and_what_was_not_found_is_unknown() {
    use Judgement::{Holds, Unknown, Violated};
    // Somebody was found; nobody was found yet.
    check("nodes.exists(n, n.leader)", Holds);
    check("nodes.exists(n, n.term == 7)", Unknown);
    check("!nodes.exists(n, n.leader)", Violated);
    check("!nodes.exists(n, n.term == 7)", Holds);
    // A counterexample stays one; none so far is as far as anyone can see.
    check("nodes.all(n, n.leader)", Violated);
    check("nodes.all(n, n.term < 7)", Holds);
    check("!nodes.all(n, n.leader)", Holds);
    check("!nodes.all(n, n.term < 7)", Unknown);
    check("nodes.exists(a, nodes.all(b, a.term >= b.term))", Holds);
    check("nodes.exists(a, nodes.all(b, a.term > b.term))", Unknown);
    check("nodes.all(a, nodes.exists(b, a.term == b.term))", Holds);
    // How many there are.
    check("size(nodes) == 3", Unknown);
    check("size(nodes) == 2", Unknown);
    check("size(nodes) == 1", Violated);
    check("size(nodes) != 1", Holds);
    check("size(nodes) <= 1", Violated);
    check("size(nodes) <= 2", Holds);
    check("size(nodes) > 1", Holds);
    check("size(nodes) > 2", Unknown);
    check("3 > size(nodes)", Holds);
    check("2 > size(nodes)", Violated);
    check("2 <= size(nodes)", Holds);
    check("3 <= size(nodes)", Unknown);
    check("size(nodes.filter(n, n.leader)) <= 1", Holds);
    check("size(nodes.filter(n, n.term < 7)) <= 1", Violated);
    check("size(nodes.filter(n, n.leader)) * 2 > size(nodes)", Unknown);
    check("nodes.exists_one(n, n.leader)", Unknown);
    check("nodes.exists_one(n, n.term < 7)", Violated);
    // Lists and sets.
    check("1 in nodes.map(n, n.id)", Holds);
    check("7 in nodes.map(n, n.id)", Unknown);
    check("!(7 in nodes.map(n, n.id))", Holds);
    check("!(1 in nodes.map(n, n.id))", Violated);
    check("distinct(nodes.map(n, n.term))", Holds);
    check("distinct(nodes.map(n, n.chosen))", Violated);
    check("sets.contains(nodes.map(n, n.id), [1, 2])", Holds);
    check("sets.contains(nodes.map(n, n.id), [1, 7])", Unknown);
    check("sets.contains([1, 2], nodes.map(n, n.id))", Holds);
    check("sets.contains([1], nodes.map(n, n.id))", Violated);
    check("sets.intersects(nodes.map(n, n.id), [7])", Unknown);
    check("sets.equivalent(nodes.map(n, n.id), [1, 2])", Holds);
    check("sets.equivalent(nodes.map(n, n.id), [1])", Violated);
    check("nodes.map(n, n.id) == [1]", Violated);
    check("nodes.map(n, n.id) == [1, 2]", Unknown);
    check("nodes.map(n, n.id)[0] == 1", Unknown);
    check("size(nodes.map(n, n.id) + [7]) <= 2", Violated);
    // A body that may have no answer for a node out of view has none for the whole.
    check("nodes.exists_one(n, n.successors[0] == 1)", Unknown);
    // Comparing truth values goes both ways.
    check("nodes.all(n, n.term < 7) == true", Unknown);
    check("nodes.exists(n, n.leader) == true", Holds);
}

#[test]
fn a_global_property_in_rust_is_unknown_in_a_part_unless_its_author_says_more() {
    let at_most_one = || {
        Property::global(
            "at most one leads",
            |view: &scry_engine::View<'_, Zoo>| view.state.leader.then_some(()),
            |leaders| leaders.len() <= 1,
        )
    };
    let leader = || Zoo {
        leader: true,
        ..Zoo::default()
    };
    let seen = [Animal::new(1, leader()), Animal::new(2, leader())];
    let views = views(&seen);
    let judged = |property: Property<Zoo>| {
        let part = property.judge_in(Scope::Partial, &views);
        (property.judge(&views), part)
    };
    use Judgement::{Holds, Unknown, Violated};
    assert_eq!(judged(at_most_one()), (Violated, Unknown));
    assert_eq!(judged(at_most_one().monotone()), (Violated, Violated));
    let exactly_two = Property::global_in_view(
        "exactly two lead",
        |view: &scry_engine::View<'_, Zoo>| view.state.leader.then_some(()),
        |scope, leaders| match (leaders.len(), scope) {
            (3.., _) => Violated,
            (2, _) => Holds,
            (_, Scope::Whole) => Violated,
            (_, Scope::Partial) => Unknown,
        },
    );
    assert_eq!(judged(exactly_two.clone()), (Holds, Holds));
    assert_eq!(
        exactly_two.judge_in(Scope::Partial, &views[..1]),
        Unknown,
        "one leader in view, and another may be out of view"
    );
}

#[test]
fn an_explanation_speaks_of_what_is_violated_for_sure() {
    let set = always("size(nodes) == 3 && nodes.all(n, n.leader)");
    let seen = [Animal::new(1, Zoo::default())];
    let rule = &set.always[0];
    let said = rule.predicate.explain_in(Scope::Partial, &views(&seen));
    assert_eq!(said.unwrap(), "with n = n1: n.leader is false");
    let said = rule.predicate.explain(&views(&seen)).unwrap();
    assert!(said.contains("size(nodes)"), "{said}");
}
