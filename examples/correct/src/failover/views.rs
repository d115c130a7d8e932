//! The view server.

use std::collections::BTreeMap;
use std::time::Duration;

use scry::NodeId;
use serde::{Deserialize, Serialize};

use super::{Cx, Failover, Message, Part, Timer};

/// How often the view server looks who was silent.
const TICK: Duration = Duration::from_millis(250);
/// Who was silent for so many looks is taken for dead.
const DEAD: u8 = 4;

/// What the view server keeps beside the view.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Views {
    /// Whether the primary has said that its backup, if there is one, has everything: only then may there be a new view.
    pub confirmed: bool,
    /// For how many looks each server that was ever heard was silent.
    pub silent: BTreeMap<NodeId, u8>,
}

impl Failover {
    pub(super) fn start_views(&mut self, cx: &mut Cx<'_>) {
        if let Part::Views(views) = &mut self.part {
            // Nobody was silent while nobody listened.
            views.silent.values_mut().for_each(|silent| *silent = 0);
        }
        cx.set_timer(Timer::Tick, TICK);
    }

    pub(super) fn hear_ping(&mut self, cx: &mut Cx<'_>, from: NodeId, view: u32, ready: bool) {
        let (view_now, primary_now) = (self.view, self.primary);
        let Part::Views(views) = &mut self.part else {
            return;
        };
        if cx.setup().servers.contains(&from) {
            views.silent.insert(from, 0);
            views.confirmed |= ready && view == view_now && primary_now == Some(from);
            self.declare();
        }
        let (view, primary, backup) = (self.view, self.primary, self.backup);
        let answer = Message::View {
            view,
            primary,
            backup,
        };
        cx.send(from, answer);
    }

    pub(super) fn tick(&mut self, cx: &mut Cx<'_>) {
        if let Part::Views(views) = &mut self.part {
            for silent in views.silent.values_mut() {
                *silent = (*silent + 1).min(DEAD);
            }
        }
        self.declare();
        cx.set_timer(Timer::Tick, TICK);
    }

    /// Declares a new view if there is reason to and it is safe.
    fn declare(&mut self) {
        let Part::Views(views) = &mut self.part else {
            return;
        };
        let lives = |node: NodeId| views.silent.get(&node).is_some_and(|&silent| silent < DEAD);
        let spare = |besides: [Option<NodeId>; 2]| {
            let alive = views.silent.keys().copied().filter(|&node| lives(node));
            alive.filter(|&node| !besides.contains(&Some(node))).min()
        };
        let (primary, backup) = match (self.primary, self.backup) {
            (None, _) => (spare([None, None]), None),
            _ if !views.confirmed => return,
            (Some(primary), Some(backup)) if !lives(primary) && lives(backup) => {
                (Some(backup), spare([Some(primary), Some(backup)]))
            }
            (Some(primary), backup) if lives(primary) && !backup.is_some_and(lives) => {
                (Some(primary), spare([Some(primary), backup]))
            }
            _ => return,
        };
        if (primary, backup) != (self.primary, self.backup) {
            self.view += 1;
            (self.primary, self.backup) = (primary, backup);
            views.confirmed = false;
        }
    }
}
