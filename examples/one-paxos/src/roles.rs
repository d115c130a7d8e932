//! Who leads and who accepts: what the log of the Paxos below makes of those who began.

use std::collections::BTreeMap;

use paxos::{Index, Value};
use scry::NodeId;
use serde::{Deserialize, Serialize};

use crate::setup::Setup;

/// Numbers the leaders: 0 is the first member, and who is made leader by entry *i* of the log leads term *i* + 1.
pub type Term = u32;

/// Who leads and who accepts.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, Serialize, Deserialize)]
pub struct Roles {
    /// The leader's term.
    pub term: Term,
    /// The leader.
    pub leader: NodeId,
    /// The acceptor.
    pub acceptor: NodeId,
}

/// An entry of the log. Paxos agrees on numbers, so that an entry is written as one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Change {
    /// A member takes the lead.
    Leader(NodeId),
    /// The leader of a term replaces its acceptor. The entry is void if the term is over before it in the log.
    Acceptor {
        /// The term.
        term: Term,
        /// Who accepts from now on.
        to: NodeId,
    },
}

impl Roles {
    /// Returns who is to begin, as a node takes it when it starts.
    pub fn at_start(setup: &Setup, me: NodeId) -> Self {
        let mut roles = Self::first(setup.members(), me);
        if setup.bugs.increment {
            roles.acceptor = roles.leader;
        }
        roles
    }

    /// Returns who leads and accepts after all entries that are known without a gap; `None` if the first is not.
    pub fn decided(
        members: &[NodeId],
        me: NodeId,
        entries: &BTreeMap<Index, Value>,
    ) -> Option<Self> {
        entries.get(&0)?;
        let mut roles = Self::first(members, me);
        for (number, (&index, &entry)) in (0..).zip(entries) {
            if index != number {
                break;
            }
            match Change::read(entry, members) {
                Some(Change::Leader(leader)) => {
                    roles.leader = leader;
                    roles.term = index + 1;
                }
                Some(Change::Acceptor { term, to }) if term == roles.term => roles.acceptor = to,
                Some(Change::Acceptor { .. }) | None => {}
            }
        }
        Some(roles)
    }

    /// A cluster of one is its own leader and acceptor.
    fn first(members: &[NodeId], me: NodeId) -> Self {
        let leader = members.first().copied().unwrap_or(me);
        Self {
            term: 0,
            leader,
            acceptor: members.get(1).copied().unwrap_or(leader),
        }
    }

    /// Returns who would accept next: the member after the acceptor that neither leads nor accepts.
    pub fn backup(&self, members: &[NodeId]) -> Option<NodeId> {
        let at = members.iter().position(|&it| it == self.acceptor)?;
        let others = members[at + 1..].iter().chain(&members[..at]);
        others.copied().find(|&it| it != self.leader)
    }
}

impl Change {
    /// Writes it as a number; `None` if it names nobody who is a member, or there is no number so great.
    pub fn write(self, members: &[NodeId]) -> Option<Value> {
        let rank = |node| {
            let at = members.iter().position(|&it| it == node)?;
            Value::try_from(at).ok()
        };
        match self {
            Self::Leader(leader) => rank(leader),
            Self::Acceptor { term, to } => {
                let count = Value::try_from(members.len()).ok()?;
                let block = term.checked_add(1)?.checked_mul(count)?;
                block.checked_add(rank(to)?)
            }
        }
    }

    /// Reads what [`write`](Self::write) has written.
    pub fn read(entry: Value, members: &[NodeId]) -> Option<Self> {
        let count = Value::try_from(members.len()).ok()?;
        let node = *members.get(entry.checked_rem(count)? as usize)?;
        Some(match (entry / count).checked_sub(1) {
            None => Self::Leader(node),
            Some(term) => Self::Acceptor { term, to: node },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> [NodeId; 3] {
        [1, 2, 3].map(NodeId::new)
    }

    #[test]
    fn a_change_is_read_as_it_was_written() {
        let [first, second, third] = members();
        for change in [
            Change::Leader(first),
            Change::Leader(third),
            Change::Acceptor { term: 0, to: first },
            Change::Acceptor {
                term: 7,
                to: second,
            },
        ] {
            let entry = change.write(&members()).expect("it is about members");
            assert_eq!(Change::read(entry, &members()), Some(change));
        }
        let stranger = Change::Leader(NodeId::new(9));
        assert_eq!(stranger.write(&members()), None);
        let late = Change::Acceptor {
            term: Term::MAX,
            to: first,
        };
        assert_eq!(late.write(&members()), None);
        assert_eq!(Change::read(5, &[]), None);
    }

    #[test]
    fn entries_count_in_their_order_up_to_the_first_gap() {
        let [first, second, third] = members();
        let decided = |entries: &[(Index, Change)]| {
            let written = |&(index, change): &(Index, Change)| {
                (index, change.write(&members()).expect("a member"))
            };
            Roles::decided(&members(), first, &entries.iter().map(written).collect())
        };
        let roles = |term, leader, acceptor| {
            Some(Roles {
                term,
                leader,
                acceptor,
            })
        };
        let third_leads = Change::Leader(third);
        let replaced = |term| Change::Acceptor { term, to: first };
        assert_eq!(decided(&[]), None);
        assert_eq!(decided(&[(1, third_leads)]), None);
        assert_eq!(decided(&[(0, third_leads)]), roles(1, third, second));
        let both = [(0, third_leads), (1, replaced(1))];
        assert_eq!(decided(&both), roles(1, third, first));
        let gap = [(0, third_leads), (2, replaced(1))];
        assert_eq!(decided(&gap), roles(1, third, second));
        // The first leader's term is over before its entry.
        let void = [(0, third_leads), (1, replaced(0))];
        assert_eq!(decided(&void), roles(1, third, second));
    }

    #[test]
    fn a_backup_neither_leads_nor_accepts() {
        let [leader, acceptor, third] = members();
        let roles = Roles {
            term: 0,
            leader,
            acceptor,
        };
        assert_eq!(roles.backup(&members()), Some(third));
        assert_eq!(roles.backup(&members()[..2]), None);
    }
}
