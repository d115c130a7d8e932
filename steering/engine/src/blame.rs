//! Whose state a thread is working on, noted where it can be read after the process has died.
//!
//! A state may come from another node, and what the service's own code does with it is not known: it may panic, abort, use
//! up the stack or never end. So whoever runs that code notes what it does: a store or two for each call. Where the notes
//! go is not the engine's business: [`note_in`] is given memory, which others may share. Without it nothing is noted.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use scry_protocol::NodeId;

/// How many threads can be told apart. Others note nothing.
pub const THREADS_MAX: usize = 64;
/// How many words a thread notes.
const WORDS: usize = 2;
/// How long the file is.
pub const BLAME_BYTES: usize = THREADS_MAX * WORDS * size_of::<u64>();

/// What is being done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// A state is read.
    Reading,
    /// A handler runs on it.
    Handling,
    /// The property of this position looks at it.
    Judging(u32),
}

/// What a thread was doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Blame {
    /// What.
    pub phase: Phase,
    /// On whose state; `None` if on everybody's.
    pub node: Option<NodeId>,
}

/// The position of a property that nobody has to know.
pub const SOME_PROPERTY: u32 = u32::MAX >> 2;

impl Blame {
    /// In order: a bit that is always set, two for what is done, one for whether there is a node; the property's position.
    /// The second word is the node.
    fn words(self) -> [u64; WORDS] {
        let (phase, property) = match self.phase {
            Phase::Reading => (0, 0),
            Phase::Handling => (1, 0),
            Phase::Judging(property) => (2, property),
        };
        let node = self.node.map_or(0, NodeId::get);
        let first = 1
            | phase << 1
            | u64::from(self.node.is_some()) << 3
            | u64::from(property.min(SOME_PROPERTY)) << 4;
        [first, u64::from(node)]
    }

    fn from_words([first, node]: [u64; WORDS]) -> Option<Self> {
        if first & 1 == 0 {
            return None;
        }
        let property = u32::try_from(first >> 4).unwrap_or(SOME_PROPERTY);
        let phase = match first >> 1 & 3 {
            0 => Phase::Reading,
            1 => Phase::Handling,
            _ => Phase::Judging(property),
        };
        let node = u32::try_from(node).ok().map(NodeId::new);
        Some(Self {
            phase,
            node: node.filter(|_| first >> 3 & 1 == 1),
        })
    }

    /// Reads what the threads of a process were doing, from the bytes of the file.
    pub fn all_from(bytes: &[u8]) -> Vec<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let (threads, _) = words.as_chunks::<WORDS>();
        threads
            .iter()
            .filter_map(|&words| Self::from_words(words))
            .collect()
    }
}

/// Where this process notes.
static NOTES: OnceLock<&'static [AtomicU64]> = OnceLock::new();
static THREADS: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Which of the places is this thread's.
    static PLACE: usize = THREADS.fetch_add(1, Ordering::Relaxed) as usize;
}

/// Notes in this memory from now on, [`BLAME_BYTES`] of zeros. The first call counts.
pub fn note_in(memory: &'static [AtomicU64]) {
    // Where the second would go is of no use to whoever reads the first.
    let _ = NOTES.set(memory);
}

/// Tells whether this process notes what it does.
pub fn is_noted() -> bool {
    NOTES.get().is_some()
}

#[inline]
fn place() -> Option<&'static [AtomicU64; WORDS]> {
    let notes: &'static [AtomicU64] = NOTES.get()?;
    let place = PLACE.try_with(|place| *place).ok()?;
    notes.as_chunks().0.get(place)
}

/// Does something with a node's state, and notes that for as long as it takes.
#[inline]
pub fn on<R>(phase: Phase, node: Option<NodeId>, work: impl FnOnce() -> R) -> R {
    let Some(place) = place() else {
        return work();
    };
    let before = [
        place[0].load(Ordering::Relaxed),
        place[1].load(Ordering::Relaxed),
    ];
    store(place, Blame { phase, node }.words());
    let result = work();
    // If it panicked instead, what is noted stays: whoever catches the panic may ask.
    store(place, before);
    result
}

/// Says what this thread is doing, or was when it last panicked.
pub fn present() -> Option<Blame> {
    let place = place()?;
    Blame::from_words([
        place[0].load(Ordering::Relaxed),
        place[1].load(Ordering::Relaxed),
    ])
}

/// Says what a child was doing on the thread that this one forked it from, and forgets it.
pub fn take() -> Option<Blame> {
    let blame = present();
    if let Some(place) = place() {
        store(place, [0; WORDS]);
    }
    blame
}

#[inline]
fn store(place: &[AtomicU64; WORDS], words: [u64; WORDS]) {
    // Little-endian in the file. A process that is gone can no longer be overtaken, so no order is needed.
    place[1].store(words[1].to_le(), Ordering::Relaxed);
    place[0].store(words[0].to_le(), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(blame: Blame) {
        let words = blame.words();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(Blame::all_from(&bytes), [blame]);
    }

    #[test]
    fn what_is_noted_is_read() {
        let node = Some(NodeId::new(u32::MAX));
        for phase in [Phase::Reading, Phase::Handling, Phase::Judging(7)] {
            check(Blame { phase, node });
            check(Blame { phase, node: None });
        }
        assert_eq!(Blame::all_from(&[0; BLAME_BYTES]), []);
        assert_eq!(Blame::all_from(b"garbage"), []);
    }
}
