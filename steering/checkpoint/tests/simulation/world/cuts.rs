//! Which states count beside which: what hosts are told of their neighbors, and whether each such cut is one.

use scry_checkpoint::cut::{Basis, Cut, Standing};
use scry_protocol::Snapshot;
use scry_protocol::link::host::{LookAgain, Neighbor, Surroundings};

use super::{ROUND_MS, World, capture};
use crate::Sabotage;
use crate::ghost::Clock;

impl World {
    /// Looks at every neighbor's state that may count beside the node's present one, as the immediate check would.
    pub(super) fn judge_surroundings(
        &mut self,
        at: usize,
        asked: Option<(u64, u64)>,
    ) -> Result<(), String> {
        let machine = &self.machines[at];
        let Some(host) = &machine.host else {
            return Ok(());
        };
        let Some(surroundings) = &host.surroundings else {
            return Ok(());
        };
        if self.scenario.damage > 0 || self.scenario.amnesia || self.is_liar(machine.id) {
            return Ok(());
        }
        let standing = Cut::of(surroundings).standing(host.recorder.past_to_judge_by(self.time()));
        let mut chosen = Vec::new();
        for Standing { node, basis } in standing {
            let neighbor = surroundings.neighbors.iter().find(|n| n.node == node);
            let content = neighbor.and_then(|neighbor| neighbor.body.read().ok());
            match (basis, content) {
                (Basis::Stale, _) | (_, None) => self.summary.stale += 1,
                // Nobody else can know what it has not been told: see ARCHITECTURE.md on nodes without a disk.
                (_, Some(content)) if self.is_liar(node) || self.is_forgotten(node, &content) => {}
                (Basis::Usable | Basis::Lasting(_), Some(content)) => chosen.push((node, content)),
            }
        }
        let clock = self.ghost.clock(machine.id, machine.life);
        self.ghost.judge_cut(&clock, &chosen).map_err(|what| {
            let number = host.recorder.number();
            format!("at {} ms, {} at {number}: {what}", self.now, machine.id)
        })?;
        self.summary.judged += chosen.len() as u64;
        if let Some((since, events)) = asked
            && events == host.state.events
        {
            self.summary.answered += 1;
            let present = surroundings.neighbors.iter().filter(|n| n.present);
            for neighbor in present {
                let found = chosen.iter().find(|(node, _)| *node == neighbor.node);
                let Some((node, content)) = found else {
                    if self.scenario.lies.any() {
                        continue;
                    }
                    return Err(format!(
                        "{} was just asked and may not count",
                        neighbor.node
                    ));
                };
                if !self.ghost.was_there(*node, content, since) {
                    self.summary.gone_by += 1;
                }
            }
        }
        Ok(())
    }

    /// An event is held: the neighbors are asked for their present states.
    pub(super) fn look_again(&mut self, at: usize) {
        let now = self.time();
        let machine = &mut self.machines[at];
        let Some(host) = &mut machine.host else {
            return;
        };
        host.last_question += 1;
        let question = host.last_question;
        host.questions
            .insert(question, (self.now, host.state.events));
        // As the hook does it: a number that others are not likely to reach by themselves.
        let number = host.recorder.number();
        let leap = u64::from(machine.id.get()) % 7 + 1;
        let number = number.ahead(leap).unwrap_or(number);
        let capture = || capture(&host.state, &machine.neighbors);
        let taken = host.recorder.handle_take(now, number, capture);
        if let Some(checkpoint) = taken.expect("a small state") {
            self.stream(at, checkpoint);
        }
        let wait_ms = ROUND_MS;
        let look = LookAgain {
            question,
            number,
            wait_ms,
            about: None,
        };
        self.tell_agent(at, look.into());
    }

    /// Now and then an event changes what properties read of its node, which is noted before anything is sent.
    pub(super) fn change(&mut self, at: usize, heard: &Clock) {
        let changes = self.chance.per_mille(self.scenario.shown_changes);
        let machine = &mut self.machines[at];
        let host = machine.host.as_mut().expect("alive");
        if changes {
            host.shown += 1;
            if self.scenario.sabotage != Some(Sabotage::HidesChanges) {
                host.recorder.note_change();
            }
        }
        let shown = host.shown;
        self.ghost
            .happened(self.now, machine.id, machine.life, shown, heard);
    }

    /// Tells a host of its neighbors, as its agent's controller does: who is missing is shown as it was last known.
    pub(super) fn tell_surroundings(
        &mut self,
        at: usize,
        snapshot: &Snapshot,
        answers: Option<u64>,
    ) {
        let me = self.machines[at].id;
        let known = &mut self.machines[at].known;
        for member in snapshot.members.iter().filter(|member| member.node != me) {
            known.insert(member.node, (member.number, member.body.clone()));
        }
        let neighbors = known.iter().map(|(&node, (number, body))| Neighbor {
            node,
            number: *number,
            present: snapshot.member(node).is_some(),
            lasting: Vec::new(),
            body: body.clone(),
        });
        let surroundings = Surroundings {
            number: snapshot.number,
            answers,
            neighbors: neighbors.collect(),
        };
        self.tell_host(at, surroundings.into());
    }
}
