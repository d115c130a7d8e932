//! Messages of the service: sent, on their way, arrived.

use super::*;

impl World {
    pub(super) fn send_something(&mut self, at: usize) {
        let machine = &self.machines[at];
        let to = if self.chance.per_mille(900) {
            self.chance.pick(&machine.neighbors)
        } else {
            let other = self.chance.below(self.scenario.nodes.into()) as u32;
            Some(NodeId::new(other)).filter(|&node| node != machine.id)
        };
        let Some(to) = to else {
            return;
        };
        let transport = if self.chance.per_mille(500) {
            Transport::Datagram
        } else {
            Transport::Stream
        };
        self.send(at, to, transport);
    }

    pub(super) fn send(&mut self, at: usize, to: NodeId, transport: Transport) {
        let now = self.time();
        let machine = &mut self.machines[at];
        let host = machine.host.as_mut().expect("only a live host sends");
        let connection = (transport == Transport::Stream).then(|| {
            *host.connections.entry(to).or_insert_with(|| {
                self.last_connection += 1;
                self.connections
                    .insert(self.last_connection, (machine.id, to));
                Connection {
                    number: self.last_connection,
                    sending: host.recorder.open(to),
                    receiving: None,
                }
            })
        });
        let count = host.state.sent.entry((to, transport)).or_default();
        *count += 1;
        let name = Name {
            from: machine.id,
            to,
            transport,
            life: machine.life,
            count: *count,
        };
        let lane = connection.map_or(Lane::Datagram, |connection| {
            Lane::Stream(connection.sending)
        });
        let message = name.write();
        let mut stamp = host.recorder.stamp(now, to, lane, &message);
        if self.scenario.lies.member && at == 0 && !self.ending {
            lies::tamper_stamp(&mut self.chance, &mut stamp, self.scenario.nodes);
        }
        let mut envelope = Vec::new();
        stamp.write(&mut envelope);
        host.sent_bytes += (envelope.len() + message.len()) as u64;
        self.ghost.sent(self.now, name);
        // What a liar says is noise: it is the truth about nobody.
        let clock = match self.is_liar(name.from) {
            true => Clock::new(),
            false => self.ghost.clock(name.from, name.life),
        };
        self.transmit(
            name,
            clock,
            envelope,
            connection.map(|connection| connection.number),
        );
    }

    pub(super) fn transmit(
        &mut self,
        name: Name,
        clock: Clock,
        envelope: Vec<u8>,
        connection: Option<u64>,
    ) {
        let at = name.to.get() as usize;
        let arrive = |envelope| Happening::Arrive {
            at,
            name,
            envelope,
            connection,
            clock: clock.clone(),
        };
        match connection {
            Some(connection) if !self.connections.contains_key(&connection) => {
                self.ghost.lost(name)
            }
            // All messages of a connection take equally long, so that they stay in order.
            Some(connection) => self.schedule(20 + connection * 37 % 80, arrive(envelope)),
            None => {
                if self.chance.per_mille(self.scenario.loss) {
                    return self.ghost.lost(name);
                }
                if self.chance.per_mille(self.scenario.duplication) {
                    let delay = self.chance.within(1..250);
                    self.schedule(delay, arrive(envelope.clone()));
                }
                let delay = self.chance.within(1..150);
                self.schedule(delay, arrive(envelope));
            }
        }
    }

    pub(super) fn arrive(
        &mut self,
        at: usize,
        name: Name,
        envelope: &[u8],
        connection: Option<u64>,
        clock: &Clock,
    ) -> Result<(), String> {
        let now = self.time();
        let broken = connection.is_some_and(|number| !self.connections.contains_key(&number));
        let machine = &mut self.machines[at];
        let Some(host) = machine.host.as_mut().filter(|_| !broken) else {
            self.ghost.lost(name);
            // Nobody is there to take it: whatever else was sent on the connection does not arrive either.
            if let Some(connection) = connection.filter(|_| !broken) {
                self.break_connection(at, name.from, connection);
            }
            return Ok(());
        };
        let (mut envelope, rest) = Envelope::read(envelope).expect("our own stamp");
        assert!(rest.is_empty());
        match self.scenario.sabotage {
            Some(Sabotage::IgnoresNumbers) => envelope.number = CheckpointNumber::ZERO,
            Some(Sabotage::ForgetsPast) => envelope.past = None,
            Some(Sabotage::ForgetsReceipts) if self.chance.per_mille(10) => envelope.place = None,
            _ => {}
        }
        if let (Some(number), Some(place)) = (connection, envelope.place) {
            let end = host
                .connections
                .entry(name.from)
                .or_insert_with(|| Connection {
                    number,
                    sending: host.recorder.open(name.from),
                    receiving: None,
                });
            // Both may have opened one at the same time; then each sends on its own.
            if end.number == number {
                end.receiving = Some((place.incarnation, place.serial));
            }
        }
        let refused = host.recorder.refused().implausible;
        let capture = || capture(&host.state, &machine.neighbors);
        let forced = host
            .recorder
            .handle_message(now, name.from, name.transport, &envelope, capture)
            .expect("a small state");
        // Lies alone bring an honest node to a number that another one refuses. What such a node passes on of third ones is
        // not ordered: see `scry_checkpoint`.
        let nothing = Clock::new();
        let clock = match host.recorder.refused().implausible > refused {
            true if !self.scenario.lies.tells() => {
                return Err(format!("{} refuses what honest nodes say", machine.id));
            }
            true => &nothing,
            false => clock,
        };
        host.state.events += 1;
        let newest = host
            .state
            .received
            .entry((name.from, name.transport))
            .or_default();
        *newest = (*newest).max((name.life, name.count));
        let (life, events) = (machine.life, host.state.events);
        self.ghost.received(name, life, events);
        self.change(at, clock);
        self.summary.events += 1;
        self.judge_surroundings(at, None)?;
        if let Some(checkpoint) = forced {
            self.summary.forced += 1;
            self.stream(at, checkpoint);
        }
        self.renew_outlived(at);
        if !self.ending && self.chance.per_mille(150) {
            self.send(at, name.from, name.transport);
        }
        Ok(())
    }
}
