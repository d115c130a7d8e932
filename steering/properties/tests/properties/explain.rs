//! What a failed property says about what it saw.

use std::collections::BTreeSet;

use scry_engine::{Judgement, NodeId, Scope};

use crate::golden::compare;
use crate::zoo::{Animal, Timer, Zoo, always, views};

fn node(id: u32) -> NodeId {
    NodeId::new(id)
}

/// Three nodes with something wrong for everybody.
fn animals() -> Vec<Animal> {
    let mut first = Animal::new(
        1,
        Zoo {
            chosen: Some(7),
            root: Some(node(1)),
            children: [node(2), node(3)].into(),
            siblings: [node(3)].into(),
            successor: Some(node(2)),
            leader: true,
            ..Zoo::default()
        },
    );
    first.timers = vec![Timer::Stabilize];
    let second = Animal::new(
        2,
        Zoo {
            chosen: Some(8),
            root: Some(node(2)),
            parent: Some(node(3)),
            successor: Some(node(1)),
            leader: true,
            inflight: vec![4, 5],
            ..Zoo::default()
        },
    );
    let third = Animal::new(
        3,
        Zoo {
            parent: Some(node(2)),
            root: Some(node(1)),
            successor: Some(node(1)),
            ..Zoo::default()
        },
    );
    vec![first, second, third]
}

#[test]
fn a_failed_property_says_what_it_saw() {
    let expressions = [
        "nodes.all(n, n.children.all(c, !(c in n.siblings)))",
        "nodes.all(n, !sets.intersects(n.children, n.siblings))",
        "nodes.all(a, nodes.all(b, a.chosen == null || b.chosen == null || a.chosen == b.chosen))",
        "nodes.exists_one(n, n.root == n.id)",
        "nodes.exists(n, n.term > 3)",
        "nodes.all(n, n.phase != 'Init' || 'Recovery' in n.timers)",
        "nodes.all(n, !(n.id in reach(n, 'parent')))",
        "nodes.all(n, sets.contains([n.id] + reach(n, 'successor'), nodes.map(m, m.id)))",
        "size(nodes.filter(n, n.leader)) <= 1",
        "distinct(nodes.map(n, n.root))",
        "size(self.inflight) == 0",
        "nodes.all(n, n.parent == null || n.id in node(n.parent).children)",
        "node(2).leader ? node(3).leader : true",
        "nodes.all(n, size(n.my_left) + size(n.my_right) == size(n.inflight))",
    ];
    let all = animals();
    let views = views(&all);
    let mut said = String::new();
    for expression in expressions {
        let set = always(expression);
        let words = set.always[0].parts[0].explain(&views).unwrap();
        assert!(!words.is_empty(), "{expression}");
        said += &format!("{expression}\n  {words}\n");
    }
    compare("tests/properties/explain.txt", &said);
}

/// What is wrong by names of their own, with the children of node 1 as given.
fn broken(expression: &str, children: &[u32]) -> BTreeSet<String> {
    let mut all = animals();
    all[0].state.siblings = [node(2), node(3), node(4)].into();
    all[0].state.children = children.iter().map(|&id| node(id)).collect();
    let property = &always(expression).always[0];
    let views = views(&all);
    let part = &property.parts[0];
    let named = part.all_broken_in(Scope::Partial, &views);
    let named = named.expect("properties of a file tell what is wrong apart");
    let violated = part.judge_in(Scope::Whole, &views) == Judgement::Violated;
    assert_eq!(
        violated,
        !named.is_empty(),
        "{expression}: {children:?}: {named:?}"
    );
    named
}

#[test]
fn every_single_thing_that_is_wrong_has_a_name_that_it_keeps() {
    let disjoint = "nodes.all(n, n.children.all(c, !(c in n.siblings)))";
    let none = broken(disjoint, &[5]);
    let one = broken(disjoint, &[3]);
    let two = broken(disjoint, &[3, 4]);
    let moved = broken(disjoint, &[4, 5]);
    assert_eq!((none.len(), one.len(), two.len()), (0, 1, 2));
    assert!(one.is_subset(&two), "{one:?} {two:?}");
    assert!(
        !moved.is_subset(&one),
        "as many are wrong, but not the same"
    );
    // What is read is not in the name: as long as it is the same part of the same nodes, it is the same thing.
    let sets = "nodes.all(n, !sets.intersects(n.children, n.siblings))";
    assert_eq!(broken(sets, &[3]), broken(sets, &[3, 4]));
    // Two parts of one property are two things, and of an `||` there is one.
    let both = "nodes.all(n, size(n.children) < 2 && !(node(3).id in n.children))";
    assert_eq!(broken(both, &[1, 3]).len(), 2);
    let either = "nodes.all(n, size(n.children) < 2 || !(node(3).id in n.children))";
    assert_eq!(broken(either, &[1, 3]).len(), 1);
}
