//! What is done to a cluster when: drawn from a seed before anything runs, so that two runs meet the same.

use std::ops::Range;
use std::time::Duration;

use scry::NodeId;

use super::contestant::{Contestant, some};
use crate::draw::Draw;

/// Requests and resets come after this share of the time, or so many seconds: agents have then seen the service at rest.
const QUIET: (f64, f64) = (1.0 / 3.0, 20.0);
/// A node is late by this share of the time, or so many seconds, after the first requests.
const LATE_BY: (f64, f64) = (1.0 / 30.0, 2.0);
/// No node is reset so shortly before the end.
const RESETS_UNTIL: f64 = 1.5;
/// How long a node is cut off.
const CUT_FOR: f64 = 2.0;
/// How long after that it asks for what it has missed: not at once, as an application that reads what it needs.
const CATCH_UP_AFTER: f64 = 12.0;
/// How long after its start a node is asked for something.
const GREETING_AFTER: f64 = 0.3;
/// How long after each other the nodes of a fresh cluster are greeted.
const GREETING_EVERY: f64 = 0.15;

/// Something to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Deed<C> {
    /// The application asks for something.
    Call(NodeId, C),
    /// A node loses what is not on its disk.
    Reset {
        /// Which.
        node: NodeId,
        /// Whether its peers see their connections break at once.
        notice: bool,
    },
    /// Nothing passes between a node and the others.
    Cut(NodeId),
    /// Everything passes again.
    Heal(NodeId),
    /// A node that is late starts.
    Start(NodeId),
}

/// A deed and its time since the start.
pub(crate) type Act<C> = (Duration, Deed<C>);

/// Draws everything that is done within a time. In `calm` runs the late node starts before there is any load.
pub(crate) fn script<S: Contestant>(time: Duration, seed: u64, calm: bool) -> Vec<Act<S::Call>> {
    let mut draw = Draw::new(seed);
    let end = time.as_secs_f64();
    let part = |(share, most): (f64, f64)| (end * share).min(most);
    let load_from = part(QUIET);
    let late = NodeId::new(S::LATE);
    let late_at = match calm {
        true => load_from / 4.0,
        false => load_from + part(LATE_BY),
    };
    let mut acts = vec![(late_at, Deed::Start(late))];
    greet::<S>(&mut acts, late_at + GREETING_AFTER, late);
    let early = (1..=S::NODES).map(NodeId::new).filter(|&node| node != late);
    for (turn, node) in early.enumerate() {
        greet::<S>(&mut acts, turn as f64 * GREETING_EVERY, node);
    }
    let requested = requests(&mut draw, S::CALLS_PER_SECOND, load_from..end);
    for (number, &at) in (1..).zip(&requested) {
        let calls = S::requests(number, &mut draw).into_iter();
        // Nobody asks a node that does not run yet.
        let calls = calls.filter(|(node, _)| *node != late || at > late_at);
        acts.extend(calls.map(|(node, call)| (at, Deed::Call(node, call))));
    }
    let span = load_from..end - RESETS_UNTIL;
    for at in faults(&mut draw, S::RESETS_PER_MINUTE, span) {
        let first = some(&mut draw, 1, S::NODES);
        let second = NodeId::new(first.get() % S::NODES + 1);
        let notice = draw.unit() < 0.5;
        let back_at = at + draw.between(0.2, S::AWAY_MAX);
        for node in [first, second]
            .into_iter()
            .take(1 + usize::from(S::RESETS_PAIRS))
        {
            if node != late || at > late_at {
                acts.push((at, Deed::Reset { node, notice }));
                greet::<S>(&mut acts, back_at, node);
            }
        }
    }
    let span = load_from..end - CUT_FOR - RESETS_UNTIL;
    let mut healed_at = 0.0;
    for at in faults(&mut draw, S::CUTS_PER_MINUTE, span) {
        let node = some(&mut draw, S::CUT_NODES.0, S::CUT_NODES.1);
        // One at a time.
        if at > healed_at && (node != late || at > late_at) {
            healed_at = at + CUT_FOR;
            acts.push((at, Deed::Cut(node)));
            acts.push((healed_at, Deed::Heal(node)));
            let back_at = healed_at + CATCH_UP_AFTER;
            if back_at < end - RESETS_UNTIL {
                let missed = number_at(&requested, at)..number_at(&requested, healed_at);
                let calls = S::catch_up(node, missed).into_iter();
                acts.extend(calls.map(|call| (back_at, Deed::Call(node, call))));
            }
        }
    }
    acts.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let timed = |(at, deed): (f64, _)| (Duration::from_secs_f64(at.max(0.0)), deed);
    acts.into_iter().map(timed).collect()
}

/// Draws when requests come, `rate` times a second on average: often close together, as people do.
fn requests(draw: &mut Draw, rate: f64, span: Range<f64>) -> Vec<f64> {
    moments(rate, span, || draw.wait(rate))
}

/// Returns the number of the first request from a time on.
fn number_at(requested: &[f64], time: f64) -> u32 {
    let before = requested.partition_point(|&at| at < time);
    u32::try_from(before).unwrap_or(u32::MAX).saturating_add(1)
}

/// Draws when faults come, `rate` times a minute on average: at no regular times, but not all in one minute either.
fn faults(draw: &mut Draw, rate: f64, span: Range<f64>) -> Vec<f64> {
    moments(rate, span, || draw.between(0.5, 1.5) * 60.0 / rate)
}

fn moments(rate: f64, span: Range<f64>, mut wait: impl FnMut() -> f64) -> Vec<f64> {
    let mut moments = Vec::new();
    if rate > 0.0 {
        let mut at = span.start + wait();
        while at < span.end {
            moments.push(at);
            at += wait();
        }
    }
    moments
}

/// Adds what is asked of a node after its start, if anything is.
fn greet<S: Contestant>(acts: &mut Vec<(f64, Deed<S::Call>)>, at: f64, node: NodeId) {
    let greeting = S::greeting().map(|call| (at, Deed::Call(node, call)));
    acts.extend(greeting);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use correct::{Chain, Failover, Gossip};
    use paxos::Paxos;
    use randtree::RandTree;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_seed_decides_everything() {
        assert_eq!(
            script::<Chain>(MINUTE, 1, false),
            script::<Chain>(MINUTE, 1, false)
        );
        assert_ne!(
            script::<Chain>(MINUTE, 1, false),
            script::<Chain>(MINUTE, 2, false)
        );
    }

    #[test]
    fn a_minute_has_its_load_its_resets_and_a_late_start() {
        let acts = script::<Gossip>(MINUTE, 1, false);
        assert!(acts.is_sorted_by_key(|(at, _)| *at));
        let count = |is_it: fn(&Deed<_>) -> bool| acts.iter().filter(|(_, it)| is_it(it)).count();
        let calls = count(|it| matches!(it, Deed::Call(..)));
        assert!((120..210).contains(&calls), "{calls}");
        let resets = count(|it| matches!(it, Deed::Reset { .. }));
        assert!((5..=16).contains(&resets), "{resets}");
        assert_eq!(count(|it| matches!(it, Deed::Start(_))), 1);
    }

    #[test]
    fn who_is_cut_off_comes_back_before_another_is() {
        let acts = script::<Failover>(MINUTE, 1, true);
        let mut cut = None;
        let mut cuts = 0;
        for (_, deed) in acts {
            match deed {
                Deed::Cut(node) => {
                    assert_eq!(cut.replace(node), None);
                    cuts += 1;
                }
                Deed::Heal(node) => assert_eq!(cut.take(), Some(node)),
                _ => {}
            }
        }
        assert!(cut.is_none() && (1..12).contains(&cuts), "{cuts}");
    }

    #[test]
    fn who_was_cut_off_asks_for_all_that_came_meanwhile() {
        let acts = script::<Paxos>(MINUTE, 1, true);
        let proposals = || {
            acts.iter().filter_map(|(at, deed)| match deed {
                Deed::Call(node, paxos::Call::Propose { index, .. }) => Some((*at, *node, *index)),
                _ => None,
            })
        };
        let mut wanted_at: BTreeMap<u32, Duration> = BTreeMap::new();
        for (at, _, index) in proposals() {
            wanted_at.entry(index).or_insert(at);
        }
        let mut cut_at = BTreeMap::new();
        let mut caught_up = 0;
        for (at, deed) in &acts {
            match deed {
                Deed::Cut(node) => drop(cut_at.insert(*node, *at)),
                Deed::Heal(node) => {
                    let while_away = |time: &Duration| (cut_at[node]..*at).contains(time);
                    let back_at = *at + Duration::from_secs_f64(CATCH_UP_AFTER);
                    if back_at + Duration::from_secs_f64(RESETS_UNTIL) > MINUTE {
                        continue;
                    }
                    for (index, _) in wanted_at.iter().filter(|(_, time)| while_away(time)) {
                        let asks = |(time, who, which): (Duration, NodeId, u32)| {
                            (who, which) == (*node, *index) && time.abs_diff(back_at) < TICK
                        };
                        assert!(proposals().any(asks), "{node} asks for {index}");
                        caught_up += 1;
                    }
                }
                _ => {}
            }
        }
        assert!(caught_up > 3, "{caught_up}");
    }

    /// Times are rounded when they are put in order.
    const TICK: Duration = Duration::from_micros(1);

    #[test]
    fn nobody_asks_a_node_that_does_not_run() {
        for seed in 0..20 {
            let acts = script::<RandTree>(MINUTE, seed, seed % 2 == 0);
            let late = NodeId::new(RandTree::LATE);
            let first = acts.iter().find(|(_, deed)| match deed {
                Deed::Call(node, _)
                | Deed::Reset { node, .. }
                | Deed::Cut(node)
                | Deed::Heal(node)
                | Deed::Start(node) => *node == late,
            });
            assert!(matches!(first, Some((_, Deed::Start(_)))));
        }
    }
}
