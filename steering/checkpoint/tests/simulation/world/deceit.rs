//! Liars, forgers, absurd disks and faulty clocks in the world, and whether it is well again after them.

use scry_checkpoint::leeway;
use scry_protocol::NodeId;
use scry_protocol::link::host::{Renew, Renewed};
use scry_protocol::snapshot::Missing;
use scry_protocol::{CheckpointNumber, Content, Incarnation, Snapshot, Transport};

use super::{FIRST_CLOCK_MS, World, capture};
use crate::lies;

/// How often a host begins another incarnation because of what messages say, at most.
const RENEW_MS: u64 = 10_000;
const DAY_MS: u64 = 86_400_000;
/// The id of nobody.
const STRANGER: NodeId = NodeId::new(4711);

impl World {
    pub(super) fn is_liar(&self, node: NodeId) -> bool {
        self.scenario.lies.member && node.get() == 0
    }

    /// Tells whether a checkpoint is of a process after which the node began anew with a lower number: it keeps no disk, and
    /// its clock was set back. Until it has spoken with somebody who remembers, nobody can know.
    pub(super) fn is_forgotten(&self, node: NodeId, content: &Content) -> bool {
        let machine = &self.machines[node.get() as usize];
        let former = machine.lives.iter().take(machine.process_from);
        machine.fell && former.into_iter().any(|life| *life == content.incarnation)
    }

    /// Decides which incarnation a host begins, and with which number: from its disk, or from its clock.
    pub(super) fn begin_incarnation(&mut self, at: usize) -> (Incarnation, CheckpointNumber) {
        let (now, lies) = (self.now, self.scenario.lies);
        let machine = &mut self.machines[at];
        let (life, born) = if lies.clocks {
            let days = self.chance.below(20);
            machine.clock_ms = FIRST_CLOCK_MS + days * DAY_MS;
            let clock_ms = machine.clock_ms + now;
            let born = CheckpointNumber::new(clock_ms).expect("in range");
            (Incarnation::new(clock_ms), born)
        } else if self.scenario.amnesia {
            (Incarnation::new(machine.life), 1.into())
        } else {
            let life = match machine.lives.last() {
                Some(last) => last.next(),
                None => Incarnation::new(machine.life),
            };
            (life, machine.durable.next())
        };
        let bad_disk = (1..=lies.bad_disks).contains(&at) && machine.life > 1;
        let born = match bad_disk && self.chance.per_mille(lies.absurd_disks) {
            true => {
                // As the hook reads it. How far its last incarnation was is on no disk any more.
                let stored = lies::absurd_number(&mut self.chance);
                assert!(!leeway::is_stored_plausible(stored), "{stored}");
                leeway::of_clock_if_lost(FIRST_CLOCK_MS + now)
            }
            false => born,
        };
        machine.process_from = machine.lives.len();
        machine.fell = born <= machine.durable;
        machine.lives.push(life);
        (life, born)
    }

    /// Goes on under another incarnation, as the hook does.
    pub(super) fn renew(&mut self, at: usize, renew: Renew) {
        let now = self.time();
        let machine = &mut self.machines[at];
        let Some(host) = &mut machine.host else {
            return;
        };
        let capture = || capture(&host.state, &machine.neighbors);
        let first = host
            .recorder
            .renew(now, renew.after, renew.number, capture)
            .expect("a small state");
        let (incarnation, born) = (host.recorder.incarnation(), host.recorder.born());
        machine.lives.push(incarnation);
        self.summary.renewals += 1;
        self.tell_agent(at, Renewed { incarnation, born }.into());
        self.stream(at, first);
    }

    pub(super) fn renew_outlived(&mut self, at: usize) {
        // As often as the hook.
        if self.machines[at].renewed_at + RENEW_MS > self.now {
            return;
        }
        let host = self.machines[at].host.as_ref();
        if let Some(after) = host.and_then(|host| host.recorder.outlived()) {
            self.machines[at].renewed_at = self.now;
            let number = None;
            self.renew(at, Renew { after, number });
        }
    }

    /// Something that is not true comes to a node.
    pub(super) fn deceive(&mut self, at: usize) {
        let lies = self.scenario.lies;
        if self.chance.per_mille(lies.strangers) {
            let number = lies::absurd_number(&mut self.chance);
            let host = self.machines[at].host.as_mut().expect("alive");
            host.recorder.handle_stranger(STRANGER, number);
        }
        if self.chance.per_mille(lies.forged) {
            self.forge(at);
        }
    }

    /// Somebody sends a datagram in the name of a member.
    fn forge(&mut self, at: usize) {
        let now = self.time();
        let from = NodeId::new(self.chance.below(self.scenario.nodes.into()) as u32);
        let machine = &mut self.machines[at];
        let host = machine.host.as_mut().expect("alive");
        if from == machine.id {
            return;
        }
        let near = host.recorder.number();
        let stamp = lies::absurd_stamp(&mut self.chance, self.scenario.nodes, near);
        let capture = || capture(&host.state, &machine.neighbors);
        let forced = host
            .recorder
            .handle_message(now, from, Transport::Datagram, &stamp, capture)
            .expect("a small state");
        if let Some(checkpoint) = forced {
            self.stream(at, checkpoint);
        }
        self.renew_outlived(at);
    }

    /// Returns what a snapshot shows of honest nodes.
    pub(super) fn without_liars(&self, snapshot: &Snapshot) -> Snapshot {
        let mut snapshot = snapshot.clone();
        snapshot.members.retain(|member| {
            let content = member.body.read().expect("gathered");
            !self.is_liar(member.node) && !self.is_forgotten(member.node, &content)
        });
        snapshot
    }

    pub(super) fn note_snapshot(&mut self, at: usize, snapshot: &Snapshot) {
        let missing = snapshot.missing.iter().copied();
        // Frames are lost in rough weather, whatever anybody says.
        let lost = |it: &Missing| self.scenario.frame_loss > 0 && it.reason.is_unheard();
        let missing: Vec<Missing> = missing
            .filter(|it| !self.is_liar(it.node) && !lost(it))
            .collect();
        if !self.is_liar(self.machines[at].id) {
            self.summary.incomplete += u64::from(!missing.is_empty());
        }
        self.machines[at].last_snapshot = Some((self.now, missing));
    }

    /// After the last lie, every honest node must soon see all its honest neighbors again.
    pub(super) fn check_healed(&self) -> Result<(), String> {
        for machine in &self.machines {
            if self.is_liar(machine.id) || machine.host.is_none() {
                continue;
            }
            let host = machine.host.as_ref().map(|host| host.recorder.number());
            match &machine.last_snapshot {
                Some((at, missing)) if *at + 5_000 > self.now && missing.is_empty() => {}
                other => {
                    return Err(format!(
                        "{} at {host:?} does not see its neighbors again: {other:?} at {} ms",
                        machine.id, self.now
                    ));
                }
            }
        }
        Ok(())
    }
}
