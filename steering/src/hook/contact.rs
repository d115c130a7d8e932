//! With whom the host spoke lately: what its agent reads a neighborhood off.

use std::collections::BTreeMap;

use scry_protocol::limit::CONTACTS_MAX;
use scry_protocol::link::host::{Contact, Contacts};
use scry_protocol::{NodeId, Transport};

use scry_checkpoint::Time;
use scry_checkpoint::sorted::Sorted;

/// The endpoints used since the last report.
///
/// A peer has one endpoint for each transport: which port it used tells nothing that its id does not.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When each was used last, and whether that was its end.
    last: Sorted<(NodeId, Transport), (Time, bool)>,
    /// What was noted last; most messages have nothing to add to it.
    latest: Option<(NodeId, Transport, Time)>,
    /// Open connections to each peer.
    open: BTreeMap<NodeId, u32>,
}

impl Seen {
    /// Notes a message from or to a peer.
    #[inline]
    pub(super) fn note(&mut self, now: Time, peer: NodeId, transport: Transport) {
        if self.latest != Some((peer, transport, now)) {
            self.note_anew(now, peer, transport);
        }
    }

    #[inline(never)]
    fn note_anew(&mut self, now: Time, peer: NodeId, transport: Transport) {
        self.latest = Some((peer, transport, now));
        let endpoint = (peer, transport);
        if self.last.len() < CONTACTS_MAX {
            *self.last.entry(endpoint, Default::default) = (now, false);
        } else if let Some(last) = self.last.get_mut(&endpoint) {
            *last = (now, false);
        }
    }

    /// Notes that a connection was opened.
    pub(super) fn note_open(&mut self, now: Time, peer: NodeId) {
        *self.open.entry(peer).or_default() += 1;
        self.note(now, peer, Transport::Stream);
    }

    /// Notes that a connection is gone: the endpoint is closed if it was the last.
    pub(super) fn note_ended(&mut self, now: Time, peer: NodeId) {
        let Some(open) = self.open.get_mut(&peer) else {
            return;
        };
        *open -= 1;
        if *open == 0 {
            self.open.remove(&peer);
            self.note_anew(now, peer, Transport::Stream);
            self.latest = None;
            if let Some((_, closed)) = self.last.get_mut(&(peer, Transport::Stream)) {
                *closed = true;
            }
        }
    }

    /// Returns what there is to report, if anything, and begins anew.
    pub(super) fn take(&mut self, now: Time) -> Option<Contacts> {
        self.latest = None;
        if self.last.is_empty() {
            return None;
        }
        let contacts = self
            .last
            .drain()
            .map(|((peer, transport), (at, closed))| Contact {
                peer,
                transport,
                port: 0,
                ago_ms: now.millis_since(at),
                closed,
            })
            .collect();
        Some(Contacts { contacts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: NodeId = NodeId::new(2);

    fn reported(seen: &mut Seen, now: u64) -> Vec<(Transport, u64, bool)> {
        let contacts = seen.take(Time::from_millis(now));
        contacts
            .map(|contacts| contacts.contacts)
            .unwrap_or_default()
            .iter()
            .map(|contact| (contact.transport, contact.ago_ms, contact.closed))
            .collect()
    }

    #[test]
    fn each_endpoint_is_reported_once_with_its_last_use() {
        let mut seen = Seen::default();
        for at in [10, 20, 30] {
            seen.note(Time::from_millis(at), PEER, Transport::Datagram);
        }
        assert_eq!(reported(&mut seen, 50), [(Transport::Datagram, 20, false)]);
        assert_eq!(reported(&mut seen, 60), []);
    }

    #[test]
    fn an_endpoint_used_after_a_report_or_its_end_is_reported_again() {
        let mut seen = Seen::default();
        let now = Time::from_millis(1);
        for _ in 0..2 {
            seen.note_open(now, PEER);
            seen.note_ended(now, PEER);
            seen.note(now, PEER, Transport::Stream);
            assert_eq!(reported(&mut seen, 1), [(Transport::Stream, 0, false)]);
            seen.note(now, PEER, Transport::Stream);
            assert_eq!(reported(&mut seen, 1), [(Transport::Stream, 0, false)]);
        }
    }

    #[test]
    fn an_endpoint_is_closed_when_its_last_connection_is() {
        let mut seen = Seen::default();
        let now = Time::from_millis(1);
        seen.note_open(now, PEER);
        seen.note_open(now, PEER);
        seen.note_ended(now, PEER);
        assert_eq!(reported(&mut seen, 1), [(Transport::Stream, 0, false)]);
        seen.note_ended(now, PEER);
        assert_eq!(reported(&mut seen, 1), [(Transport::Stream, 0, true)]);
        seen.note_ended(now, PEER);
        assert_eq!(reported(&mut seen, 1), []);
    }
}
