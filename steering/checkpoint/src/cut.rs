//! Which of the neighbors' known states may stand beside the node's own: consistent cuts only.

use scry_protocol::link::host::Surroundings;
use scry_protocol::{CheckpointNumber, Moment, NodeId, Past};

use serde::{Deserialize, Serialize};

/// How far a neighbor's known state can be relied on.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The neighbor.
    pub node: NodeId,
    /// How far.
    pub basis: Basis,
}

/// Whether a neighbor's known state may stand beside the node's own.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub enum Basis {
    /// It may: both are part of one consistent cut.
    Usable,
    /// It may, but only for these properties: what they read of it no longer changes.
    Lasting(Vec<String>),
    /// It has moved on since: good for a suspicion only.
    Stale,
}

/// What a neighbor's checkpoint says of itself, without its state.
#[derive(Debug)]
struct Checkpoint {
    node: NodeId,
    moment: Moment,
    born: CheckpointNumber,
    past: Past,
    present: bool,
    lasting: Vec<String>,
}

/// The neighbors' checkpoints that were last told.
#[derive(Debug, Default)]
pub struct Cut {
    /// Those of the snapshot first, then older ones.
    checkpoints: Vec<Checkpoint>,
}

impl Cut {
    /// Reads what the checkpoints say of themselves. One that is none is left out; its state could not be read either.
    pub fn of(surroundings: &Surroundings) -> Self {
        let checkpoints = surroundings.neighbors.iter().filter_map(|neighbor| {
            let content = neighbor.body.read().ok()?;
            Some(Checkpoint {
                node: neighbor.node,
                moment: Moment {
                    incarnation: content.incarnation,
                    number: neighbor.number,
                },
                born: content.born,
                past: content.past,
                present: neighbor.present,
                lasting: neighbor.lasting.clone(),
            })
        });
        let mut checkpoints: Vec<Checkpoint> = checkpoints.collect();
        checkpoints.sort_by_key(|checkpoint| !checkpoint.present);
        Self { checkpoints }
    }

    /// Says how far each can be relied on beside a state with this past.
    ///
    /// Those of one snapshot are consistent with each other. An older one of a silent neighbor is taken along if neither
    /// it nor any of the others has the other's later changes in its past. It then counts only for what can no longer
    /// change: the neighbor may have moved on unheard.
    pub fn standing(&self, past: &Past) -> Vec<Standing> {
        let mut chosen: Vec<&Checkpoint> = Vec::new();
        let mut standing = Vec::new();
        for checkpoint in &self.checkpoints {
            let usable = checkpoint.may_stand_beside(past)
                && (checkpoint.present || chosen.iter().all(|other| other.agrees_with(checkpoint)));
            let basis = match usable {
                false => Basis::Stale,
                true if !checkpoint.present => Basis::Lasting(checkpoint.lasting.clone()),
                true => Basis::Usable,
            };
            if usable {
                chosen.push(checkpoint);
            }
            let node = checkpoint.node;
            standing.push(Standing { node, basis });
        }
        standing
    }
}

impl Checkpoint {
    fn agrees_with(&self, other: &Self) -> bool {
        other.may_stand_beside(&self.past) && self.may_stand_beside(&other.past)
    }

    fn may_stand_beside(&self, past: &Past) -> bool {
        past.permits(self.node, self.moment, self.born)
    }
}

#[cfg(test)]
mod tests {
    use scry_protocol::link::host::Neighbor;
    use scry_protocol::{Content, Incarnation};

    use super::*;

    fn number(at: u32) -> CheckpointNumber {
        CheckpointNumber::from(at)
    }

    fn moment(at: u32) -> Moment {
        Moment {
            incarnation: Incarnation::new(1),
            number: number(at),
        }
    }

    fn neighbor(node: u32, at: u32, present: bool, knows: &[(u32, u32)]) -> Neighbor {
        let mut past = Past::default();
        for &(node, at) in knows {
            past.note(NodeId::new(node), moment(at));
        }
        let content = Content {
            incarnation: Incarnation::new(1),
            born: number(1),
            past,
            state: Vec::new(),
            timers: Vec::new(),
            channels: None,
        };
        Neighbor {
            node: NodeId::new(node),
            number: number(at),
            present,
            lasting: vec!["chosen".to_owned()],
            body: content.write().expect("small"),
        }
    }

    fn check(neighbors: Vec<Neighbor>, heard: &[(u32, u32)], expect: &[(u32, Basis)]) {
        let mut past = Past::default();
        for &(node, at) in heard {
            past.note(NodeId::new(node), moment(at));
        }
        let cut = Cut::of(&Surroundings {
            number: number(9),
            answers: None,
            neighbors,
        });
        let standing = cut.standing(&past);
        let seen: Vec<(u32, Basis)> = standing
            .into_iter()
            .map(|standing| (standing.node.get(), standing.basis))
            .collect();
        assert_eq!(seen, expect);
    }

    #[test]
    fn who_has_changed_in_the_nodes_past_is_stale() {
        check(
            vec![neighbor(2, 9, true, &[]), neighbor(3, 9, true, &[])],
            &[(2, 8), (3, 9)],
            &[(2, Basis::Usable), (3, Basis::Stale)],
        );
    }

    #[test]
    fn an_older_state_counts_for_what_cannot_change_unless_another_saw_it_move_on() {
        let lasting = || Basis::Lasting(vec!["chosen".to_owned()]);
        check(
            vec![neighbor(2, 4, false, &[]), neighbor(3, 9, true, &[(2, 3)])],
            &[],
            &[(3, Basis::Usable), (2, lasting())],
        );
        check(
            vec![neighbor(2, 4, false, &[]), neighbor(3, 9, true, &[(2, 5)])],
            &[],
            &[(3, Basis::Usable), (2, Basis::Stale)],
        );
        // It has the other's change in its past, which the other does not show: the checkpoints contradict each other.
        check(
            vec![neighbor(2, 10, false, &[(3, 9)]), neighbor(3, 9, true, &[])],
            &[],
            &[(3, Basis::Usable), (2, Basis::Stale)],
        );
    }
}
