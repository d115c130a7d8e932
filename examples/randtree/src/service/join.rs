//! How a node gets its place: asking, passing on, taking in, and giving the role of root to one more eligible.

use scry::NodeId;

use crate::message::{Message, Timer};
use crate::service::{Context, Mode, RandTree};
use crate::setup::Announce;

/// How often a request is passed on before it is dropped. Who asked asks again at its next timer, so a request that
/// runs in circles because some node is behind the times costs no more than that.
const HOPS_MAX: u8 = 32;

impl RandTree {
    pub(super) fn on_join_call(&mut self, cx: &mut Context<'_>) {
        if self.mode == Mode::Init {
            self.mode = Mode::Joining;
            self.arm(cx);
            self.ask(cx);
        }
    }

    /// Asks for a place: one of the designated nodes, or the root if one is known. A designated node may pick itself.
    pub(super) fn ask(&mut self, cx: &mut Context<'_>) {
        let me = cx.me();
        let mut targets = cx.setup().bootstrap.clone();
        targets.extend(self.root);
        // What is below this node cannot take it in.
        targets.retain(|target| !self.children.contains(target));
        targets.sort_unstable();
        targets.dedup();
        let target = match u32::try_from(targets.len()) {
            Ok(of @ 1..) => targets[cx.choose(of) as usize],
            _ => me,
        };
        if target == me {
            self.take_root(cx);
            if cx.setup().bugs.timer {
                cx.cancel_timer(Timer::Recovery);
            }
        } else {
            cx.send(target, request(me, 0));
        }
    }

    /// Asks the root for a new place. Should it be gone as well, the timer will try the designated nodes too.
    pub(super) fn return_to_root(&self, cx: &mut Context<'_>) {
        if let Some(root) = self.root {
            cx.send(root, request(cx.me(), 0));
        }
    }

    /// Becomes root, of itself and of what is below it.
    pub(super) fn take_root(&mut self, cx: &mut Context<'_>) {
        self.mode = Mode::Joined;
        self.root = Some(cx.me());
        self.parent = None;
        self.heir = None;
        self.siblings.clear();
        self.arm(cx);
        self.announce(cx);
    }

    pub(super) fn on_join(&mut self, cx: &mut Context<'_>, from: NodeId, node: NodeId, hops: u8) {
        if node == cx.me() {
            // It went round: whoever this root offered its role to is in this root's own tree.
            self.withdraw(cx);
            return;
        }
        if self.mode != Mode::Joined {
            if from != node && !self.children.contains(&from) {
                // Only a node that takes this one for a member passes requests to it.
                self.decline(cx, from);
            }
            return;
        }
        if self.parent == Some(node) {
            // A parent that wants a place has lost the one it had, and its memory.
            self.lose(cx, node);
            if self.mode != Mode::Joined {
                return;
            }
        }
        if self.is_root(cx.me()) {
            if cx.setup().prefers(node, cx.me()) {
                self.hand_over(cx, node);
            } else {
                self.place(cx, node, hops);
            }
        } else if self.parent == Some(from) {
            self.place(cx, node, hops);
        } else {
            self.pass_up(cx, node, hops);
        }
    }

    /// Passes a request on to the root, or, if it is the root's own, up the tree to those who will miss it.
    fn pass_up(&mut self, cx: &mut Context<'_>, node: NodeId, hops: u8) {
        let next = self.root.filter(|&root| root != node).or(self.parent);
        if let Some(next) = next {
            pass_on(cx, next, node, hops);
        }
    }

    /// Takes a node in if there is room, or passes it down to a child.
    fn place(&mut self, cx: &mut Context<'_>, node: NodeId, hops: u8) {
        let Some(root) = self.root.filter(|&root| root != node) else {
            return;
        };
        if self.children.contains(&node) {
            cx.send(node, Message::JoinReply { root });
        } else if self.children.len() < cx.setup().degree_max as usize {
            self.siblings.remove(&node);
            self.peers.remove(&node);
            cx.send(node, Message::JoinReply { root });
            if self.is_root(cx.me()) {
                for &child in &self.children {
                    cx.send(child, Message::UpdateSibling { sibling: node });
                }
            }
            self.children.insert(node);
        } else if let Ok(of @ 1..) = u32::try_from(self.children.len()) {
            let pick = cx.choose(of) as usize;
            if let Some(&child) = self.children.iter().nth(pick) {
                pass_on(cx, child, node, hops);
            }
        }
    }

    /// Offers the role of root to a node that is more eligible.
    pub(super) fn hand_over(&mut self, cx: &mut Context<'_>, to: NodeId) {
        if self.heir.is_some_and(|heir| heir != to) {
            return;
        }
        if self.heir.replace(to).is_none() {
            self.children.remove(&to);
            self.peers.insert(to);
            if cx.setup().announce == Announce::AtOnce {
                self.follow(cx, to);
            }
        }
        cx.send(to, offer(cx.me()));
    }

    /// Takes back the offer of the role of root.
    pub(super) fn withdraw(&mut self, cx: &mut Context<'_>) {
        if self.heir.take().is_some() && self.is_top() && !self.is_root(cx.me()) {
            self.take_root(cx);
        }
    }

    pub(super) fn on_handover(
        &mut self,
        cx: &mut Context<'_>,
        from: NodeId,
        node: NodeId,
        hops: u8,
    ) {
        if self.mode == Mode::Init || from != node || !cx.setup().prefers(cx.me(), node) {
            return cx.send(from, Message::Remove);
        }
        match (self.mode, self.parent) {
            (Mode::Joined, Some(parent)) if self.root == Some(node) => {
                // The root offers its role to a node of its own tree, which leaves its place for it.
                if parent != node {
                    cx.send(parent, Message::Remove);
                }
                self.take_root(cx);
            }
            (Mode::Joined, Some(_)) => return self.pass_up(cx, node, hops),
            (Mode::Joined, None) if !self.is_root(cx.me()) => {
                return self.pass_up(cx, node, hops);
            }
            (Mode::Joined, None) => {}
            (Mode::Joining | Mode::Init, _) => self.take_root(cx),
        }
        self.place(cx, node, hops);
    }

    pub(super) fn on_join_reply(&mut self, cx: &mut Context<'_>, from: NodeId, root: NodeId) {
        let me = cx.me();
        let wanted = match self.mode {
            Mode::Init if cx.setup().bugs.ignored_reply => return,
            Mode::Init => false,
            Mode::Joining => root != me,
            // A root gives up its role for a better one only: so no two roots can take each other in.
            Mode::Joined if self.is_top() => cx.setup().prefers(root, me),
            Mode::Joined => self.parent == Some(from) && root != me,
        };
        if !wanted {
            return cx.send(from, Message::Remove);
        }
        self.mode = Mode::Joined;
        self.parent = Some(from);
        self.heir = None;
        for related in [from, root] {
            self.children.remove(&related);
            self.siblings.remove(&related);
        }
        self.peers.remove(&from);
        if root != from {
            self.siblings.clear();
        }
        self.arm(cx);
        self.follow(cx, root);
    }
}

fn request(node: NodeId, hops: u8) -> Message {
    Message::Join {
        node,
        hops,
        handover: false,
    }
}

fn offer(node: NodeId) -> Message {
    Message::Join {
        node,
        hops: 0,
        handover: true,
    }
}

fn pass_on(cx: &mut Context<'_>, to: NodeId, node: NodeId, hops: u8) {
    if hops < HOPS_MAX {
        cx.send(to, request(node, hops + 1));
    }
}
