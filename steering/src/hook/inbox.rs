//! What the agent asked for, until the host's loop turns: the newest of each kind, so that it cannot grow.

use std::collections::VecDeque;

use scry_protocol::CheckpointNumber;
use scry_protocol::link::host::{
    Arrived, CheckSettings, FilterEnded, Predicted, Renew, Surroundings,
};

/// Acknowledgements that are kept. They save bytes only, so that losing one is no harm.
const ARRIVED_MAX: usize = 1024;
/// Predictions that are kept; of more, the oldest go.
const PREDICTED_MAX: usize = 64;
/// Answers that are kept: whoever asked for an older one has given it up.
const ANSWERS_MAX: usize = 16;
/// Ends of filters that are kept: more than there can be filters.
const ENDED_MAX: usize = 4096;

/// What a host's loop is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Judge by these neighbors' states from now on.
    Surroundings(Surroundings),
    /// Judge by these rules from now on.
    CheckSettings(Box<CheckSettings>),
    /// Ask the service whether it handles this itself; if not, hand the filters to [`Hook::install`](crate::hook::Hook::install).
    Predicted(Box<Predicted>),
    /// A filter acts no longer: offer again what it held.
    Ended(FilterEnded),
}

/// Requests that wait for the loop.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// The greatest number asked for.
    pub(super) take: Option<CheckpointNumber>,
    pub(super) ask_neighbors: bool,
    pub(super) renew: Option<Renew>,
    pub(super) arrived: VecDeque<Arrived>,
    ended: VecDeque<FilterEnded>,
    rules: Option<Box<CheckSettings>>,
    surroundings: Option<Surroundings>,
    /// Surroundings that answer a question: each is waited for.
    answers: VecDeque<Surroundings>,
    predicted: VecDeque<Box<Predicted>>,
}

impl Inbox {
    pub(super) fn push_take(&mut self, number: CheckpointNumber) {
        self.take = self.take.max(Some(number));
    }

    pub(super) fn push_arrived(&mut self, arrived: Arrived) {
        push(&mut self.arrived, arrived, ARRIVED_MAX);
    }

    pub(super) fn push_ended(&mut self, ended: FilterEnded) {
        push(&mut self.ended, ended, ENDED_MAX);
    }

    pub(super) fn push_rules(&mut self, rules: Box<CheckSettings>) {
        self.rules = Some(rules);
    }

    pub(super) fn push_surroundings(&mut self, surroundings: Surroundings) {
        match surroundings.answers {
            Some(_) => push(&mut self.answers, surroundings, ANSWERS_MAX),
            None => self.surroundings = Some(surroundings),
        }
    }

    pub(super) fn push_predicted(&mut self, predicted: Box<Predicted>) {
        push(&mut self.predicted, predicted, PREDICTED_MAX);
    }

    /// Returns what the loop itself has to do: rules before the states they judge, and before what came of them.
    pub(super) fn into_requests(self) -> Vec<Request> {
        let mut requests = Vec::new();
        requests.extend(self.ended.into_iter().map(Request::Ended));
        requests.extend(self.rules.map(Request::CheckSettings));
        requests.extend(self.surroundings.map(Request::Surroundings));
        requests.extend(self.answers.into_iter().map(Request::Surroundings));
        requests.extend(self.predicted.into_iter().map(Request::Predicted));
        requests
    }
}

fn push<T>(queue: &mut VecDeque<T>, value: T, max: usize) {
    if queue.len() == max {
        queue.pop_front();
    }
    queue.push_back(value);
}
