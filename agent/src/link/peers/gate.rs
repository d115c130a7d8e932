//! Who may begin a handshake: it costs this agent more than whoever asks for it. A core without a clock.
//!
//! As long as few come, all are let in. When many do, whoever has not shown that it can be reached at its address is sent
//! a Retry, which costs next to nothing and which a forged address never answers; and each address that can be reached has
//! a rate limit of its own.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::rate_limit::Bucket;

/// How many addresses are told apart.
const ADDRESSES_MAX: usize = 1024;
/// How much of what all may do one address may do.
const ADDRESS_SHARE: u64 = 5;
/// How much more all addresses that can be reached may do than those of whom that is not known.
const REACHED_FACTOR: u64 = 4;

/// What becomes of an attempt.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Admission {
    /// The handshake begins.
    Admit,
    /// It must show first that it can be reached at its address.
    Retry,
    /// Nothing is answered.
    Ignore,
}

/// Counts handshakes.
#[derive(Debug)]
pub(super) struct Gate {
    per_second: u64,
    unknown: Bucket,
    reached: Bucket,
    by_address: BTreeMap<IpAddr, Bucket>,
}

impl Gate {
    /// Allows so many handshakes a second before addresses must be shown; 0 for no limit.
    pub(super) fn new(per_second: u64) -> Self {
        let bucket = |rate: u64| Bucket::new(rate, rate.saturating_mul(2));
        Self {
            per_second,
            unknown: bucket(per_second),
            reached: bucket(per_second.saturating_mul(REACHED_FACTOR)),
            by_address: BTreeMap::new(),
        }
    }

    /// Somebody asks for a handshake. `is_reached` says that it was seen to get what is sent to its address.
    pub(super) fn handle_attempt(
        &mut self,
        now_ms: u64,
        address: IpAddr,
        is_reached: bool,
    ) -> Admission {
        if !is_reached {
            return match self.unknown.take(now_ms, 1) {
                true => Admission::Admit,
                false => Admission::Retry,
            };
        }
        if self.reached.wait_ms(now_ms) > 0 || !self.own(now_ms, address).take(now_ms, 1) {
            return Admission::Ignore;
        }
        self.reached.charge(now_ms, 1);
        Admission::Admit
    }

    fn own(&mut self, now_ms: u64, address: IpAddr) -> &mut Bucket {
        if self.by_address.len() >= ADDRESSES_MAX && !self.by_address.contains_key(&address) {
            // Whoever may go on has nothing to be remembered for.
            self.by_address
                .retain(|_, bucket| bucket.wait_ms(now_ms) > 0);
            if self.by_address.len() >= ADDRESSES_MAX {
                self.by_address.pop_first();
            }
        }
        let rate = match self.per_second {
            0 => 0,
            all => (all / ADDRESS_SHARE).max(1),
        };
        let fresh = || Bucket::new(rate, rate.saturating_mul(2));
        self.by_address.entry(address).or_insert_with(fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn few_are_accepted_at_once() {
        let mut gate = Gate::new(50);
        for now_ms in (0..60_000).step_by(100) {
            let admission = gate.handle_attempt(now_ms, address(1), false);
            assert_eq!(admission, Admission::Admit);
        }
    }

    #[test]
    fn a_flood_of_forged_addresses_costs_a_bounded_number_of_handshakes_and_keeps_nobody_out() {
        let mut gate = Gate::new(50);
        let mut admitted = 0;
        for number in 0..100_000_u32 {
            let now_ms = u64::from(number) / 10;
            match gate.handle_attempt(now_ms, address(number), false) {
                Admission::Admit => admitted += 1,
                Admission::Retry => {}
                Admission::Ignore => panic!("whoever was not heard yet gets a chance"),
            }
        }
        assert!(admitted <= 600 + 1, "{admitted} in ten seconds");
        // An honest peer is told to retry, does, and is let in.
        assert_eq!(
            gate.handle_attempt(10_000, address(7), false),
            Admission::Retry
        );
        assert_eq!(
            gate.handle_attempt(10_000, address(7), true),
            Admission::Admit
        );
    }

    #[test]
    fn an_address_that_floods_uses_up_its_own_allowance_only() {
        let mut gate = Gate::new(50);
        let mut admitted = 0;
        for number in 0..10_000_u64 {
            admitted +=
                u32::from(gate.handle_attempt(number / 10, address(1), true) == Admission::Admit);
        }
        assert!(admitted <= 31, "{admitted} in a second");
        assert_eq!(
            gate.handle_attempt(1_000, address(2), true),
            Admission::Admit
        );
        assert!((0..10_000).all(|number| {
            gate.handle_attempt(2_000, address(number % 4096), true);
            gate.by_address.len() <= ADDRESSES_MAX
        }));
    }

    #[test]
    fn without_a_rate_all_are_accepted() {
        let mut gate = Gate::new(0);
        assert!((0..10_000).all(|_| gate.handle_attempt(0, address(1), true) == Admission::Admit));
    }
}
