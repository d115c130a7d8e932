//! Every target over its corpus, and over damaged copies of it.
//!
//! `SCRY_FUZZ_SECONDS=60 cargo test -p scry-fuzz --test short` goes on for that long with each target, from a seed of its
//! own choice (`SCRY_SEED` gives one). `tests/fuzz/run` looks for inputs that reach new code instead.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use scry_fuzz::damage::{Dice, damage};
use scry_fuzz::{Target, corpus, targets};

/// How many damaged copies are tried without `SCRY_FUZZ_SECONDS`.
const INPUTS: u64 = 20_000;
/// How long that may take: some targets need a millisecond for an input.
const INPUTS_FOR: Duration = Duration::from_millis(1_500);
/// How many bytes the corpora of all targets may have in the repository.
const CORPORA_BYTES_MAX: u64 = 300_000;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

fn attempt(target: &Target, input: &[u8]) {
    let run = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    if run.is_err() {
        let file = std::env::temp_dir().join(format!("scry-fuzz-{}", target.name));
        let kept = std::fs::write(&file, input);
        panic!(
            "{} fails for b\"{}\"; replay with:\n  cargo run -p scry-fuzz -- replay {} {} ({kept:?})",
            target.name,
            input.escape_ascii(),
            target.name,
            file.display()
        );
    }
}

fn short(name: &str) {
    let target = scry_fuzz::named(name);
    let corpus = corpus::read(name).expect("every target has a corpus");
    assert!(!corpus.is_empty(), "the corpus of {name} is empty");
    attempt(&target, &[]);
    for input in &corpus {
        attempt(&target, input);
    }
    let seconds = variable("SCRY_FUZZ_SECONDS");
    let seed = variable("SCRY_SEED").unwrap_or_else(|| match seconds {
        None => 0,
        Some(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            now.map_or(0, |now| now.as_nanos() as u64)
        }
    });
    let end = Instant::now() + seconds.map_or(INPUTS_FOR, Duration::from_secs);
    let mut dice = Dice::new(seed);
    let mut count = 0;
    while Instant::now() < end && (seconds.is_some() || count < INPUTS) {
        let from = dice.below(corpus.len());
        let other = dice.below(corpus.len());
        let input = damage(&mut dice, &corpus[from], &corpus[other], target.bytes_max);
        attempt(&target, &input);
        count += 1;
    }
    println!(
        "{name}: {} of the corpus, {count} damaged; SCRY_SEED={seed}",
        corpus.len()
    );
}

macro_rules! short {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            short(stringify!($name));
        })*

        const SHORT: &[&str] = &[$(stringify!($name)),*];
    };
}

short! {
    host_to_agent agent_to_host peer agent_to_checker checker_to_agent stream
    envelope succession content delta difference packed record names
    connection datagram state_of_randtree state_of_paxos path_of_randtree path_of_paxos
    snapshot surroundings trace packed_trace properties
    manager controller stored_paths log_line log_file configuration admin
}

#[test]
fn every_target_is_run() {
    let all: Vec<&str> = targets().map(|target| target.name).collect();
    assert_eq!(all, SHORT);
}

#[test]
fn the_corpora_stay_small() {
    let bytes: u64 = targets()
        .map(|target| std::fs::metadata(corpus::file(target.name)))
        .map(|file| file.expect("every target has a corpus").len())
        .sum();
    assert!(bytes <= CORPORA_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn what_breaks_a_rule_fails() {
    let target = Target {
        name: "greedy",
        bytes_max: 8,
        run: |input| {
            scry_fuzz::memory::frugally(input, 0, || drop(vec![1_u8; 1 << 20]));
        },
    };
    let failed = catch_unwind(|| (target.run)(b"small"));
    assert!(failed.is_err(), "a megabyte for five bytes");
}
