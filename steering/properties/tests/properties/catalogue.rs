//! Every property of the catalogue, against the interpreter and against a predicate written by hand.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use scry_engine::property::Shape;
use scry_engine::{Judgement, NodeId};
use scry_properties::CompiledProperty;

use crate::oracle::interpret;
use crate::zoo::{Animal, Phase, Role, Timer, Zoo, animals, by_parts, closed_animals, load, views};

const CATALOGUE: &str = include_str!("catalogue.toml");

/// The expressions, read by a parser of their own.
fn expressions() -> Vec<(String, String)> {
    let quoted = |line: &str| {
        let start = line.find('"').unwrap();
        line[start + 1..line.len() - 1].to_owned()
    };
    let mut all = Vec::new();
    for line in CATALOGUE.lines() {
        if line.starts_with("name") {
            all.push((quoted(line), String::new()));
        } else if line.starts_with("always") || line.starts_with("eventually") {
            all.last_mut().unwrap().1 = quoted(line);
        }
    }
    all
}

fn rules() -> Vec<CompiledProperty<Zoo>> {
    let set = load(CATALOGUE);
    set.always.into_iter().chain(set.eventually).collect()
}

/// What a property says, by hand: `None` where it is unknown.
fn by_hand(name: &str, all: &[Animal]) -> Option<bool> {
    let find = |id: NodeId| all.iter().find(|animal| animal.id == id);
    let ids: BTreeSet<NodeId> = all.iter().map(|animal| animal.id).collect();
    let me = |animal: &Animal| Some(animal.id);
    let recovers = |animal: &Animal| animal.timers.contains(&Timer::Recovery);
    let every = |holds: &dyn Fn(&Animal) -> bool| Some(all.iter().all(holds));
    let every_two = |holds: &dyn Fn(&Animal, &Animal) -> bool| {
        Some(
            all.iter()
                .all(|a| all.iter().all(|b| a.id == b.id || holds(a, b))),
        )
    };
    // As in the definition of `&&`: one false decides, then one unknown.
    let kleene = |answers: Vec<Option<bool>>| match answers {
        answers if answers.contains(&Some(false)) => Some(false),
        answers if answers.contains(&None) => None,
        _ => Some(true),
    };
    let path = |from: &Animal, step: &dyn Fn(&Animal) -> Option<Option<NodeId>>| {
        let mut passed = BTreeSet::new();
        let mut at = from.clone();
        while let Some(next) = step(&at)? {
            at = find(next)?.clone();
            if !passed.insert(next) {
                break;
            }
        }
        Some(passed)
    };
    let kind = name.split(": ").last().unwrap();
    match kind {
        "following successors from a node leads to all (AllNodes)" => {
            let covers = |animal: &Animal| {
                let mut passed = path(animal, &|at| Some(at.state.successor))?;
                passed.insert(animal.id);
                Some(passed == ids)
            };
            kleene(all.iter().map(covers).collect())
        }
        "following first successors from a node leads to all (AllNodes)" => {
            let covers = |animal: &Animal| {
                let mut passed = path(animal, &|at| {
                    at.state.successors.first().map(|id| Some(*id))
                })?;
                passed.insert(animal.id);
                Some(passed == ids)
            };
            kleene(all.iter().map(covers).collect())
        }
        "the leaf set is as large as its halves (SizeMatch)" => {
            every(&|a| a.state.my_left.len() + a.state.my_right.len() == a.state.my_leafset.len())
        }
        "a node's predecessor is itself exactly if its successor is (SuccPred)" => {
            every(&|a| (a.state.predecessor == me(a)) == (a.state.successor == me(a)))
        }
        "a node whose predecessor is itself has itself as successor (CB)" => {
            every(&|a| a.state.predecessor != me(a) || a.state.successor == me(a))
        }
        "no successor lies between a node's predecessor and the node" => every(&|a| {
            let Some(predecessor) = a.state.predecessor else {
                return true;
            };
            // Walking the ring from the predecessor, the node comes before the successor.
            let ahead = |id: NodeId| (id.get() + 100 - predecessor.get() - 1) % 100;
            a.state.successors.iter().all(|&s| ahead(s) >= ahead(a.id))
        }),
        "exactly one node believes itself root (OneRoot, L3)" => {
            Some(all.iter().filter(|a| a.state.root == me(a)).count() == 1)
        }
        "a node that has started keeps its recovery timer running (Timers, P4)" => {
            every(&|a| a.state.phase == Phase::Init || recovers(a))
        }
        "a node with peers keeps its recovery timer running (P4 of CB)" => {
            every(&|a| (a.state.children.is_empty() && a.state.siblings.is_empty()) || recovers(a))
        }
        "children and siblings are disjoint (P1)" => {
            every(&|a| a.state.children.is_disjoint(&a.state.siblings))
        }
        "a node's root is neither its child nor its sibling (P2)" => every(&|a| {
            a.state.root.is_none_or(|root| {
                !a.state.children.contains(&root) && !a.state.siblings.contains(&root)
            })
        }),
        "a root is nobody's child or sibling (P2 across nodes)" => every(&|x| {
            let lists =
                |y: &Animal| y.state.children.contains(&x.id) || y.state.siblings.contains(&x.id);
            x.state.root != me(x) || !all.iter().any(lists)
        }),
        "a root has no siblings (P3)" => {
            every(&|a| a.state.root != me(a) || a.state.siblings.is_empty())
        }
        "parents form no loop (L1)" => {
            let is_free = |animal: &Animal| {
                let passed = path(animal, &|at| Some(at.state.parent))?;
                Some(!passed.contains(&animal.id))
            };
            kleene(all.iter().map(is_free).collect())
        }
        "a node is the root or has a parent (L2)" => {
            every(&|a| a.state.root == me(a) || a.state.parent.is_some())
        }
        "parent and child agree (L4)" => {
            let agrees = |a: &Animal| {
                let mut answers = vec![match a.state.parent {
                    None => Some(true),
                    Some(parent) => find(parent).map(|p| p.state.children.contains(&a.id)),
                }];
                let children = a.state.children.iter();
                answers.extend(children.map(|&c| find(c).map(|c| c.state.parent == me(a))));
                kleene(answers)
            };
            kleene(all.iter().map(agrees).collect())
        }
        "nothing is in flight (AllAcked)" => every(&|a| a.state.inflight.is_empty()),
        "at most one value is chosen" => {
            let chosen: BTreeSet<u32> = all.iter().filter_map(|a| a.state.chosen).collect();
            Some(chosen.len() <= 1)
        }
        "at most one leader per term" | "leaders have different terms" => {
            every_two(&|a, b| !(a.state.leader && b.state.leader && a.state.term == b.state.term))
        }
        "at most one leader" => every_two(&|a, b| !(a.state.leader && b.state.leader)),
        "a leading node's term is not ahead of its own" => every(&|a| match a.state.role {
            Role::Leading { term } => term <= a.state.term,
            _ => true,
        }),
        "who got a vote is no older than the voter's term" => {
            let fits = |a: &Animal| {
                let votes = a.state.votes.iter();
                let answers = votes.map(|(&voter, &granted)| match granted {
                    false => Some(true),
                    true => find(voter).map(|v| v.state.term <= a.state.term),
                });
                kleene(answers.collect())
            };
            kleene(all.iter().map(fits).collect())
        }
        "what is chosen is chosen by a majority" => every(&|n| {
            let same = all
                .iter()
                .filter(|m| m.state.chosen == n.state.chosen)
                .count();
            n.state.chosen.is_none() || same * 2 > all.len()
        }),
        "what is committed is in the log" => every(&|a| {
            a.state.log.commit == 0 || a.state.log.commit as usize <= a.state.log.entries.len()
        }),
        other => panic!("{other} is not written by hand"),
    }
}

fn check(all: &[Animal]) -> Result<(), TestCaseError> {
    thread_local! {
        static RULES: Vec<CompiledProperty<Zoo>> = rules();
    }
    RULES.with(|rules| {
        for (name, expression) in expressions() {
            let rule = rules.iter().find(|rule| rule.name == name).unwrap();
            let views = views(all);
            let whole = rule.predicate.judge(&views);
            let hand = match by_hand(&name, all) {
                Some(holds) => holds.into(),
                None => Judgement::Unknown,
            };
            prop_assert_eq!(whole, hand, "by hand: {}", name);
            prop_assert_eq!(by_parts(&rule.parts, &views), hand, "by parts: {}", name);
            // CEL has no way to say "each node on the way": that form is ours alone. And `has` of something that is
            // not a map is an error there, where here it is false, so that an enum's variants can be asked for.
            let interpreted = match expression.contains("reach(n, n.") {
                true => hand,
                false => interpret(&expression, all),
            };
            if !(expression.contains("has(") && interpreted == Judgement::Unknown) {
                prop_assert_eq!(interpreted, hand, "interpreted: {}", name);
            }
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_property_means_what_it_says(all in animals()) {
        check(&all)?;
    }

    #[test]
    fn every_property_means_what_it_says_when_nothing_is_out_of_view(all in closed_animals()) {
        check(&all)?;
    }
}

#[test]
fn the_random_states_make_every_property_true_and_false() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen: BTreeSet<(String, Option<bool>)> = BTreeSet::new();
    for round in 0..4000 {
        let all = match round % 2 {
            0 => animals().boxed(),
            _ => closed_animals().boxed(),
        };
        let all = all.new_tree(&mut runner).unwrap().current();
        for (name, _) in expressions() {
            if !all.is_empty() {
                seen.insert((name.clone(), by_hand(&name, &all)));
            }
        }
    }
    for (name, _) in expressions() {
        for answer in [Some(true), Some(false)] {
            assert!(
                seen.contains(&(name.clone(), answer)),
                "{name} is never {answer:?}"
            );
        }
    }
}

#[test]
fn every_property_has_the_tightest_shape() {
    let listing = load(CATALOGUE).listing();
    crate::golden::compare("tests/properties/catalogue.txt", &listing);
}

/// LMC-OPT's mapping to chosen values (E-14), found by itself.
#[test]
fn a_node_that_cannot_take_part_has_no_projection() {
    let set = load(CATALOGUE);
    let rule = set
        .always
        .iter()
        .find(|rule| rule.name.starts_with("Paxos"))
        .unwrap();
    let [part] = &rule.parts[..] else {
        panic!("agreement is one part")
    };
    let Shape::Pair(project, _) = part.shape() else {
        panic!("agreement is pairwise")
    };
    let of = |state: Zoo| {
        let animal = Animal::new(1, state);
        project(&views(&[animal])[0])
    };
    let chosen = |chosen: Option<u32>, term: u64| {
        of(Zoo {
            chosen,
            term,
            ..Zoo::default()
        })
    };
    assert!(chosen(None, 0).is_none());
    assert_eq!(chosen(Some(1), 0), chosen(Some(1), 9));
    assert_ne!(chosen(Some(1), 0), chosen(Some(2), 0));
}
