//! Fuzz targets for every byte that comes from outside.
//!
//! A target takes any bytes and panics if what reads them does: or if it takes much more memory than they are long, or
//! reads something that does not write and read back to itself. The same targets run in two ways:
//!
//! - `cargo test -p scry-fuzz` runs each over its corpus (`corpus/NAME/`) and a fixed number of damaged copies of it;
//! - `tests/fuzz/run --seconds N [TARGET…]` runs them under libFuzzer, which looks for inputs that reach new code.
//!
//! | module | whose bytes |
//! |---|---|
//! | [`protocol`] | the links between hosts, agents and checkers; stamps, checkpoints, differences, records |
//! | [`steering`] | the runtime's wire, peers' states and paths, traces, property files |
//! | [`agent`] | what an agent decides by, its files, its configuration, what operators send |
//! | [`corpus`] | not a target: the corpora in the repository |
//! | [`memory`] | not a target: counts what a target allocates |
//! | [`parts`] | not a target: cuts an input into several |
//! | [`damage`] | not a target: damaged copies of an input, for the tests |

#[cfg(feature = "agent")]
pub mod agent;
pub mod corpus;
pub mod damage;
pub mod memory;
pub mod parts;
pub mod protocol;
pub mod steering;

/// One place where bytes from outside are read.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// The longest input worth trying, in bytes.
    pub bytes_max: usize,
    /// Reads the bytes; panics if they are not dealt with as they should be.
    pub run: fn(&[u8]),
}

impl Target {
    const fn new(name: &'static str, bytes_max: usize, run: fn(&[u8])) -> Self {
        Self {
            name,
            bytes_max,
            run,
        }
    }
}

/// The targets of all modules.
pub const TARGETS: &[&[Target]] = &[
    protocol::TARGETS,
    steering::TARGETS,
    #[cfg(feature = "agent")]
    agent::TARGETS,
];

/// Returns the targets of all modules.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().copied().flatten()
}

/// Finds a target by its name, while compiling: an engine's executable then holds the code of one target, and the fewer
/// counters it has to look at after each input, the more inputs it tries.
///
/// # Panics
///
/// When there is none of this name.
pub const fn named(name: &str) -> Target {
    let mut module = 0;
    while module < TARGETS.len() {
        let mut at = 0;
        while at < TARGETS[module].len() {
            if is_same(TARGETS[module][at].name.as_bytes(), name.as_bytes()) {
                return TARGETS[module][at];
            }
            at += 1;
        }
        module += 1;
    }
    panic!("there is no target of this name")
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}
