//! Random expressions: judged part by part through projections, as a whole, and by the interpreter.

use std::fmt::Write;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use scry_engine::Judgement;

use crate::oracle::interpret;
use crate::zoo::{always, animals, by_parts, closed_animals, views};

/// Writes random expressions that fit the zoo.
pub(crate) struct Author {
    seed: u64,
    nodes: Vec<String>,
    numbers: Vec<String>,
    fresh: usize,
    /// Whether to write what the interpreter does not understand.
    beyond: bool,
}

impl Author {
    pub(crate) fn new(seed: u64, beyond: bool) -> Self {
        Self {
            seed,
            nodes: Vec::new(),
            numbers: Vec::new(),
            fresh: 0,
            beyond,
        }
    }

    fn pick(&mut self, of: usize) -> usize {
        // SplitMix64: any stream will do, as long as a seed fixes it.
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % of as u64) as usize
    }

    fn one_of(&mut self, words: &[&str]) -> String {
        let at = self.pick(words.len());
        words[at].to_owned()
    }

    fn name(&mut self, prefix: &str) -> String {
        self.fresh += 1;
        format!("{prefix}{}", self.fresh)
    }

    fn node(&mut self, depth: usize) -> String {
        if self.nodes.is_empty() || self.pick(8) == 0 {
            return format!("node({})", self.number(depth.saturating_sub(1)));
        }
        let at = self.pick(self.nodes.len());
        self.nodes[at].clone()
    }

    fn number(&mut self, depth: usize) -> String {
        match self.pick(if depth == 0 { 3 } else { 7 }) {
            0 => self.pick(4).to_string(),
            1 if !self.numbers.is_empty() => {
                let at = self.pick(self.numbers.len());
                self.numbers[at].clone()
            }
            0..=3 if self.nodes.is_empty() => self.pick(4).to_string(),
            1..=3 => {
                let node = self.node(depth.saturating_sub(1));
                let field = self.one_of(&[
                    "id",
                    "term",
                    "log.commit",
                    "chosen",
                    "parent",
                    "successor",
                    "root",
                ]);
                format!("{node}.{field}")
            }
            4 => format!("size({})", self.list(depth - 1)),
            5 => format!("({} + {})", self.sized(depth - 1), self.sized(depth - 1)),
            _ => format!("{}[{}]", self.list(depth - 1), self.pick(2)),
        }
    }

    /// A number that is never null, for arithmetic.
    fn sized(&mut self, depth: usize) -> String {
        match self.pick(2) {
            0 => format!("size({})", self.list(depth)),
            _ => self.pick(4).to_string(),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        if self.nodes.is_empty() || (depth > 0 && self.pick(6) == 0) {
            let node = self.name("m");
            self.nodes.push(node.clone());
            let kept = self.one_of(&["leader", "leader || true", "leader && false"]);
            let field = self.one_of(&["id", "term", "chosen"]);
            self.nodes.pop();
            return format!("nodes.filter({node}, {node}.{kept}).map({node}, {node}.{field})");
        }
        if self.beyond && depth > 0 && self.pick(5) == 0 {
            let at = self.pick(self.nodes.len());
            let node = self.nodes[at].clone();
            return match self.pick(3) {
                0 => format!("reach({node}, {node}.children)"),
                1 => format!("reach({node}, {node}.successors[0])"),
                _ => format!("reach({node}, \"parent\")"),
            };
        }
        let node = self.node(depth.saturating_sub(1));
        let field = self.one_of(&[
            "children",
            "siblings",
            "successors",
            "log.entries",
            "inflight",
        ]);
        format!("{node}.{field}")
    }

    pub(crate) fn bool(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.leaf();
        }
        match self.pick(12) {
            0 => format!("!({})", self.bool(depth - 1)),
            1 | 2 => format!("({} && {})", self.bool(depth - 1), self.bool(depth - 1)),
            3..=5 => format!("({} || {})", self.bool(depth - 1), self.bool(depth - 1)),
            6 => format!(
                "({} ? {} : {})",
                self.bool(depth - 1),
                self.bool(depth - 1),
                self.bool(depth - 1)
            ),
            7 => {
                let range = self.list(depth - 1);
                let quantifier = self.one_of(&["all", "exists", "exists_one"]);
                let variable = self.name("x");
                self.numbers.push(variable.clone());
                let body = self.bool(depth - 1);
                self.numbers.pop();
                format!("{range}.{quantifier}({variable}, {body})")
            }
            8..=10 if self.nodes.len() < 3 => {
                let quantifier = self.one_of(&["all", "all", "all", "exists", "exists_one"]);
                self.over_nodes(&quantifier, depth)
            }
            _ => self.leaf(),
        }
    }

    fn over_nodes(&mut self, quantifier: &str, depth: usize) -> String {
        let variable = self.name("n");
        self.nodes.push(variable.clone());
        let range = match self.pick(4) {
            0 => format!("nodes.filter({variable}, {})", self.leaf()),
            _ => "nodes".to_owned(),
        };
        let body = self.bool(depth - 1);
        self.nodes.pop();
        format!("{range}.{quantifier}({variable}, {body})")
    }

    /// An expression that starts like properties do: for all nodes, once or twice.
    pub(crate) fn property(&mut self) -> String {
        let mut text = String::new();
        let count = self.pick(4);
        for _ in 0..count {
            let variable = self.name("n");
            let _ = write!(text, "nodes.all({variable}, ");
            self.nodes.push(variable);
        }
        let body = self.bool(3);
        format!("{text}{body}{}", ")".repeat(count))
    }

    fn leaf(&mut self) -> String {
        let has_node = !self.nodes.is_empty();
        match self.pick(if has_node { 12 } else { 4 }) {
            0 => format!("{} == {}", self.number(1), self.number(1)),
            1 => format!("{} != {}", self.number(1), self.number(1)),
            2 => {
                let operator = self.one_of(&["<", "<=", ">", ">="]);
                format!("{} {operator} {}", self.number(1), self.number(1))
            }
            3 => format!("{} in {}", self.number(1), self.list(1)),
            4 | 5 => {
                let node = self.node(1);
                let field = self.one_of(&["chosen", "parent", "successor", "root"]);
                let operator = self.one_of(&["==", "!="]);
                format!("{node}.{field} {operator} null")
            }
            6 | 7 => format!("{}.leader", self.node(1)),
            8 => {
                let (node, word) = (self.node(1), self.one_of(&["Init", "Joining", "Joined"]));
                format!("{node}.phase == \"{word}\"")
            }
            9 => {
                let (a, b) = (self.node(0), self.node(0));
                format!("{a}.id == {b}.id")
            }
            10 => format!("\"Recovery\" in {}.timers", self.node(1)),
            _ if self.beyond => match self.pick(4) {
                0 => format!("distinct({})", self.list(1)),
                1 => format!("sets.contains({}, {})", self.list(1), self.list(1)),
                2 => format!("sets.intersects({}, {})", self.list(1), self.list(1)),
                _ => format!("sets.equivalent({}, {})", self.list(1), self.list(1)),
            },
            _ => format!("{}.log.commit > {}.term", self.node(1), self.node(1)),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn parts_judge_as_the_whole_does(
        seed in any::<u64>(),
        samples in prop::collection::vec(prop_oneof![animals(), closed_animals()], 6),
    ) {
        let expression = Author::new(seed, true).property();
        let set = always(&expression);
        let rule = &set.always[0];
        for all in &samples {
            let views = views(all);
            prop_assert_eq!(
                by_parts(&rule.parts, &views),
                rule.predicate.judge(&views),
                "{}\n{}",
                expression,
                set.listing()
            );
        }
    }

    #[test]
    fn the_interpreter_agrees(seed in any::<u64>(), all in prop_oneof![animals(), closed_animals()]) {
        let expression = Author::new(seed, false).property();
        let set = always(&expression);
        let ours = set.always[0].predicate.judge(&views(&all));
        prop_assert_eq!(ours, interpret(&expression, &all), "{}", expression);
    }
}

#[test]
fn random_expressions_come_in_every_shape_and_with_every_answer() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut shapes = std::collections::BTreeMap::new();
    let mut answers = std::collections::BTreeMap::new();
    for seed in 0..1000 {
        let set = always(&Author::new(seed, true).property());
        for part in &set.always[0].parts {
            *shapes.entry(format!("{:?}", part.shape())).or_insert(0) += 1;
        }
        let all = animals().new_tree(&mut runner).unwrap().current();
        let answer = match set.always[0].predicate.judge(&views(&all)) {
            Judgement::Holds => "holds",
            Judgement::Violated => "violated",
            Judgement::Unknown => "unknown",
        };
        *answers.entry(answer).or_insert(0) += 1;
    }
    println!("{shapes:?} {answers:?}");
    assert_eq!(shapes.len(), 3, "{shapes:?}");
    assert!(shapes.values().all(|&count| count > 50), "{shapes:?}");
    assert!(
        answers.len() == 3 && answers.values().all(|&count| count > 50),
        "{answers:?}"
    );
}
