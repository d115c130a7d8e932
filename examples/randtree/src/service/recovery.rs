//! How the tree is kept and mended: lost connections, the recovery timer, and finding trees that ought to be one.

use scry::NodeId;

use crate::message::{Message, Timer};
use crate::service::{Context, Mode, RandTree};

impl RandTree {
    /// Gives up whatever tie there was to a node.
    pub(super) fn lose(&mut self, cx: &mut Context<'_>, peer: NodeId) {
        self.children.remove(&peer);
        self.siblings.remove(&peer);
        if self.heir == Some(peer) {
            self.withdraw(cx);
        }
        if self.parent == Some(peer) {
            self.parent = None;
            if self.root == Some(peer) {
                self.promote(cx, peer);
            } else {
                self.mode = Mode::Joining;
                self.siblings.clear();
                self.arm(cx);
                self.return_to_root(cx);
            }
        }
    }

    /// Takes the place of a root that is lost. All its children do; their timers bring them together again.
    fn promote(&mut self, cx: &mut Context<'_>, lost: NodeId) {
        // Perhaps only the connection was lost.
        self.peers.insert(lost);
        let siblings = self.siblings.clone();
        self.take_root(cx);
        if cx.setup().bugs.promote {
            self.siblings = siblings;
        } else {
            self.peers.extend(siblings);
        }
        if cx.setup().bugs.two_trees {
            cx.cancel_timer(Timer::Recovery);
        }
    }

    pub(super) fn on_recovery(&mut self, cx: &mut Context<'_>) {
        if self.mode == Mode::Init {
            return;
        }
        self.arm(cx);
        if self.mode == Mode::Joining {
            if cx.setup().ask_again {
                self.ask(cx);
            }
        } else if let Some(heir) = self.heir {
            self.hand_over(cx, heir);
        }
        let Some(root) = self.root else { return };
        if self.mode == Mode::Joined {
            for peer in self.out_of_touch(cx) {
                cx.send(peer, Message::Probe { root });
            }
        }
        if cx.setup().keepalive {
            for &connected in self.parent.iter().chain(&self.children) {
                cx.send(connected, Message::Heartbeat { root });
            }
        }
    }

    /// Lists whom to probe: the peers, and at the top of a tree also the designated nodes, where others would join.
    fn out_of_touch(&self, cx: &Context<'_>) -> Vec<NodeId> {
        let mut nodes = self.peers.clone();
        if self.is_top() {
            nodes.extend(&cx.setup().bootstrap);
        }
        nodes.remove(&cx.me());
        nodes
            .into_iter()
            .filter(|node| !self.children.contains(node) && self.parent != Some(*node))
            .collect()
    }

    pub(super) fn on_probe(&mut self, cx: &mut Context<'_>, from: NodeId, root: NodeId) {
        let own = self.root.filter(|_| self.mode == Mode::Joined);
        // A node on its way into a tree cannot say yet which; it is asked again.
        if self.mode != Mode::Joining {
            cx.send(from, Message::ProbeReply { root: own });
        }
        self.learn(cx, from, root);
    }

    pub(super) fn on_probe_reply(
        &mut self,
        cx: &mut Context<'_>,
        from: NodeId,
        root: Option<NodeId>,
    ) {
        match root {
            Some(root) => self.learn(cx, from, root),
            // It is in no tree, and will join one by itself.
            None => drop(self.peers.remove(&from)),
        }
    }

    /// Takes note that a node knows of a root. Where two trees are, the less eligible root joins the other.
    fn learn(&mut self, cx: &mut Context<'_>, from: NodeId, root: NodeId) {
        let me = cx.me();
        if self.mode != Mode::Joined {
            return;
        }
        if self.root == Some(root) {
            self.peers.remove(&from);
            return;
        }
        if !self.is_root(me) {
            // The own root's news will come down the tree; all other news goes up to it.
            if let Some(own) = self.root.filter(|&own| own != from && root != me) {
                cx.send(own, Message::Probe { root });
            }
        } else if cx.setup().prefers(root, me) {
            self.hand_over(cx, root);
        } else if !self.children.contains(&root) {
            self.peers.insert(root);
        }
    }

    pub(super) fn on_heartbeat(&mut self, cx: &mut Context<'_>, from: NodeId, root: NodeId) {
        if self.parent == Some(from) {
            if self.root != Some(root) {
                self.on_new_root(cx, from, root);
            }
        } else if !self.children.contains(&from) {
            self.decline(cx, from);
        }
    }
}
