//! What a handler asked for is done here, in order, after its disk has been written.

use scry_protocol::{NodeId, Transport};
use tokio::time::Instant;

use crate::runtime::connection::Key;
use crate::runtime::emulation::Passage;
use crate::runtime::node::events::encode;
use crate::runtime::node::{End, Node};
use crate::runtime::wire::{self, NO_STAMP};
use scry_checkpoint::channel::Lane;
use scry_engine::context::Effect;
use scry_engine::model::live::Effects;
use scry_engine::panics::caught;
use scry_engine::service::Service;

/// How large a buffer is kept for the next message.
const KEPT_BYTES: usize = 64 << 10;

impl<S: Service> Node<S> {
    /// Writes the disk and performs what a handler asked for.
    pub(super) fn perform(&mut self, effects: Effects<S>) -> Result<(), End> {
        if let Some(store) = &mut self.store {
            let service = &self.local.service;
            let disk = caught(|| service.disk())?;
            store
                .keep(self.local.ticks, self.stamps.event_ms(), &disk)
                .map_err(|error| End::Failed(format!("disk: {error}")))?;
        }
        for effect in effects {
            match effect {
                Effect::Send { to, message } => self.send(to, message)?,
                Effect::Arm { timer, after } => self.timers.arm(timer, after, Instant::now()),
                Effect::Cancel { timer } => self.timers.cancel(&timer),
                Effect::Disconnect { peer } => {
                    for end in self.streams.finish(peer) {
                        self.close_channel(&end);
                    }
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, to: NodeId, message: S::Message) -> Result<(), End> {
        if to == self.me {
            self.own.push_back(message);
            return Ok(());
        }
        match S::transport(&message) {
            Transport::Datagram => {
                self.with_encoded(&message, |node, content| node.send_datagram(to, content))
            }
            Transport::Stream => self.send_segment(to, &message),
        }
    }

    /// Encodes a message for the time of a call.
    fn with_encoded<T>(
        &mut self,
        message: &S::Message,
        call: impl FnOnce(&mut Self, &[u8]) -> T,
    ) -> Result<T, End> {
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        encode(message, &mut content)?;
        let result = call(self, &content);
        if content.capacity() <= KEPT_BYTES {
            self.content = content;
        }
        Ok(result)
    }

    fn send_datagram(&mut self, to: NodeId, content: &[u8]) {
        let now = self.look_at_clock();
        let stamp = match self.peers.contains_key(&to) {
            true => self.stamp(to, Lane::Datagram, content),
            false => NO_STAMP,
        };
        let mut bytes = std::mem::take(&mut self.framed);
        let fits = wire::datagram(&mut bytes, self.me, &stamp, content);
        let passage = self.emulator.datagram(to, bytes.len(), now);
        let left = fits
            && match (passage, self.peers.get(&to)) {
                (Passage::Lost, _) | (_, None) => false,
                (Passage::Now, Some(&address)) => self.datagrams.send(address, &bytes),
                (Passage::At(due), Some(&address)) => {
                    self.datagrams.send_at(due, address, bytes.clone())
                }
            };
        self.framed = bytes;
        self.counts.datagrams_sent += 1;
        self.counts.datagrams_lost += u64::from(!left);
    }

    fn send_segment(&mut self, to: NodeId, message: &S::Message) -> Result<(), End> {
        let now = self.look_at_clock();
        let key = match self.streams.to_send_on(to) {
            Some(key) => key,
            None => {
                let address = self.peers.get(&to).copied();
                let sending = address.map_or(0, |_| self.open_channel(to));
                self.streams.connect(to, address, sending)
            }
        };
        self.counts.segments_sent += 1;
        let mut frame = std::mem::take(&mut self.framed);
        let fits = self.frame(&mut frame, key, to, message)?;
        let sent = fits && {
            let due = match self.emulator.segment(to, frame.len(), now) {
                Passage::At(due) => Some(due),
                Passage::Now | Passage::Lost => None,
            };
            self.streams.send(key, &frame, due)
        };
        if frame.capacity() <= KEPT_BYTES {
            self.framed = frame;
        }
        // What cannot be sent is a failed connection, and the service hears of it after what it is doing now.
        if !sent && self.break_connections(to) {
            self.lost.push_back(to);
        }
        Ok(())
    }

    /// Stamps and frames a message, and tells whether it is not too long.
    fn frame(
        &mut self,
        frame: &mut Vec<u8>,
        key: Key,
        to: NodeId,
        message: &S::Message,
    ) -> Result<bool, End> {
        if let Some(hook) = &mut self.hook
            && let Some(end) = self.streams.end(key)
        {
            let lane = Lane::Stream(end.sending);
            let next = hook.send_next(self.clock, to, lane, |out| encode(message, out))?;
            if let Some(content) = next {
                return Ok(wire::frame_next(frame, &mut end.sent, content));
            }
        }
        self.with_encoded(message, |node, content| {
            let end = node.streams.end(key);
            let member = end.is_some_and(|end| end.member);
            if member && node.hook.is_some() {
                return node.frame_with_stamp(frame, key, to, content);
            }
            let end = node.streams.end(key);
            end.is_some_and(|end| wire::frame(frame, &mut end.sent, &NO_STAMP, content))
        })
    }

    /// Asks the hook for a stamp. Apart from what most messages take, which is to stay small (ARCHITECTURE.md).
    #[inline(never)]
    fn frame_with_stamp(
        &mut self,
        frame: &mut Vec<u8>,
        key: Key,
        to: NodeId,
        content: &[u8],
    ) -> bool {
        let sending = self.streams.end(key).map_or(0, |end| end.sending);
        let stamp = self.stamp(to, Lane::Stream(sending), content);
        let end = self.streams.end(key).expect("the caller has seen it");
        wire::frame(frame, &mut end.sent, &stamp, content)
    }

    /// Resets all connections with a peer, and tells whether there were any.
    pub(super) fn break_connections(&mut self, peer: NodeId) -> bool {
        let gone = self.streams.break_with(peer, self.emulator.is_cut(peer));
        for end in &gone {
            self.close_channel(end);
        }
        !gone.is_empty()
    }
}
