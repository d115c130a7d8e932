//! Puts values into a registry and writes it.

use std::fmt;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use scry_protocol::Times;

/// What tells values of one name apart.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Returns a value as a gauge has it.
pub(super) fn level(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Values on their way into text.
pub(super) struct Metrics {
    registry: Registry,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            registry: Registry::with_prefix("scry"),
        }
    }
}

impl Metrics {
    /// Writes one count.
    pub(super) fn count(&mut self, name: &str, help: &str, value: u64) {
        let counter: Counter = Counter::default();
        counter.inc_by(value);
        self.registry.register(name, help, counter);
    }

    /// Writes counts with labels.
    pub(super) fn counts(&mut self, name: &str, help: &str, values: Vec<(Labels, u64)>) {
        let family = Family::<Labels, Counter>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).inc_by(value);
        }
        self.registry.register(name, help, family);
    }

    /// Writes one level.
    pub(super) fn one(&mut self, name: &str, help: &str, value: i64) {
        let gauge: Gauge = Gauge::default();
        gauge.set(value);
        self.registry.register(name, help, gauge);
    }

    /// Writes levels with labels.
    pub(super) fn level(&mut self, name: &str, help: &str, values: Vec<(Labels, i64)>) {
        let family = Family::<Labels, Gauge>::default();
        for (labels, value) in values {
            family.get_or_create(&labels).set(value);
        }
        self.registry.register(name, help, family);
    }

    /// Writes a histogram; its name gets the unit.
    pub(super) fn times(&mut self, name: &str, help: &str, times: &Times) {
        let histogram = Histogram(times.clone());
        self.registry
            .register_with_unit(name, help, Unit::Seconds, histogram);
    }

    /// Returns everything as Prometheus reads it.
    pub(super) fn into_text(self) -> String {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("a string takes any text");
        text
    }
}

/// Lengths of time as a metric.
#[derive(Debug)]
struct Histogram(Times);

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        const US_PER_SECOND: f64 = 1_000_000.0;
        let buckets: Vec<(f64, u64)> = self
            .0
            .counts()
            .map(|(bound, count)| {
                (
                    bound.map_or(f64::INFINITY, |us| us as f64 / US_PER_SECOND),
                    count,
                )
            })
            .collect();
        let sum = self.0.sum_us() as f64 / US_PER_SECOND;
        encoder.encode_histogram::<NoLabelSet>(sum, self.0.count(), &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}
