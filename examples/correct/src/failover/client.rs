//! The client: gets one request after the other stored.

use std::collections::VecDeque;
use std::time::Duration;

use scry::NodeId;
use serde::{Deserialize, Serialize};

use super::{Cx, Failover, Message, Part, Timer};

/// How long an answer may take before the view server is asked, and the request sent again.
const RETRY: Duration = Duration::from_millis(250);
/// How many requests may wait.
const WAITING_MAX: usize = 32;

/// What the client keeps.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Client {
    /// Requests and what they want stored, the one it is about first.
    pub waiting: VecDeque<(u32, u32)>,
}

impl Failover {
    pub(super) fn start_client(&mut self, cx: &mut Cx<'_>) {
        if matches!(&self.part, Part::Client(client) if !client.waiting.is_empty()) {
            cx.set_timer(Timer::Retry, RETRY);
        }
    }

    pub(super) fn want(&mut self, cx: &mut Cx<'_>, request: u32, value: u32) {
        let Part::Client(client) = &mut self.part else {
            return;
        };
        if client.waiting.len() < WAITING_MAX {
            client.waiting.push_back((request, value));
            if client.waiting.len() == 1 {
                self.request(cx);
            }
        }
    }

    pub(super) fn retry(&mut self, cx: &mut Cx<'_>) {
        let views = cx.setup().views;
        let view = self.view;
        cx.send(views, Message::Ping { view, ready: false });
        self.request(cx);
    }

    pub(super) fn learn_view(
        &mut self,
        cx: &mut Cx<'_>,
        view: u32,
        primary: Option<NodeId>,
        backup: Option<NodeId>,
    ) {
        if view > self.view {
            (self.view, self.primary, self.backup) = (view, primary, backup);
            self.request(cx);
        }
    }

    pub(super) fn written(&mut self, cx: &mut Cx<'_>, request: u32) {
        let Part::Client(client) = &mut self.part else {
            return;
        };
        while let Some(&(first, _)) = client.waiting.front()
            && first <= request
        {
            self.answered = first;
            client.waiting.pop_front();
        }
        cx.cancel_timer(Timer::Retry);
        self.request(cx);
    }

    /// Sends the request it is about, if there is one.
    fn request(&mut self, cx: &mut Cx<'_>) {
        let Part::Client(client) = &self.part else {
            return;
        };
        let Some(&(request, value)) = client.waiting.front() else {
            return;
        };
        if let Some(primary) = self.primary {
            cx.send(primary, Message::Write { request, value });
        }
        cx.set_timer(Timer::Retry, RETRY);
    }
}
