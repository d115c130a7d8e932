//! Counts what a cluster answers, before an attack and through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Cluster, Node, until};

/// Each node is called once in so long: little enough that a machine with other work on it keeps up.
const PACE: Duration = Duration::from_millis(10);
/// How long the pace before an attack is measured, and without [`SECONDS`] the pace through it.
const BLOCK: Duration = Duration::from_secs(2);
/// Says how many seconds each attack is measured.
const SECONDS: &str = "SCRY_ATTACK_SECONDS";
/// Per cent of the pace before that must be left through an attack.
const LEFT_MIN: u64 = 90;
/// How often a pace that seems too slow is measured again: an attack that slows the service down does so each time.
const TRIES: usize = 12;

/// Has every node called, and counts what is answered.
#[derive(Debug)]
pub struct Meter<'a> {
    cluster: &'a Cluster,
    load: Load,
    before: Block,
}

/// What was answered in a stretch of time.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// By the nodes that are measured.
    measured: u64,
    /// By the nodes that nobody attacks.
    reference: u64,
}

impl Block {
    /// Returns how much is left of the pace before, in per cent, if the machine is allowed for.
    fn left(self, before: Self) -> u64 {
        let now = u128::from(self.measured) * u128::from(before.reference);
        let then = u128::from(before.measured) * u128::from(self.reference);
        u64::try_from(now * 100 / then.max(1)).unwrap_or(u64::MAX)
    }
}

impl<'a> Meter<'a> {
    /// Begins to call, waits until everybody answers, and measures the pace before the attack.
    pub fn start(cluster: &'a Cluster) -> Self {
        let load = Load::start(cluster);
        for node in cluster.nodes.iter().chain(&cluster.reference) {
            until("answers", || (answered(node) >= 10).then_some(()));
        }
        let mut meter = Self {
            cluster,
            load,
            before: Block {
                measured: 0,
                reference: 0,
            },
        };
        meter.before = meter.measure(BLOCK);
        meter
    }

    /// Lets so much time go by as the pace is measured in, for an attack that must have gone on for a while.
    pub fn watch(&self) -> u64 {
        self.measure(BLOCK).left(self.before)
    }

    /// Returns how many calls were refused so far, by filters or the immediate check.
    pub fn refused(&self) -> u64 {
        self.load.refused.load(Ordering::Relaxed)
    }

    /// Measures the pace through the attack, ends the load and waits for all answers.
    ///
    /// # Panics
    ///
    /// If the service is slower than it may be, a process has ended, or an answer never comes.
    pub fn assert_withstood(self) {
        let mut tries = Vec::new();
        loop {
            let left = self.measure(through()).left(self.before);
            self.cluster.assert_alive();
            tries.push(left);
            if left >= LEFT_MIN {
                break;
            }
            assert!(
                tries.len() < TRIES,
                "of every hundred calls answered before, so many are answered through the attack: {tries:?}"
            );
        }
        eprintln!("per cent of the pace before: {tries:?}");
        self.load.stop();
        for node in self.cluster.measured() {
            node.wait_until_all_is_answered();
        }
        self.cluster.assert_alive();
    }

    fn measure(&self, length: Duration) -> Block {
        let count = || {
            let sum = |nodes: &[Arc<Node>]| nodes.iter().map(|node| answered(node)).sum::<u64>();
            (sum(self.cluster.measured()), sum(&self.cluster.reference))
        };
        let (measured, reference) = count();
        // The reference is measured in the same time, so how long it really was does not matter.
        let end = Instant::now() + length;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            thread::sleep(left);
        }
        let (measured_now, reference_now) = count();
        Block {
            measured: measured_now - measured,
            reference: reference_now - reference,
        }
    }
}

fn through() -> Duration {
    let seconds = std::env::var(SECONDS).ok().and_then(|it| it.parse().ok());
    seconds.map_or(BLOCK, Duration::from_secs)
}

fn answered(node: &Node) -> u64 {
    node.state()["answered"].as_u64().unwrap()
}

/// Threads that call nodes until they are told to stop.
#[derive(Debug)]
struct Load {
    stop: Arc<AtomicBool>,
    refused: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(cluster: &Cluster) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            refused: Arc::default(),
            threads: Vec::new(),
        };
        for node in cluster.nodes.iter().chain(&cluster.reference) {
            let node = Arc::clone(node);
            let (stop, refused) = (Arc::clone(&load.stop), Arc::clone(&load.refused));
            let thread = thread::spawn(move || drive(&node, &stop, &refused));
            load.threads.push(thread);
        }
        load
    }

    fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // One that panicked has told why already.
            let _ = thread.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

/// Calls a node at a steady pace. A node that does not answer is waited for.
fn drive(node: &Node, stop: &AtomicBool, refused: &AtomicU64) {
    let stopped = || stop.load(Ordering::Relaxed);
    while !stopped() {
        let answer = node.tell(&json!({ "call": "Ask" }));
        loop {
            match answer.recv_timeout(PACE) {
                Ok(Ok(_)) => break,
                Ok(Err(_)) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                Err(RecvTimeoutError::Timeout) if !stopped() => {}
                // It has ended, which the case finds out.
                Err(_) => return,
            }
        }
        thread::sleep(PACE);
    }
}
