//! Local model checking (LMC, NSDI 2011): what each node can do by itself, and then whether nodes can do it together.
//!
//! Messages interleave, and nearly all states of a system differ only in that. So no state of the whole system is kept. Each
//! node is explored by itself, with everything that was ever sent ([`graph`]); where local states would break a property
//! together ([`cases`]), a search on what is left of the graphs for just that question decides whether they can occur together
//! ([`trim`], [`question`]). Its answer is a path of the whole system, and replayed as any other.
//!
//! | module | what it holds |
//! |---|---|
//! | `graph` | local states, steps between them, and everything that was sent |
//! | `cases` | what could be wrong, by the shape of each property |
//! | `trim` | a graph cut down to what a question needs |
//! | `question` | whether nodes can stand in some local states at once |
//!
//! A question that was answered is asked again when what it read of the graph has grown: a further way to a known local state
//! may make possible what was not. In the meantime the answer "no" means "not yet".

mod cases;
mod graph;
mod question;
mod trim;

use crate::explore::limits::Stop;
use crate::explore::local::cases::{Asked, Cases, Combinations, Verdict};
use crate::explore::local::graph::{Explored, Graph, Rules};
use crate::explore::local::question::{Answer, Bounds, Question};
use crate::explore::strategy::{Claim, Entry, Found, Kind, Plan, Setting, Walk};
use crate::explore::{Counts, Strategy};
use crate::interned::judge::Finding;
use crate::interned::world::{Space, StepIds};

const GENERAL: Setting = Setting {
    name: "general",
    about: "judge every combination of local states instead of classes of them (LMC-GEN)",
    kind: Kind::Switch(false),
};
const SHORTCUTS: Setting = Setting {
    name: "shortcuts",
    about: "leave out what the paper leaves out: steps that change nothing but send, a message on a state it led to, questions asked \
            again",
    kind: Kind::Switch(false),
};
const PANICS: Setting = Setting {
    name: "panics",
    about: "local states in which a handler panicked: `ask` whether they can occur, `drop` them as the paper does, or `keep` them \
            for what else is wrong then",
    kind: Kind::Word(&["ask", "drop", "keep"]),
};
const ASK: u64 = 0;
const DROP: u64 = 1;
const VISITS: Setting = Setting {
    name: "visits",
    about: "how many places one question may look at before it is given up",
    kind: Kind::Count(1_000_000),
};

/// So many places a question may look at in any case while there is more to explore.
const VISITS_MIN: u64 = 1_000;

/// So many steps of a graph are looked at for a question in the time that one takes to be tried.
const TRIMMED: u64 = 8;

/// How many places a question looks at in one go, and how many combinations are judged.
const AT_ONCE: u64 = 64;

pub(super) static ENTRY: Entry = Entry {
    name: "local",
    about: "each node by itself, and whether what would be wrong can occur together: for much that happens at the same time",
    settings: &[GENERAL, SHORTCUTS, PANICS, VISITS],
    threads: false,
    seeded: false,
    goals: false,
    offline: None,
    start: |world, start, plan| Box::new(Local::new(world, start, plan)),
};

impl Strategy {
    /// Each node by itself, and whether what would be wrong can occur together.
    pub const LOCAL: Self = Self::of(&ENTRY);
}

#[derive(Debug)]
pub(super) struct Local {
    plan: Plan,
    allowance: u32,
    graph: Graph,
    cases: Cases,
    combinations: Combinations,
    phase: Phase,
    /// The question that is being answered, the number of its case, and what it read.
    question: Option<(usize, Vec<usize>, Box<Question>)>,
    found: Vec<(Finding, Vec<StepIds>)>,
    /// How many of them the search does not stop for.
    passed: usize,
    tally: Tally,
}

/// What it is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Phase {
    /// Goes through local states.
    Exploring,
    /// Puts local states together, before it asks.
    Comparing {
        last: bool,
    },
    /// Asks about the cases from this number on; `last` if there is nothing left to explore.
    Asking {
        next: usize,
        last: bool,
    },
    Done,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rounds: u64,
    asked: u64,
    visited: u64,
    /// Steps tried in questions.
    tried: u64,
    /// Steps of nodes looked at to find those that matter to a question, in units of [`TRIMMED`].
    trimmed: u64,
    /// Whether a question left something out because it is too far away.
    is_cut: bool,
}

impl Local {
    pub(super) fn new(world: &mut Space, start: &[u32], plan: Plan) -> Self {
        let rules = Rules {
            depth: plan.limits.depth.unwrap_or(u32::MAX),
            exact: !plan.settings.is_on(&SHORTCUTS),
            drop_panicked: plan.settings.count(&PANICS) == DROP,
        };
        let asks_panics = plan.settings.count(&PANICS) == ASK;
        let nodes = world.members().len();
        let mut local = Self {
            plan,
            allowance: start[nodes],
            graph: Graph::new(world, start, rules),
            cases: Cases::new(world, asks_panics),
            combinations: Combinations::new(nodes),
            phase: Phase::Exploring,
            question: None,
            found: Vec::new(),
            passed: 0,
            tally: Tally::default(),
        };
        for finding in world.findings(start, None) {
            local.found.push((finding, Vec::new()));
        }
        local
    }

    /// Does a bit of what is next.
    fn step(&mut self, world: &mut Space) {
        match self.phase {
            Phase::Exploring => match self.graph.explore(world) {
                Explored::More => {}
                Explored::Round => self.compare(world, false),
                Explored::All => self.compare(world, true),
            },
            Phase::Comparing { last } => self.combine(world, last),
            Phase::Asking { next, last } => match self.question.take() {
                Some((case, read, question)) => self.answer(world, case, read, question),
                None => self.ask(next, last),
            },
            Phase::Done => {}
        }
    }

    /// Finds what could be wrong after a round.
    fn compare(&mut self, world: &mut Space, last: bool) {
        self.tally.rounds += 1;
        if self.plan.settings.is_on(&GENERAL) {
            self.combinations.begin(&self.graph);
            self.phase = Phase::Comparing { last };
        } else {
            self.cases.update(world, &self.graph);
            self.phase = Phase::Asking { next: 0, last };
        }
    }

    /// Judges some more combinations of local states.
    fn combine(&mut self, world: &mut Space, last: bool) {
        for _ in 0..AT_ONCE {
            let Some(states) = self.combinations.next() else {
                self.phase = Phase::Asking { next: 0, last };
                return;
            };
            self.cases.judged += 1;
            let nodes = self.graph.nodes.iter().zip(&states);
            let locals: Vec<_> = nodes
                .map(|(node, &at)| node.states[at as usize].local)
                .collect();
            let asks_panics = self.plan.settings.count(&PANICS) == ASK;
            for finding in world.findings_of(&locals) {
                let is_panic = finding.property + 1 == world.reads().len();
                if (asks_panics || !is_panic) && !self.is_found(&finding) {
                    self.cases.add_states(finding, &states);
                }
            }
        }
    }

    fn is_found(&self, finding: &Finding) -> bool {
        self.found.iter().any(|(known, _)| known == finding)
    }

    /// Asks about the next case that there is something new about.
    fn ask(&mut self, next: usize, last: bool) {
        let Some(case) = (next..self.cases.all.len()).find(|&case| self.is_due(case, last)) else {
            self.phase = match last {
                true => Phase::Done,
                false => Phase::Exploring,
            };
            return;
        };
        self.phase = Phase::Asking {
            next: case + 1,
            last,
        };
        let loops = !self.plan.settings.is_on(&SHORTCUTS);
        let goal = self.cases.goal(&self.graph, case);
        let trimmed = trim::trim(&self.graph, goal, loops);
        self.tally.trimmed += self.graph.edges() as u64 / TRIMMED + 1;
        let known = self.cases.all[case].asked.as_mut();
        let read = trimmed.as_ref().map_or_else(|read| read, |it| &it.read);
        if let Some(known) = known.filter(|known| known.read == *read) {
            // Nothing it read has grown.
            known.edges = self.graph.edges();
            return;
        }
        match trimmed {
            Err(read) => self.close(case, read, Verdict::Unreal),
            Ok(trimmed) => {
                self.tally.asked += 1;
                let read = trimmed.read.clone();
                // While the graph grows, what would be a detour in the complete one is often none yet: a question that is
                // easy then can be endless now. So it has a small share of what exploring took.
                let all = self.plan.settings.count(&VISITS);
                let some = VISITS_MIN.max(self.graph.edges() as u64 / 64);
                let bounds = Bounds {
                    visits: if last { all } else { all.min(some) },
                    depth: self.plan.limits.depth,
                };
                let question = Question::new(&self.graph, trimmed, self.allowance, bounds);
                self.question = Some((case, read, Box::new(question)));
            }
        }
    }

    /// Tells whether a case is to be asked about: a new one at once, one that was asked before when the graph is twice as
    /// large or complete.
    fn is_due(&self, case: usize, last: bool) -> bool {
        let case = &self.cases.all[case];
        if self.is_found(&case.finding) {
            return false;
        }
        let Some(asked) = &case.asked else {
            return true;
        };
        if self.plan.settings.is_on(&SHORTCUTS) {
            return case.fresh;
        }
        let edges = self.graph.edges();
        let grown = match last {
            true => edges > asked.edges,
            false => edges >= 2 * asked.edges,
        };
        case.fresh && last || grown
    }

    /// Goes on with a question.
    fn answer(
        &mut self,
        world: &mut Space,
        case: usize,
        read: Vec<usize>,
        mut question: Box<Question>,
    ) {
        let (graph, cases) = (&self.graph, &self.cases);
        let mut meets =
            |world: &mut Space, classes: &[u32]| cases.meets(world, graph, case, classes);
        let before = (question.visited, question.pushed);
        let answer = question.advance(world, graph, AT_ONCE, &mut meets);
        self.tally.visited += question.visited - before.0;
        self.tally.tried += question.pushed - before.1;
        match answer {
            None => {
                self.question = Some((case, read, question));
                return;
            }
            Some(Answer::Yes(path)) => {
                let finding = self.cases.all[case].finding.clone();
                self.found.push((finding, path));
                self.close(case, read, Verdict::Real);
            }
            Some(Answer::No) => self.close(case, read, Verdict::Unreal),
            Some(Answer::Unknown) => self.close(case, read, Verdict::Unknown),
        }
        self.tally.is_cut |= question.is_cut;
    }

    fn close(&mut self, case: usize, read: Vec<usize>, verdict: Verdict) {
        let edges = self.graph.edges();
        let case = &mut self.cases.all[case];
        case.fresh = false;
        case.asked = Some(Asked {
            edges,
            read,
            verdict,
        });
    }

    /// Returns how much was done: steps of nodes, steps in questions, combinations judged, and what it took to cut graphs down.
    fn steps(&self) -> u64 {
        self.graph.tried + self.tally.tried + self.cases.judged + self.tally.trimmed
    }

    fn stop(&self, world: &Space) -> Option<Stop> {
        let limits = &self.plan.limits;
        let question = self.question.as_ref().map_or(0, |(_, _, it)| it.bytes());
        let bytes = || self.graph.bytes() + question + world.bytes();
        if limits.first_violation && self.found.len() > self.passed {
            Some(Stop::Violation)
        } else if self.phase == Phase::Done {
            Some(match self.graph.is_cut || self.tally.is_cut {
                true => Stop::Depth,
                false => Stop::Exhausted,
            })
        } else if limits
            .states
            .is_some_and(|limit| self.graph.states() >= limit)
        {
            Some(Stop::States)
        } else if limits.bytes.is_some_and(|limit| bytes() as u64 > limit) {
            Some(Stop::Bytes)
        } else {
            None
        }
    }
}

impl Walk for Local {
    fn advance(&mut self, world: &mut Space, steps: u64) -> Option<Stop> {
        let target = self.steps().saturating_add(steps);
        while self.stop(world).is_none() && self.steps() < target {
            self.step(world);
        }
        self.stop(world)
    }

    /// Counts local states, and steps of nodes as well as those of questions.
    fn counts(&self) -> Counts {
        Counts {
            states: self.graph.states(),
            transitions: self.graph.tried + self.tally.tried,
            depth: self.graph.depth(),
            frontier: self.graph.waiting_count(),
        }
    }

    fn work(&self) -> u64 {
        self.steps()
    }

    /// There are none: no state of the whole system is kept.
    fn for_each_waiting(&self, _: &mut dyn FnMut(&[u32])) {}

    fn found_count(&self) -> usize {
        self.found.len()
    }

    fn found(&self, _: &Space, _: &[u32]) -> Vec<Found> {
        let found = self.found.iter().map(|(finding, path)| Found {
            claim: Claim::Breaks(finding.clone()),
            path: path.clone(),
            end: None,
        });
        found.collect()
    }

    fn pass_over_found(&mut self, _: &Space) {
        self.passed = self.found.len();
    }

    fn extent(&self) -> Option<&'static str> {
        if self.plan.settings.is_on(&SHORTCUTS) {
            Some("with the shortcuts of the paper, which leave something out")
        } else if self.plan.settings.count(&PANICS) == DROP {
            Some("in what follows if no handler panics")
        } else if self.plan.settings.count(&PANICS) != ASK {
            Some("but of handlers that panic")
        } else if self.cases.unknown() > 0 {
            Some("where its questions have answers; some have none")
        } else {
            None
        }
    }

    fn tallies(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("rounds", self.tally.rounds),
            ("messages", self.graph.sent.len() as u64),
            ("steps of nodes", self.graph.tried),
            ("combinations judged", self.cases.judged),
            ("combinations that would be wrong", self.cases.broken),
            ("questions", self.tally.asked),
            ("places looked at", self.tally.visited),
            ("questions without an answer", self.cases.unknown()),
            ("bytes", self.graph.bytes() as u64),
        ]
    }
}
