//! Two-phase commit with a coordinator that takes silence for consent: what is done about it must not be the end of it.

use std::collections::BTreeMap;
use std::time::Duration;

use scry::{Context, Faults, NodeId, Property, Service, Simulation, Transport};
use serde::{Deserialize, Serialize};

use crate::support::{earliest, job, run, shown};

const COORDINATOR: NodeId = NodeId::new(0);
const PARTICIPANTS: [NodeId; 2] = [NodeId::new(1), NodeId::new(2)];
const RULE: &str = "nothing is committed against a vote";

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
struct Commit {
    /// How this node voted, or, at the coordinator, what it heard.
    votes: BTreeMap<NodeId, bool>,
    decided: Option<bool>,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
enum Message {
    Prepare,
    Vote(bool),
    Decision(bool),
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
enum Timer {
    Decide,
}

#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
enum Call {
    Begin,
}

impl Service for Commit {
    type Message = Message;
    type Timer = Timer;
    type Call = Call;
    type Setup = ();
    type Disk = ();

    fn start(_: &mut Context<'_, Self>, _: Option<()>) -> Self {
        Self::default()
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        match message {
            Message::Prepare => {
                let vote = cx.me() != PARTICIPANTS[1];
                self.votes.insert(cx.me(), vote);
                cx.send(from, Message::Vote(vote));
            }
            Message::Vote(vote) => drop(self.votes.insert(from, vote)),
            Message::Decision(commit) => self.decided = Some(commit),
        }
    }

    /// The bug: a vote that has not arrived counts as a yes.
    fn on_timer(&mut self, cx: &mut Context<'_, Self>, _: Timer) {
        let commit = self.votes.values().all(|vote| *vote);
        self.decided = Some(commit);
        for to in PARTICIPANTS {
            cx.send(to, Message::Decision(commit));
        }
    }

    fn on_call(&mut self, cx: &mut Context<'_, Self>, _: Call) {
        for to in PARTICIPANTS {
            cx.send(to, Message::Prepare);
        }
        cx.set_timer(Timer::Decide, Duration::from_secs(1));
    }

    fn disk(&self) {}

    fn calls(&self, me: NodeId, (): &()) -> Vec<Call> {
        match me == COORDINATOR && *self == Self::default() {
            true => vec![Call::Begin],
            false => Vec::new(),
        }
    }

    fn properties() -> Vec<Property<Self>> {
        vec![Property::global(
            RULE,
            |view: &scry::View<'_, Self>| {
                let against = view.state.votes.get(&view.id) == Some(&false);
                Some((against, view.state.decided == Some(true)))
            },
            |all| {
                let against = all.iter().any(|(_, seen)| seen.0);
                let committed = all.iter().any(|(_, seen)| seen.1);
                !(against && committed)
            },
        )]
    }

    fn transport(_: &Message) -> Transport {
        Transport::Stream
    }
}

fn system() -> Simulation<Commit> {
    let nodes = [COORDINATOR, PARTICIPANTS[0], PARTICIPANTS[1]];
    Simulation::boot(nodes.map(|id| (id, ())).into(), Faults::NONE)
}

#[test]
fn the_decision_is_postponed_where_the_paper_would_refuse_every_call() {
    let remedy = |job| {
        let heard = run::<Commit>(&job);
        let found = heard.found();
        let first = found.iter().find(|violation| violation.property == RULE);
        shown(
            first
                .expect("it is found")
                .remedies
                .first()
                .expect("a remedy"),
        )
    };
    assert_eq!(remedy(earliest(job(&system(), 0))), "refuse call Begin");
    assert_eq!(remedy(job(&system(), 0)), "postpone timer Decide");
}
