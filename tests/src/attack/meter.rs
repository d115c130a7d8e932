//! Counts what a cluster answers, before an attack and through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Cluster, Node, WAIT, until};

/// Each node is called once in so long: little enough that a machine with other work on it keeps up.
const PACE: Duration = Duration::from_millis(15);
/// How long the pace before an attack is measured at least, and without [`SECONDS`] the pace through it at first.
const BLOCK: Duration = Duration::from_millis(1500);
/// Says how many seconds each attack is measured.
const SECONDS: &str = "SCRY_ATTACK_SECONDS";
/// Per cent of the pace before that must be left through an attack.
const LEFT_MIN: u64 = 90;
/// How often a pace that seems too slow is measured again, each time for twice as long: what is chance evens out, and an
/// attack that slows the service down does so each time.
const TRIES: usize = 6;
/// How many blocks are measured before an attack. The slowest of them counts: where the pace of both clusters goes up and down
/// by itself, to be as slow as it was before is no doing of the attack. On a quiet machine all of them are the same.
const BLOCKS_BEFORE: usize = 4;

/// Has every node called, and counts what is answered.
///
/// Load from outside slows everything down. So the pace is always compared with that of a second cluster that is made of the
/// same processes, called in the same way at the same time, and not attacked: what both lose is not the attack's doing. That
/// nobody ends, that every call is answered and that nothing is lost depends on no pace, and is demanded as it is.
#[derive(Debug)]
pub struct Meter<'a> {
    cluster: &'a Cluster,
    load: Load,
    before: Block,
}

/// What was answered in a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// By the nodes that are measured.
    measured: u64,
    /// By their twins that nobody attacks.
    control: u64,
}

impl Block {
    /// Returns how much is left of the pace before, in per cent, if the machine is allowed for.
    fn left(self, before: Self) -> u64 {
        let now = u128::from(self.measured) * u128::from(before.control);
        let then = u128::from(before.measured) * u128::from(self.control);
        u64::try_from(now * 100 / then.max(1)).unwrap_or(u64::MAX)
    }
}

impl<'a> Meter<'a> {
    /// Begins to call, waits until everybody answers, and measures the pace before the attack.
    pub fn start(cluster: &'a Cluster) -> Self {
        let load = Load::start(cluster);
        for node in cluster.nodes.iter().chain(&cluster.control.nodes) {
            until("answers", || (answered(node) >= 10).then_some(()));
        }
        let mut meter = Self {
            cluster,
            load,
            before: Block::default(),
        };
        meter.before = meter.measure_before();
        meter
    }

    /// Measures some blocks, and returns the one in which the nodes were slowest beside their twins.
    fn measure_before(&self) -> Block {
        let mut slowest = self.measure(BLOCK);
        for _ in 1..BLOCKS_BEFORE {
            let block = self.measure(BLOCK);
            if block.left(slowest) < 100 {
                slowest = block;
            }
        }
        slowest
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
        let mut length = through();
        loop {
            let left = self.measure(length).left(self.before);
            self.cluster.assert_alive();
            tries.push(left);
            if left >= LEFT_MIN {
                break;
            }
            assert!(
                tries.len() < TRIES,
                "of every hundred calls answered before, so many are answered through the attack: {tries:?}"
            );
            length *= 2;
        }
        eprintln!("per cent of the pace before: {tries:?}");
        let unanswered = self.load.stop();
        assert_eq!(unanswered, 0, "calls without an answer");
        for node in self.cluster.measured() {
            node.wait_until_all_is_answered();
        }
        self.cluster.assert_alive();
    }

    fn measure(&self, length: Duration) -> Block {
        let count = || {
            let sum = |nodes: &[Arc<Node>]| nodes.iter().map(|node| answered(node)).sum::<u64>();
            Block {
                measured: sum(self.cluster.measured()),
                control: sum(self.cluster.control.measured()),
            }
        };
        let begin = count();
        // Both are measured in the same time, so how long it really was does not matter.
        let end = Instant::now() + length;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            thread::sleep(left);
        }
        let now = count();
        Block {
            measured: now.measured - begin.measured,
            control: now.control - begin.control,
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
    unanswered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(cluster: &Cluster) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            refused: Arc::default(),
            unanswered: Arc::default(),
            threads: Vec::new(),
        };
        for node in cluster.nodes.iter().chain(&cluster.control.nodes) {
            let node = Arc::clone(node);
            let stop = Arc::clone(&load.stop);
            let (refused, unanswered) = (Arc::clone(&load.refused), Arc::clone(&load.unanswered));
            let thread = thread::spawn(move || drive(&node, &stop, &refused, &unanswered));
            load.threads.push(thread);
        }
        load
    }

    /// Ends it, and returns how many calls never had an answer.
    fn stop(mut self) -> u64 {
        self.end();
        self.unanswered.load(Ordering::Relaxed)
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
fn drive(node: &Node, stop: &AtomicBool, refused: &AtomicU64, unanswered: &AtomicU64) {
    while !stop.load(Ordering::Relaxed) {
        match node.tell(&json!({ "call": "Ask" })).recv_timeout(WAIT) {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                unanswered.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        thread::sleep(PACE);
    }
}
