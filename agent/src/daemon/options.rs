//! From the configuration to the options of the checkpoint manager and the controller.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::controller;
use scry::checkpoint::gather;
use scry::checkpoint::manager::Options;
use scry::checkpoint::neighborhood::{Clustering, Source};
use scry::checkpoint::quota::{Absolute, Limits, Share};
use scry_protocol::NodeId;
use scry_protocol::filter::Mode;
use scry_protocol::link::checker::{Budget, Clock, Faults};

use super::switches;
use crate::configuration::{self, Configuration, Loaded, Time};
use crate::link::peers::{PeerOptions, Rates};
use crate::link::{checker, peers};

/// How the checkpoint manager behaves. `first_request` differs at each start.
pub(super) fn manager(configuration: &Configuration, first_request: u16) -> Options {
    let checkpoint = &configuration.checkpoint;
    let neighborhood = &configuration.neighborhood;
    Options {
        period_ms: (checkpoint.period_ms > 0).then_some(checkpoint.period_ms),
        periods_gather: checkpoint.gather,
        gather: gather::Options {
            rounds_max: checkpoint.rounds_max,
            round_ms: checkpoint.round_ms,
        },
        restarts_max: checkpoint.restarts_max,
        gathers_max: checkpoint.gathers_max,
        host_wait_ms: checkpoint.host_wait_ms,
        waiting_max: checkpoint.waiting_max,
        store_quota_bytes: checkpoint.store_bytes,
        limits: Limits {
            absolute: (checkpoint.bits_per_second > 0).then_some(Absolute {
                bits_per_second: checkpoint.bits_per_second,
                burst_bytes: checkpoint.burst_bytes,
            }),
            share: (checkpoint.share_per_mille > 0).then_some(Share {
                per_mille: checkpoint.share_per_mille,
                window_ms: checkpoint.share_window_ms,
            }),
        },
        frame_overhead_bytes: peers::FRAME_OVERHEAD_BYTES,
        neighborhood: match neighborhood.source {
            configuration::Source::Service => Source::Service,
            configuration::Source::List => Source::File(neighborhood.members.clone()),
            configuration::Source::Observed => Source::Observed(Clustering {
                gap_ms: neighborhood.gap_ms,
                size_min: neighborhood.size_min,
                age_max_ms: neighborhood.age_max_ms,
            }),
        },
        neighbors_max: neighborhood.neighbors_max,
        exchange_bytes: checkpoint.peers_bytes,
        first_request,
    }
}

/// How much other agents may ask.
pub(super) fn peers(configuration: &Configuration) -> PeerOptions {
    let peers = &configuration.peers;
    PeerOptions {
        rates: Rates {
            frames_per_second: peers.frames_per_second,
            bytes_per_second: peers.bytes_per_second,
            work_per_mille: peers.work_per_mille,
        },
        handshakes_per_second: peers.handshakes_per_second,
    }
}

/// How the checker is started.
pub(super) fn checker(configuration: &Configuration) -> checker::Settings {
    let checker = &configuration.checker;
    checker::Settings {
        command: checker.command.clone(),
        priority: match checker.idle {
            true => checker::Priority::Idle,
            false => checker::Priority::Nice(checker.nice),
        },
        threads: checker.threads,
        memory_bytes: checker.memory_bytes,
    }
}

/// How the controller behaves.
pub(super) fn controller(loaded: &Loaded, file: &Path) -> controller::Options {
    let Configuration {
        checkpoint,
        checker,
        clock,
        properties,
        steering,
        safety,
        ..
    } = &loaded.configuration;
    controller::Options {
        mode: steering.mode.into(),
        property_modes: modes(&properties.modes),
        properties: loaded.properties.text.clone(),
        file_modes: modes(&loaded.properties.modes),
        file_names: loaded.properties.names.clone(),
        switches: switches::files(&loaded.configuration, file)
            .iter()
            // What no text can name, nobody can tell; the agent itself looks for it all the same.
            .filter_map(|path| path.to_str().map(str::to_owned))
            .collect(),
        everyone: everyone(loaded),
        harm: controller::harm::HarmLimits {
            share_percent_max: steering.harm_max,
            pause_ms: steering.harm_pause_ms,
        },
        checks: checkpoint.gather,
        faults: faults(&loaded.configuration),
        clock: Clock {
            free: clock.time == Time::Free,
            late_ms: clock.late_ms,
            skew_ms: clock.skew_ms,
            drift_ppm: clock.drift_ppm,
        },
        budget: budget(&loaded.configuration),
        order: steering.order.into(),
        strategy: checker
            .strategy
            .parse()
            .expect("the configuration was checked"),
        liveness: checker.liveness.into(),
        // It waits this long twice: before it cancels, and before it kills.
        grace_ms: checker.grace_ms / 2,
        filter_ttl_ms: steering.ttl_ms,
        filter_hits_max: steering.hits_max,
        tell_service: steering.tell_service,
        isolate: safety.isolate.into(),
        check_deadline_ms: safety.deadline_ms,
        surroundings_age_ms_max: safety.surroundings_age_ms,
        hold_ms_max: safety.hold_ms,
        time_share_per_mille: safety.time_share_per_mille,
        ..controller::Options::default()
    }
}

fn modes(modes: &BTreeMap<String, configuration::Mode>) -> BTreeMap<String, Mode> {
    let modes = modes.iter();
    modes
        .map(|(name, mode)| (name.clone(), (*mode).into()))
        .collect()
}

/// Lists every node there is, if that is known.
fn everyone(loaded: &Loaded) -> Option<BTreeSet<NodeId>> {
    let peers = &loaded.configuration.peers;
    let known = peers.known.iter().map(|peer| peer.id);
    // Without peers there is nobody but this node; with peers of whom none is named, nobody knows who there is.
    (!peers.known.is_empty() || peers.listen.is_empty())
        .then(|| known.chain([loaded.node]).collect())
}

fn faults(configuration: &Configuration) -> Faults {
    let faults = &configuration.checker.faults;
    Faults {
        resets: faults.resets,
        silent_resets: faults.silent_resets,
        breaks: faults.breaks,
        losses: faults.losses,
        duplicates: faults.duplicates,
        late_starts: faults.late_starts,
    }
}

fn budget(configuration: &Configuration) -> Budget {
    let checker = &configuration.checker;
    Budget {
        time_ms: checker.time_ms,
        states_max: checker.states,
        depth_max: checker.depth,
        memory_bytes_max: checker.memory_bytes,
        violations_max: checker.violations,
    }
}
