//! What goes wrong: neighborhoods change, connections break, hosts and agents crash.

use scry_checkpoint::CheckpointManager;
use scry_checkpoint::manager::Options;
use scry_protocol::NodeId;
use scry_protocol::link::host::Neighbors;

use super::{Happening, World};

impl World {
    pub(super) fn break_something(&mut self, at: usize) {
        if self.chance.per_million(self.scenario.changes * 1000) {
            self.choose_neighbors(at);
            if self.chance.per_mille(500) {
                let neighbors = Some(self.machines[at].neighbors.clone());
                self.tell_agent(at, Neighbors { neighbors }.into());
            }
        }
        if self.chance.per_million(self.scenario.breaks * 1000) {
            let host = self.machines[at].host.as_ref().expect("alive");
            let open: Vec<(NodeId, u64)> = host
                .connections
                .iter()
                .map(|(&peer, connection)| (peer, connection.number))
                .collect();
            if let Some((peer, connection)) = self.chance.pick(&open) {
                self.break_connection(at, peer, connection);
            }
        }
        if self.chance.per_million(self.scenario.agent_crashes * 1000) {
            self.crash_agent(at);
        }
        if self.chance.per_million(self.scenario.crashes * 1000) {
            self.crash_host(at);
        }
    }

    /// What is on the connection is lost at once; the ends learn of it later.
    pub(super) fn break_connection(&mut self, at: usize, peer: NodeId, connection: u64) {
        self.connections.remove(&connection);
        for happening in self.happenings.iter().flatten() {
            if let Happening::Arrive {
                name,
                connection: Some(number),
                ..
            } = happening
                && *number == connection
            {
                self.ghost.lost(*name);
            }
        }
        let here = self.machines[at].id;
        for (at, peer) in [(at, peer), (peer.get() as usize, here)] {
            let (life, after) = (self.machines[at].life, self.chance.within(1..300));
            self.schedule(
                after,
                Happening::Disconnect {
                    at,
                    life,
                    peer,
                    connection,
                },
            );
        }
    }

    pub(super) fn disconnect(&mut self, at: usize, life: u64, peer: NodeId, connection: u64) {
        let now = self.time();
        if self.machines[at].life != life {
            return;
        }
        let Some(host) = &mut self.machines[at].host else {
            return;
        };
        if let Some(end) = host.connections.get(&peer).copied()
            && end.number == connection
        {
            host.connections.remove(&peer);
            host.recorder
                .handle_ended(now, peer, Some(end.sending), end.receiving);
        }
    }

    fn crash_host(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let Some(host) = machine.host.take() else {
            return;
        };
        self.summary.crashes += 1;
        machine.durable = host.recorder.number();
        self.summary.refused_stamps += host.recorder.refused().count();
        let here = machine.id;
        let agent_life = machine.agent_life;
        // What the host wrote to its agent before it crashed still arrives, before the news of its end.
        let after = machine.to_agent.max(self.now) - self.now;
        self.schedule(after, Happening::HostGone(at, agent_life));
        let mine: Vec<(u64, NodeId)> = self
            .connections
            .iter()
            .filter(|(_, (a, b))| *a == here || *b == here)
            .map(|(&number, &(a, b))| (number, if a == here { b } else { a }))
            .collect();
        for (connection, peer) in mine {
            self.break_connection(at, peer, connection);
        }
        let after = self.chance.within(10..self.scenario.down_ms);
        self.schedule(after, Happening::Restart(at));
    }

    fn crash_agent(&mut self, at: usize) {
        let now = self.now;
        let machine = &mut self.machines[at];
        self.summary.restarts += machine.agent.counts().restarts;
        let traffic = machine.agent.traffic().values();
        self.summary.control_bytes += traffic.map(|peer| peer.sent_bytes).sum::<u64>();
        machine.agent_life += 1;
        let options = Options {
            first_request: (machine.agent_life as u16).wrapping_mul(10_007),
            ..machine.agent.options().clone()
        };
        machine.agent = CheckpointManager::new(machine.id, options);
        machine.to_agent = now;
        let id = machine.id;
        self.demanded.retain(|(node, ..), _| *node != at);
        self.greet(at);
        for peer in 0..self.machines.len() {
            if peer != at && self.chance.per_mille(700) {
                let (life, after) = (self.machines[peer].agent_life, self.chance.within(1..50));
                self.schedule(after, Happening::PeerLost(peer, life, id));
            }
        }
    }
}
