//! Where the loop meets the hook: what is noted, stamped and ruled on, and what the agent asks for.

use scry_protocol::channel::Envelope;
use scry_protocol::{FilterId, Incarnation, NodeId};

use crate::capture::StreamEnd;
use crate::runtime::node::events::{Decision, Origin};
use crate::runtime::node::{Node, epoch_ms};
use crate::runtime::report::Ruling;
use crate::runtime::streams::Waiting;
use crate::runtime::wire::NO_STAMP;
use crate::service::Service;

const RUN: Decision = Decision {
    ruling: Ruling::Run,
    filter: None,
};

impl<S: Service> Node<S> {
    /// Begins another life in the same process.
    pub(super) fn begin_life(&mut self) {
        let last = self.streams.incarnation.get();
        self.streams.incarnation = Incarnation::new(epoch_ms().max(last + 1));
    }

    pub(super) fn open_channel(&mut self, _peer: NodeId) -> u32 {
        0
    }

    pub(super) fn close_channel(&mut self, _end: &StreamEnd) {}

    pub(super) fn stamp_datagram(&mut self, _to: NodeId, _content: &[u8]) -> Envelope {
        NO_STAMP
    }

    pub(super) fn stamp_segment(&mut self, _to: NodeId, _sending: u32, _content: &[u8]) -> Envelope {
        NO_STAMP
    }

    pub(super) fn note_receipt(&mut self, _origin: Origin, _from: NodeId, _envelope: &Envelope) {}

    pub(super) fn rule_on_message(
        &mut self,
        _from: NodeId,
        _message: &S::Message,
        _content: Option<&[u8]>,
    ) -> Decision {
        RUN
    }

    pub(super) fn rule_on_timer(&mut self, _timer: &S::Timer) -> Decision {
        RUN
    }

    pub(super) fn rule_on_call(&mut self, _call: &S::Call) -> Decision {
        RUN
    }

    pub(super) fn hold(&mut self, origin: Origin, _from: NodeId, content: Vec<u8>, _filter: Option<FilterId>) {
        if let Origin::Stream(key) = origin && let Some(end) = self.streams.end(key) {
            end.waiting.push_front(Waiting::Offered(content));
            end.held = true;
        }
    }
}
