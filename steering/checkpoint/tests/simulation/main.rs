//! A seeded simulation of the checkpoint cores: hosts, agents, a clock and a network that exist in memory only.
//!
//! Nodes send each other datagrams and stream messages; the network delays, loses, doubles and reorders them, breaks
//! connections, and crashes hosts and agents. Every snapshot that comes out is compared with what really happened, which
//! the [`ghost`] knows: no receipt without its send, and with channel state the exact messages in flight. A failure
//! prints the command that replays it.
//!
//! `SCRY_SEED` replays a seed; `SCRY_SIMULATION_EVENTS` sets the service events per scenario.

#![expect(
    clippy::disallowed_methods,
    reason = "how long a test goes on is asked of the environment"
)]

mod chance;
mod ghost;
mod lies;
mod world;

use scry_checkpoint::quota::{Absolute, Limits, Share};
use world::{Summary, World};

/// What the network and the machines do to the nodes. Chances are in thousandths.
#[derive(Clone, Copy, Debug)]
struct Scenario {
    name: &'static str,
    nodes: u32,
    channels: bool,
    loss: u64,
    duplication: u64,
    /// Connections that break, per service event.
    breaks: u64,
    /// Hosts that crash, per thousand service events.
    crashes: u64,
    /// Agents that crash, per thousand service events.
    agent_crashes: u64,
    /// Frames between agents that are lost, with or without the sender noticing.
    frame_loss: u64,
    /// Checkpoints a host drops rather than wait for its agent.
    stream_loss: u64,
    /// Neighborhoods that change, per thousand service events.
    changes: u64,
    store_quota_bytes: usize,
    limits: Limits,
    /// The longest a frame takes between a host and its agent, in milliseconds.
    host_link_ms: u64,
    /// The longest a crashed host is down, in milliseconds.
    down_ms: u64,
    /// Whether a crashed host forgets how far its number was.
    amnesia: bool,
    /// Frames between agents that are damaged on their way, past all that protects them. What they lead to is not judged:
    /// a state may be damaged too.
    damage: u64,
    /// Nodes a host keeps apart in its past.
    past_entries_max: usize,
    /// Events that change what properties read of their node, per thousand.
    shown_changes: u64,
    /// A fault in the host that the checks must find.
    sabotage: Option<Sabotage>,
    /// Who does not tell the truth.
    lies: Lies,
}

/// What is said that is not true.
#[derive(Clone, Copy, Debug, Default)]
struct Lies {
    /// Datagrams of strangers with absurd stamps, per thousand service events.
    strangers: u64,
    /// Datagrams with absurd stamps that claim to be a member's, per thousand service events.
    forged: u64,
    /// Whether the first node lies in its stamps and in what its agent says.
    member: bool,
    /// Restarts of nodes with a bad disk that find an absurd number there, per thousand.
    absurd_disks: u64,
    /// How many nodes have a bad disk.
    bad_disks: usize,
    /// Whether nodes keep no disk, and their clocks are days apart and set back and forward.
    clocks: bool,
}

impl Lies {
    /// Whether anybody says what is not true, rather than being wrong itself.
    fn tells(&self) -> bool {
        self.strangers + self.forged > 0 || self.member
    }

    /// Whether anything is said that is not true.
    fn any(&self) -> bool {
        self.tells() || self.absurd_disks > 0 || self.clocks
    }
}

/// A host that breaks the rules, to see that the checks would notice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sabotage {
    /// It does not look at the number of a message.
    IgnoresNumbers,
    /// It does not note one receipt in a hundred.
    ForgetsReceipts,
    /// It does not look at the past that a message carries.
    ForgetsPast,
    /// It does not say that it has changed.
    HidesChanges,
}

const CALM: Scenario = Scenario {
    name: "calm",
    nodes: 6,
    channels: true,
    loss: 0,
    duplication: 0,
    breaks: 0,
    crashes: 0,
    agent_crashes: 0,
    frame_loss: 0,
    stream_loss: 0,
    changes: 0,
    store_quota_bytes: 1 << 20,
    limits: Limits {
        absolute: None,
        share: None,
    },
    host_link_ms: 4,
    down_ms: 2_000,
    amnesia: false,
    damage: 0,
    past_entries_max: 64,
    shown_changes: 50,
    sabotage: None,
    lies: NO_LIES,
};

const NO_LIES: Lies = Lies {
    strangers: 0,
    forged: 0,
    member: false,
    absurd_disks: 0,
    bad_disks: 0,
    clocks: false,
};

const ROUGH: Scenario = Scenario {
    name: "rough",
    nodes: 7,
    loss: 50,
    duplication: 20,
    breaks: 3,
    crashes: 2,
    agent_crashes: 2,
    frame_loss: 20,
    stream_loss: 20,
    changes: 5,
    store_quota_bytes: 6_000,
    ..CALM
};

/// Service events per scenario: ten scenarios make more than a million.
const EVENTS: u64 = 115_000;

fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {text}")),
        Err(_) => default,
    }
}

fn outcome(scenario: Scenario, events: u64) -> Result<Summary, String> {
    let seed = setting("SCRY_SEED", 0x5c27);
    World::new(scenario, seed)
        .run(events)
        .map_err(|what| {
            format!(
                "{what}\nscenario `{name}`, seed {seed}; replay with:\n  SCRY_SEED={seed} SCRY_SIMULATION_EVENTS={events} \
                 cargo test -p scry-checkpoint --test simulation {name} -- --exact",
                name = scenario.name,
            )
        })
}

fn run(scenario: Scenario) -> Summary {
    let events = setting("SCRY_SIMULATION_EVENTS", EVENTS);
    let summary = outcome(scenario, events).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{}: {summary:?}", scenario.name);
    if full_length() {
        assert!(summary.snapshots > 300, "{summary:?}");
        assert!(summary.forced > 300, "{summary:?}");
    }
    summary
}

/// Whether this run is the one of every test: others may be too short, or too lucky, to see enough.
fn full_length() -> bool {
    let asked = |name| std::env::var(name).is_ok();
    !asked("SCRY_SEED") && !asked("SCRY_SIMULATION_EVENTS")
}

#[test]
fn calm() {
    let summary = run(CALM);
    assert_eq!(
        summary.complete, summary.snapshots,
        "nobody is ever missing"
    );
    if full_length() {
        assert!(summary.in_flight > 1_000, "{summary:?}");
    }
}

#[test]
fn lossy() {
    let summary = run(Scenario {
        name: "lossy",
        loss: 80,
        duplication: 30,
        ..CALM
    });
    if full_length() {
        assert!(summary.in_flight > 1_000, "{summary:?}");
    }
}

#[test]
fn crashes() {
    let summary = run(Scenario {
        name: "crashes",
        crashes: 5,
        agent_crashes: 3,
        breaks: 3,
        ..CALM
    });
    if full_length() {
        assert!(summary.crashes > 100, "{summary:?}");
        assert!(summary.in_flight > 1_000, "{summary:?}");
    }
}

#[test]
fn tiny_store() {
    let summary = run(Scenario {
        name: "tiny_store",
        store_quota_bytes: 2_500,
        stream_loss: 10,
        ..CALM
    });
    if full_length() {
        assert!(summary.later_rounds > 100, "{summary:?}");
    }
}

#[test]
fn tiny_bandwidth() {
    let summary = run(Scenario {
        name: "tiny_bandwidth",
        limits: Limits {
            absolute: Some(Absolute {
                bits_per_second: 30_000,
                burst_bytes: 2_000,
            }),
            share: Some(Share {
                per_mille: 300,
                window_ms: 2_000,
            }),
        },
        ..CALM
    });
    if full_length() {
        assert!(summary.snapshots > summary.complete + 100, "{summary:?}");
    }
}

#[test]
fn churn() {
    let summary = run(Scenario {
        name: "churn",
        changes: 40,
        breaks: 5,
        frame_loss: 30,
        ..CALM
    });
    if full_length() {
        assert!(summary.restarts > 50, "{summary:?}");
    }
}

#[test]
fn rough() {
    run(ROUGH);
}

#[test]
fn rough_without_channel_state() {
    let summary = run(Scenario {
        name: "rough_without_channel_state",
        channels: false,
        ..ROUGH
    });
    assert_eq!(summary.in_flight, 0);
}

#[test]
fn amnesia() {
    let summary = run(Scenario {
        name: "amnesia",
        amnesia: true,
        crashes: 40,
        host_link_ms: 100,
        down_ms: 40,
        ..ROUGH
    });
    if full_length() {
        assert!(summary.inconsistent > 0, "{summary:?}");
    }
}

#[test]
fn damaged_frames() {
    let summary = run(Scenario {
        name: "damaged_frames",
        damage: 100,
        ..ROUGH
    });
    if full_length() {
        assert!(summary.refused_frames > 300, "{summary:?}");
    }
}

#[test]
fn a_host_that_ignores_numbers_is_found() {
    let failure = outcome(
        Scenario {
            name: "a_host_that_ignores_numbers_is_found",
            channels: false,
            sabotage: Some(Sabotage::IgnoresNumbers),
            ..CALM
        },
        20_000,
    );
    let failure = failure.expect_err("a snapshot must show a receipt without its send");
    assert!(failure.contains("without its send"), "{failure}");
    assert!(failure.contains("SCRY_SEED="), "{failure}");
}

#[test]
fn a_host_that_forgets_receipts_is_found() {
    let failure = outcome(
        Scenario {
            name: "a_host_that_forgets_receipts_is_found",
            sabotage: Some(Sabotage::ForgetsReceipts),
            ..CALM
        },
        20_000,
    );
    let failure = failure.expect_err("a snapshot must show a message in flight that is not");
    assert!(failure.contains("in flight"), "{failure}");
}

#[test]
fn past_by_numbers_only() {
    let summary = run(Scenario {
        name: "past_by_numbers_only",
        past_entries_max: 0,
        ..ROUGH
    });
    if full_length() {
        assert!(summary.stale > summary.judged, "{summary:?}");
    }
}

#[test]
fn a_short_past() {
    run(Scenario {
        name: "a_short_past",
        past_entries_max: 2,
        ..ROUGH
    });
}

#[test]
fn a_host_that_forgets_its_past_is_found() {
    let failure = outcome(
        Scenario {
            name: "a_host_that_forgets_its_past_is_found",
            sabotage: Some(Sabotage::ForgetsPast),
            ..CALM
        },
        20_000,
    );
    let failure = failure.expect_err("a state must be judged that others have moved on from");
    assert!(failure.contains("lies in the past"), "{failure}");
}

#[test]
fn a_host_that_hides_its_changes_is_found() {
    let failure = outcome(
        Scenario {
            name: "a_host_that_hides_its_changes_is_found",
            sabotage: Some(Sabotage::HidesChanges),
            ..CALM
        },
        20_000,
    );
    let failure = failure.expect_err("a state must be judged that has changed since");
    assert!(failure.contains("lies in the past"), "{failure}");
}

/// One lie in twenty events, and honest nodes go on as if nothing was said.
#[test]
fn strangers_with_absurd_stamps() {
    let summary = run(Scenario {
        name: "strangers_with_absurd_stamps",
        lies: Lies {
            strangers: 50,
            ..NO_LIES
        },
        ..CALM
    });
    assert_eq!(summary.complete, summary.snapshots);
    assert_eq!(summary.renewals, 0);
    assert!(summary.refused_stamps > 0);
}

#[test]
fn forged_stamps_of_members() {
    let summary = run(Scenario {
        name: "forged_stamps_of_members",
        lies: Lies {
            forged: 1,
            ..NO_LIES
        },
        ..CALM
    });
    if full_length() {
        assert!(summary.refused_stamps > 3, "{summary:?}");
        assert!(summary.renewals > 0, "{summary:?}");
    }
}

#[test]
fn a_member_that_lies() {
    let summary = run(Scenario {
        name: "a_member_that_lies",
        lies: Lies {
            member: true,
            ..NO_LIES
        },
        ..CALM
    });
    if full_length() {
        assert!(summary.refused_stamps > 100, "{summary:?}");
        assert!(
            summary.incomplete * 20 < summary.snapshots,
            "honest nodes see each other: {summary:?}"
        );
    }
}

#[test]
fn disks_with_absurd_numbers() {
    let summary = run(Scenario {
        name: "disks_with_absurd_numbers",
        crashes: 5,
        lies: Lies {
            absurd_disks: 700,
            bad_disks: 1,
            ..NO_LIES
        },
        ..CALM
    });
    if full_length() {
        assert!(summary.crashes > 100, "{summary:?}");
    }
    assert_led_nobody_astray(&summary);
}

/// What is found on a bad disk is either not believed, or followed by all.
fn assert_led_nobody_astray(summary: &Summary) {
    let contradictions = (summary.inconsistent, summary.refused_stamps);
    assert_eq!(contradictions, (0, 0), "{summary:?}");
}

/// Half of the nodes: there is no majority that could say who went astray.
#[test]
fn several_bad_disks_at_once() {
    let summary = run(Scenario {
        name: "several_bad_disks_at_once",
        crashes: 5,
        lies: Lies {
            absurd_disks: 700,
            bad_disks: 3,
            ..NO_LIES
        },
        ..CALM
    });
    if full_length() {
        assert!(summary.crashes > 100, "{summary:?}");
    }
    assert_led_nobody_astray(&summary);
}

#[test]
fn clocks_days_apart_and_set_back() {
    let summary = run(Scenario {
        name: "clocks_days_apart_and_set_back",
        crashes: 3,
        lies: Lies {
            clocks: true,
            ..NO_LIES
        },
        ..CALM
    });
    if full_length() {
        assert!(summary.crashes > 100, "{summary:?}");
        assert!(summary.renewals > 20, "{summary:?}");
        assert!(
            summary.inconsistent * 100 < summary.snapshots,
            "who restarts with a clock set back is told apart at once: {summary:?}"
        );
    }
}

#[test]
fn everybody_lies_in_rough_weather() {
    run(Scenario {
        name: "everybody_lies_in_rough_weather",
        lies: Lies {
            strangers: 20,
            forged: 1,
            member: true,
            absurd_disks: 200,
            bad_disks: 1,
            clocks: false,
        },
        ..ROUGH
    });
}
