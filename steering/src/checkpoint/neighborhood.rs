//! Whose checkpoints a node wants: as the service says, as a file says, or as its traffic shows (A-27…A-30).

use std::collections::{BTreeMap, BTreeSet};

use scry_protocol::limit::MEMBERS_MAX;
use scry_protocol::link::host::Contact;
use scry_protocol::{NodeId, Transport};

use crate::checkpoint::Time;

/// The most neighbors there can be: a snapshot's members without the node itself.
pub const NEIGHBORS_MAX: usize = MEMBERS_MAX - 1;
/// How many are looked at unless told otherwise: every one costs a request and a state in each snapshot.
pub const NEIGHBORS: usize = 127;

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
    max: usize,
    from_service: BTreeSet<NodeId>,
    contacts: BTreeMap<(NodeId, Transport, u32), Time>,
}

impl Neighborhood {
    /// Begins with what the file says, or nothing.
    pub fn new(me: NodeId, source: Source) -> Self {
        Self {
            me,
            source,
            max: NEIGHBORS,
            from_service: BTreeSet::new(),
            contacts: BTreeMap::new(),
        }
    }

    /// Looks at so many neighbors at most, those with the lowest ids.
    #[must_use]
    pub fn up_to(self, max: usize) -> Self {
        let max = max.min(NEIGHBORS_MAX);
        Self { max, ..self }
    }

    /// Tells whether the service has to be asked.
    pub fn asks_service(&self) -> bool {
        self.source == Source::Service
    }

    /// Takes in what the service says. `None` leaves things as they are.
    pub fn handle_service(&mut self, neighbors: Option<&[NodeId]>) {
        if let Some(neighbors) = neighbors {
            self.from_service = neighbors.iter().copied().collect();
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
        let mut nodes = self.all(now);
        while nodes.len() > self.max {
            nodes.pop_last();
        }
        nodes
    }

    /// Returns how many neighbors there are, those too that are not looked at because there are too many.
    pub fn count(&self, now: Time) -> usize {
        self.all(now).len()
    }

    /// Returns how many neighbors are looked at, at most.
    pub fn max(&self) -> usize {
        self.max
    }

    fn all(&self, now: Time) -> BTreeSet<NodeId> {
        let mut nodes = match &self.source {
            Source::Service => self.from_service.clone(),
            Source::File(nodes) => nodes.iter().copied().collect(),
            Source::Observed(clustering) => self.cluster(now, clustering),
        };
        nodes.remove(&self.me);
        nodes
    }

    fn cluster(&self, now: Time, clustering: &Clustering) -> BTreeSet<NodeId> {
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

    #[test]
    fn a_28_the_neighborhood_follows_the_service() {
        let mut neighborhood = Neighborhood::new(ME, Source::Service);
        neighborhood.handle_service(Some(&[NodeId::new(1), NodeId::new(2), ME]));
        assert_eq!(neighborhood.current(Time::default()), nodes(&[1, 2]));
        neighborhood.handle_service(Some(&[NodeId::new(3)]));
        neighborhood.handle_service(None);
        assert_eq!(neighborhood.current(Time::default()), nodes(&[3]));
    }

    #[test]
    fn a_29_only_the_recent_burst_counts_and_two_ports_of_a_node_once() {
        let mut neighborhood = Neighborhood::new(ME, Source::Observed(Clustering::default()));
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
        let mut neighborhood = Neighborhood::new(ME, Source::Observed(Clustering::default()));
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

    #[test]
    fn of_too_many_the_lowest_are_looked_at_and_all_are_counted() {
        let many: Vec<NodeId> = (1..=300).map(NodeId::new).collect();
        let neighborhood = Neighborhood::new(ME, Source::File(many)).up_to(200);
        let current = neighborhood.current(Time::default());
        assert_eq!(current.len(), 200);
        assert_eq!(current.last(), Some(&NodeId::new(200)));
        assert_eq!(neighborhood.count(Time::default()), 300);
    }

    /// Every node speaks to its true neighbors about once a second and to a stranger now and then; its neighborhood
    /// changes every two minutes. Returns precision and recall in thousandths.
    fn against_the_truth(clustering: Clustering) -> (u64, u64) {
        let mut neighborhood = Neighborhood::new(ME, Source::Observed(clustering));
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
