//! The one difference between consequence prediction and breadth-first search (CrystalBall Fig. 8).
//!
//! A node's internal actions (timers, calls, resets, breaking connections) are tried in the first state popped in
//! which the node has that local state, and never again in the whole run, whatever the rest of the world is by then
//! . The node's view of its connections counts to its local state; its inbox does not. Messages are never
//! pruned.

/// Which nodes may act by themselves in which states of a level.
#[derive(Debug)]
pub(crate) enum Pruning {
    /// All, always: plain breadth-first search.
    Off,
    /// Each local state once.
    LocalOnce {
        /// By local state (with connections): whether its actions were tried.
        explored: Vec<bool>,
        /// The states of this level in which a node acts: place in the level and node, in order.
        acting: Vec<(u32, u16)>,
    },
}

/// The nodes that act in one state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Acting<'a> {
    All,
    Only(&'a [(u32, u16)]),
}

/// A state whose moved node has a local state not tried before: place in its level, node, local state.
pub(crate) type Fresh = (u32, u16, u32);

impl Pruning {
    pub(crate) fn local_once() -> Self {
        Self::LocalOnce {
            explored: Vec::new(),
            acting: Vec::new(),
        }
    }

    /// Tells whether anything is pruned.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        matches!(self, Self::LocalOnce { .. })
    }

    /// Says where a search looked that has looked everywhere it goes; `None` if everywhere.
    pub(crate) fn extent(&self) -> Option<&'static str> {
        self.is_on()
            .then_some("among the consequences of the start state")
    }

    /// Tells whether a local state's actions were not tried yet.
    #[inline]
    pub(crate) fn is_fresh(&self, agent: u32) -> bool {
        match self {
            Self::Off => false,
            Self::LocalOnce { explored, .. } => {
                !explored.get(agent as usize).is_some_and(|&done| done)
            }
        }
    }

    /// Decides, in the order of expansion, who acts in which states of the next level.
    ///
    /// Only nodes that just moved need be asked: when a state's parent was popped, the local states of all other
    /// nodes were tried there at the latest.
    pub(crate) fn begin_level(&mut self, fresh: impl Iterator<Item = Fresh>) {
        let Self::LocalOnce { explored, acting } = self else {
            return;
        };
        acting.clear();
        for (place, node, agent) in fresh {
            if explored.len() <= agent as usize {
                explored.resize(agent as usize + 1, false);
            }
            if !std::mem::replace(&mut explored[agent as usize], true) {
                acting.push((place, node));
            }
        }
    }

    /// Returns who acts in the state at a place of the level.
    #[inline]
    pub(crate) fn acting(&self, place: u32) -> Acting<'_> {
        let Self::LocalOnce { acting, .. } = self else {
            return Acting::All;
        };
        let start = acting.partition_point(|&(at, _)| at < place);
        let count = acting[start..]
            .iter()
            .take_while(|&&(at, _)| at == place)
            .count();
        Acting::Only(&acting[start..start + count])
    }
}

impl Acting<'_> {
    #[inline]
    pub(crate) fn contains(self, node: u16) -> bool {
        match self {
            Self::All => true,
            Self::Only(nodes) => nodes.iter().any(|&(_, acting)| acting == node),
        }
    }
}
