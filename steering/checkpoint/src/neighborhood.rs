//! Whose checkpoints a node wants: as the service says, as a file says, or as its traffic shows (A-27…A-30).

use std::collections::{BTreeMap, BTreeSet};

use scry_protocol::limit::MEMBERS_MAX;
use scry_protocol::link::host::Contact;
use scry_protocol::{NodeId, Transport};

use crate::Time;

/// The most neighbors there can be: a snapshot's members without the node itself.
pub const NEIGHBORS_MAX: usize = MEMBERS_MAX - 1;
/// The most neighbors if nobody says otherwise. What a search costs grows with every one of them.
pub const NEIGHBORS_DEFAULT: usize = 127;

/// Endpoints that are remembered; the one of longest silence goes first.
const ENDPOINTS_MAX: usize = 1024;

/// Where the neighborhood comes from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Source {
    /// The service is asked.
    Service,
    /// It is written down.
    File(Vec<NodeId>),
    /// It is read off the node's traffic.
    Observed(Clustering),
}

/// How observed endpoints become a neighborhood.
///
/// Last contacts are sorted by time and cut wherever nothing happened for a while. The most recent cluster that is large
/// enough is the neighborhood; if none is, everything recent is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Clustering {
    /// A silence of more than this separates clusters.
    pub gap_ms: u64,
    /// A cluster of fewer nodes is too small.
    pub size_min: usize,
    /// Older contacts do not count.
    pub age_max_ms: u64,
}

impl Default for Clustering {
    fn default() -> Self {
        Self {
            gap_ms: 5_000,
            size_min: 2,
            age_max_ms: 60_000,
        }
    }
}

/// Keeps the neighborhood of one node.
#[derive(Debug)]
pub struct Neighborhood {
    me: NodeId,
    source: Source,
    neighbors_max: usize,
    /// In the service's order.
    from_service: Vec<NodeId>,
    contacts: BTreeMap<(NodeId, Transport, u32), Time>,
}

impl Neighborhood {
    /// Begins with what the file says, or nothing. It will have at most so many neighbors, and never more than
    /// [`NEIGHBORS_MAX`].
    pub fn new(me: NodeId, source: Source, neighbors_max: usize) -> Self {
        Self {
            me,
            source,
            neighbors_max: neighbors_max.min(NEIGHBORS_MAX),
            from_service: Vec::new(),
            contacts: BTreeMap::new(),
        }
    }

    /// Tells whether the service has to be asked.
    pub fn asks_service(&self) -> bool {
        self.source == Source::Service
    }

    /// Takes in what the service says. `None` leaves things as they are.
    pub fn handle_service(&mut self, neighbors: Option<&[NodeId]>) {
        if let Some(neighbors) = neighbors {
            self.from_service = neighbors.to_vec();
        }
    }

    /// Takes in contacts of the node.
    pub fn handle_contacts(&mut self, now: Time, contacts: &[Contact]) {
        if !matches!(self.source, Source::Observed(_)) {
            return;
        }
        for contact in contacts {
            let endpoint = (contact.peer, contact.transport, contact.port);
            if contact.closed {
                self.contacts.remove(&endpoint);
                continue;
            }
            let at = Time::from_millis(now.as_millis().saturating_sub(contact.ago_ms));
            let last = self.contacts.entry(endpoint).or_insert(at);
            *last = at.max(*last);
        }
        while self.contacts.len() > ENDPOINTS_MAX {
            let oldest = self
                .contacts
                .iter()
                .min_by_key(|(_, at)| **at)
                .map(|(endpoint, _)| *endpoint)
                .expect("there are too many");
            self.contacts.remove(&oldest);
        }
    }

    /// Returns the neighbors, without the node itself.
    pub fn current(&self, now: Time) -> BTreeSet<NodeId> {
        self.split(now).0
    }

    /// Returns how many neighbors there are no room for.
    pub fn left_out_count(&self, now: Time) -> usize {
        self.split(now).1
    }

    /// Returns the neighbors that count, and how many more there are: of too many the first, as the service or the file lists
    /// them, or those that were seen last.
    fn split(&self, now: Time) -> (BTreeSet<NodeId>, usize) {
        let nodes = match &self.source {
            Source::Service => self.from_service.clone(),
            Source::File(nodes) => nodes.clone(),
            Source::Observed(clustering) => self.cluster(now, clustering),
        };
        let mut kept = BTreeSet::new();
        let mut left_out = BTreeSet::new();
        for node in nodes.into_iter().filter(|&node| node != self.me) {
            if kept.len() < self.neighbors_max {
                kept.insert(node);
            } else if !kept.contains(&node) {
                left_out.insert(node);
            }
        }
        (kept, left_out.len())
    }

    fn cluster(&self, now: Time, clustering: &Clustering) -> Vec<NodeId> {
        // Several endpoints of one node are one neighbor, last seen when the latest of them was.
        let mut last: BTreeMap<NodeId, Time> = BTreeMap::new();
        for (&(node, ..), &at) in &self.contacts {
            let seen = last.entry(node).or_insert(at);
            *seen = at.max(*seen);
        }
        let mut by_time: Vec<(Time, NodeId)> = last
            .into_iter()
            .filter(|&(node, at)| node != self.me && now.millis_since(at) <= clustering.age_max_ms)
            .map(|(node, at)| (at, node))
            .collect();
        by_time.sort_unstable_by(|a, b| b.cmp(a));
        let cluster = by_time
            .chunk_by(|later, earlier| later.0.millis_since(earlier.0) <= clustering.gap_ms)
            .find(|cluster| cluster.len() >= clustering.size_min)
            .unwrap_or(&by_time);
        cluster.iter().map(|&(_, node)| node).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: NodeId = NodeId::new(0);

    fn nodes(ids: &[u32]) -> BTreeSet<NodeId> {
        ids.iter().map(|&id| NodeId::new(id)).collect()
    }

    fn seen(neighborhood: &mut Neighborhood, at: u64, peer: u32, port: u32) {
        neighborhood.handle_contacts(
            Time::from_millis(at),
            &[Contact {
                peer: NodeId::new(peer),
                transport: Transport::Datagram,
                port,
                ago_ms: 0,
                closed: false,
            }],
        );
    }

    fn neighborhood(source: Source) -> Neighborhood {
        Neighborhood::new(ME, source, NEIGHBORS_DEFAULT)
    }

    #[test]
    fn of_too_many_neighbors_the_first_count_and_the_others_are_counted() {
        let listed: Vec<NodeId> = [9, 9, 0, 7, 8, 1, 9, 1, 2].map(NodeId::new).into();
        let mut small = Neighborhood::new(ME, Source::Service, 3);
        small.handle_service(Some(&listed));
        assert_eq!(small.current(Time::default()), nodes(&[9, 7, 8]));
        assert_eq!(small.left_out_count(Time::default()), 2);
        let written = Neighborhood::new(ME, Source::File(listed), 3);
        assert_eq!(written.current(Time::default()), nodes(&[9, 7, 8]));
        // Those that were seen last.
        let mut observed = Neighborhood::new(ME, Source::Observed(Clustering::default()), 3);
        for (at, peer) in [(1_000, 1), (2_000, 2), (3_000, 3), (4_000, 4)] {
            seen(&mut observed, at, peer, 1);
        }
        let now = Time::from_millis(5_000);
        assert_eq!(observed.current(now), nodes(&[2, 3, 4]));
        assert_eq!(observed.left_out_count(now), 1);
        // Whatever a file allows, a snapshot has room for so many.
        let all: Vec<NodeId> = (1..=2 * NEIGHBORS_MAX as u32).map(NodeId::new).collect();
        let large = Neighborhood::new(ME, Source::File(all), usize::MAX);
        assert_eq!(large.current(now).len(), NEIGHBORS_MAX);
        assert_eq!(large.left_out_count(now), NEIGHBORS_MAX);
    }

    #[test]
    fn a_28_the_neighborhood_follows_the_service() {
        let mut neighborhood = neighborhood(Source::Service);
        neighborhood.handle_service(Some(&[NodeId::new(1), NodeId::new(2), ME]));
        assert_eq!(neighborhood.current(Time::default()), nodes(&[1, 2]));
        neighborhood.handle_service(Some(&[NodeId::new(3)]));
        neighborhood.handle_service(None);
        assert_eq!(neighborhood.current(Time::default()), nodes(&[3]));
    }

    #[test]
    fn a_29_only_the_recent_burst_counts_and_two_ports_of_a_node_once() {
        let mut neighborhood = neighborhood(Source::Observed(Clustering::default()));
        for (at, peer) in [(1_000, 1), (1_200, 2), (1_400, 3)] {
            seen(&mut neighborhood, at, peer, 1);
        }
        // Two ports of one node must not make a cluster of the required two.
        seen(&mut neighborhood, 40_000, 9, 1);
        seen(&mut neighborhood, 40_001, 9, 2);
        for (at, peer) in [(20_000, 4), (20_300, 5)] {
            seen(&mut neighborhood, at, peer, 1);
        }
        assert_eq!(
            neighborhood.current(Time::from_millis(41_000)),
            nodes(&[4, 5])
        );
        seen(&mut neighborhood, 41_500, 1, 7);
        assert_eq!(
            neighborhood.current(Time::from_millis(42_000)),
            nodes(&[1, 9])
        );
    }

    #[test]
    fn without_a_large_cluster_everything_recent_counts_and_closed_connections_do_not() {
        let mut neighborhood = neighborhood(Source::Observed(Clustering::default()));
        for (at, peer) in [(1_000, 1), (20_000, 2), (40_000, 3)] {
            seen(&mut neighborhood, at, peer, 1);
        }
        assert_eq!(
            neighborhood.current(Time::from_millis(45_000)),
            nodes(&[1, 2, 3])
        );
        assert_eq!(
            neighborhood.current(Time::from_millis(65_000)),
            nodes(&[2, 3])
        );
        neighborhood.handle_contacts(
            Time::from_millis(65_000),
            &[Contact {
                peer: NodeId::new(3),
                transport: Transport::Datagram,
                port: 1,
                ago_ms: 0,
                closed: true,
            }],
        );
        assert_eq!(neighborhood.current(Time::from_millis(65_000)), nodes(&[2]));
    }

    /// Every node speaks to its true neighbors about once a second and to a stranger now and then; its neighborhood
    /// changes every two minutes. Returns precision and recall in thousandths.
    fn against_the_truth(clustering: Clustering) -> (u64, u64) {
        let mut neighborhood = neighborhood(Source::Observed(clustering));
        let mut seed = 11u64;
        let mut draw = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let (mut right, mut wrong, mut missed) = (0, 0, 0);
        for second in 0..1_200u64 {
            let base = 10 * (second / 120) as u32;
            let truth = nodes(&[base + 1, base + 2, base + 3, base + 4]);
            for peer in &truth {
                if draw(10) < 8 {
                    seen(&mut neighborhood, second * 1000 + draw(1000), peer.get(), 1);
                }
            }
            if draw(20) == 0 {
                let stranger = 1000 + draw(50) as u32;
                seen(&mut neighborhood, second * 1000 + draw(1000), stranger, 1);
            }
            if second % 10 == 9 {
                let found = neighborhood.current(Time::from_millis(second * 1000 + 1000));
                right += found.intersection(&truth).count() as u64;
                wrong += found.difference(&truth).count() as u64;
                missed += truth.difference(&found).count() as u64;
            }
        }
        (
            right * 1000 / (right + wrong),
            right * 1000 / (right + missed),
        )
    }

    #[test]
    fn a_30_clustering_finds_the_true_neighborhood_over_a_range_of_settings() {
        for gap_ms in [1_000, 2_000, 5_000] {
            for age_max_ms in [10_000, 60_000] {
                let (precision, recall) = against_the_truth(Clustering {
                    gap_ms,
                    size_min: 3,
                    age_max_ms,
                });
                assert!(
                    precision > 850,
                    "gap {gap_ms}, age {age_max_ms}: precision {precision}"
                );
                assert!(
                    recall > 900,
                    "gap {gap_ms}, age {age_max_ms}: recall {recall}"
                );
            }
        }
        // A gap longer than the time between strangers chains them all together: recall stays, precision goes.
        let (precision, recall) = against_the_truth(Clustering {
            gap_ms: 30_000,
            size_min: 3,
            age_max_ms: 600_000,
        });
        assert!(precision < 700 && recall > 950, "{precision}, {recall}");
    }
}
