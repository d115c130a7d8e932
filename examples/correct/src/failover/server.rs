//! A server: primary, backup or neither, as the view says.

use std::time::Duration;

use scry::NodeId;
use serde::{Deserialize, Serialize};

use super::{Cx, Failover, Message, Part, Timer};

/// How often a server says that it lives.
const PING: Duration = Duration::from_millis(200);
/// How long a backup may take before it is told again.
const CONFIRM: Duration = Duration::from_millis(150);

/// How long a client may wait for its answer, if the bug is on.
const ALONE: Duration = Duration::from_millis(120);

/// What a server keeps beside what it stores.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// As primary: whether the backup of this view has everything that was stored before it.
    pub ready: bool,
}

impl Failover {
    pub(super) fn start_server(&mut self, cx: &mut Cx<'_>) {
        cx.set_timer(Timer::Ping, PING);
        self.replicate(cx);
    }

    pub(super) fn ping(&mut self, cx: &mut Cx<'_>) {
        let Part::Server(server) = &self.part else {
            return;
        };
        let ready = self.primary == Some(cx.me()) && (server.ready || self.backup.is_none());
        let views = cx.setup().views;
        let view = self.view;
        cx.send(views, Message::Ping { view, ready });
        cx.set_timer(Timer::Ping, PING);
    }

    /// Enters a view, unless it knows a newer one.
    pub(super) fn enter_view(
        &mut self,
        cx: &mut Cx<'_>,
        view: u32,
        primary: Option<NodeId>,
        backup: Option<NodeId>,
    ) {
        if view <= self.view {
            return;
        }
        (self.view, self.primary, self.backup) = (view, primary, backup);
        self.part = Part::Server(Server::default());
        cx.cancel_timer(Timer::Confirm);
        cx.cancel_timer(Timer::Alone);
        self.replicate(cx);
    }

    pub(super) fn write(&mut self, cx: &mut Cx<'_>, from: NodeId, request: u32, value: u32) {
        if self.primary != Some(cx.me()) {
            return;
        }
        if request > self.stored {
            self.stored = request;
            self.value = value;
            self.replicate(cx);
            if cx.setup().alone {
                cx.set_timer(Timer::Alone, ALONE);
            }
        } else if request <= self.acknowledged {
            cx.send(from, Message::Written { request });
        }
    }

    /// As primary, tells the backup what is stored; without one, that is enough.
    pub(super) fn replicate(&mut self, cx: &mut Cx<'_>) {
        if self.primary != Some(cx.me()) {
            return;
        }
        let Some(backup) = self.backup else {
            self.acknowledge(cx, self.stored);
            return;
        };
        let (view, stored, value) = (self.view, self.stored, self.value);
        let update = Message::Update {
            view,
            stored,
            value,
        };
        cx.send(backup, update);
        cx.set_timer(Timer::Confirm, CONFIRM);
    }

    /// The client has waited long enough.
    pub(super) fn lose_patience(&mut self, cx: &mut Cx<'_>) {
        if self.primary == Some(cx.me()) {
            // Wrong: should this server die now, the backup is promoted without what was acknowledged.
            self.acknowledge(cx, self.stored);
        }
    }

    /// As backup, takes over what the primary has stored.
    pub(super) fn update(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: u32,
        stored: u32,
        value: u32,
    ) {
        // The primary of a view that this server has not heard of knows better than the view server's late word.
        self.enter_view(cx, view, Some(from), Some(cx.me()));
        if view != self.view || self.backup != Some(cx.me()) {
            return;
        }
        // An older word of the same view was overtaken. In a new view the primary's word counts even if it has stored
        // less: what this server had beyond it was never acknowledged.
        if self.synced == view && stored < self.stored {
            return;
        }
        self.synced = view;
        self.stored = stored;
        self.value = value;
        cx.send(from, Message::Stored { view, stored });
    }

    /// As primary, learns that the backup has stored so much.
    pub(super) fn confirmed(&mut self, cx: &mut Cx<'_>, from: NodeId, view: u32, stored: u32) {
        if view != self.view || self.primary != Some(cx.me()) || self.backup != Some(from) {
            return;
        }
        self.part = Part::Server(Server { ready: true });
        if stored == self.stored {
            cx.cancel_timer(Timer::Confirm);
            cx.cancel_timer(Timer::Alone);
        }
        self.acknowledge(cx, stored);
    }

    fn acknowledge(&mut self, cx: &mut Cx<'_>, request: u32) {
        if request > self.acknowledged {
            self.acknowledged = request;
            let client = cx.setup().client;
            cx.send(client, Message::Written { request });
        }
    }
}
