//! The standing attack suite: real clusters on loopback are attacked, and must go on as if they were not.
//!
//! Every case starts nodes with agents ([`Cluster`](scry_tests::attack::Cluster)), attacks them, and has [`Meter`](scry_tests::attack::Meter) count what the
//! service answers before the attack and through it. What must hold in every case:
//!
//! - answered calls a second through the attack are at least nine tenths of those before,
//! - no process of the cluster ends,
//! - nothing is lost: once nobody asks any more, every question has its answer.
//!
//! | module | what is attacked with |
//! |---|---|
//! | [`bytes`] | a neighbor's state, on which the service's own types panic, loop or abort when they read it |
//! | [`numbers`] | numbers and incarnations that cannot be true: in stamps, between agents, on a disk |
//! | [`clocks`] | clocks days apart, set back and forward in mid-run |
//! | [`bounds`] | connections to the nodes' own ports that are too many, silent or slow |
//! | [`flood`] | frames, connections and handshakes without end |
//! | [`bounds_admin`] | connections to the interface of operators |
//! | [`judgements`] | a neighbor's state, on which properties and handlers do |
//! | [`switch`] | a broken configuration, a lost key, a stopped agent, while somebody throws the switch |
//!
//! # How a case is added
//!
//! ```text
//! #[test]
//! fn a_neighbor_that_cannot_be_read_is_left_out() {
//!     let cluster = Plan::new().set("safety.isolate", "\"clone\"").start();   // two that are measured, and an attacker
//!     let meter = Meter::start(&cluster);                                     // load, and the pace before
//!     cluster.attacker().call(&json!({ "Cast": "ReadPanics" }));              // the attack
//!     until("it is told", || (cluster.failed_open(1, "surroundings-unreadable") > 0).then_some(()));
//!     meter.assert_withstood();                                               // the pace since, exits, losses
//! }
//! ```
//!
//! An attack that must go on while it is measured runs in a thread of the case, or is repeated between
//! `Meter::watch` and `assert_withstood`. No more than two cases run at a time, whatever the number of threads of
//! the test. With `SCRY_ATTACK_SECONDS` each case measures for so long through its attack; without it, for about two seconds.
//!
//! A busy machine slows everything down. So what is compared is never a pace by itself, but its ratio to that of a second
//! cluster of the same processes, which nobody attacks and which is asked in the same way at the same time; and what seems too slow is
//! measured again a few times, each time for longer, while the attack goes on. What depends on no pace is strict: no process
//! ends, every call is answered, nothing is lost.

mod bounds;
mod bounds_admin;
mod bytes;
mod clocks;
mod flood;
mod judgements;
mod numbers;
mod switch;
