//! From bytes to compiled properties with broken, cut, mixed and doubled files: whatever comes in, an answer comes out.
//!
//! It runs for a second in every test run, and for `SCRY_FUZZ_SECONDS` when that is set. The seed is printed and can
//! be given by `SCRY_FUZZ_SEED`.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use scry_properties::{PropertyFile, Schema};

use crate::differential::Author;
use crate::golden::{bad_files, registered};
use crate::zoo::{Animal, Zoo, by_parts, views};

const WORDS: [&str; 48] = [
    "nodes",
    "self",
    "node(",
    "reach(",
    "distinct(",
    "sets.contains(",
    "sets.intersects(",
    "size(",
    "has(",
    ".all(n, ",
    ".exists(n, ",
    ".exists_one(n, ",
    ".map(n, ",
    ".filter(n, ",
    "n.",
    "n.id",
    "n.chosen",
    "n.parent",
    "n.children",
    "n.role.Leading.term",
    "n.timers",
    "n.log",
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1u",
    "1.5",
    "'Init'",
    "\"Recovery\"",
    "&&",
    "||",
    "!",
    "==",
    "!=",
    "<",
    "in",
    "+",
    "%",
    "?",
    ":",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
];
const LINES: [&str; 8] = [
    "[[property]]\n",
    "[property]\n",
    "name = \"a\"\n",
    "always = \"",
    "eventually = '''",
    "mode = \"audit\"\n",
    "description = \"\"\"\\\n",
    "\"\n",
];

/// How much processor time a file may take to load: far more than any should, since other tests run meanwhile.
const LOAD_MAX: Duration = Duration::from_secs(5);

struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = bad_files()
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect();
    all.push(include_bytes!("catalogue.toml").to_vec());
    // One property at a time, so that a mutation is not drowned by the others.
    let catalogue = include_str!("catalogue.toml");
    all.extend(
        catalogue
            .split("\n\n")
            .skip(1)
            .map(|entry| entry.as_bytes().to_vec()),
    );
    all
}

fn mutate(chance: &mut Chance, corpus: &[Vec<u8>]) -> Vec<u8> {
    let at = chance.below(corpus.len());
    let mut bytes = corpus[at].clone();
    if chance.below(8) == 0 {
        let seed = chance.below(usize::MAX) as u64;
        let expression = Author::new(seed, true).property();
        bytes = format!("[[property]]\nname = 'x'\nalways = '''{expression}'''\n").into_bytes();
    }
    for _ in 0..chance.below(6) {
        let from = chance.below(bytes.len() + 1);
        let to = from + chance.below((bytes.len() - from).min(24) + 1);
        match chance.below(9) {
            0 => drop(bytes.drain(from..to)),
            1 => bytes
                .splice(from..from, WORDS[chance.below(WORDS.len())].bytes())
                .for_each(drop),
            2 => bytes
                .splice(from..to, WORDS[chance.below(WORDS.len())].bytes())
                .for_each(drop),
            3 => bytes
                .splice(from..from, LINES[chance.below(LINES.len())].bytes())
                .for_each(drop),
            4 => {
                let part = bytes[from..to].repeat(1 + chance.below(40));
                bytes.splice(from..from, part).for_each(drop);
            }
            5 => {
                let other = &corpus[chance.below(corpus.len())];
                let start = chance.below(other.len());
                let part = other[start..(start + 80).min(other.len())].to_vec();
                bytes.splice(from..to, part).for_each(drop);
            }
            6 if from < bytes.len() => bytes[from] = chance.below(256) as u8,
            7 if from < bytes.len() => bytes[from] ^= 1 << chance.below(8),
            _ => bytes.truncate(from.max(bytes.len() / 2)),
        }
    }
    bytes
}

/// The time this process was given so far. A clock on the wall would also count what a busy machine gave to others.
fn processor_time() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.unsigned_abs())
}

#[test]
fn fuzz_from_bytes_to_compiled_properties() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let seconds = number("SCRY_FUZZ_SECONDS").unwrap_or(1);
    let seed = number("SCRY_FUZZ_SEED").unwrap_or(0x5eed);
    println!("SCRY_FUZZ_SEED={seed}");
    let (schema, corpus) = (Schema::of::<Zoo>(), corpus());
    let animals = [0, 1, 3].map(|id| Animal::new(id, Zoo::default()));
    let views = views(&animals);
    let mut chance = Chance(seed | 1);
    let (mut count, mut compiled, mut refused, mut gave_up) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut slowest, mut slowest_file) = (Duration::ZERO, Vec::new());
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        let bytes = mutate(&mut chance, &corpus);
        let began = processor_time();
        let loaded = PropertyFile::load("fuzz.toml", &bytes, &schema, registered());
        let took = processor_time().saturating_sub(began);
        if took > slowest {
            (slowest, slowest_file) = (took, bytes.clone());
        }
        match loaded {
            Ok(set) => {
                compiled += 1;
                assert!(!set.listing().is_empty());
                for rule in set.always.iter().chain(&set.eventually) {
                    let whole = rule.predicate.judge(&views);
                    assert_eq!(
                        by_parts(&rule.parts, &views),
                        whole,
                        "{}",
                        String::from_utf8_lossy(&bytes)
                    );
                    rule.predicate.explain(&views);
                }
            }
            Err(diagnostics) => {
                refused += 1;
                let said = diagnostics.to_string();
                assert!(said.contains("fuzz.toml"), "{said}");
                gave_up += u64::from(said.contains("this expression cannot be read"));
            }
        }
        count += 1;
    }
    println!(
        "{count} files in {seconds} s: {compiled} compiled, {refused} refused, {gave_up} over a panic of the parser; \
         slowest to load {slowest:?}"
    );
    assert!(
        slowest < LOAD_MAX,
        "{slowest:?} to load\n{}",
        String::from_utf8_lossy(&slowest_file)
    );
    assert!(compiled > 0 && refused > 0);
}
