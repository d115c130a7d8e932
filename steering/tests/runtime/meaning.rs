//! Model and runtime mean the same by a connection: both are led through the same schedules, and the nodes come to no state
//! that the model does not have.

use std::collections::{BTreeMap, HashSet};

use scry::model::simulation::Effectiveness;
use scry::model::{Event, EventOf, Tosses};
use scry::runtime::Handle;
use scry::{Faults, NodeId, Simulation, Step};
use tokio::time::timeout;

use crate::cluster::{LIMIT, ONE, TWO, pair};
use crate::probe::{Call, Probe, Way, Word};

/// One line of a schedule.
#[derive(Clone, Debug)]
enum Act {
    Call(NodeId, Call),
    Reset(NodeId, bool),
    /// The second node ends and does not come back.
    Stop,
    /// Nothing passes between the nodes any more.
    Apart,
    /// Everything passes again.
    Together,
}

/// How a schedule must end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Outcome {
    /// The model has one end for it.
    Certain,
    /// The model has several.
    Open,
}

/// What a node has heard and lost.
type Seen = (Vec<(NodeId, Word)>, Vec<NodeId>);

fn seen(probe: &Probe) -> Seen {
    (probe.heard.clone(), probe.lost.clone())
}

/// All states the model can be in.
struct Model {
    states: HashSet<Simulation<Probe>>,
    apart: bool,
}

impl Model {
    fn new() -> Self {
        let plenty = Faults {
            resets: 9,
            silent_resets: 9,
            late_starts: 9,
            ..Faults::NONE
        };
        let setups = BTreeMap::from([(ONE, ()), (TWO, ())]);
        Self {
            states: HashSet::from([Simulation::boot(setups, plenty)]),
            apart: false,
        }
    }

    fn act(&mut self, act: &Act) {
        let (node, event): (NodeId, EventOf<Probe>) = match act {
            Act::Call(node, call) => (*node, Event::Call(call.clone())),
            Act::Reset(node, notice) => (*node, Event::Reset { notice: *notice }),
            Act::Stop => (TWO, Event::Stop),
            Act::Apart => return self.apart = true,
            Act::Together => {
                self.apart = false;
                return self.settle();
            }
        };
        let step = Step {
            node,
            event,
            tosses: Tosses::default(),
        };
        let states = self.states.drain();
        self.states = states
            .map(|mut state| {
                let taken = state.step(&step).expect("it can happen");
                assert_eq!(taken, Effectiveness::Changed);
                state
            })
            .collect();
        if !self.apart {
            self.settle();
        }
    }

    /// Lets everything arrive, in every order.
    fn settle(&mut self) {
        let mut waiting: Vec<_> = self.states.drain().collect();
        let mut known: HashSet<_> = waiting.iter().cloned().collect();
        while let Some(state) = waiting.pop() {
            let arrivals: Vec<_> = state
                .successors()
                .into_iter()
                .filter(|(step, _)| !step.event.is_internal() && step.event.fault().is_none())
                .map(|(_, after)| after)
                .collect();
            if arrivals.is_empty() {
                self.states.insert(state);
                continue;
            }
            waiting.extend(arrivals.into_iter().filter(|it| known.insert(it.clone())));
        }
    }

    /// Tells what the nodes that are up have seen in each state.
    fn seen(&self) -> HashSet<Vec<Seen>> {
        let views = self.states.iter().map(Simulation::views);
        let views = views.map(|views| views.iter().map(|view| seen(view.state)).collect());
        views.collect()
    }
}

/// The same on loopback.
struct Live {
    one: Handle<Probe>,
    two: Option<Handle<Probe>>,
    apart: bool,
}

impl Live {
    fn node(&self, id: NodeId) -> &Handle<Probe> {
        match id == ONE {
            true => &self.one,
            false => self.two.as_ref().expect("it has not ended"),
        }
    }

    async fn act(&mut self, act: &Act) {
        match act {
            Act::Call(node, call) => self
                .node(*node)
                .call(call.clone())
                .await
                .expect("nothing refuses it"),
            Act::Reset(node, notice) => self.node(*node).reset(*notice).await.expect("it lives"),
            Act::Stop => {
                self.node(TWO).shutdown().await;
                self.two = None;
            }
            Act::Apart => {
                for (node, peer) in [(ONE, TWO), (TWO, ONE)] {
                    self.node(node).cut(vec![peer]).await.expect("it lives");
                }
                self.apart = true;
            }
            Act::Together => {
                for node in [ONE, TWO] {
                    self.node(node).heal().await.expect("it lives");
                }
                self.apart = false;
            }
        }
    }

    async fn seen(&self) -> Vec<Seen> {
        let mut all = Vec::new();
        for node in [Some(&self.one), self.two.as_ref()].into_iter().flatten() {
            all.push(seen(&node.state().await.expect("it lives").state));
        }
        all
    }

    /// Waits until the nodes have seen what they have in some state of the model.
    async fn follow(&self, model: &mut Model, line: &str) {
        let wanted = model.seen();
        let last = std::cell::RefCell::new(Vec::new());
        let found = async {
            loop {
                let seen = self.seen().await;
                if wanted.contains(&seen) {
                    return seen;
                }
                last.replace(seen);
                tokio::task::yield_now().await;
            }
        };
        let found = timeout(LIMIT, found).await.unwrap_or_else(|_| {
            panic!("{line}: the nodes have seen {last:?}, the model allows {wanted:?}")
        });
        model.states.retain(|state| {
            let views = state.views();
            let seen: Vec<Seen> = views.iter().map(|view| seen(view.state)).collect();
            seen == found
        });
    }
}

async fn drive(name: &str, outcome: Outcome, schedule: &[Act]) {
    let (one, two) = pair().await;
    let mut live = Live {
        one,
        two: Some(two),
        apart: false,
    };
    let mut model = Model::new();
    for (number, act) in schedule.iter().enumerate() {
        model.act(act);
        live.act(act).await;
        if !live.apart {
            if outcome == Outcome::Certain {
                let wanted = model.seen();
                assert_eq!(wanted.len(), 1, "{name}, line {number}: {wanted:?}");
            }
            let line = format!("{name}, line {number}, {act:?}");
            live.follow(&mut model, &line).await;
        }
    }
}

fn other(node: NodeId) -> NodeId {
    if node == ONE { TWO } else { ONE }
}

fn ask(node: NodeId) -> Act {
    let to = other(node);
    let by = Way::Stream;
    Act::Call(node, Call::Ask { to, by })
}

fn tell(node: NodeId, count: u32) -> Act {
    let to = other(node);
    let by = Way::Stream;
    Act::Call(node, Call::Tell { to, by, count })
}

fn close(node: NodeId) -> Act {
    Act::Call(node, Call::Disconnect(other(node)))
}

#[tokio::test]
async fn what_was_sent_before_a_close_is_heard_and_what_the_peer_says_then_is_not() {
    let schedule = [
        ask(ONE),
        Act::Apart,
        tell(ONE, 3),
        close(ONE),
        tell(TWO, 3),
        Act::Together,
        tell(TWO, 1),
        tell(ONE, 1),
    ];
    drive("one end closes", Outcome::Certain, &schedule).await;
}

#[tokio::test]
async fn both_ends_may_close_and_nobody_learns() {
    let schedule = [
        ask(ONE),
        Act::Apart,
        tell(TWO, 1),
        close(ONE),
        close(TWO),
        Act::Together,
        ask(TWO),
    ];
    drive("both ends close", Outcome::Certain, &schedule).await;
}

#[tokio::test]
async fn a_new_connection_beside_one_that_closes_may_end_with_it() {
    let schedule = [
        ask(ONE),
        Act::Apart,
        tell(TWO, 1),
        close(ONE),
        tell(ONE, 1),
        Act::Together,
    ];
    drive("a new connection", Outcome::Open, &schedule).await;
}

#[tokio::test]
async fn resets_are_found_out_as_the_model_has_it() {
    for notice in [true, false] {
        let schedule = [
            ask(ONE),
            Act::Reset(TWO, notice),
            tell(ONE, 1),
            tell(ONE, 1),
        ];
        drive("a reset", Outcome::Certain, &schedule).await;
        let schedule = [
            ask(TWO),
            Act::Apart,
            tell(ONE, 3),
            Act::Reset(TWO, notice),
            Act::Together,
            ask(TWO),
        ];
        drive("a reset while words wait", Outcome::Certain, &schedule).await;
    }
}

#[tokio::test]
async fn both_may_open_a_connection_at_once() {
    let schedule = [
        Act::Apart,
        tell(ONE, 3),
        tell(TWO, 3),
        Act::Together,
        tell(ONE, 1),
        close(ONE),
        tell(TWO, 1),
    ];
    drive("two openers", Outcome::Certain, &schedule).await;
}

#[tokio::test]
async fn a_node_that_is_down_refuses_connections() {
    drive(
        "nobody there",
        Outcome::Certain,
        &[Act::Stop, tell(ONE, 1), tell(ONE, 3)],
    )
    .await;
    drive(
        "gone",
        Outcome::Certain,
        &[ask(ONE), Act::Stop, tell(ONE, 1)],
    )
    .await;
}
